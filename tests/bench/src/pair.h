// Two checkpoints in memory, cut into slabs: what every codec of the benchmark is given.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "chunker/codec/element.h"
#include "chunker/layout.h"

namespace p2pw::bench {

// Memory whose pages have been touched, on huge pages where the system has them: what a slot in memory is like.
class Region {
 public:
  explicit Region(std::size_t bytes);
  ~Region();
  Region(Region&& other) noexcept;
  Region& operator=(Region&&) = delete;
  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  std::byte* data_;
  std::size_t size_;
};

struct SlabSpan {
  std::size_t offset = 0, length = 0;
  Dtype dtype = Dtype::bytes;
};

struct Pair {
  std::string name;
  Region before, after;
  std::vector<SlabSpan> slabs;
  std::uint64_t elements = 0, changed = 0;

  ByteView old_slab(std::size_t i) const { return {before.data() + slabs[i].offset, slabs[i].length}; }
  ByteView new_slab(std::size_t i) const { return {after.data() + slabs[i].offset, slabs[i].length}; }
};

// The tensors of two checkpoint directories with one layout (side files are left out), or two files as one tensor of
// bytes.
Result<Pair> load_pair(const std::filesystem::path& before, const std::filesystem::path& after, std::string name);

}  // namespace p2pw::bench
