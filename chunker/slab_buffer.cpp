#include "chunker/slab_buffer.h"

#include <sys/mman.h>

#include <cstdlib>
#include <new>

namespace p2pw {
namespace {

constexpr std::size_t kHugePage = 2u << 20;
constexpr std::size_t kSmallPage = 4096;

}  // namespace

void SlabBuffer::Free::operator()(std::byte* p) const { std::free(p); }

std::span<std::byte> SlabBuffer::get(std::size_t bytes) {
  if (bytes > capacity_ || !data_) {
    std::size_t page = bytes >= kHugePage ? kHugePage : kSmallPage;
    std::size_t rounded = (std::max<std::size_t>(bytes, 1) + page - 1) / page * page;
    data_.reset(static_cast<std::byte*>(std::aligned_alloc(page, rounded)));
    if (!data_) throw std::bad_alloc();
    if (page == kHugePage) madvise(data_.get(), rounded, MADV_HUGEPAGE);
    capacity_ = rounded;
  }
  return {data_.get(), bytes};
}

}  // namespace p2pw
