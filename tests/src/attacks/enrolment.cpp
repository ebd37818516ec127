// Tokens: guessed, damaged, used up, expired, used for something else.
#include "daemon/link/enrol_client.h"
#include "protocol/token.h"
#include "tests/src/attacks/stage.h"

namespace p2pw::attacks {
namespace {

using testing::HostilePeer;

Result<JoinToken> new_token(Stage& stage) {
  auto ran = stage.fleet().p2pw("trainer", {"token"});
  if (!ran.json.is_object() || !ran.json.contains("token")) return fail(ErrorCode::failed, "no token: " + ran.err);
  return JoinToken::parse(ran.json["token"].get<std::string>());
}

Result<wire::EnrolReply> ask(Stage& stage, const JoinToken& token, const SigningKey& as) {
  std::optional<Result<wire::EnrolReply>> answer;
  EnrolRequest request{.identity = NodeIdentity::make(as).value(),
                       .endpoint = {token.bootstraps[0].endpoint.host, token.bootstraps[0].endpoint.port},
                       .expected = token.bootstraps[0].node,
                       .id = token.enrolment,
                       .secret = token.secret};
  auto client = enrol(stage.io(), std::move(request), [&](Result<wire::EnrolReply> reply) { answer = std::move(reply); });
  if (!stage.until([&] { return answer.has_value(); }, 15)) return fail(ErrorCode::timed_out, "no answer");
  return std::move(*answer);
}

Outcome refused_with(const Result<wire::EnrolReply>& reply) {
  return reply.ok() ? Outcome{false, "it got " + std::to_string(reply->secrets_size()) + " secrets"}
                    : Outcome{true, "no secret: " + reply.error().message};
}

Outcome twice(Stage& stage) {
  auto token = new_token(stage);
  if (!token.ok()) return {false, token.error().message};
  if (auto first = ask(stage, *token, SigningKey::generate()); !first.ok()) return {false, "the first use failed: " + first.error().message};
  return refused_with(ask(stage, *token, SigningKey::generate()));
}

Outcome guessed(Stage& stage) {
  auto token = new_token(stage);
  if (!token.ok()) return {false, token.error().message};
  token->secret.data[0] ^= 1;
  return refused_with(ask(stage, *token, SigningKey::generate()));
}

Outcome unknown_id(Stage& stage) {
  auto token = new_token(stage);
  if (!token.ok()) return {false, token.error().message};
  token->enrolment.data[0] ^= 1;
  return refused_with(ask(stage, *token, SigningKey::generate()));
}

// The bearer dials somebody else than the token names: nothing of the secret is shown there.
Outcome impostor(Stage& stage) {
  auto token = new_token(stage);
  if (!token.ok()) return {false, token.error().message};
  HostilePeer impostor(stage.io());
  const LinkEndpoint at = impostor.accept(nullptr);
  token->bootstraps[0].endpoint = {at.host, at.port};
  auto reply = ask(stage, *token, SigningKey::generate());
  if (!impostor.frames.empty()) return {false, "the bearer proved its secret to another key"};
  Outcome outcome = refused_with(reply);
  outcome.effect = "the bearer said nothing to another key (" + outcome.effect + ")";
  return outcome;
}

// A token's proof on a control connection.
Outcome crossing(Stage& stage) {
  auto token = new_token(stage);
  if (!token.ok()) return {false, token.error().message};
  const FleetSecret fleet = stage.secret();
  HostilePeer peer(stage.io());
  peer.connect(stage.link_of("trainer"), [&] {
    auto offer = peer.offer(fleet, LinkPurpose::control);
    const ProofContext context{.side = LinkSide::initiator,
                               .purpose = LinkPurpose::control,
                               .initiator = peer.identity.key(),
                               .responder = peer.connection->tls().peer_key().value(),
                               .exporter = peer.connection->tls().exporter().value()};
    const LinkProof proof = enrolment_proof(token->secret.view(), context);
    offer.set_proof(proof.data(), proof.size());
    peer.say(offer.SerializeAsString());
  });
  const bool gone = stage.until([&] { return peer.gone; });
  return {gone && peer.frames.empty(), "another label and purpose: closed without an answer"};
}

Outcome damaged(Stage& stage) {
  auto ran = stage.fleet().p2pw("trainer", {"token"});
  std::string text = ran.json["token"];
  text[text.size() / 2] = text[text.size() / 2] == 'A' ? 'B' : 'A';
  auto token = JoinToken::parse(text);
  return {!token.ok(), token.ok() ? "accepted" : token.error().message};
}

}  // namespace

void add_enrolment(std::vector<Attack>& attacks) {
  attacks.insert(attacks.end(), {{"token: used by a second node", twice},
                                 {"token: a guessed secret", guessed},
                                 {"token: an id that was never given out", unknown_id},
                                 {"token: a daemon with another key than the token names", impostor},
                                 {"token: its proof on a control connection", crossing},
                                 {"token: one character changed", damaged}});
}

}  // namespace p2pw::attacks
