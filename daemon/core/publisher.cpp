#include "daemon/core/publisher.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "daemon/core/node.h"
#include "protocol/publish.pb.h"
#include "protocol/records.pb.h"

namespace p2pw {
namespace {

// So many sealed versions may be incomplete in some live region.
constexpr std::size_t kMaxIncomplete = 2;

}  // namespace

Publisher::Session* Publisher::find(const PublishSessionPtr& connection) {
  auto it = sessions_.find(connection.get());
  return it == sessions_.end() ? nullptr : &it->second;
}

bool Publisher::publishing(const Channel& channel) const {
  return std::any_of(sessions_.begin(), sessions_.end(), [&](auto& entry) {
    return entry.second.follower && entry.second.follower->channel() == channel;
  });
}

void Publisher::publish_message(const PublishSessionPtr& connection, const wire::PublishMessage& message, Bytes payload) {
  if (message.body_case() == wire::PublishMessage::kOpen) return open(connection, message);
  Session* session = find(connection);
  if (!session) return connection->refuse(fail(ErrorCode::usage, "the first publish message must be open"));
  Status status;
  switch (message.body_case()) {
    case wire::PublishMessage::kSalt: status = salt(*session, message); break;
    case wire::PublishMessage::kRecord: status = record(*session, message); break;
    case wire::PublishMessage::kBundle: status = bundle(*session, message, std::move(payload)); break;
    case wire::PublishMessage::kDamaged:
      if (session->pin) session->follower->doubt_active(SlabId(message.damaged().slab()));
      break;
    case wire::PublishMessage::kError:
      spdlog::info("seed gave up: {}", message.error().message());
      break;
    default: status = fail(ErrorCode::malformed, "unexpected publish message");
  }
  if (!status.ok()) connection->refuse(status.error());
}

void Publisher::open(const PublishSessionPtr& connection, const wire::PublishMessage& message) {
  auto channel = Channel::parse(message.open().channel());
  Follower* follower = channel.ok() ? node_.follower(*channel) : nullptr;
  if (!follower) {
    return connection->refuse(fail(ErrorCode::not_found, "channel " + message.open().channel() +
                                                             " is not in the configuration that this daemon was started with: `p2pw channel "
                                                             "add` puts it there; then restart p2pwd"));
  }
  if (publishing(*channel)) {
    return connection->refuse(fail(ErrorCode::busy, "another seed publishes on channel " + channel->str() +
                                                        "; wait for it to end"));
  }
  Session& session = sessions_[connection.get()];
  session.connection = connection;
  session.follower = follower;
  session.asked = Version(message.open().version());
  session.wait_for_fleet = message.open().wait_for_fleet();
  if (message.open().anchor_of() != 0) {
    session.again = true;
    session.asked = Version(message.open().anchor_of());
    if (session.asked != follower->version_sealed()) {
      return connection->refuse(fail(ErrorCode::usage, "version " + std::to_string(session.asked.value()) +
                                                           " is not the newest sealed one: no anchor is made of it"));
    }
    return try_pin(session);
  }
  if (session.asked.value() != 0 && session.asked <= follower->highest_used()) {
    return connection->refuse(fail(ErrorCode::usage, "version " + std::to_string(session.asked.value()) +
                                                         " is not above the highest seen, " +
                                                         std::to_string(follower->highest_used().value()) +
                                                         ": leave --version out, or give a higher one"));
  }
  try_pin(session);
}

// Why a new version cannot begin now; nothing when it can.
std::optional<Error> Publisher::obstacle(const Session& session) const {
  const Follower& follower = *session.follower;
  std::size_t incomplete = 0;
  std::string where;
  for (Version version = follower.version_sealed(); version.value() > 0 && incomplete < kMaxIncomplete;) {
    const Run* run = follower.log().version(version);
    Version here = version;
    version = run ? run->previous() : Version();
    auto regions = node_.states().incomplete_regions(follower.channel(), here);
    if (regions.empty()) break;  // then older versions are complete there, too
    ++incomplete;
    where = regions.front().str() + " lacks version " + std::to_string(here.value());
  }
  if (incomplete >= kMaxIncomplete) {
    return fail(ErrorCode::busy, std::to_string(incomplete) + " sealed versions are incomplete in a live region (" + where +
                                     "); wait, or use --wait");
  }
  return std::nullopt;
}

void Publisher::try_pin(Session& session) {
  if (session.state != State::waiting) return;
  if (auto why = session.again ? std::nullopt : obstacle(session)) {
    if (session.wait_for_fleet) return;
    return session.connection->refuse(*why);
  }
  if (!session.follower->settled()) return;  // the own slot is on its way to the last sealed version
  // What another publisher key has signed is nobody's parent: its successor begins with an anchor.
  const bool first = session.follower->version_sealed().value() == 0;
  if (!first && !session.again) session.pin = session.follower->slots().pin_active();
  session.version = session.asked.value() ? session.asked : session.follower->highest_used().next();
  session.state = State::pinned;
  session.follower->note_requested(session.version);
  send_pinned(session);
}

void Publisher::send_pinned(Session& session) {
  const Follower& follower = *session.follower;
  wire::PublishMessage reply;
  auto* pinned = reply.mutable_pinned();
  pinned->set_version(session.version.value());
  pinned->set_parent(session.pin ? follower.version_active().value() : 0);
  if (session.pin) {
    pinned->set_parent_slot(session.pin->checkpoint().string());
    auto table = session.pin->table();
    if (auto staged = session.pin->staged()) pinned->set_parent_table(std::string(staged->table_hash().text()));
    std::string digests;
    for (const Digest& digest : table->bytes.digests) digests += digest.text();
    for (const Digest& digest : table->tensors) digests += digest.text();
    pinned->set_parent_digests(std::move(digests));
    pinned->set_parent_byte_slabs(static_cast<std::uint32_t>(table->bytes.digests.size()));
  }
  pinned->set_previous_seal(std::string(follower.sealed_hash().text()));
  if (const FleetSecret* secret = node_.current_secret()) session.secret = secret->id();
  pinned->set_secret_id(std::string(session.secret.text()));
  pinned->set_last_delta_bytes(follower.last_delta_bytes());
  session.connection->send(reply);
  node_.event(follower.channel(), "publishing", session.version, "pinned at version " +
                                                                     std::to_string(follower.version_active().value()));
}

Status Publisher::salt(Session& session, const wire::PublishMessage& message) {
  auto salt = Salt::from(message.salt().salt());
  const FleetSecret* secret = node_.secret(session.secret);
  if (session.state != State::pinned || !salt) return fail(ErrorCode::malformed, "unexpected salt");
  if (!secret) return fail(ErrorCode::config, "this daemon has no fleet secret; run p2pw init");
  bool delta = message.salt().kind() == wire::KIND_DELTA;
  RunContext run{session.follower->channel(), session.version, delta ? session.follower->version_active() : Version(),
                 delta ? Kind::delta : Kind::anchor, *salt};
  FrameKey key = FrameKey::derive(*secret, run);
  wire::PublishMessage reply;
  reply.mutable_key()->set_frame_key(std::string(as_text(key.raw())));
  session.connection->send(reply);
  session.state = State::keyed;
  return {};
}

Status Publisher::record(Session& session, const wire::PublishMessage& message) {
  ByteView envelope = as_bytes(message.record().envelope());
  P2PW_TRY(auto taken, session.follower->take_record(envelope, nullptr));
  // What the record was shows in the log: an `open` of this version begins the run, its seal ends it.
  const ChannelLog& log = session.follower->log();
  RunId id = id_as<RunId>(taken.id);
  if (const Run* run = log.run(id); run && run->version() == session.version) {
    session.run = id;
  }
  if (session.run) {
    if (const Run* run = log.run(*session.run); run && run->state() == RunState::sealed) {
      session.state = State::sealed;
      session.pin.reset();
    }
  }
  return {};
}

Status Publisher::bundle(Session& session, const wire::PublishMessage& message, Bytes payload) {
  if (!session.run) return fail(ErrorCode::malformed, "a bundle before its open record");
  Follower& follower = *session.follower;
  P2PW_TRY(auto taken, follower.take_record(as_bytes(message.bundle().envelope()), nullptr));
  BundleId id = id_as<BundleId>(taken.id);
  ByteView meta = as_bytes(message.bundle().meta());
  P2PW_CHECK(follower.take_meta(id, Bytes(meta.begin(), meta.end())));
  auto stored = follower.bundles().find(id);
  if (!stored || payload.size() != stored->record.used_bytes) {
    return fail(ErrorCode::malformed, "the bundle's bytes do not fit its record");
  }
  std::size_t at = 0;
  for (std::uint32_t i = 0; i < stored->record.chunk_count(); ++i) {
    std::size_t size = stored->record.chunk_used(ChunkIndex(i));
    auto begin = payload.begin() + static_cast<std::ptrdiff_t>(at);
    if (session.window->taken(size)) session.connection->pause();
    auto done = [window = session.window, connection = session.connection, size] {
      if (window->stored(size)) connection->resume();
    };
    follower.store_chunk(id, ChunkIndex(i), Bytes(begin, begin + static_cast<std::ptrdiff_t>(size)), nullptr, Epoch(),
                         std::move(done));
    at += size;
  }
  return {};
}

void Publisher::publish_closed(const PublishSessionPtr& connection) {
  auto it = sessions_.find(connection.get());
  if (it == sessions_.end()) return;
  Session session = std::move(it->second);
  sessions_.erase(it);
  session.pin.reset();
  if (session.run && session.state == State::keyed) {
    spdlog::info("channel {}: seed ended before it sealed version {}, which is dead",
                 session.follower->channel().str(), session.version.value());
    session.follower->give_up_run(*session.run);
  }
  node_.state_changed(session.follower->channel());
}

void Publisher::report(Session& session) {
  const Follower& follower = *session.follower;
  if (session.state == State::sealed && follower.version_active() >= session.version) {
    wire::PublishMessage done;
    done.mutable_staged()->set_version(session.version.value());
    session.connection->send(done);
    session.state = State::done;  // the seed hangs up, or waits for the fleet and is told how far it is
  }
  auto count = node_.states().count(follower.channel(), session.version, nullptr);
  std::string progress = std::to_string(count.total) + " " + std::to_string(count.staged) + " " + std::to_string(count.active);
  if (progress == session.last_progress) return;
  session.last_progress = progress;
  wire::PublishMessage message;
  message.mutable_progress()->set_nodes_total(count.total);
  message.mutable_progress()->set_nodes_staged(count.staged);
  message.mutable_progress()->set_nodes_active(count.active);
  session.connection->send(message);
}

void Publisher::tick() {
  std::vector<PublishSessionPtr> connections;
  for (auto& [key, session] : sessions_) connections.push_back(session.connection);
  for (const PublishSessionPtr& connection : connections) {
    Session* session = find(connection);
    if (!session) continue;
    if (session->state == State::waiting) {
      try_pin(*session);
    } else if (session->run) {
      report(*session);
    }
  }
}

}  // namespace p2pw
