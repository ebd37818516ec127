#include "chunker/checkpoint_table.h"

#include "protocol/limits.h"

namespace p2pw {
namespace {

// The headers of all tensor files, each put together from its slabs.
Result<std::vector<Bytes>> load_headers(const ByteStore& store, const FileTable& table,
                                        const std::vector<Digest>& digests) {
  std::vector<Bytes> headers;
  for (std::size_t file = 0; file < table.files().size(); ++file) {
    if (!table.files()[file].is_tensor_file()) continue;
    Bytes& header = headers.emplace_back();
    for (const Slab& slab : table.byte_slabs_of(file)) {
      P2PW_TRY(Bytes part, store.get(digests[slab.id.index()]));
      header.insert(header.end(), part.begin(), part.end());
    }
  }
  return headers;
}

Result<std::shared_ptr<const Layout>> load_layout(const ByteStore& store, const FileTable& table,
                                                  const std::vector<Digest>& digests) {
  P2PW_TRY(std::vector<Bytes> headers, load_headers(store, table, digests));
  P2PW_TRY(Layout layout, Layout::from_parts(table.encoded(), std::move(headers)));
  return std::shared_ptr<const Layout>(std::make_shared<Layout>(std::move(layout)));
}

std::string slab_text(std::size_t index) { return "byte slab " + std::to_string(index); }

// Decodes one frame and puts the result into the store.
Status decode_one(ByteStore& store, std::size_t index, const ByteFrame& frame, ByteView parent,
                  codec::SlabDecoder& decoder, Bytes& out) {
  P2PW_TRY(codec::Decoded decoded, decoder.decode_bytes(frame.frame, parent, out));
  if (decoded.digest != frame.digest) {
    return fail(ErrorCode::integrity, slab_text(index) + ": its frame does not decode to the digest in its meta");
  }
  return store.put(frame.digest, out);
}

Result<FileTable> next_file_table(ByteStore& store, const ByteTable* parent,
                                  const std::map<std::uint32_t, ByteFrame>& frames, codec::SlabDecoder& decoder) {
  auto frame = frames.find(0);
  if (frame == frames.end()) {
    if (parent == nullptr) return fail(ErrorCode::incomplete, "the frame of the file table is missing");
    return parent->layout->table();
  }
  Bytes before, after;
  if (parent != nullptr) {
    P2PW_TRY(before, store.get(parent->digests[0]));
  }
  P2PW_CHECK(decode_one(store, 0, frame->second, before, decoder, after));
  return FileTable::parse(after);
}

// The digests of all byte slabs of `table`, those with frames decoded into the store.
Result<std::vector<Digest>> next_digests(ByteStore& store, const FileTable& table, const ByteTable* parent,
                                         const std::map<std::uint32_t, ByteFrame>& frames,
                                         codec::SlabDecoder& decoder) {
  std::vector<Digest> digests;
  Bytes after;
  for (const Slab& slab : table.byte_slabs()) {
    std::uint32_t index = slab.id.index();
    const Slab* old = parent == nullptr ? nullptr : table.counterpart(slab, parent->layout->table());
    auto frame = frames.find(index);
    if (frame == frames.end()) {
      if (old == nullptr || old->length != slab.length) {
        return fail(ErrorCode::incomplete, slab_text(index) + ": has neither a frame nor a parent of its size");
      }
      digests.push_back(parent->digests[old->id.index()]);
      continue;
    }
    digests.push_back(frame->second.digest);
    if (index == 0) continue;
    Bytes before;
    if (old != nullptr) {
      P2PW_TRY(before, store.get(parent->digests[old->id.index()]));
    }
    P2PW_CHECK(decode_one(store, index, frame->second, before, decoder, after));
    if (after.size() != slab.length) {
      return fail(ErrorCode::malformed, slab_text(index) + ": is not as long as the file table says");
    }
  }
  return digests;
}

// The file table and the headers come before the side files.
bool touches_layout(const FileTable& table, const std::map<std::uint32_t, ByteFrame>& frames) {
  if (frames.empty()) return false;
  std::uint32_t first = frames.begin()->first;
  return first == 0 || table.files()[table.byte_slabs()[first].file].is_tensor_file();
}

}  // namespace

Result<ByteTable> load_byte_table(const ByteStore& store, const std::vector<Digest>& digests) {
  if (digests.empty()) return fail(ErrorCode::malformed, "a checkpoint without a file table");
  P2PW_TRY(Bytes encoded, store.get(digests[0]));
  P2PW_TRY(FileTable table, FileTable::parse(encoded));
  if (table.byte_slabs().size() != digests.size()) {
    return fail(ErrorCode::malformed, "the file table does not fit the number of byte slabs");
  }
  P2PW_TRY(auto layout, load_layout(store, table, digests));
  return ByteTable{std::move(layout), digests};
}

Result<ByteTable> advance_byte_table(ByteStore& store, const ByteTable* parent,
                                     const std::map<std::uint32_t, ByteFrame>& frames, const LayoutHash& expected,
                                     codec::SlabDecoder& decoder) {
  P2PW_TRY(FileTable table, next_file_table(store, parent, frames, decoder));
  if (!frames.empty() && frames.rbegin()->first >= table.byte_slabs().size()) {
    return fail(ErrorCode::malformed, slab_text(frames.rbegin()->first) + ": a frame for a slab that does not exist");
  }
  P2PW_TRY(std::vector<Digest> digests, next_digests(store, table, parent, frames, decoder));
  if (parent != nullptr && parent->layout->hash() == expected && !touches_layout(table, frames)) {
    return ByteTable{parent->layout, std::move(digests)};
  }
  P2PW_TRY(auto layout, load_layout(store, table, digests));
  if (layout->hash() != expected) {
    return fail(ErrorCode::incomplete, "the file table and headers do not have the layout hash that was announced");
  }
  if (parent != nullptr && !layout->same_tensor_slabs(*parent->layout)) {
    return fail(ErrorCode::wrong_parent, "a delta whose tensor slabs are not those of its parent");
  }
  return ByteTable{std::move(layout), std::move(digests)};
}

}  // namespace p2pw
