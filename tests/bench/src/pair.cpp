#include "tests/bench/src/pair.h"

#include <sys/mman.h>

#include <cstring>

#include "chunker/file_io.h"
#include "chunker/slab_reader.h"
#include "protocol/limits.h"

namespace p2pw::bench {

Region::Region(std::size_t bytes) : size_(bytes) {
  void* memory = mmap(nullptr, bytes + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  madvise(memory, bytes, MADV_HUGEPAGE);
  std::memset(memory, 1, bytes);
  data_ = static_cast<std::byte*>(memory);
}
Region::~Region() {
  if (data_ != nullptr) munmap(data_, size_ + 4096);
}
Region::Region(Region&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(other.size_) {}

namespace {

std::uint64_t count_changed(const Pair& pair) {
  std::uint64_t changed = 0;
  for (std::size_t s = 0; s < pair.slabs.size(); ++s) {
    const ByteView old_slab = pair.old_slab(s), new_slab = pair.new_slab(s);
    const unsigned width = element_bytes(pair.slabs[s].dtype);
    for (std::size_t at = 0; at < old_slab.size(); at += width) {
      changed += std::memcmp(old_slab.data() + at, new_slab.data() + at, width) != 0 ? 1 : 0;
    }
  }
  return changed;
}

Result<Pair> load_files(const std::filesystem::path& before, const std::filesystem::path& after, std::string name) {
  P2PW_TRY(const File old_file, File::open(before));
  P2PW_TRY(const File new_file, File::open(after));
  P2PW_TRY(const std::uint64_t size, old_file.size());
  P2PW_TRY(const std::uint64_t new_size, new_file.size());
  if (size != new_size) return fail(ErrorCode::bad_input, "the two files differ in size; give directories");
  Pair pair{std::move(name), Region(size), Region(size), {}, size, 0};
  P2PW_CHECK(old_file.read(0, std::span(pair.before.data(), size)));
  P2PW_CHECK(new_file.read(0, std::span(pair.after.data(), size)));
  for (std::size_t at = 0; at < size; at += limits::kSlabBytes) {
    pair.slabs.push_back({at, std::min<std::size_t>(limits::kSlabBytes, size - at), Dtype::u8});
  }
  pair.changed = count_changed(pair);
  return pair;
}

}  // namespace

Result<Pair> load_pair(const std::filesystem::path& before, const std::filesystem::path& after, std::string name) {
  if (!std::filesystem::is_directory(before)) return load_files(before, after, std::move(name));
  P2PW_TRY(const Layout old_layout, Layout::scan(before));
  P2PW_TRY(const Layout new_layout, Layout::scan(after));
  if (!new_layout.same_tensor_slabs(old_layout)) {
    return fail(ErrorCode::bad_input, before.string() + " and " + after.string() + " do not hold the same tensors");
  }
  std::size_t bytes = 0;
  for (const Slab& slab : new_layout.tensor_slabs()) bytes += slab.length;
  Pair pair{std::move(name), Region(bytes), Region(bytes), {}, 0, 0};
  const SlabReader old_reader(before, old_layout), new_reader(after, new_layout);
  std::size_t at = 0;
  for (const Slab& slab : new_layout.tensor_slabs()) {
    P2PW_CHECK(old_reader.read(slab, std::span(pair.before.data() + at, slab.length)));
    P2PW_CHECK(new_reader.read(slab, std::span(pair.after.data() + at, slab.length)));
    pair.slabs.push_back({at, slab.length, slab.dtype});
    pair.elements += slab.length / element_bytes(slab.dtype);
    at += slab.length;
  }
  pair.changed = count_changed(pair);
  return pair;
}

}  // namespace p2pw::bench
