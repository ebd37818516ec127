// The trainer's daemon signs a `head` of each channel every 20 s and after each seal, with the online key that the
// publisher's `delegate` names: so that a node can tell idle from frozen. Control thread only.
#pragma once

#include "daemon/core/follower.h"

namespace p2pw {

class HeadSigner {
 public:
  // Null when there is no online key: this daemon is no trainer of that channel. Errors: untrusted (key file), config.
  static Result<std::unique_ptr<HeadSigner>> open(const StatePaths& paths, Follower& follower);
  // Signs when it is due.
  void tick(WallTime now);

 private:
  HeadSigner(SigningKey key, Follower& follower) : key_(std::move(key)), follower_(follower) {}
  SigningKey key_;
  Follower& follower_;
  WallTime last_{};
  Version last_version_;
  bool warned_ = false;
};

}  // namespace p2pw
