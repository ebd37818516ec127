// Enrolment, and fleet secrets that are replaced while the fleet runs.
#include <spdlog/spdlog.h>

#include <sstream>

#include "daemon/core/node.h"
#include "daemon/core/secrets.h"

namespace p2pw {
namespace {

// Long enough for a handover to be passed on before the links that carry it are dropped.
constexpr std::chrono::seconds kBeforeRetiring{1};

}  // namespace

void Node::secrets_changed() {
  secrets_due_ = steady_now() + kBeforeRetiring;
  for (auto& [channel, follower] : followers_) follower->secrets_changed();
}

void Node::send_handover(const SecretKeeper::Parts& parts, const NodeKey* except) {
  for (const auto& part : parts) {
    wire::LinkMessage message;
    *message.mutable_secret_handover() = part;
    for (const NodeKey& peer : hub_->links()) {
      if (!except || peer != *except) hub_->send(peer, message);
    }
  }
}

void Node::handover_message(const NodeKey& peer, const wire::SecretHandover& message) {
  auto heard = keeper_->hear(message, *node_key_);
  if (!heard.ok()) {
    spdlog::warn("a secret handover from node {} is refused: {}", peer.short_hex(), heard.error().message);
    return;
  }
  if (heard->news) send_handover({message}, &peer);
  if (!heard->changed) return;
  const FleetSecret* current = keeper_->current();
  spdlog::info("the fleet secret is now {}", current ? current->id().hex() : "none");
  events_.add({}, "fleet-secret", {}, current ? current->id().hex() : "", peer.hex());
  secrets_changed();
}

Result<api::RotateReply> Node::rotate_secret(const api::RotateRequest& request) {
  if (config_.node.role != Role::trainer) {
    return fail(ErrorCode::usage, "fleet secrets are made by the trainer: type this there");
  }
  std::set<NodeKey> without;
  std::istringstream keys(request.without);
  for (std::string text; std::getline(keys, text, ',');) {
    auto key = NodeKey::from_hex(text);
    if (!key) return fail(ErrorCode::usage, "\"" + text + "\" is not a node key (64 hex digits; p2pw peers shows them)");
    without.insert(*key);
  }
  std::vector<NodeKey> members = other_members();
  std::erase_if(members, [&](const NodeKey& key) { return without.contains(key); });
  auto parts = request.finish ? keeper_->retire(*node_key_, wall_now(), members)
                              : keeper_->rotate(*node_key_, wall_now(), members, without);
  if (!parts.ok()) return parts.error();
  for (const NodeKey& key : keeper_->excluded()) hub_->ban(key, "excluded when the fleet secret was changed");
  send_handover(*parts, nullptr);
  secrets_changed();
  events_.add({}, "fleet-secret", {}, keeper_->current()->id().hex() + (request.finish ? " alone" : ""));
  return api::RotateReply{keeper_->current()->id().hex(), members.size(), request.finish};
}

std::vector<NodeKey> Node::other_members() const {
  std::vector<NodeKey> keys;
  for (const Member& m : roster_->members()) {
    if (m.key != self().key) keys.push_back(m.key);
  }
  return keys;
}

void Node::hand_secret_to_newcomers() {
  if (config_.node.role != Role::trainer) return;
  auto parts = keeper_->for_newcomers(*node_key_, other_members());
  if (parts.ok()) send_handover(*parts, nullptr);
}

// Enrolment.

Result<std::string> Node::make_token(std::uint32_t uses, const Channel& channel, WallTime& expires) {
  const ChannelConfig* config = config_.channel(channel);
  if (!config) return fail(ErrorCode::not_found, "no channel " + channel.str() + " is followed here");
  expires = wall_now() + std::chrono::hours(1);
  Enrolment enrolment = Enrolment::make(expires, uses);
  JoinToken token;
  token.bootstraps.push_back({Endpoint{config_.listen.reachable_at(), hub_->listening().front().port}, self().key});
  token.publisher = config->publisher;
  token.channel = channel;
  token.enrolment = enrolment.id;
  token.secret = enrolment.secret;
  token.expires = expires;
  P2PW_TRY(std::string text, token.encode());
  P2PW_CHECK(enrolments_.add(std::move(enrolment), wall_now()));
  P2PW_CHECK(save_enrolments(config_.paths(), enrolments_));
  return text;
}

Result<wire::EnrolReply> Node::link_enrol(const Bytes& enrolment_id, const NodeKey& peer) {
  auto id = EnrolmentId::from(ByteView(enrolment_id));
  if (!id) return fail(ErrorCode::malformed, "an enrolment id has 8 bytes");
  P2PW_CHECK(enrolments_.use(*id, peer, wall_now()));
  P2PW_CHECK(save_enrolments(config_.paths(), enrolments_));
  wire::EnrolReply reply;
  for (const FleetSecret& secret : keeper_->all()) reply.add_secrets(secret.file());
  if (!config_.channels.empty()) {
    reply.set_publisher(config_.channels.front().publisher.line());
    reply.set_channel(config_.channels.front().name.str());
  }
  for (auto& entry : roster_->entries()) *reply.add_members() = std::move(entry);
  events_.add({}, "enrolled", {}, "node " + peer.hex(), peer.hex());
  return reply;
}

// Asks the token's bootstrap daemons in turn, until one lets us in or the token has expired.
void Node::enrol() {
  auto pending = load_pending_enrolment(config_.paths());
  if (!pending.ok()) return;
  const auto& ask = pending->bootstraps[enrol_attempts_++ % pending->bootstraps.size()];
  auto key = load_node_key(config_.paths());
  auto identity = key.ok() ? NodeIdentity::make(*key) : Result<NodeIdentity>(key.error());
  if (!identity.ok()) return;
  EnrolRequest request{.identity = std::move(*identity),
                       .endpoint = {ask.endpoint.host, ask.endpoint.port},
                       .expected = ask.node,
                       .id = pending->enrolment,
                       .secret = pending->secret};
  if (!config_.listen.wildcard()) request.bind_address = config_.listen.address;
  enrol_client_ = p2pw::enrol(io_, std::move(request), [this](Result<wire::EnrolReply> reply) { enrolled(std::move(reply)); });
}

void Node::enrolled(Result<wire::EnrolReply> reply) {
  if (!reply.ok()) {
    spdlog::warn("cannot enrol yet: {}", reply.error().message);
    enrol_again_ = steady_now() + std::chrono::seconds(1);
    return;
  }
  auto added = keeper_->add({reply->secrets().begin(), reply->secrets().end()});
  if (!added.ok()) {
    spdlog::error("cannot keep the fleet secret: {}", added.error().message);
    return;
  }
  hub_->set_fleet_secrets(keeper_->for_links());
  for (auto& [channel, follower] : followers_) follower->secrets_changed();
  drop_pending_enrolment(config_.paths());
  spdlog::info("enrolled in the fleet");
}

}  // namespace p2pw
