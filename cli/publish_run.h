// One publish, from a checkpoint folder to a sealed version that the local daemon has staged: takes the channel's lock,
// diffs against the daemon's own slot, signs records and hands bundles over as they close (protocol/publish.proto).
//
// The publisher key stays in this process; the fleet secret stays in the daemon, which gives out the frame key of this one
// run. When anything goes wrong after `open` and before `seal`, the version is abandoned by name, so that nobody waits for
// it; a killed process frees the lock all the same.
#pragma once

#include <atomic>
#include <functional>
#include <optional>

#include "chunker/diff.h"
#include "daemon/client/publish_client.h"
#include "protocol/record.h"
#include "protocol/sealing.h"

namespace p2pw {

// By default, versions with this distance are certified, and get an anchor besides their delta.
inline constexpr std::uint64_t kAnchorEvery = 25;

struct PublishRequest {
  std::filesystem::path directory;
  Channel channel;
  std::uint64_t version = 0;   // 0: the highest seen + 1
  std::optional<Kind> kind;    // chosen from a sample when absent
  std::optional<std::int64_t> step;
  Version anchor_of;           // not a new version, but an anchor of this one, the newest; 0: a new version
  bool wait_for_fleet = false;
  // Anchors and the versions that this divides are certified, which hashes the whole checkpoint once more; 0: anchors only.
  std::uint64_t certify_every = kAnchorEvery;
  unsigned threads = 0;        // 0: all
  // The delegate in force, to be renewed; empty: none is sent.
  std::optional<VerifyingKey> online_key;
};

struct PublishResult {
  Version version, parent;
  Kind kind = Kind::anchor;
  std::uint64_t input_bytes = 0;
  std::uint64_t delta_bytes = 0;  // used bytes of the bundles, metas and records
  std::uint64_t changed_elements = 0, total_elements = 0;
  std::uint32_t bundles = 0;
  double bits_per_changed_element() const;
};

class PublishRun {
 public:
  using Progress = std::function<void(const char* what, std::uint64_t done, std::uint64_t total)>;
  // `stop` is asked now and then (Ctrl-C). All must outlive the run.
  PublishRun(PublishClient& daemon, const SigningKey& publisher, const PublishRequest& request,
             std::function<bool()> stop, Progress progress);

  // Errors: bad_input (the folder), usage (a delta without a parent), integrity, io, limit, interrupted, unreachable, and
  // what the daemon answers: busy (another seed, or the fleet is two versions behind), not_found (channel), ...
  Result<PublishResult> run(const Layout& layout);

 private:
  class Sink;
  static constexpr std::uint32_t kNoSlab = ~0u;
  struct Pinned {
    Version version, parent;
    std::filesystem::path slot;
    Sha256 parent_table;
    SealHash previous_seal;
    SecretId secret_id;
    std::uint64_t last_delta_bytes = 0;
    std::vector<Digest> byte_slabs, tensor_slabs;
  };

  Status pin();
  Status read_pinned(const wire::PublishMessage& message);
  Status choose(const Layout& layout);
  Status fetch_key();
  Status send_record(const RecordBody& body, Sha256* id = nullptr);
  Status open(const Layout& layout);
  Status send_bundles(const Layout& layout);
  Result<DiffResult> diff(const Layout& layout, Sink& sink);
  Error report_damage(Error error);
  Status seal(const Layout& layout);
  Status wait_until_staged();
  void certify(const Layout& layout);
  void abandon();

  PublishClient& daemon_;
  const SigningKey& publisher_;
  const PublishRequest& request_;
  std::function<bool()> stop_;
  Progress progress_;

  Pinned pinned_;
  std::optional<Layout> parent_layout_;
  std::uint64_t expected_bytes_ = 0;
  std::uint32_t chunk_bytes_ = 0;
  Salt salt_;
  std::optional<FrameSealer> sealer_;
  std::optional<RunId> run_;  // once `open` is out
  Bytes bundle_ids_;          // end to end
  Sha256 table_hash_;
  SealHash seal_hash_;
  std::uint64_t record_bytes_ = 0;
  std::atomic<std::uint32_t> damaged_{kNoSlab};  // of the pinned slot, as the diff's threads found it
  PublishResult result_;
};

}  // namespace p2pw
