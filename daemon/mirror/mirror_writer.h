// Keeps the mirror up to the newest sealed version of one channel, in turn with the other nodes that do: the trainer's
// daemon at once, others later, and only when they find that nobody did. Two at once do no harm.
//
// Control thread only.
#pragma once

#include "daemon/core/retention.h"
#include "daemon/mirror/mirror.h"

namespace p2pw {

class MirrorWriter {
 public:
  static constexpr std::chrono::seconds kLook{1};     // how often it asks whether there is something to write
  static constexpr std::uint64_t kHeldVersions = 32;  // that this node keeps because the mirror lacks them

  MirrorWriter(MirrorHost& host, MirrorAccess& access, const MirrorPatience& patience)
      : host_(host), access_(access), patience_(patience) {}
  void tick();
  // Bundles that are kept here until they are in the mirror.
  std::optional<Need> need() const;
  Version version() const { return mirror_.version; }  // as far as the mirror is known to be; 0: not known

 private:
  struct Goal {
    Version sealed, certified;
    std::size_t anchors = 0;
    auto operator<=>(const Goal&) const = default;
  };
  Goal goal() const;
  void probe();
  void begin();
  void done(Result<MirrorPassed> passed);

  MirrorHost& host_;
  MirrorAccess& access_;
  const MirrorPatience& patience_;
  Goal seen_, written_;
  SteadyTime seen_at_{}, looked_{}, again_{};
  std::string told_;  // why it could not be written, other than the mirror's fault
  bool running_ = false;
  std::optional<SteadyTime> probed_;
  bool first_ = true;  // looks at everything once, in case something is gone there
  MirrorPosition mirror_;
  struct Attempt {
    Goal goal;
    MirrorPosition position;
    std::set<BundleId> there;
  };
  std::shared_ptr<Attempt> attempt_ = std::make_shared<Attempt>();
  std::shared_ptr<int> alive_ = std::make_shared<int>();
};

}  // namespace p2pw
