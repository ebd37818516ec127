#include "chunker/certificate.h"

#include "chunker/codec/codec.h"
#include "chunker/parallel.h"
#include "chunker/slab_reader.h"

namespace p2pw {

Sha256 slab_root(std::size_t byte_slabs, std::size_t tensor_slabs, std::span<const Sha256> hashes) {
  Sha256Stream stream;
  stream.add(as_bytes("p2pw certify 1"));
  Bytes counts;
  for (std::size_t count : {byte_slabs, tensor_slabs}) {
    for (int i = 0; i < 4; ++i) counts.push_back(static_cast<std::byte>(count >> (8 * i)));
  }
  stream.add(counts);
  for (const Sha256& hash : hashes) stream.add(hash.view());
  return stream.finish();
}

Result<Sha256> certificate_root(const std::filesystem::path& directory, const Layout& layout, const Sha256& table_hash,
                                unsigned threads, const std::function<bool()>& stop) {
  const std::size_t byte_slabs = layout.byte_slabs().size(), tensor_slabs = layout.tensor_slabs().size();
  std::vector<Sha256> hashes(byte_slabs + tensor_slabs);
  std::vector<Digest> digests(hashes.size());
  SlabReader reader(directory, layout);
  if (threads == 0) threads = default_threads();
  std::vector<Bytes> buffers(threads);
  P2PW_CHECK(parallel_for(threads, hashes.size(), [&](unsigned worker, std::size_t i) -> Status {
    if (stop && stop()) return fail(ErrorCode::interrupted, "interrupted");
    const Slab& slab = i < byte_slabs ? layout.byte_slabs()[i] : layout.tensor_slabs()[i - byte_slabs];
    Bytes& buffer = buffers[worker];
    buffer.resize(slab.length);
    P2PW_CHECK(reader.read(slab, buffer));
    hashes[i] = sha256(buffer);
    digests[i] = codec::digest_of(buffer);
    return {};
  }));
  P2PW_CHECK(reader.check_unchanged());
  std::span<const Digest> all(digests);
  if (slab_table_hash(layout.hash(), all.first(byte_slabs), all.subspan(byte_slabs)) != table_hash) {
    return fail(ErrorCode::integrity, directory.string() + " has been written to since it was published");
  }
  return slab_root(byte_slabs, tensor_slabs, hashes);
}

}  // namespace p2pw
