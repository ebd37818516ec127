// Which bundles the swarm's process was given, and what it may say about them. It reads bytes from neighbours, so what it
// says counts as said by one of them: each report is checked against what the process was told, its size and how often
// such a thing can happen, and the first that does not fit is the end of that process.
//
// Not checked here is whether an arrived chunk holds what it should: that is found where its bytes are used. A frame
// opens only unchanged (RebuildEvents::bundle_damaged), and a chunk is hashed before it leaves on a link.
//
// A pure value: no sockets; the clock is the caller's. Threads: one.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "daemon/swarm/swarm.h"

namespace p2pw {

class ChildLedger {
 public:
  using Clock = std::chrono::steady_clock;
  // One adding of one bundle to one process; never used again, so that what was said before a removal is told apart.
  using Number = std::uint32_t;
  static constexpr std::size_t kMaxText = 512;
  // Reports that cost the daemon an entry in its log, or come too late to mean anything: at once, and a second.
  static constexpr double kNotable = 1024, kNotableRate = 16;

  struct Started {
    std::uint16_t port = 0;
    std::uint32_t landlock = 0;
    bool seccomp = false;
  };
  struct Arrived {
    BundleId bundle;
    std::shared_ptr<BundleFile> file;
    std::vector<ChunkIndex> chunks;
  };
  struct HandedOn {
    BundleId bundle;
    std::vector<ChunkIndex> chunks;
  };
  struct Blocked {
    BundleId bundle;
    std::string address, reason;
  };
  struct Failed {
    BundleId bundle;
    Error error;
  };
  struct Nothing {};
  using Report = std::variant<Nothing, Started, Arrived, HandedOn, Blocked, Failed, SwarmCounters>;

  struct Bundle {
    BundleId id;
    std::shared_ptr<BundleFile> file;
    SwarmGroups group = kEveryGroup;
    std::vector<bool> told;       // chunks that the process said have arrived
    std::vector<bool> handed_on;  // chunks that it said are at others too
  };

  // Another process, which knows nothing: the bundles get new numbers.
  void begin(Clock::time_point now);
  // The same bundle again takes the place of the one before.
  Number add(const BundleId& id, std::shared_ptr<BundleFile> file, SwarmGroups group);
  // 0: it was not there.
  Number remove(const BundleId& id);
  Number find(const BundleId& id) const;
  const std::unordered_map<Number, Bundle>& bundles() const { return bundles_; }

  // Errors: malformed (no message, out of turn, out of range, a chunk told twice, text of the wrong kind), limit (too
  // often).
  Result<Report> take(const std::string& packet, Clock::time_point now);

 private:
  Status spend(Clock::time_point now);
  // Null: it was removed meanwhile. Errors: as take().
  Result<Bundle*> bundle(Number number, Clock::time_point now);
  // Each chunk is said once. Errors: malformed.
  static Result<std::vector<ChunkIndex>> once(std::vector<bool>& said, const std::uint32_t* chunks, std::size_t count);
  Result<Report> handed_on(Number number, const std::uint32_t* chunks, std::size_t count, Clock::time_point now);
  Result<Report> arrived(Number number, const std::uint32_t* chunks, std::size_t count, Clock::time_point now);

  std::unordered_map<Number, Bundle> bundles_;
  std::unordered_map<BundleId, Number> numbers_;
  Number last_ = 0, first_ = 1;  // of this process
  bool started_ = false;
  double notable_ = kNotable;
  Clock::time_point notable_at_{};
};

}  // namespace p2pw
