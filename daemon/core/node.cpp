#include "daemon/core/node.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>

#include "daemon/client/clock.h"
#include "daemon/client/version.h"
#include "daemon/core/engine_conversation.h"
#include "daemon/core/node_api.h"
#include "daemon/core/node_reports.h"
#include "daemon/core/secrets.h"

namespace p2pw {

using std::chrono::milliseconds;

namespace {
// How much rebuilding gives way to the network where cores are short. A trainer's own copy is wanted only when the next
// version is made, and its fleet and its training wait for other things.
constexpr int kRebuildNicer = 5;
constexpr int kTrainerRebuildNicer = 10;
constexpr int kIdleNicer = 15;

constexpr milliseconds kTick{100};
constexpr std::chrono::seconds kNews{15};
constexpr std::size_t kMaxProblem = 300;  // bytes of the text that travels in a state

// protobuf strings must be UTF-8; a path or a peer's word may be anything, and a cut may go through a letter.
std::string valid_utf8(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) >= 0x7f || static_cast<unsigned char>(c) < 0x20) c = '?';
  }
  return text;
}

}  // namespace

Node::Node(boost::asio::io_context& io, Config config)
    : io_(io), config_(std::move(config)), events_(&wall_clock), started_(wall_clock()), timer_(io) {}

Result<std::unique_ptr<Node>> Node::start(boost::asio::io_context& io, Config config, SwarmFactory swarm) {
  std::unique_ptr<Node> node(new Node(io, std::move(config)));
  P2PW_CHECK(node->open_state());
  P2PW_CHECK(node->open_links(std::move(swarm)));
  P2PW_CHECK(node->open_channels());
  node->open_mirror();
  P2PW_CHECK(node->open_servers());
  node->roster_->start(node->steady_now());
  for (auto& [channel, follower] : node->followers_) follower->resume();
  node->enrol();
  node->tick();
  return node;
}

Node::~Node() {
  alive_.reset();
  enrol_client_.reset();
  api_.reset();
  publish_server_.reset();
  head_signers_.clear();
  mirrors_.clear();
  mirror_.reset();
  swarm_.reset();
  puts_.reset();
  idle_.reset();
  pool_.reset();  // waits for what runs, so nothing posts to followers that are gone
  followers_.clear();
}

void Node::shutdown(const std::string& reason) {
  timer_.cancel();
  api_.reset();
  publish_server_.reset();
  if (mirror_) mirror_->stop();
  hub_->shutdown(reason);
}

Status Node::open_state() {
  P2PW_TRY(SecretKeeper keeper, SecretKeeper::open(config_));
  keeper_.emplace(std::move(keeper));
  P2PW_TRY(enrolments_, load_enrolments(config_.paths()));
  unsigned threads = config_.threads ? config_.threads : std::max(1u, std::thread::hardware_concurrency());
  auto executor = [io = &io_](WorkPool::Task task) { io->post(std::move(task)); };
  pool_ = std::make_unique<WorkPool>(threads, executor,
                                     config_.node.role == Role::trainer ? kTrainerRebuildNicer : kRebuildNicer);
  idle_ = std::make_unique<WorkPool>(1, executor, kIdleNicer);
  puts_ = std::make_unique<WorkPool>(std::max(1u, threads / 4), executor);
  return {};
}

Status Node::open_links(SwarmFactory swarm) {
  P2PW_TRY(SigningKey key, load_node_key(config_.paths()));
  node_key_.emplace(std::move(key));
  P2PW_TRY(NodeIdentity identity, NodeIdentity::make(*node_key_));
  Roster::Options roster;
  roster.candidates = config_.placement.candidates;
  MemberInfo& self = roster.self;
  self.member.key = identity.key();
  self.member.region = config_.node.region;
  self.member.trainer = config_.node.role == Role::trainer;
  self.member.bootstrap = config_.node.bootstrap || self.member.trainer;
  self.member.wan_mbit = static_cast<std::uint32_t>(config_.links.wan_rate_limit_mbit);
  self.incarnation = to_millis(started_);
  self.software = kSoftwareVersion;
  self.name = config_.node.name;
  std::vector<Channel> channels;
  for (const ChannelConfig& channel : config_.channels) channels.push_back(channel.name);
  self.member.follows = Follows(std::move(channels));
  for (const BootstrapConfig& b : config_.bootstrap) {
    roster.configured.push_back({b.address, b.port});
    roster.configured_keys.push_back(b.key);
  }
  if (!self.member.trainer) {
    P2PW_TRY(swarm_, swarm(*this, self.member.key));
    self.swarm = Endpoint{config_.listen.reachable_at(), swarm_->listen_port()};
    const std::string confined = text_of(swarm_->confinement());
    if (swarm_->confinement().whole()) spdlog::info("swarm: {}", confined);
    if (!swarm_->confinement().whole()) spdlog::warn("swarm: {}; whoever takes it over can do more than its part", confined);
  }

  LinkHubOptions options{.identity = std::move(identity)};
  options.listen = {{config_.listen.address, config_.listen.port}};
  if (!config_.listen.wildcard()) options.bind_address = config_.listen.address;
  options.fleet_secrets = keeper_->for_links();
  options.stripes = config_.links.stripes;
  options.congestion = config_.links.congestion;
  options.wan_rate_bits = config_.links.wan_rate_limit_mbit * 1'000'000;
  options.allow_list = allow_list_of(config_);
  options.enrolments = [this](const EnrolmentId& id) { return enrolments_.check(id, wall_now()); };
  write_hello(self, options.hello);
  P2PW_TRY(hub_, TlsLinkHub::start(io_, std::move(options), *this));
  for (const NodeKey& excluded : keeper_->excluded()) hub_->ban(excluded, "excluded when the fleet secret was changed");
  self.endpoints = {Endpoint{config_.listen.reachable_at(), hub_->listening().front().port}};
  wire::Hello hello;
  write_hello(self, hello);
  hub_->set_hello(hello);

  Roster::Events events;
  events.changed = [this](auto& lost, auto& back) { members_changed(lost, back); };
  events.self_changed = [this](const MemberInfo& info) {
    wire::Hello changed;
    write_hello(info, changed);
    hub_->set_hello(changed);
  };
  roster_ = std::make_unique<Roster>(*hub_, std::move(roster), std::move(events));
  SpreadOptions spread;
  spread.tree = {config_.tree.root_children, config_.tree.fan_out};
  spread.candidates = config_.placement.candidates;
  spread_ = std::make_unique<Spread>(*this, spread);
  states_.set_members(roster_->members());
  StagedPoll::World poll;
  poll.self = [this]() -> const Member& { return roster_->self(); };
  poll.links = [this] {
    std::vector<Member> linked;
    for (const NodeKey& peer : hub_->links()) {
      if (const Member* member = roster_->find(peer)) linked.push_back(*member);
    }
    return linked;
  };
  poll.send = [this](const NodeKey& to, const wire::LinkMessage& message) { hub_->send(to, message); };
  staged_poll_.emplace(states_, std::move(poll));
  spdlog::info("node {} ({}) region {} links at {}:{}", node_key_->verifying_key().key.short_hex(), config_.node.name,
               config_.node.region.str(), config_.listen.address, hub_->listening().front().port);
  return {};
}

Status Node::open_channels() {
  for (const ChannelConfig& channel : config_.channels) {
    auto engine = make_conversation(io_, channel.hook);
    if (engine) {
      engine->on_line = [this, name = channel.name](const std::string& line) { events_.add(name, "engine", {}, line); };
    }
    P2PW_TRY(auto follower, Follower::open(config_, channel, real_file_system(), {*pool_, *puts_, *idle_}, *this, std::move(engine)));
    Follower& opened = *follower;
    followers_[channel.name] = std::move(follower);
    if (config_.node.role != Role::trainer) continue;
    P2PW_TRY(auto signer, HeadSigner::open(config_.paths(), opened));
    if (signer) head_signers_.push_back(std::move(signer));
  }
  if (config_.node.role == Role::trainer) publisher_ = std::make_unique<Publisher>(*this);
  return {};
}

Status Node::open_servers() {
  ApiServer::Options options{config_.api_socket(), config_.api.http_address, config_.api.http_port, config_.api.token, {"/"}};
  P2PW_TRY(api_, ApiServer::start(io_, options, [this](ApiRequest request, ApiServer::Reply reply) {
    answer_api(*this, std::move(request), std::move(reply));
  }));
  if (publisher_) {
    P2PW_TRY(publish_server_, PublishServer::start(io_, config_.publish_socket(), *publisher_));
  }
  return {};
}

Follower* Node::follower(const Channel& channel) const {
  auto it = followers_.find(channel);
  return it == followers_.end() ? nullptr : it->second.get();
}

Follower* Node::follower_of(const BundleId& bundle) const {
  auto it = channel_of_.find(bundle);
  if (it != channel_of_.end()) return follower(it->second);
  for (auto& [channel, follower] : followers_) {
    if (follower->knows_bundle(bundle)) return follower.get();
  }
  return nullptr;
}

void Node::tick() {
  timer_.expires_after(kTick);
  timer_.async_wait([this, weak = std::weak_ptr<int>(alive_)](boost::system::error_code error) {
    if (!error && !weak.expired()) tick();
  });
  ++ticks_;
  roster_->tick(steady_now());
  spread_->tick();
  if (!swarm_again_.empty()) add_failed_bundles();
  for (auto& [channel, follower] : followers_) follower->tick();
  for (auto& [channel, mirror] : mirrors_) mirror->tick();
  for (auto& signer : head_signers_) signer->tick(wall_now());
  if (publisher_) publisher_->tick();
  if (ticks_ % 50 == 1) {
    check_clock();
    if (const auto peer = pulls_.due(steady_now(), hub_->links())) want_all_records(*peer);
    useless_records_.forget_quiet(steady_now());
    record_requests_.forget_quiet(steady_now());
    for (auto& [channel, follower] : followers_) state_changed(channel);
  } else if (!waiters_.empty()) {
    wake_waiters();  // their time may be up
  }
  fresh_.forget_old(steady_now());
  if (states_due_) send_states(false);
  if (secrets_due_ && steady_now() >= *secrets_due_) {
    secrets_due_.reset();
    hub_->set_fleet_secrets(keeper_->for_links());
  }
  if (enrol_again_ && steady_now() >= *enrol_again_) {
    enrol_again_.reset();
    enrol();
  }
}

WallTime Node::wall_now() const { return wall_clock(); }

WallTime Node::agreed_now() const { return ChannelLog::corrected(wall_now(), clock_offset_); }

// The median of all linked clocks: a few wrong ones change nothing.
void Node::check_clock() {
  constexpr std::chrono::seconds kWorthTelling{2};
  std::vector<std::chrono::microseconds> offsets;
  for (const NodeKey& peer : hub_->links()) {
    auto stats = hub_->stats(peer);
    if (stats && stats->round_trip.count() > 0) offsets.push_back(stats->clock_offset);
  }
  std::sort(offsets.begin(), offsets.end());
  // Of two, the one nearer to our own clock.
  const auto middle = offsets.empty() ? std::chrono::microseconds(0)
                      : offsets.size() % 2 == 1
                          ? offsets[offsets.size() / 2]
                          : std::min(offsets[offsets.size() / 2 - 1], offsets[offsets.size() / 2],
                                     [](auto a, auto b) { return std::abs(a.count()) < std::abs(b.count()); });
  clock_offset_ = std::chrono::duration_cast<milliseconds>(middle);
  const bool off = std::chrono::abs(clock_offset_) > kWorthTelling;
  if (off && !clock_told_) {
    const std::string text = "this machine's clock differs from the fleet's by " + std::to_string(-clock_offset_.count()) + " ms";
    spdlog::warn("{}", text);
    events_.add({}, "clock", {}, text);
  }
  clock_told_ = off;
}

const FleetSecret* Node::secret(const SecretId& id) const { return keeper_->find(id); }

Region Node::home_region() const {
  for (const Member& m : roster_->members()) {
    if (m.trainer) return m.region;
  }
  return {};
}

std::string Node::name_of_node(const NodeKey& key) const {
  auto view = roster_->view(key);
  if (key == roster_->self().key) return config_.node.name;
  return view && !view->info.name.empty() ? view->info.name : key.short_hex();
}

void Node::name_version(const Channel& channel, Version version, const std::string& name) {
  version_names_[{channel, version}] = name;
  while (version_names_.size() > 1000) version_names_.erase(version_names_.begin());
}

std::string Node::version_name(const Channel& channel, Version version) const {
  auto it = version_names_.find({channel, version});
  return it == version_names_.end() ? std::to_string(version.value()) : it->second;
}

void Node::event(const Channel& channel, const std::string& event, Version version, const std::string& detail) {
  events_.add(channel, event, version, detail);
}

void Node::note(const BundleId& bundle, const std::string& event, const std::string& detail) {
  auto it = channel_of_.find(bundle);
  events_.add(it == channel_of_.end() ? Channel() : it->second, event, Version(), bundle.short_hex() + " " + detail);
}

// States.

// The newest two versions', while anything about them is young: repeated, for a state may get lost on its way.
void Node::write_times(const Follower& follower, wire::NodeState& state) const {
  WallTime now = wall_now();
  auto& times = follower.times();
  std::size_t versions = 0;
  for (auto it = times.rbegin(); it != times.rend() && versions < 2; ++it, ++versions) {
    const VersionTimes& t = it->second;
    bool trainer = config_.node.role == Role::trainer;
    std::vector<std::pair<const char*, std::optional<WallTime>>> stages = {
        {"first_byte", t.first_chunk}, {"last_byte", t.last_chunk}, {"staged", t.staged}, {"active", t.active}};
    if (trainer) stages = {{"requested", t.requested}, {"opened", t.opened}, {"first_bundle", t.first_bundle},
                           {"sealed", t.sealed}, {"staged", t.staged}, {"active", t.active}};
    bool young = std::any_of(stages.begin(), stages.end(), [&](auto& s) { return s.second && now - *s.second < kNews; });
    if (!young) continue;
    for (auto& [stage, at] : stages) {
      if (!at) continue;
      auto* time = state.add_times();
      time->set_version(it->first.value());
      time->set_stage(stage);
      time->set_at_us(to_millis(*at) * 1000);
    }
  }
}

wire::NodeState Node::own_state(const Follower& follower) const {
  wire::NodeState state;
  state.set_node(std::string(roster_->self().key.text()));
  state.set_channel(follower.channel().str());
  state.set_region(roster_->self().region.str());
  state.set_version_staged(follower.version_staged().value());
  state.set_version_active(follower.version_active().value());
  state.set_state(follower.state());
  state.set_at_ms(to_millis(wall_now()));
  state.set_name(config_.node.name);
  if (!follower.problem().empty()) state.set_problem(valid_utf8(follower.problem().substr(0, kMaxProblem)));
  if (auto p = follower.progress(); p.target.value() != 0 && p.frames_known > 0) {
    state.set_percent(static_cast<std::uint32_t>(p.frames_applied * 100 / p.frames_known));
  }
  write_times(follower, state);
  return state;
}

void Node::state_changed(const Channel& channel) {
  Follower* changed = follower(channel);
  if (!changed || !roster_) return;
  states_.hear(own_state(*changed), roster_->members());
  states_news();
}

void Node::states_news() {
  states_due_ = true;
  if (publisher_) publisher_->tick();
  wake_waiters();
}

void Node::wake_waiters() {
  auto waiters = std::move(waiters_);
  waiters_.clear();
  for (auto& waiter : waiters) {
    if (!waiter()) waiters_.push_back(std::move(waiter));
  }
}

// A node tells its region's bootstrap daemons; these tell the trainers what they heard in their own region, or, while no
// trainer is linked, the bootstrap daemons of other regions.
void Node::send_states(bool all) {
  states_due_ = false;
  auto states = all ? states_.all() : states_.take_changes();
  wire::LinkMessage own, regional;
  for (const wire::NodeState& state : states) {
    bool mine = state.node() == roster_->self().key.text();
    if (mine) *own.mutable_states()->add_states() = state;
    if (mine || state.region() == roster_->self().region.str()) *regional.mutable_states()->add_states() = state;
  }
  bool trainer_hears = false;
  for (const NodeKey& peer : hub_->links()) {
    const Member* member = roster_->find(peer);
    trainer_hears = trainer_hears || (member && member->trainer);
  }
  bool near_hubs = roster_->witness();
  for (const NodeKey& peer : roster_->regional_links()) near_hubs = near_hubs || roster_->find(peer)->bootstrap;
  for (const NodeKey& peer : hub_->links()) {
    const Member* member = roster_->find(peer);
    if (!member || !member->bootstrap) continue;
    bool near_hub = member->region == roster_->self().region || !near_hubs;
    bool far_hub = !near_hub && roster_->witness() && (member->trainer || !trainer_hears);
    if (near_hub && own.has_states()) hub_->send(peer, own);
    if (far_hub && regional.has_states()) hub_->send(peer, regional);
  }
}

// A bit for each channel here; the last one is for all that are too many.
SwarmGroups Node::swarm_group(const Channel& channel) const {
  std::size_t at = 0;
  while (at < config_.channels.size() && config_.channels[at].name != channel) ++at;
  return SwarmGroups{1} << std::min<std::size_t>(at, 63);
}

void Node::members_changed(const std::vector<NodeKey>& lost, const std::vector<NodeKey>& back) {
  states_.set_members(roster_->members());
  if (swarm_) {
    std::vector<SwarmPeer> peers;
    for (const Member& m : roster_->members()) {
      if (m.key == self().key || m.trainer || m.region != self().region || m.suspect) continue;
      auto view = roster_->view(m.key);
      SwarmGroups groups = 0;
      for (const ChannelConfig& channel : config_.channels) {
        if (m.follows.has(channel.name)) groups |= swarm_group(channel.name);
      }
      if (view && view->info.swarm) peers.push_back({m.key, view->info.swarm->host, view->info.swarm->port, groups});
    }
    swarm_->set_members(std::move(peers));
    for (const NodeKey& key : lost) swarm_->drop(key);
  }
  for (const NodeKey& key : lost) spread_->peer_lost(key);
  for (const NodeKey& key : back) spread_->peer_up(key);
  spread_->members_changed();
  if (!back.empty()) hand_secret_to_newcomers();
  for (auto& [channel, follower] : followers_) state_changed(channel);
}

}  // namespace p2pw
