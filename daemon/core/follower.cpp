#include "daemon/core/follower.h"

#include <spdlog/spdlog.h>

#include "protocol/hash.h"

namespace p2pw {

using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

constexpr seconds kRetire{5};

// The log of a channel is one publisher key's. That of an earlier key is kept under that key's id.
Result<RecordFile> open_log(const std::filesystem::path& path, const ChannelConfig& channel) {
  P2PW_TRY(RecordFile file, RecordFile::open(path));
  if (file.loaded().empty()) return file;
  auto signer = record_signer(file.loaded().front());
  if (!signer.ok() || *signer == channel.publisher.id) return file;
  auto to = path;
  to += "." + signer->hex();
  std::error_code error;
  std::filesystem::rename(path, to, error);
  if (error) return fail(ErrorCode::io, path.string() + ": cannot be set aside: " + error.message());
  spdlog::warn("channel {}: another publisher key is configured than signed the log; it is kept as {}", channel.name.str(),
               to.string());
  return RecordFile::open(path);
}

ActivationOptions activation_options(const ChannelConfig& channel) {
  ActivationOptions options;
  options.channel = channel.name;
  options.grace = channel.grace;
  // The hook keeps its own times; this is for one that never answers: all steps of a load, and continue said four times.
  options.time_out = 2 * channel.hook.load_time + 8 * channel.hook.control_time;
  options.watch = channel.hook.watch_time;
  options.retry = channel.hook.retry_time;
  options.retries = channel.hook.retries;
  return options;
}

}  // namespace

Follower::Follower(const Config& config, const ChannelConfig& channel, FollowerPools pools, FollowerHost& host)
    : config_(config),
      channel_(channel),
      pools_(pools),
      host_(host),
      log_(channel.name, channel.publisher),
      bundles_(config.paths().bundles(channel.name)),
      gate_(channel.activate) {}

Follower::~Follower() = default;

Result<std::unique_ptr<Follower>> Follower::open(const Config& config, const ChannelConfig& channel, FileSystem& files,
                                                 FollowerPools pools, FollowerHost& host, std::unique_ptr<EngineHook> hook) {
  std::unique_ptr<Follower> follower(new Follower(config, channel, pools, host));
  SlotPlaces places{config.channel_root(channel.name), {}, {}};
  places.single = channel.slots == 1;
  if (places.single && config.node.role == Role::trainer) {
    return fail(ErrorCode::config, "channel " + channel.name.str() + ": a trainer needs slots = 2, since a version is "
                                   "made from one while the next is built in the other");
  }
  P2PW_TRY(follower->slots_, SlotPair::open(files, places));
  for (const auto& slot : {follower->slots_->active(), follower->slots_->standby()}) {
    if (slot && !slot->note().empty()) spdlog::warn("channel {}: {}", channel.name.str(), slot->note());
  }
  P2PW_TRY(RecordFile file, open_log(config.paths().records(channel.name) / "log", channel));
  follower->file_.emplace(std::move(file));
  RebuildEvents& rebuild_events = *follower;
  ActivationEvents& activation_events = *follower;
  follower->rebuilder_ = std::make_unique<Rebuilder>(*follower->slots_, pools.work, rebuild_events);
  follower->open_certifier();
  follower->sparse_ = std::make_unique<SparseMaker>(*follower->slots_, pools.work, places.channel / "sparse");
  follower->open_exchange();
  follower->hook_ = std::move(hook);
  follower->activation_ = std::make_unique<Activation>(*follower->slots_, pools.work, follower->hook_.get(),
                                                       activation_events, activation_options(channel));
  return follower;
}

void Follower::open_exchange() {
  SlabExchange::World world;
  world.neighbours = [this] { return host_.neighbours(channel()); };
  world.alone = [this] { return host_.alone(channel()); };
  world.links = [this] { return host_.all_links(); };
  world.send = [this](const NodeKey& to, const wire::LinkMessage& message, SharedBytes payload, bool bulk) {
    return host_.send_to(to, message, std::move(payload), bulk);
  };
  world.name = [this](const NodeKey& key) { return host_.name_of_node(key); };
  world.event = [this](const std::string& event, const std::string& detail) { host_.event(channel(), event, {}, detail); };
  world.keeps_above = [this] { return keeps_above(); };
  exchange_ = std::make_unique<SlabExchange>(log_, *slots_, *rebuilder_, pools_.work, std::move(world));
}

void Follower::resume() {
  replaying_ = true;
  auto loaded = file_->loaded();
  file_->forget_loaded();
  for (const Bytes& envelope : loaded) {
    auto taken = take_record(envelope, nullptr);
    if (!taken.ok()) spdlog::warn("channel {}: a stored record is refused: {}", channel().str(), taken.error().message);
  }
  replaying_ = false;
  retention(true);
  bundles_.remove_strangers();
  // Staged by the process before, which ended before `current` was switched.
  auto staged = slots_->standby()->staged();
  if (staged && staged->version() > version_current()) version_staged(*staged);
  host_.state_changed(channel());
}

// Records.

Result<Follower::Taken> Follower::take_record(ByteView envelope, const NodeKey* from) {
  P2PW_TRY(Sha256 id, record_id(envelope));
  Taken taken{false, id};
  if (log_.knows(id)) return taken;  // a signature costs a hundred times what this does
  WallTime now = host_.agreed_now();
  P2PW_TRY(VerifiedRecord record, log_.verifier().verify(envelope, now));
  LogAnswer answer = log_.add(record, now);
  if (answer.kind == LogAnswer::Kind::refused) return std::move(*answer.error);
  if (answer.missing && !replaying_) host_.want_records(channel(), from);
  taken.added = answer.kind == LogAnswer::Kind::accepted || answer.kind == LogAnswer::Kind::waiting;
  if (!taken.added) return taken;
  if (!replaying_) {
    bool head = record.as<HeadRecord>() != nullptr;
    if (!head) P2PW_CHECK(file_->append(record.envelope(), record.as<SealRecord>() != nullptr));
    host_.forward_record(record, from);
  }
  for (const LogEvent& event : log_.take_events()) act_on(event);
  return taken;
}

void Follower::act_on(const LogEvent& event) {
  const Run* run = log_.run(event.run);
  switch (event.kind) {
    case LogEvent::Kind::opened:
      if (run) run_opened(*run);
      break;
    case LogEvent::Kind::bundle:
      if (run) bundle_known(*run, event.bundle);
      break;
    case LogEvent::Kind::sealed:
      if (run) run_sealed(*run);
      break;
    case LogEvent::Kind::died:
      if (!replaying_) host_.event(channel(), "dead", event.version, "its seed ended before the seal");
      drop_run(event.run);
      break;
    case LogEvent::Kind::head:
      if (log_.head_state(host_.agreed_now()) == HeadState::behind) host_.want_records(channel(), nullptr);
      break;
    case LogEvent::Kind::certified:
      consider_certificate();
      break;
    case LogEvent::Kind::delegated:
      break;
  }
}

void Follower::run_opened(const Run& run) {
  const OpenRecord& open = run.open();
  if (!replaying_ && !run.again()) {
    times_[open.version].opened = host_.wall_now();
    host_.event(channel(), "open", open.version, std::string(name_of(open.kind)) + " run " + run.id().short_hex());
  }
  auto sealer = sealer_of(open);
  if (!sealer) {
    problem_ = "version " + std::to_string(open.version.value()) + " is sealed with fleet secret " +
               open.secret_id.hex() + ", which this node does not have: enrol it again";
    spdlog::error("channel {}: {}", channel().str(), problem_);
    return;
  }
  bundles_of_[run.id()];
  rebuilder_->open_run(run.id(), open, sealer);
}

std::shared_ptr<const FrameSealer> Follower::sealer_of(const OpenRecord& open) const {
  const FleetSecret* secret = host_.secret(open.secret_id);
  if (!secret) return nullptr;
  const RunContext context{channel(), open.version, open.parent, open.kind, open.salt};
  return std::make_shared<const FrameSealer>(FrameKey::derive(*secret, context), context);
}

void Follower::secrets_changed() {
  std::vector<RunId> waiting = log_.lineage(log_.highest_sealed()).value_or(std::vector<RunId>());
  for (const Run* run : log_.open_runs()) waiting.push_back(run->id());
  for (const RunId& id : waiting) {
    const Run* run = log_.run(id);
    if (!run || bundles_of_.contains(id) || run->version() <= version_current() || !host_.secret(run->open().secret_id)) continue;
    run_opened(*run);
    for (const auto& [index, record] : run->bundles()) bundle_known(*run, index);
    if (run->state() == RunState::sealed) run_sealed(*run);
    problem_.clear();
  }
}

void Follower::bundle_known(const Run& run, BundleIndex index) {
  BundleId id = id_as<BundleId>(run.bundles().at(index).id());
  if (!bundles_of_.contains(run.id())) return;
  if (!replaying_) {
    host_.event(channel(), "bundle", run.version(), std::to_string(index.value()) + " " + id.short_hex());
    VersionTimes& times = times_[run.version()];
    if (!times.first_bundle) times.first_bundle = host_.wall_now();
  }
  KnownBundle& known = known_[id];
  known.run = run.id();
  known.index = index;
  known.known_at = host_.steady_now();
  bundles_of_[run.id()].push_back(id);
  std::optional<Bytes> meta = host_.early_metas().take(id);
  const bool early = meta.has_value();
  if (!meta && replaying_) meta = bundles_.saved_meta(id);
  if (!meta) return;
  auto opened = early ? take_offered_meta(id, std::move(*meta)) : open_bundle(id, *meta);
  if (!opened.ok()) {
    spdlog::warn("channel {}: bundle {}: {}", channel().str(), id.short_hex(), opened.error().message);
  }
}

void Follower::run_sealed(const Run& run) {
  if (!replaying_ && run.again()) {
    host_.event(channel(), "anchor", run.version(), std::to_string(run.seal()->delta_bytes) + " bytes");
  } else if (!replaying_) {
    times_[run.version()].sealed = host_.wall_now();
    live_at_seal_[run.version()] = host_.live_followers(channel());
    while (live_at_seal_.size() > 64) live_at_seal_.erase(live_at_seal_.begin());
    host_.event(channel(), "seal", run.version(), std::to_string(run.seal()->delta_bytes) + " bytes");
  }
  rebuilder_->seal_run(run.id(), *run.seal(), run.seal_hash());
  host_.state_changed(channel());
}

void Follower::remove_bundles(const std::vector<BundleId>& bundles) {
  for (const BundleId& id : bundles) {
    host_.bundle_closed(id);
    bundles_.remove(id);
  }
}

bool Follower::has_all(const Run& run, const std::vector<BundleId>& bundles) const {
  std::size_t whole = 0;
  for (const BundleId& id : bundles) {
    auto stored = bundles_.find(id);
    whole += stored && stored->file->complete();
  }
  return run.seal() && whole == run.seal()->bundles;
}

void Follower::drop_run(const RunId& run) {
  rebuilder_->drop_run(run);
  auto it = bundles_of_.find(run);
  if (it == bundles_of_.end()) return;
  remove_bundles(it->second);
  for (const BundleId& id : it->second) known_.erase(id);
  bundles_of_.erase(it);
}

// The records stay: what a run was is still to be known. Its bundles are not asked for again (SlabExchange::wants).
void Follower::drop_bundles(const RunId& run) {
  auto it = bundles_of_.find(run);
  if (it == bundles_of_.end()) return;
  remove_bundles(it->second);
  for (const BundleId& id : it->second) known_[id].open = false, known_[id].asked = 0;
}

void Follower::give_up_run(const RunId& run) { drop_run(run); }

// Bundles.

Status Follower::take_meta(const BundleId& bundle, Bytes meta) {
  auto it = known_.find(bundle);
  if (it == known_.end()) {
    host_.early_metas().add(bundle, std::move(meta));
    return {};
  }
  return it->second.open ? Status() : open_bundle(bundle, meta);
}

Status Follower::open_bundle(const BundleId& id, ByteView meta) {
  KnownBundle& known = known_.at(id);
  const Run* run = log_.run(known.run);
  const BundleRecord* record = run ? run->bundle(known.index) : nullptr;
  if (!record) return fail(ErrorCode::not_found, "its run is gone");
  P2PW_TRY(auto stored, bundles_.open(id, *record, meta));
  known.open = true;
  BundleFacts facts;
  facts.id = id;
  facts.place = {channel(), known.run, known.index};
  facts.version = record->version;
  facts.kind = run->open().kind;
  facts.used_bytes = record->used_bytes;
  facts.chunk_bytes = record->chunk_bytes;
  facts.chunks = record->chunk_count();
  facts.home = host_.home_region();
  facts.pushed = !run->again();
  rebuilder_->add_bundle(id, *record, stored->meta, stored->file);
  // A bundle that is being made here is nowhere else yet.
  bool fresh = facts.pushed && !replaying_ && config_.node.role == Role::trainer && run->state() == RunState::open;
  host_.bundle_opened(facts, *stored, fresh);
  return {};
}

void Follower::store_chunk(const BundleId& bundle, ChunkIndex chunk, Bytes payload, const NodeKey* from, Epoch epoch,
                           std::function<void()> done) {
  auto stored = bundles_.find(bundle);
  if (!stored) {
    if (done) done();
    return;
  }
  auto bytes = std::make_shared<Bytes>(std::move(payload));
  std::optional<NodeKey> sender;
  if (from) sender = *from;
  pools_.puts.run([file = stored->file, chunk, bytes] { return file->put(chunk, *bytes); },
            [this, weak = std::weak_ptr<int>(alive_), bundle, chunk, sender, epoch, bytes,
             done = std::move(done)](Status put) {
              if (weak.expired()) return;
              if (done) done();
              if (put.ok()) {
                host_.chunk_stored(bundle, chunk, sender ? &*sender : nullptr, epoch, bytes);
                chunk_is_here(bundle, chunk);
              } else {
                spdlog::error("bundle {} chunk {}: {}", bundle.short_hex(), chunk.value(), put.error().message);
                if (sender) host_.chunk_refused(bundle, chunk, *sender, put.error());
                if (put.error().code == ErrorCode::no_space) rebuild_blocked(put.error());
              }
            });
}

void Follower::swarm_chunk(const BundleId& bundle, ChunkIndex chunk) { chunk_is_here(bundle, chunk); }

void Follower::chunk_is_here(const BundleId& bundle, ChunkIndex chunk) {
  auto it = known_.find(bundle);
  if (it == known_.end()) return;
  rebuilder_->chunk_arrived(bundle, chunk);
  const Run* run = log_.run(it->second.run);
  if (!run) return;
  VersionTimes& times = times_[run->version()];
  times.last_chunk = host_.wall_now();
  if (!times.first_chunk) {
    times.first_chunk = times.last_chunk;
    host_.event(channel(), "first-chunk", run->version(), bundle.short_hex());
    host_.state_changed(channel());
  }
}

std::vector<const VerifiedRecord*> Follower::introduction(const BundleId& bundle) const {
  auto it = known_.find(bundle);
  const Run* run = it == known_.end() ? nullptr : log_.run(it->second.run);
  if (!run) return {};
  std::vector<const VerifiedRecord*> out{&run->open_record()};
  const bool sealed = run->state() == RunState::sealed;
  for (const auto& [index, record] : run->bundles()) {
    if (sealed || index == it->second.index) out.push_back(&record);
  }
  if (sealed) out.push_back(&*run->seal_record());
  return out;
}

void Follower::fill_wanted(wire::RecordsWanted& wanted) const {
  LogPosition position = log_.position();
  wanted.set_channel(channel().str());
  wanted.set_version(position.version.value());
  wanted.set_seal(std::string(position.seal.text()));
  for (const Sha256& id : position.held) wanted.add_held(std::string(id.text()));
}

std::vector<const VerifiedRecord*> Follower::missing_for(const wire::RecordsWanted& wanted) const {
  LogPosition position;
  position.version = Version(wanted.version());
  position.seal = SealHash::from(wanted.seal()).value_or(SealHash{});
  for (const std::string& id : wanted.held()) {
    if (position.held.size() >= ChannelLog::kMaxHeld) break;
    if (auto hash = Sha256::from(id)) position.held.push_back(*hash);
  }
  return log_.newer_than(position);
}

void Follower::tick() {
  auto now = host_.steady_now();
  activation_->tick(now);
  exchange_->tick(now);
  consider_certificate();
  consider_activation();
  certifier_->tick(now);
  if (exchange_->take_decision()) close_unwanted();
  look_for_metas(now);
  if (retry_at_ && now >= *retry_at_) {
    retry_at_.reset();
    rebuilder_->retry();
  }
  if (!retired_at_ || now - *retired_at_ >= kRetire) {
    retired_at_ = now;
    retention(true);
  }
}

// Certificates.

void Follower::open_certifier() {
  Certifier::Events events;
  events.certified = [this](Version version) {
    exchange_->certified();
    host_.event(channel(), "certified", version, "every slab is what the publisher signed");
  };
  events.ask = [this](Version version) {
    wire::LinkMessage message;
    message.mutable_hashes_wanted()->set_channel(channel().str());
    message.mutable_hashes_wanted()->set_version(version.value());
    for (const NodeKey& peer : host_.all_links()) host_.send_to(peer, message, nullptr, false);
  };
  events.failed = [this](Version version, const std::vector<SlabId>& wrong) { certificate_failed(version, wrong); };
  certifier_ = std::make_unique<Certifier>(*slots_, Certifier::Pools{pools_.idle, pools_.work}, std::move(events));
}

void Follower::consider_certificate() {
  if (replaying_ || activation_->state() != ActivationState::idle) return;
  if (const CertifyRecord* certificate = log_.certificate(version_current())) certifier_->check(*certificate);
}

void Follower::certificate_failed(Version version, const std::vector<SlabId>& wrong) {
  for (SlabId slab : wrong) {
    auto giver = slab.is_bytes() ? std::nullopt : exchange_->giver_of(slab.index());
    std::string what = (slab.is_bytes() ? "byte slab " : "tensor slab ") + std::to_string(slab.index()) + " of version " +
                       std::to_string(version.value()) + " is not what the publisher certified";
    problem_ = what + (giver ? "; it came from neighbour " + host_.name_of_node(*giver) + " " + giver->short_hex()
                             : "; it was damaged on this node");
    spdlog::error("channel {}: {}", channel().str(), problem_);
    host_.event(channel(), "certify-failed", version, problem_);
    if (giver) exchange_->blame(*giver, what, host_.steady_now());
  }
  // The standby is mended first, then `current` moves there (standby_caught_up).
  rebuilder_->slots_changed();
  host_.state_changed(channel());
}

bool Follower::exchange_message(const NodeKey& peer, const wire::LinkMessage& message, Bytes& payload) {
  if (message.has_hashes_wanted()) {
    Version version(message.hashes_wanted().version());
    if (auto list = certifier_->certified_list(version)) {
      wire::LinkMessage answer;
      answer.mutable_hashes()->set_channel(channel().str());
      answer.mutable_hashes()->set_version(version.value());
      host_.send_to(peer, answer, list, false);
    }
    return true;
  }
  if (message.has_hashes()) {
    if (auto taken = certifier_->list(Version(message.hashes().version()), payload); !taken) {
      exchange_->blame(peer, taken.error().message, host_.steady_now());
    }
    return true;
  }
  return exchange_->message(peer, message, payload, host_.steady_now());
}

}  // namespace p2pw
