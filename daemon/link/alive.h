// Tells a callback whether the object that it was made for still exists: an Asio operation that has completed
// is called even when the object that started it was destroyed in between.
#pragma once

#include <memory>

namespace p2pw {

class Alive {
 public:
  Alive() = default;
  Alive(const Alive&) = delete;
  Alive& operator=(const Alive&) = delete;
  // `callback`, which does nothing once this object is gone.
  template <class Callback>
  auto guard(Callback callback) const {
    return [watch = std::weak_ptr<int>(token_), callback = std::move(callback)](auto&&... arguments) mutable {
      if (!watch.expired()) callback(std::forward<decltype(arguments)>(arguments)...);
    };
  }

 private:
  std::shared_ptr<int> token_ = std::make_shared<int>(0);
};

}  // namespace p2pw
