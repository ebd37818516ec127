// One followed channel on one node: takes its signed records and metas in, keeps its bundles, has them spread, rebuilt and
// activated, and says how far it is. The path of one chunk, in calls: Node::link_message -> Follower::store_chunk ->
// (pool: hash, write) -> Spread, Swarm::offer and Rebuilder::chunk_arrived -> version_staged -> Activation -> `current`.
//
// Threads: control thread only; hashing and disk work on the pools.
#pragma once

#include <functional>
#include <map>
#include <unordered_map>

#include "chunker/slot_pair.h"
#include "daemon/client/config.h"
#include "daemon/core/activation.h"
#include "daemon/core/activation_gate.h"
#include "daemon/core/bundle_store.h"
#include "daemon/core/certifier.h"
#include "daemon/core/early_metas.h"
#include "daemon/core/rebuild.h"
#include "daemon/core/record_file.h"
#include "daemon/core/slab_exchange.h"
#include "daemon/core/sparse_maker.h"
#include "daemon/core/work_pool.h"
#include "daemon/mirror/mirror_slab.h"
#include "daemon/spread/world.h"
#include "protocol/channel_log.h"
#include "protocol/links.pb.h"

namespace p2pw {

// What a follower needs of its node.
class FollowerHost {
 public:
  virtual ~FollowerHost() = default;
  virtual WallTime wall_now() const = 0;
  // The wall clock corrected by what the links agree on: what expiry is judged by.
  virtual WallTime agreed_now() const { return wall_now(); }
  virtual SteadyTime steady_now() const = 0;
  virtual const FleetSecret* secret(const SecretId& id) const = 0;
  // A record that was news here: others want it. `from` has it already (null: it was made here).
  virtual void forward_record(const VerifiedRecord& record, const NodeKey* from) = 0;
  // Bundles begin and end for spreading and the swarm.
  virtual void bundle_opened(const BundleFacts& facts, const StoredBundle& bundle, bool fresh) = 0;
  // `bytes`: the chunk's used bytes, as they were hashed.
  virtual void chunk_stored(const BundleId& bundle, ChunkIndex chunk, const NodeKey* from, Epoch epoch,
                            std::shared_ptr<const Bytes> bytes) = 0;
  virtual void chunk_refused(const BundleId& bundle, ChunkIndex chunk, const NodeKey& from, const Error& error) = 0;
  virtual void bundle_closed(const BundleId& bundle) = 0;
  // Its file holds something else than was checked, or was said to have been.
  virtual void bundle_spoilt(const BundleId& bundle) = 0;
  // `far`: neighbours did not have it, ask every link.
  virtual void want_meta(const BundleId& bundle, bool far) = 0;
  virtual void want_records(const Channel& channel, const NodeKey* from) = 0;
  // Metas whose record is still to come: whose channel they are of shows only then.
  virtual EarlyMetas& early_metas() = 0;
  virtual void event(const Channel& channel, const std::string& event, Version version, const std::string& detail) = 0;
  virtual void state_changed(const Channel& channel) = 0;
  virtual Region home_region() const = 0;  // the trainer's
  // Linked nodes of this region that follow the channel, no trainer; all links.
  virtual std::vector<NodeKey> neighbours(const Channel& channel) const = 0;
  virtual std::vector<NodeKey> all_links() const = 0;
  // The table of members has nobody else of this region who follows the channel.
  virtual bool alone(const Channel& channel) const = 0;
  virtual std::string name_of_node(const NodeKey& key) const = 0;
  // `bulk`: on the lane of chunks; false when that is full.
  virtual bool send_to(const NodeKey& peer, const wire::LinkMessage& message, SharedBytes payload, bool bulk) = 0;
  // Nodes that were seen lately, and which version they serve: as far as this node hears of them.
  virtual std::vector<Need> seen_lately(const Channel& channel) const = 0;
  virtual std::vector<NodeKey> live_followers(const Channel& channel) const = 0;
  // How many nodes have a version staged, in this region or in the fleet; nothing = not known yet. Ask again later.
  virtual std::optional<FleetStates::Count> staged_count(const Channel& channel, Version version, bool fleet) = 0;
};

// Moments of a version on this node, on its own wall clock.
struct VersionTimes {
  std::optional<WallTime> requested;  // trainer: the seed was let in
  std::optional<WallTime> opened, first_bundle, first_chunk, last_chunk, sealed, staged, active;
};

// The threads of a node that its followers share.
struct FollowerPools {
  WorkPool& work;  // rebuilding and activation
  WorkPool& puts;  // checking and storing chunks, which others wait for
  WorkPool& idle;  // what nobody waits for; one thread
};

class Follower : private RebuildEvents, private ActivationEvents {
 public:
  // Opens slots, records and bundles as they were left. Errors: io, no_space, config.
  // `hook`: the channel's engine; null = none.
  static Result<std::unique_ptr<Follower>> open(const Config& config, const ChannelConfig& channel, FileSystem& files,
                                                FollowerPools pools, FollowerHost& host, std::unique_ptr<EngineHook> hook);
  ~Follower() override;

  const Channel& channel() const { return channel_.name; }
  const ChannelConfig& config() const { return channel_; }
  const ChannelLog& log() const { return log_; }
  SlotPair& slots() { return *slots_; }
  BundleStore& bundles() { return bundles_; }

  // An envelope from a peer, the publisher's seed or this node's own head signer (`from` null). Forwarded when it is news.
  // Errors: those of the verifier and the log. `added`: it was news.
  struct Taken {
    bool added = false;
    Sha256 id;
  };
  Result<Taken> take_record(ByteView envelope, const NodeKey* from);
  // A meta, bound by its record's hash. Unknown bundles' metas wait a while.
  Status take_meta(const BundleId& bundle, Bytes meta);
  // A peer's, asked for or not: only bundles that are wanted here are opened. Peers offer what they have, and to a node that
  // starts from a newer anchor that is the older one and its deltas.
  Status take_offered_meta(const BundleId& bundle, Bytes meta);
  // See SpreadWorld.
  bool unwanted(const BundleId& bundle) const;
  // A chunk of a known bundle that the spreading wants: hashed and written on its pool, then reported to the host.
  // `done`: it is stored, or could not be.
  void store_chunk(const BundleId& bundle, ChunkIndex chunk, Bytes payload, const NodeKey* from, Epoch epoch,
                   std::function<void()> done = {});
  // A neighbour's chunk, checked and written by the swarm.
  void swarm_chunk(const BundleId& bundle, ChunkIndex chunk);
  // A chunk that is here turned out to be something else: looks at the whole file, and fetches what is missing.
  void chunk_damaged(const BundleId& bundle, const Error& error);

  // A chunk could not be written: says so, and tries again by and by.
  void no_room(const Error& error) { rebuild_blocked(error); }

  bool knows_bundle(const BundleId& bundle) const { return known_.contains(bundle); }
  // Records that let a peer understand this bundle: its run's `open`, then its own; of a sealed run all others too, for
  // who lacks them would take it for one that is in flight. The pointers are good until the log changes.
  std::vector<const VerifiedRecord*> introduction(const BundleId& bundle) const;
  // Metas that links have been asked for in vain, since when; and bundles of wanted runs that are not whole here.
  struct AwaitedMeta {
    BundleId id;
    BundleRecord record;
    BundlePlace place;
    SteadyTime since;
  };
  std::vector<AwaitedMeta> awaited_metas() const;
  std::vector<std::shared_ptr<StoredBundle>> unfinished_bundles() const;
  // Slabs that are damaged here and that no neighbour gives: where their frames are.
  struct StrandedSlab {
    SlabWay way;
    SteadyTime since;
  };
  std::vector<StrandedSlab> stranded_slabs() const;
  void slab_arrived(std::uint32_t slab, Bytes bytes, const Digest& digest) {
    rebuilder_->slab_arrived(slab, std::move(bytes), digest);
  }
  // Pull on connect: what this node has of the log, and what a peer that has so much lacks.
  void fill_wanted(wire::RecordsWanted& wanted) const;
  std::vector<const VerifiedRecord*> missing_for(const wire::RecordsWanted& wanted) const;
  // Restores what was there before a restart; called once the host is ready.
  void resume();
  void tick();

  // Slabs, tables and pins of neighbours; true when it was one.
  bool exchange_message(const NodeKey& peer, const wire::LinkMessage& message, Bytes& payload);
  void peer_up(const NodeKey& peer) { exchange_->peer_up(peer); }
  void peer_lost(const NodeKey& peer) { exchange_->peer_lost(peer); }
  // What retention says of every run whose bundles lie here; `drop` also does it.
  struct Kept {
    Version version;
    Kind kind = Kind::delta;
    std::uint64_t bytes = 0;
    Verdict verdict;
  };
  std::vector<Kept> retention(bool drop);

  // A version that was begun here and will not be finished (the seed died).
  void give_up_run(const RunId& run);
  void note_requested(Version version) { times_[version].requested = host_.wall_now(); }
  // Makes the staged version active; one that is active already is fine. Errors: not_found (it is not staged here).
  // `flush` overrides what the hook does with the engine's cache.
  Status activate(Version version, std::optional<bool> flush = std::nullopt);
  // The same, now or as soon as it is staged.
  void want(Version version, std::optional<bool> flush);
  Status go_back() { return activation_->go_back(host_.steady_now()); }
  SparseMaker& sparse() { return *sparse_; }
  void release_engine() {
    activation_->release();
    slots_->let_go();
    rebuilder_->slots_changed();
  }
  // Versions that could not be begun for want of their secret may be able to now.
  void secrets_changed();
  // Who reads the active slot found this slab not to be what its version says. Looked at, and mended if that
  // is so.
  void doubt_active(SlabId slab);

  Version version_sealed() const;
  SealHash sealed_hash() const;  // of version_sealed(); zero for none
  Version version_staged() const;
  Version version_active() const;   // that the engine serves, as far as it said so; 0 = unknown, or none
  Version version_current() const;  // that `current` names, whatever the engine serves; 0 = none
  const EngineFacts& engine() const { return activation_->engine(); }
  std::string state() const;      // the words of NodeState.state
  const std::string& problem() const { return problem_; }
  std::string head_state() const;  // live, frozen, none
  std::uint64_t used_bytes(Version version) const;  // of the bundles of a version's run in the chain
  // Who followed the channel and was live when the version was sealed; null: not known (sealed before this start).
  const std::vector<NodeKey>* live_at_seal(Version version) const;
  std::uint64_t last_delta_bytes() const;  // of the newest sealed delta; 0 = none yet
  RebuildProgress progress() const { return rebuilder_->progress(); }
  const std::map<Version, VersionTimes>& times() const { return times_; }
  // The active slot holds the highest sealed version: a new one can be made from it.
  bool settled() const;
  // A new version's number is above it: seen in the log, or left here by an earlier publisher key.
  Version highest_used() const;

 private:
  struct KnownBundle {
    RunId run;
    BundleIndex index;
    SteadyTime known_at{};
    SteadyTime asked_at{}, first_asked{};
    int asked = 0;
    bool open = false;
  };

  Follower(const Config& config, const ChannelConfig& channel, FollowerPools pools, FollowerHost& host);
  void act_on(const LogEvent& event);
  void run_opened(const Run& run);
  // Of a run's frames; null: the node does not have its secret.
  std::shared_ptr<const FrameSealer> sealer_of(const OpenRecord& open) const;
  void bundle_known(const Run& run, BundleIndex index);
  enum class Use { open, undecided, none };
  Use use_of(const RunId& run) const;  // of its bundles, for this node
  void close_unwanted();
  void look_for_metas(SteadyTime now);
  void run_sealed(const Run& run);
  void drop_run(const RunId& run);
  void drop_bundles(const RunId& run);
  std::vector<SlabWay::Step> steps_to(Version version) const;
  Status open_bundle(const BundleId& id, ByteView meta);
  void chunk_is_here(const BundleId& bundle, ChunkIndex chunk);
  void remove_bundles(const std::vector<BundleId>& bundles);
  bool has_all(const Run& run, const std::vector<BundleId>& bundles) const;  // it is sealed, and they lie here, whole
  Version keeps_above() const;
  void open_exchange();
  void open_certifier();
  void consider_certificate();
  void consider_activation();
  void active_is_damaged(std::uint32_t slab, bool standby_too);
  void take_mended(const StagedVersion& mended);
  void certificate_failed(Version version, const std::vector<SlabId>& wrong);

  // RebuildEvents
  void version_staged(const StagedVersion& staged) override;
  void standby_caught_up(Version version) override;
  void slab_lost(const LostSlab& lost) override;
  void slab_mended(std::uint32_t slab) override;
  void bundle_damaged(const BundleId& bundle, FrameIndex frame, const Error& error) override;
  void run_failed(const RunId& run, Version version, const Error& error) override;
  void rebuild_blocked(const Error& error) override;
  // ActivationEvents
  void version_active(const StagedVersion& version) override;
  void activation_failed(const StagedVersion& version, const Error& error) override;
  void standby_released() override;
  void engine_changed() override;

  const Config& config_;
  ChannelConfig channel_;
  FollowerPools pools_;
  FollowerHost& host_;
  ChannelLog log_;
  std::optional<RecordFile> file_;
  BundleStore bundles_;
  std::unique_ptr<SlotPair> slots_;
  std::unique_ptr<Rebuilder> rebuilder_;
  std::unique_ptr<SparseMaker> sparse_;
  std::unique_ptr<EngineHook> hook_;
  std::unique_ptr<Activation> activation_;
  ActivationGate gate_;
  std::unique_ptr<SlabExchange> exchange_;
  std::unique_ptr<Certifier> certifier_;
  std::unordered_map<BundleId, KnownBundle> known_;
  std::map<RunId, std::vector<BundleId>> bundles_of_;
  std::map<Version, VersionTimes> times_;
  std::map<Version, std::vector<NodeKey>> live_at_seal_;
  std::optional<StagedVersion> staged_;
  std::optional<std::pair<Version, std::optional<bool>>> wanted_;  // asked for, and not staged yet
  std::string problem_;
  bool problem_is_engine_ = false;
  std::optional<SteadyTime> retry_at_, retired_at_;
  bool replaying_ = false;  // records of the disk: they are no news to anybody
  std::shared_ptr<int> alive_ = std::make_shared<int>();  // what comes back from a pool asks whether we still are
};

}  // namespace p2pw
