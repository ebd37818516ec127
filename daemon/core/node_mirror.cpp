#include "daemon/core/node_mirror.h"

#include <algorithm>
#include <set>

#include "daemon/client/files.h"
#include "daemon/core/node.h"

namespace p2pw {
namespace {

constexpr std::size_t kMaxCredentials = 64u << 10;
constexpr std::size_t kAll = 1u << 20;  // every member has a place in the line

std::size_t place_in(const std::vector<NodeKey>& line, const NodeKey& self) {
  return static_cast<std::size_t>(std::find(line.begin(), line.end(), self) - line.begin());
}

}  // namespace

ChannelMirror::ChannelMirror(Node& node, Follower& follower, MirrorAccess& access, bool writes)
    : node_(node), follower_(follower), reader_(*this, access, patience_) {
  MirrorHost& self = *this;
  if (writes) writer_.emplace(self, access, patience_);
}

void ChannelMirror::tick() {
  reader_.tick();
  if (writer_) writer_->tick();
}

NodeKey ChannelMirror::self() const { return node_.key(); }
SteadyTime ChannelMirror::now() const { return node_.steady_now(); }
WallTime ChannelMirror::wall_now() const { return node_.agreed_now(); }

std::size_t ChannelMirror::place_for(const BundlePlace& bundle) const {
  const Member& self = node_.roster().self();
  if (self.trainer) return 0;
  return place_in(gateway_succession(bundle, self.region, node_.roster().members(), kAll), self.key);
}

std::size_t ChannelMirror::place() const {
  const Member& self = node_.roster().self();
  if (self.trainer) return 0;
  return place_in(gateway_candidates(follower_.channel(), self.region, node_.roster().members(), kAll), self.key);
}

// The trainer's daemon, then the first of each region, then the second of each, and so on.
std::size_t ChannelMirror::writing_place() const {
  const Member& self = node_.roster().self();
  if (self.trainer) return 0;
  std::set<Region> regions;
  bool trainer = false;
  for (const Member& member : node_.roster().members()) {
    if (!member.trainer && member.follows.has(follower_.channel())) regions.insert(member.region);
    trainer = trainer || (member.trainer && !member.suspect);
  }
  const auto at = static_cast<std::size_t>(std::distance(regions.begin(), regions.find(self.region)));
  return (trainer ? 1 : 0) + place() * regions.size() + at;
}

std::vector<MirrorHost::MetaWanted> ChannelMirror::metas_wanted() const {
  std::vector<MetaWanted> wanted;
  for (const Follower::AwaitedMeta& meta : follower_.awaited_metas()) {
    wanted.push_back({meta.id, meta.record, meta.since, place_for(meta.place)});
  }
  std::sort(wanted.begin(), wanted.end(), [](auto& a, auto& b) {
    return std::pair(a.record.version, a.record.index) < std::pair(b.record.version, b.record.index);
  });
  return wanted;
}

std::vector<MirrorHost::ChunksWanted> ChannelMirror::chunks_wanted() const {
  std::vector<ChunksWanted> wanted;
  if (node_.roster().self().trainer) {
    // It is no region's member: nobody is asked to bring it anything.
    for (auto& bundle : follower_.unfinished_bundles()) {
      const ChunkSet all(bundle->record.chunk_count(), true);
      wanted.push_back({std::move(bundle), all, SteadyTime{}, {}});
    }
  } else {
    for (Intake::Dry& dry : node_.spread().intake().dry()) {
      auto bundle = follower_.bundles().find(dry.bundle);
      const Run* run = bundle ? follower_.log().run(bundle->record.run) : nullptr;
      if (run != nullptr && run->state() == RunState::sealed)
        wanted.push_back({std::move(bundle), std::move(dry.missing), dry.since, dry.hope});
    }
  }
  std::sort(wanted.begin(), wanted.end(), [](auto& a, auto& b) {
    const BundleRecord &x = a.bundle->record, &y = b.bundle->record;
    return std::pair(x.version, x.index) < std::pair(y.version, y.index);
  });
  return wanted;
}

std::vector<MirrorHost::SlabWanted> ChannelMirror::slabs_wanted() const {
  std::vector<SlabWanted> wanted;
  for (Follower::StrandedSlab& slab : follower_.stranded_slabs()) wanted.push_back({std::move(slab.way), slab.since});
  return wanted;
}

void ChannelMirror::slab_found(std::uint32_t slab, SlabFound found) {
  follower_.slab_arrived(slab, std::move(found.bytes), found.digest);
}

void ChannelMirror::draw(const BundleId& bundle) {
  if (!node_.roster().self().trainer) node_.spread().draw(bundle);
}

void ChannelMirror::claim_quiet(const MirrorPatience& patience,
                                const std::function<bool(const BundleId&)>& may) {
  if (node_.roster().self().trainer) return;
  for (const Intake::Quiet& quiet : node_.spread().intake().quiet()) {
    auto bundle = follower_.bundles().find(quiet.bundle);
    const Run* run = bundle ? follower_.log().run(bundle->record.run) : nullptr;
    if (run == nullptr || run->state() != RunState::sealed || !may(quiet.bundle)) continue;
    const BundlePlace place{follower_.channel(), bundle->record.run, bundle->record.index};
    const auto wait = claim_patience(quiet.hope, patience);
    if (turn_has_come(now(), quiet.since, wait, place_for(place), patience.turn))
      node_.spread().claim(quiet.bundle);
  }
}

Status ChannelMirror::take_record(ByteView envelope) {
  auto taken = follower_.take_record(envelope, nullptr);
  return taken ? Status() : Status(taken.error());
}

Status ChannelMirror::take_meta(const BundleId& bundle, Bytes meta) {
  return node_.take_outside_meta(follower_, bundle, std::move(meta));
}

void ChannelMirror::chunk_put(const BundleId& bundle, ChunkIndex chunk) {
  node_.chunk_stored(bundle, chunk, nullptr, Epoch(), nullptr);
  follower_.swarm_chunk(bundle, chunk);
}

void ChannelMirror::event(const std::string& event, Version version, const std::string& detail) {
  node_.event(follower_.channel(), event, version, detail);
}

// The node's part.

void Node::open_mirror() {
  if (!config_.mirror) return;
  auto credentials = [file = config_.mirror_credentials_file()]() -> Result<MirrorCredentials> {
    P2PW_TRY(std::string text, read_credential("p2pw.mirror.credentials", file, kMaxCredentials));
    auto parsed = parse_mirror_credentials(text);
    if (!parsed) return fail(parsed.error().code, file.string() + ": " + parsed.error().message);
    return *parsed;
  };
  mirror_ = std::make_unique<MirrorAccess>(
      open_mirror_store(config_.mirror, credentials), [io = &io_](WorkPool::Task task) { io->post(std::move(task)); },
      [this] { return std::pair(steady_now(), wall_now()); },
      [this](const std::string& event, const std::string& detail) { events_.add({}, event, {}, detail); });
  const bool writes = config_.mirror_write && config_.mirror.writable();
  for (auto& [channel, follower] : followers_) {
    mirrors_[channel] = std::make_unique<ChannelMirror>(*this, *follower, *mirror_, writes);
  }
}

Status Node::take_outside_meta(Follower& follower, const BundleId& bundle, Bytes meta) {
  foreign_metas_.insert(bundle);  // the neighbours need it, too
  return follower.take_meta(bundle, std::move(meta));
}

api::MirrorStatus mirror_status(const Node& node) {
  api::MirrorStatus status;
  if (node.mirror() == nullptr) return status;
  const Config& config = node.config();
  const MirrorStats& stats = node.mirror()->stats();
  status.url = config.mirror.text;
  status.writes = config.mirror_write && config.mirror.writable();
  for (auto& [channel, mirror] : node.mirrors()) status.version = std::max(status.version, mirror->version().value());
  status.chunk_bytes_read = stats.chunk_bytes_read;
  status.other_bytes_read = stats.other_bytes_read;
  status.bytes_written = stats.bytes_written;
  status.refused = stats.refused;
  for (auto& [code, count] : stats.failures) status.failures += count;
  if (stats.last_success) status.last_success_ms = to_millis(*stats.last_success);
  status.problem = stats.problem;
  return status;
}

}  // namespace p2pw
