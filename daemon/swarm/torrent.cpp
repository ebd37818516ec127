#include "daemon/swarm/torrent.h"

#include <bit>
#include <iterator>
#include <libtorrent/bencode.hpp>
#include <libtorrent/entry.hpp>
#include <libtorrent/torrent_info.hpp>

#include "protocol/hash.h"
#include "protocol/limits.h"

namespace p2pw {
namespace {

Status check(const BundleRecord& record, std::span<const ChunkRoot> roots) {
  if (!std::has_single_bit(record.chunk_bytes) || record.chunk_bytes < limits::kMinChunkBytes ||
      record.chunk_bytes > limits::kMaxChunkBytes || record.used_bytes == 0 ||
      record.used_bytes > limits::kMaxBundleBytes) {
    return fail(ErrorCode::malformed,
                "bundle " + std::to_string(record.index.value()) + " states impossible sizes");
  }
  if (roots.size() != record.chunk_count()) {
    return fail(ErrorCode::malformed, "bundle " + std::to_string(record.index.value()) + " has " +
                                          std::to_string(record.chunk_count()) + " chunks, but " +
                                          std::to_string(roots.size()) + " roots were given");
  }
  if (pieces_root(roots, record.chunk_bytes) != record.pieces_root) {
    return fail(ErrorCode::integrity, "the chunk roots of bundle " + std::to_string(record.index.value()) +
                                          " do not match its record");
  }
  return {};
}

}  // namespace

Result<Bytes> torrent_bytes(const BundleId& id, const BundleRecord& record,
                            std::span<const ChunkRoot> roots) {
  P2PW_CHECK(check(record, roots));
  const std::string root(record.pieces_root.text());
  const std::string name = id.hex();

  lt::entry torrent;
  lt::entry& info = torrent["info"];
  lt::entry& file = info["file tree"][name][""];
  file["length"] = static_cast<std::int64_t>(record.padded_bytes());
  file["pieces root"] = root;
  info["meta version"] = 2;
  info["name"] = name;
  info["p2pw"] = std::string(id.text());
  info["piece length"] = static_cast<std::int64_t>(record.chunk_bytes);
  if (roots.size() > 1) {
    std::string layer;
    layer.reserve(roots.size() * ChunkRoot::kSize);
    for (const ChunkRoot& chunk : roots) layer += chunk.text();
    torrent["piece layers"][root] = std::move(layer);
  }

  std::string text;
  lt::bencode(std::back_inserter(text), torrent);
  ByteView bytes = as_bytes(text);
  return Bytes(bytes.begin(), bytes.end());
}

Result<std::shared_ptr<lt::torrent_info>> make_torrent(const BundleId& id, const BundleRecord& record,
                                                       std::span<const ChunkRoot> roots) {
  P2PW_TRY(Bytes bytes, torrent_bytes(id, record, roots));
  try {
    lt::load_torrent_limits bounds;
    bounds.max_buffer_size = static_cast<int>(bytes.size());
    bounds.max_pieces = static_cast<int>(roots.size());
    lt::span<const char> text(reinterpret_cast<const char*>(bytes.data()),
                              static_cast<std::ptrdiff_t>(bytes.size()));
    return std::make_shared<lt::torrent_info>(text, bounds, lt::from_span);
  } catch (const std::exception& e) {
    return fail(ErrorCode::failed,
                "libtorrent refuses the torrent of bundle " + id.short_hex() + ": " + e.what());
  }
}

}  // namespace p2pw
