// Memory that is kept for reuse and never initialised: a vector would clear it first, at the cost of a sweep.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <span>

namespace p2pw::codec {

template <class T>
class Scratch {
 public:
  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  std::size_t capacity() const { return capacity_; }
  // Room for `count`; what stands in the first `keep` places stays.
  T* reserve(std::size_t count, std::size_t keep = 0) {
    if (count <= capacity_) return data();
    const std::size_t room = count + count / 2 + 64;
    std::unique_ptr<T, Free> bigger(static_cast<T*>(std::malloc(room * sizeof(T))));
    if (bigger == nullptr) throw std::bad_alloc();
    if (keep != 0) std::memcpy(static_cast<void*>(bigger.get()), data(), keep * sizeof(T));
    data_ = std::move(bigger);
    capacity_ = room;
    return data();
  }

 private:
  struct Free {
    void operator()(T* p) const { std::free(p); }
  };
  std::unique_ptr<T, Free> data_;
  std::size_t capacity_ = 0;
};

}  // namespace p2pw::codec
