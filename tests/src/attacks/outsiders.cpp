// Strangers on the link port: no key, no secret, no token.
#include <openssl/ssl.h>

#include <boost/asio/write.hpp>

#include "tests/src/attacks/stage.h"

namespace p2pw::attacks {
namespace {

using boost::asio::ip::tcp;
using testing::HostilePeer;

tcp::socket knock(Stage& stage, const std::string& victim) {
  const LinkEndpoint at = stage.link_of(victim);
  tcp::socket socket(stage.io());
  socket.connect({boost::asio::ip::make_address(at.host), at.port});
  return socket;
}

// Until the daemon closes it; how many bytes it said before.
bool closed(Stage& stage, tcp::socket& socket, std::size_t& heard, int seconds = 10) {
  bool gone = false;
  char sink[4096];
  std::function<void()> read = [&] {
    socket.async_read_some(boost::asio::buffer(sink), [&](boost::system::error_code error, std::size_t count) {
      heard += count;
      if (error) {
        gone = true;
      } else {
        read();
      }
    });
  };
  read();
  const bool done = stage.until([&] { return gone; }, seconds);
  socket.close();
  stage.pump(1);
  return done;
}

Outcome garbage(Stage& stage) {
  auto socket = knock(stage, "r1-1");
  boost::asio::write(socket, boost::asio::buffer(std::string("GET / HTTP/1.1\r\nHost: x\r\n\r\n")));
  std::size_t heard = 0;
  const bool gone = closed(stage, socket, heard);
  return {gone && heard < 64, "closed after " + std::to_string(heard) + " bytes (a TLS alert)"};
}

Outcome silence(Stage& stage) {
  auto socket = knock(stage, "r1-1");
  const auto start = std::chrono::steady_clock::now();
  std::size_t heard = 0;
  const bool gone = closed(stage, socket, heard, 15);
  const auto waited = std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - start);
  return {gone && heard == 0, "closed without a byte after " + std::to_string(waited.count()) + " s"};
}

Outcome trickle(Stage& stage) {
  auto socket = knock(stage, "r1-1");
  const auto start = std::chrono::steady_clock::now();
  boost::system::error_code error;
  std::size_t sent = 0;
  const std::string hello = std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) + std::string(500, 'a');
  while (!error && sent < hello.size() && std::chrono::steady_clock::now() - start < std::chrono::seconds(15)) {
    boost::asio::write(socket, boost::asio::buffer(&hello[sent++], 1), error);
    stage.pump(100);
    if (!error) {
      socket.non_blocking(true);
      char byte;
      socket.read_some(boost::asio::buffer(&byte, 1), error);
      if (error == boost::asio::error::would_block) error.clear();
      socket.non_blocking(false);
    }
  }
  return {static_cast<bool>(error), "cut off after " + std::to_string(sent) + " bytes, one each 0.1 s"};
}

Outcome flood(Stage& stage) {
  const std::size_t before = stage.descriptors("r1-1");
  std::vector<tcp::socket> sockets;
  std::size_t most = 0;
  for (int i = 0; i < 300; ++i) {
    sockets.push_back(knock(stage, "r1-1"));
    if (i % 50 == 49) most = std::max(most, stage.descriptors("r1-1"));
  }
  std::string why;
  const bool well = stage.healthy(why);
  sockets.clear();
  stage.until([&] { return stage.descriptors("r1-1") <= before + 2; }, 15);
  const std::size_t after = stage.descriptors("r1-1");
  return {well && most <= before + 70 && after <= before + 2,
          "300 connections of one address held " + std::to_string(most - before) + " descriptors, " +
              std::to_string(after > before ? after - before : 0) + " afterwards; the fleet went on"};
}

// A plain OpenSSL client; whether its handshake came to an end, and in which version.
Outcome raw_tls(Stage& stage, SSL_CTX* ctx, bool may_finish_tls) {
  auto socket = knock(stage, "r1-1");
  testing::RawTls client(socket, ctx);
  const bool gone = stage.until([&] { return client.closed(); }, 15);
  socket.close();
  stage.pump(1);
  const bool finished = SSL_is_init_finished(client.ssl());
  return {gone && client.plain() == 0 && (may_finish_tls || !finished), "connection closed, no byte of plaintext came"};
}

using Context = std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)>;
Context client() { return {SSL_CTX_new(TLS_client_method()), SSL_CTX_free}; }

Outcome downgrade(Stage& stage) {
  Context ctx = client();
  SSL_CTX_set_max_proto_version(ctx.get(), TLS1_2_VERSION);
  Outcome outcome = raw_tls(stage, ctx.get(), false);
  outcome.effect = "TLS 1.2 is not spoken: " + outcome.effect;
  return outcome;
}

Outcome no_certificate(Stage& stage) {
  Context ctx = client();
  return raw_tls(stage, ctx.get(), true);  // the client believes it is done before the daemon looks
}

Outcome weak_certificate(Stage& stage) {
  Context ctx = client();
  std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  std::unique_ptr<X509, void (*)(X509*)> certificate(X509_new(), X509_free);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), 0);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
  X509_set_pubkey(certificate.get(), key.get());
  X509_sign(certificate.get(), key.get(), EVP_sha256());
  SSL_CTX_use_certificate(ctx.get(), certificate.get());
  SSL_CTX_use_PrivateKey(ctx.get(), key.get());
  return raw_tls(stage, ctx.get(), true);
}

Outcome after_tls(Stage& stage, const std::function<void(HostilePeer&)>& act) {
  HostilePeer peer(stage.io());
  peer.connect(stage.link_of("r1-1"), [&] { act(peer); });
  const bool gone = stage.until([&] { return peer.gone; });
  return {gone && peer.frames.empty(), "closed without an answer"};
}

Outcome guessed_secret(Stage& stage) {
  const FleetSecret wrong = FleetSecret::generate();
  const FleetSecret right = stage.secret();
  return after_tls(stage, [&](HostilePeer& peer) {
    auto offer = peer.offer(wrong, LinkPurpose::control);
    offer.set_secret_id(std::string(right.id().text()));  // the id is no secret; the proof is
    peer.say(offer.SerializeAsString());
  });
}

Outcome messages_first(Stage& stage) {
  return after_tls(stage, [](HostilePeer& peer) {
    wire::LinkMessage message;
    message.mutable_records_wanted()->set_channel("policy");
    peer.say(message.SerializeAsString());
  });
}

Outcome long_first(Stage& stage) {
  return after_tls(stage, [](HostilePeer& peer) { peer.say_raw(HostilePeer::prefix(100'000, 0)); });
}

Outcome payload_first(Stage& stage) {
  return after_tls(stage, [](HostilePeer& peer) { peer.say_raw(HostilePeer::prefix(10, 1 << 20)); });
}

// What the initiator of one session said is said again in another one.
Outcome replay(Stage& stage) {
  const FleetSecret secret = stage.secret();
  std::string recorded;
  HostilePeer peer(stage.io());
  peer.connect(stage.link_of("r1-1"), [&] {
    recorded = peer.offer(secret, LinkPurpose::control).SerializeAsString();
    peer.connection->close();
  });
  stage.until([&] { return !recorded.empty(); });
  HostilePeer again(stage.io(), peer.identity);  // even with the same key
  again.connect(stage.link_of("r1-1"), [&] { again.say(recorded); });
  const bool gone = stage.until([&] { return again.gone; });
  return {gone && again.frames.empty(), "a proof is bound to its TLS session by the exporter: closed without an answer"};
}

// Links of a member of the fleet, in this process.
void start_victim(Stage& stage, testing::TestNode& victim) {
  LinkHubOptions options{.identity = std::move(NodeIdentity::make(victim.signing)).value()};
  options.hello.set_region("r1");
  options.listen = {{"127.0.0.1", 0}};
  options.fleet_secrets.push_back(stage.secret());
  victim.hub = TlsLinkHub::start(stage.io(), std::move(options), victim.handler).value();
}

// Passes a proof made for the session with us on to a daemon, in a session of our own with it: a man in the middle. The one
// who dials is a daemon that was not told which key to expect.
Outcome misbinding(Stage& stage) {
  testing::TestNode victim;
  start_victim(stage, victim);
  HostilePeer towards_victim(stage.io()), towards_daemon(stage.io(), towards_victim.identity);
  std::string offer;
  towards_victim.on_frame = [&](const Frame& frame) {
    offer = std::string(as_text(frame.header));
    towards_daemon.connect(stage.link_of("r1-1"), [&] { towards_daemon.say(offer); });
  };
  towards_daemon.on_frame = [&](const Frame& frame) { towards_victim.say(std::string(as_text(frame.header))); };
  victim.hub->dial(towards_victim.accept(nullptr), std::nullopt);
  const bool gone = stage.until([&] { return towards_daemon.gone; });
  const bool ok = gone && !offer.empty() && towards_daemon.frames.empty() && victim.handler.ups == 0;
  victim.hub.reset();
  return {ok, "the passed-on proof names other keys and another exporter value: refused, no link on either side"};
}

Outcome reflection(Stage& stage) {
  testing::TestNode victim;
  start_victim(stage, victim);
  HostilePeer mirror(stage.io());
  mirror.on_frame = [&](const Frame& frame) { mirror.say(std::string(as_text(frame.header))); };
  victim.hub->dial(mirror.accept(nullptr), std::nullopt);
  const bool failed = stage.until([&] { return victim.hub->counters().dials_failed > 0; });
  const bool ok = failed && victim.handler.ups == 0;
  victim.hub.reset();
  return {ok, "the prover's side is in the proof: its own proof sent back does not open a link"};
}

// Unknown key share: a member says that it is somebody else, so that the daemon believes it talks to that one.
Outcome other_identity(Stage& stage) {
  const FleetSecret secret = stage.secret();
  const NodeKey other = stage.key_of("r1-2");
  return after_tls(stage, [&](HostilePeer& peer) {
    auto offer = peer.offer(secret, LinkPurpose::control);
    offer.mutable_hello()->set_node(std::string(other.text()));
    peer.say(offer.SerializeAsString());
  });
}

// The same one layer below: a certificate with another node's public key, and a proof made for that key.
Outcome other_key_in_proof(Stage& stage) {
  const FleetSecret secret = stage.secret();
  const NodeKey other = stage.key_of("r1-2");
  return after_tls(stage, [&](HostilePeer& peer) {
    auto offer = peer.offer(secret, LinkPurpose::control);
    const ProofContext context{.side = LinkSide::initiator,
                               .purpose = LinkPurpose::control,
                               .initiator = other,
                               .responder = peer.connection->tls().peer_key().value(),
                               .exporter = peer.connection->tls().exporter().value()};
    const LinkProof proof = fleet_proof(secret, context);
    offer.set_proof(proof.data(), proof.size());
    offer.mutable_hello()->set_node(std::string(other.text()));
    peer.say(offer.SerializeAsString());
  });
}

Outcome other_protocol(Stage& stage) {
  const FleetSecret secret = stage.secret();
  return after_tls(stage, [&](HostilePeer& peer) {
    auto offer = peer.offer(secret, LinkPurpose::control);
    offer.set_protocol(0);
    peer.say(offer.SerializeAsString());
  });
}

}  // namespace

void add_outsiders(std::vector<Attack>& attacks) {
  attacks.insert(attacks.end(), {{"link: HTTP instead of TLS", garbage},
                                 {"link: a connection that stays silent", silence},
                                 {"link: a handshake one byte at a time", trickle},
                                 {"link: 300 connections of one address", flood},
                                 {"link: downgrade to TLS 1.2", downgrade},
                                 {"link: no certificate", no_certificate},
                                 {"link: a certificate of another kind", weak_certificate},
                                 {"link: a proof under a guessed secret", guessed_secret},
                                 {"link: messages before the proof", messages_first},
                                 {"link: a first message of 100 kB", long_first},
                                 {"link: a payload before the proof", payload_first},
                                 {"link: an older protocol number", other_protocol},
                                 {"link: replay of a proof", replay},
                                 {"link: reflection of a proof", reflection},
                                 {"link: misbinding by a man in the middle", misbinding},
                                 {"link: identity of another node in the introduction", other_identity},
                                 {"link: unknown key share, a proof for another node's key", other_key_in_proof}});
}

}  // namespace p2pw::attacks
