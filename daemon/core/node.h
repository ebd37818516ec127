// The daemon: puts links, swarm, membership, spreading and the followed channels together. All state lives on one control
// thread (the io_context's) without locks; the pool takes values and returns values; the swarm's threads reach us only by
// posted events.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <memory>
#include <set>

#include "daemon/client/api.h"
#include "daemon/client/config.h"
#include "daemon/core/api_server.h"
#include "daemon/core/early_chunks.h"
#include "daemon/core/early_metas.h"
#include "daemon/core/event_log.h"
#include "daemon/core/fleet_states.h"
#include "daemon/core/follower.h"
#include "daemon/core/fresh_chunks.h"
#include "daemon/core/head_signer.h"
#include "daemon/core/node_mirror.h"
#include "daemon/core/peer_budget.h"
#include "daemon/core/publisher.h"
#include "daemon/core/recent_set.h"
#include "daemon/core/record_pulls.h"
#include "daemon/core/roster.h"
#include "daemon/core/secret_keeper.h"
#include "daemon/link/enrol_client.h"
#include "daemon/link/link_hub_tls.h"
#include "daemon/spread/spread.h"
#include "daemon/core/staged_poll.h"
#include "daemon/swarm/swarm.h"
#include "protocol/enrolment.h"

namespace p2pw {

// Made by main: so that this library needs no libtorrent.
using SwarmFactory = std::function<Result<std::unique_ptr<Swarm>>(SwarmEvents& events, const NodeKey& self)>;

class Node : public LinkHandler, public SwarmEvents, public SpreadWorld, public FollowerHost {
 public:
  // Opens state, listens and begins to dial. Errors: config, io, busy, untrusted (key files), no_space.
  static Result<std::unique_ptr<Node>> start(boost::asio::io_context& io, Config config, SwarmFactory swarm);
  ~Node() override;
  // Says goodbye on the links; the io_context should run for up to a second more.
  void shutdown(const std::string& reason);

  // For the API (node_api.cpp, metrics.cpp) and the publisher.
  const Config& config() const { return config_; }
  const NodeKey& key() const { return roster_->self().key; }
  LinkHub& hub() { return *hub_; }
  const TlsLinkHub& tls_hub() const { return *hub_; }
  Roster& roster() { return *roster_; }
  Spread& spread() { return *spread_; }
  Swarm* swarm() { return swarm_.get(); }
  EventLog& events() { return events_; }
  FleetStates& states() { return states_; }
  std::map<Channel, std::unique_ptr<Follower>>& followers() { return followers_; }
  Follower* follower(const Channel& channel) const;
  Publisher* publisher() { return publisher_.get(); }
  // Shared storage; null when none is configured.
  const MirrorAccess* mirror() const { return mirror_.get(); }
  const std::map<Channel, std::unique_ptr<ChannelMirror>>& mirrors() const { return mirrors_; }
  // A meta that came from no link, and that the neighbours lack too.
  Status take_outside_meta(Follower& follower, const BundleId& bundle, Bytes meta);
  WallTime started() const { return started_; }
  // Trainer: a new fleet secret for every member but those named; or, with `finish`, the end of the old one for links.
  Result<api::RotateReply> rotate_secret(const api::RotateRequest& request);
  Result<std::string> make_token(std::uint32_t uses, const Channel& channel, WallTime& expires);
  // Called at every change of the fleet's states; for long polls.
  void on_states(std::function<bool()> waiter) { waiters_.push_back(std::move(waiter)); }
  // What this daemon wrote into each region over links, by version: for copies.
  struct Sent {
    std::uint64_t payload = 0, used = 0, duplicate = 0;
  };
  const std::map<std::tuple<Channel, Version, Region>, Sent>& sent() const { return sent_; }
  std::string name_of_node(const NodeKey& key) const override;
  // What a trainer called a version (hot_load.h); its number when nothing else.
  void name_version(const Channel& channel, Version version, const std::string& name);
  std::string version_name(const Channel& channel, Version version) const;

  // FollowerHost
  WallTime wall_now() const override;
  WallTime agreed_now() const override;
  // Median of the peers' clocks minus ours.
  std::chrono::milliseconds clock_offset() const { return clock_offset_; }
  SteadyTime steady_now() const override { return std::chrono::steady_clock::now(); }
  const FleetSecret* secret(const SecretId& id) const override;
  const FleetSecret* current_secret() const { return keeper_->current(); }
  void forward_record(const VerifiedRecord& record, const NodeKey* from) override;
  void bundle_opened(const BundleFacts& facts, const StoredBundle& bundle, bool fresh) override;
  void chunk_stored(const BundleId& bundle, ChunkIndex chunk, const NodeKey* from, Epoch epoch,
                    SharedBytes bytes) override;
  void chunk_refused(const BundleId& bundle, ChunkIndex chunk, const NodeKey& from, const Error& error) override;
  void bundle_closed(const BundleId& bundle) override;
  void bundle_spoilt(const BundleId& bundle) override;
  void want_meta(const BundleId& bundle, bool far) override;
  void want_records(const Channel& channel, const NodeKey* from) override;
  EarlyMetas& early_metas() override { return early_metas_; }
  void event(const Channel& channel, const std::string& event, Version version, const std::string& detail) override;
  void state_changed(const Channel& channel) override;
  Region home_region() const override;
  std::vector<NodeKey> neighbours(const Channel& channel) const override { return roster_->regional_links(&channel); }
  std::vector<NodeKey> all_links() const override { return hub_->links(); }
  bool alone(const Channel& channel) const override;
  bool send_to(const NodeKey& peer, const wire::LinkMessage& message, SharedBytes payload, bool bulk) override;
  std::vector<Need> seen_lately(const Channel& channel) const override;
  std::vector<NodeKey> live_followers(const Channel& channel) const override { return states_.live_followers(channel); }
  std::optional<FleetStates::Count> staged_count(const Channel& channel, Version version, bool fleet) override {
    return staged_poll_->count(channel, version, fleet, steady_now());
  }

 private:
  Node(boost::asio::io_context& io, Config config);
  Status open_state();
  Status open_links(SwarmFactory swarm);
  Status open_channels();
  void open_mirror();
  Status open_servers();
  void enrol();
  void enrolled(Result<wire::EnrolReply> reply);
  void tick();
  void send_states(bool all);
  void wake_waiters();
  void states_news();  // of whomever
  Follower* follower_of(const BundleId& bundle) const;
  SwarmGroups swarm_group(const Channel& channel) const;
  wire::NodeState own_state(const Follower& follower) const;
  void write_times(const Follower& follower, wire::NodeState& state) const;

  // LinkHandler
  void link_up(const NodeKey& peer, const wire::Hello& hello) override;
  void link_down(const NodeKey& peer, const Error& reason) override;
  void link_message(const NodeKey& peer, const wire::LinkMessage& message, Bytes payload) override;
  Result<wire::EnrolReply> link_enrol(const Bytes& enrolment_id, const NodeKey& peer) override;
  void chunk_message(const NodeKey& peer, const wire::Chunk& chunk, Bytes payload);
  void handover_message(const NodeKey& peer, const wire::SecretHandover& message);
  void send_handover(const SecretKeeper::Parts& parts, const NodeKey* except);
  void hand_secret_to_newcomers();
  std::vector<NodeKey> other_members() const;
  void secrets_changed();
  void records_message(const NodeKey& peer, const wire::Records& message);
  void states_message(const Member& peer, const wire::NodeStates& message);
  void check_clock();
  RecentSet<Sha256>& told(const NodeKey& peer);
  RecentSet<BundleId>& metas_told(const NodeKey& peer);
  void want_all_records(const NodeKey& peer);  // of every channel
  void records_wanted(const NodeKey& peer, const wire::RecordsWanted& wanted);
  void meta_wanted(const NodeKey& peer, const wire::MetaWanted& wanted);
  bool exchange_message(const Member& from, const wire::LinkMessage& message, Bytes& payload);
  void send_meta(const NodeKey& peer, const StoredBundle& bundle);
  void send_records(const NodeKey& peer, const std::vector<const VerifiedRecord*>& records);
  void members_changed(const std::vector<NodeKey>& lost, const std::vector<NodeKey>& back);

  // SwarmEvents
  void swarm_chunk_arrived(const BundleId& bundle, ChunkIndex chunk) override;
  void swarm_chunk_handed_on(const BundleId& bundle, ChunkIndex chunk) override { spread_->handed_on(bundle, chunk); }
  void swarm_peer_blocked(const BundleId& bundle, const std::string& address, const std::string& reason) override;
  void swarm_failed(const BundleId& bundle, const Error& error) override;
  void swarm_ended(const std::string& why) override;
  Result<SharedBytes> bytes_to_send(const StoredBundle& stored, ChunkIndex chunk) const;

  void add_failed_bundles();

  // SpreadWorld
  SteadyTime now() const override { return steady_now(); }
  const Member& self() const override { return roster_->self(); }
  const std::vector<Member>& members() const override { return roster_->members(); }
  bool linked(const NodeKey& peer) const override { return hub_->linked(peer); }
  std::chrono::microseconds round_trip(const NodeKey& peer) const override;
  void send(const NodeKey& peer, const wire::LinkMessage& message) override { hub_->send(peer, message); }
  void introduce(const NodeKey& peer, const BundleId& bundle) override;
  bool send_chunk(const NodeKey& peer, const BundleId& bundle, ChunkIndex chunk, Epoch epoch) override;
  bool unwanted(const BundleId& bundle) const override;
  void cut_queue(const NodeKey& peer, const BundleId& bundle) override { hub_->cut_queue(peer, bundle); }
  void note(const BundleId& bundle, const std::string& event, const std::string& detail) override;

  boost::asio::io_context& io_;
  Config config_;
  EventLog events_;
  WallTime started_;
  std::optional<SecretKeeper> keeper_;
  std::optional<SigningKey> node_key_;
  std::optional<SteadyTime> secrets_due_;  // when links hear of changed secrets
  Enrolments enrolments_;
  std::unique_ptr<WorkPool> pool_;  // rebuilding, which may wait
  std::unique_ptr<WorkPool> idle_;  // what nobody waits for
  std::unique_ptr<WorkPool> puts_;  // checking and storing chunks, which others wait for
  std::unique_ptr<TlsLinkHub> hub_;
  std::unique_ptr<Swarm> swarm_;
  std::unique_ptr<Roster> roster_;
  std::unique_ptr<Spread> spread_;
  std::map<Channel, std::unique_ptr<Follower>> followers_;
  std::unique_ptr<MirrorAccess> mirror_;
  std::map<Channel, std::unique_ptr<ChannelMirror>> mirrors_;
  std::vector<std::unique_ptr<HeadSigner>> head_signers_;
  std::unique_ptr<Publisher> publisher_;
  std::unique_ptr<ApiServer> api_;
  std::unique_ptr<PublishServer> publish_server_;
  FleetStates states_;
  std::optional<StagedPoll> staged_poll_;
  bool states_due_ = false;
  std::unordered_map<BundleId, Channel> channel_of_;
  EarlyChunks early_;
  EarlyMetas early_metas_;
  std::map<BundleId, SteadyTime> swarm_again_;  // bundles that the swarm gave up, until they are added anew
  FreshChunks fresh_;
  std::map<NodeKey, RecentSet<Sha256>> told_;  // records that a linked peer has from us
  std::map<NodeKey, RecentSet<BundleId>> metas_told_;
  RecentSet<BundleId> foreign_metas_{4096};  // came from another region, not yet handed on
  PeerBudget useless_records_{4096, 256};    // forged, repeated, overtaken
  PeerBudget record_requests_{64, 4};
  RecordPulls pulls_;
  std::chrono::milliseconds clock_offset_{0};
  bool clock_told_ = false;
  std::map<std::tuple<Channel, Version, Region>, Sent> sent_;
  std::vector<std::function<bool()>> waiters_;
  std::map<std::pair<Channel, Version>, std::string> version_names_;  // of the newest versions
  boost::asio::steady_timer timer_;
  std::unique_ptr<EnrolClient> enrol_client_;
  std::size_t enrol_attempts_ = 0;
  std::optional<SteadyTime> enrol_again_;
  std::uint64_t ticks_ = 0;
  std::shared_ptr<int> alive_ = std::make_shared<int>();
};

}  // namespace p2pw
