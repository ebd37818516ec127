// A file table and the headers that it announces, as a receiver gets them; and an index of shards against that layout.
#include "chunker/layout.h"

#include <cstdlib>

#include "chunker/shard_index.h"
#include "protocol/limits.h"

namespace {

void check(const p2pw::Layout& layout) {
  std::uint64_t covered = 0;
  for (const auto* slabs : {&layout.byte_slabs(), &layout.tensor_slabs()}) {
    for (const p2pw::Slab& slab : *slabs) {
      if (layout.find(slab.id) != &slab || slab.length == 0 || slab.length > p2pw::limits::kSlabBytes) std::abort();
      covered += slab.length;
    }
  }
  if (covered != layout.total_bytes() + layout.file_table().size()) std::abort();
  if (!layout.same_tensor_slabs(layout)) std::abort();
}

}  // namespace

// One byte: length of the index. Two bytes: length of the table. The index, the table, the headers.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3) return 0;
  p2pw::ByteView rest = std::as_bytes(std::span(data, size)).subspan(3);
  auto take = [&](std::size_t length) {
    p2pw::ByteView part = rest.first(std::min(length, rest.size()));
    rest = rest.subspan(part.size());
    return part;
  };
  p2pw::ByteView index = take(data[0]);
  p2pw::ByteView encoded = take(data[1] + 256u * data[2]);
  auto table = p2pw::FileTable::parse(encoded);
  if (!table) return 0;
  if (table->encoded().size() != encoded.size()) std::abort();
  std::vector<p2pw::Bytes> headers;
  for (const p2pw::FileEntry& file : table->files()) {
    if (!file.is_tensor_file()) continue;
    p2pw::ByteView header = take(file.header_bytes);
    headers.emplace_back(header.begin(), header.end());
  }
  auto layout = p2pw::Layout::from_parts(encoded, std::move(headers));
  if (!layout) return 0;
  check(*layout);
  (void)p2pw::check_shard_index(*layout, "model.safetensors.index.json", index, "");
  return 0;
}
