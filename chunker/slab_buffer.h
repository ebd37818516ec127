// Memory for one slab, reused for many: aligned for SIMD, on huge pages where the system gives them, not zeroed.
#pragma once

#include <memory>
#include <span>

#include "protocol/ids.h"

namespace p2pw {

class SlabBuffer {
 public:
  // Room for `bytes`, contents unspecified. Grows when it must, never shrinks.
  std::span<std::byte> get(std::size_t bytes);

 private:
  struct Free {
    void operator()(std::byte* p) const;
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t capacity_ = 0;
};

}  // namespace p2pw
