#include "daemon/link/hub_state.h"

#include <spdlog/spdlog.h>

#include <boost/asio/post.hpp>
#include <random>

#include "daemon/link/pairing.h"
#include "daemon/link/tcp_tools.h"

namespace p2pw {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

constexpr std::chrono::milliseconds kAcceptPause{100};
constexpr std::chrono::seconds kRefusalWindow{10};
constexpr std::uint64_t kRefusalsLogged = 20;  // a window
// A tick that comes this late means that this very process did not run; peers are not to blame for the silence.
constexpr std::chrono::seconds kOwnPause{2};

Dialer::Timing dialer_timing(const LinkHubOptions& options) {
  Dialer::Timing timing;
  boost::system::error_code wrong;
  const auto local = asio::ip::make_address(options.bind_address, wrong);
  if (!wrong) timing.local = local;
  timing.connect_timeout = options.timing.connect;
  timing.seed = std::random_device()();
  return timing;
}

}  // namespace

TlsLinkHub::Impl::Impl(asio::io_context& io, LinkHubOptions options, TlsContext tls, LinkHandler& handler)
    : io_(io),
      options_(std::move(options)),
      tls_(std::move(tls)),
      handler_(handler),
      trust_(options_.identity.key()),
      dialer_(io, dialer_timing(options_), *this),
      admission_(options_.admission),
      wan_(io),
      regional_(io),
      ticker_(io),
      wmem_max_(tcp_wmem_max()) {
  options_.hello.set_node(std::string(options_.identity.key().text()));
  trust_.set_secrets(std::move(options_.fleet_secrets));
  trust_.set_allow_list(std::move(options_.allow_list));
  trust_.set_enrolments(std::move(options_.enrolments));
  wan_.limit.set(options_.wan_rate_bits);
  regional_.limit.set(options_.regional_rate_bits);
}

TlsLinkHub::Impl::~Impl() {
  stopping_ = true;
  for (auto& attempt : attempts_) attempt->cancel();
}

// Accepting.

Status TlsLinkHub::Impl::listen() {
  for (const auto& endpoint : options_.listen) {
    boost::system::error_code error;
    const auto address = asio::ip::make_address(endpoint.host, error);
    tcp::acceptor acceptor(io_);
    const tcp::endpoint local(address, endpoint.port);
    if (!error) acceptor.open(local.protocol(), error);
    if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor.bind(local, error);
    if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
    if (error) {
      return fail(ErrorCode::io, "cannot listen for links on " + to_string(endpoint) + ": " + error.message());
    }
    listening_.push_back({endpoint.host, acceptor.local_endpoint(error).port()});
    acceptors_.push_back(std::move(acceptor));
  }
  return {};
}

void TlsLinkHub::Impl::run() {
  for (auto& acceptor : acceptors_) accept_next(acceptor);
  last_tick_ = std::chrono::steady_clock::now();
  tick();
}

void TlsLinkHub::Impl::accept_next(tcp::acceptor& acceptor) {
  acceptor.async_accept([this, weak = weak_from_this(), &acceptor](boost::system::error_code error, tcp::socket socket) {
    auto self = weak.lock();
    if (!self || stopping_) return;
    if (!error) {
      accepted(std::move(socket));
      return accept_next(acceptor);
    }
    spdlog::warn("links: cannot accept a connection: {}", error.message());  // out of descriptors, most likely
    auto timer = std::make_shared<asio::steady_timer>(io_, kAcceptPause);
    timer->async_wait([this, weak, timer, &acceptor](boost::system::error_code) {
      if (auto held = weak.lock(); held && !stopping_) accept_next(acceptor);
    });
  });
}

void TlsLinkHub::Impl::accepted(tcp::socket socket) {
  ++counters_.accepted;
  boost::system::error_code error;
  const std::string address = socket.remote_endpoint(error).address().to_string();
  if (error) return;
  if (!admission_.enter(address)) {
    ++counters_.turned_away;
    return note_refusal(address, fail(ErrorCode::busy, "too many connections that have not proven themselves"));
  }
  auto attempt = begin(std::move(socket), Handshake::respond(trust_, options_.hello));
  incoming_[attempt.get()] = address;
}

std::shared_ptr<Attempt> TlsLinkHub::Impl::begin(tcp::socket socket, Handshake handshake) {
  auto attempt = std::make_shared<Attempt>(std::move(socket), tls_, std::move(handshake), scratch_, *this);
  attempts_.insert(attempt);
  attempt->start(options_.timing.handshake);
  return attempt;
}

void TlsLinkHub::Impl::forget(const std::shared_ptr<Attempt>& attempt) {
  if (auto it = incoming_.find(attempt.get()); it != incoming_.end()) {
    admission_.leave(it->second);
    incoming_.erase(it);
  }
  if (auto it = stripe_attempts_.find(attempt.get()); it != stripe_attempts_.end()) {
    if (auto peer = peers_.find(it->second); peer != peers_.end()) --peer->second.stripes_proving;
    stripe_attempts_.erase(it);
  }
  attempts_.erase(attempt);
}

void TlsLinkHub::Impl::note_refusal(const std::string& who, const Error& reason) {
  const Time now = std::chrono::steady_clock::now();
  if (now - refusals_since_ > kRefusalWindow) {
    if (refusals_silent_ > 0) spdlog::warn("links: {} more refusals", refusals_silent_);
    refusals_since_ = now;
    refusals_logged_ = refusals_silent_ = 0;
  }
  if (++refusals_logged_ > kRefusalsLogged) {
    ++refusals_silent_;
  } else {
    spdlog::warn("links: refused a connection from {}: {}", who, reason.message);
  }
}

// Dialling.

void TlsLinkHub::Impl::dial_connected(const LinkEndpoint& target, const std::optional<NodeKey>& expected,
                                      std::size_t tries, tcp::socket socket) {
  auto attempt = begin(std::move(socket),
                       Handshake::initiate(trust_, options_.hello,
                                           {.purpose = LinkPurpose::control, .expected = expected, .attempt = tries, .ticket = {}}));
  attempt->target = target;
}

void TlsLinkHub::Impl::dial_failed(const LinkEndpoint& target, const Error& reason, bool first) {
  if (reason.code == ErrorCode::busy) return;  // linked some other way
  ++counters_.dials_failed;
  spdlog::log(first ? spdlog::level::warn : spdlog::level::debug, "links: dialling {}: {}", to_string(target),
              reason.message);
}

bool TlsLinkHub::Impl::offer_out(const NodeKey& peer) const {
  for (const auto& attempt : attempts_) {
    const Handshake& handshake = attempt->handshake();
    if (handshake.state() == Handshake::State::awaiting_answer && handshake.purpose() == LinkPurpose::control &&
        handshake.peer_key() == peer) {
      return true;
    }
  }
  return false;
}

Status TlsLinkHub::Impl::attempt_may_offer(Attempt& attempt) {
  const NodeKey peer = attempt.handshake().peer_key();
  if (attempt.handshake().purpose() == LinkPurpose::stripe) {
    if (link(peer) != nullptr) return {};
    return fail(ErrorCode::interrupted, "the link has ended");
  }
  if (attempt.target) dialer_.learned(*attempt.target, peer);
  // The attempt itself counts as an offer already: its handshake has made the message.
  std::size_t offers = 0;
  for (const auto& other : attempts_) {
    const Handshake& handshake = other->handshake();
    offers += handshake.state() == Handshake::State::awaiting_answer && handshake.purpose() == LinkPurpose::control &&
              handshake.peer_key() == peer;
  }
  if (link(peer) != nullptr || offers > 1) return fail(ErrorCode::busy, "linked with this node already");
  return {};
}

void TlsLinkHub::Impl::attempt_failed(const std::shared_ptr<Attempt>& attempt, const Error& reason) {
  const bool incoming = incoming_.contains(attempt.get());
  const bool stripe = stripe_attempts_.contains(attempt.get());
  const NodeKey peer = attempt->handshake().peer_key();
  const std::string address = attempt->connection().remote_address();
  forget(attempt);
  if (incoming && reason.code == ErrorCode::io) {
    ++counters_.abandoned;
    spdlog::debug("links: a connection from {} ended unproven: {}", address, reason.message);
  } else if (incoming) {
    ++counters_.refused;
    ++counters_.refused_by_code[std::string(name_of(reason.code))];
    note_refusal(address, reason);
  } else if (stripe) {
    stripe_failed(peer, reason);
  } else if (attempt->target) {
    dialer_.attempt_over(*attempt->target, reason);
  }
  reconsider(peer);
}

void TlsLinkHub::Impl::stop_attempts(const NodeKey& peer) {
  std::vector<std::shared_ptr<Attempt>> stopped;
  for (const auto& attempt : attempts_) {
    if (attempt->handshake().peer_key() == peer) stopped.push_back(attempt);
  }
  for (const auto& attempt : stopped) {
    attempt->cancel();
    forget(attempt);
  }
}

// Peers that have proven themselves.

void TlsLinkHub::Impl::attempt_decide(const std::shared_ptr<Attempt>& attempt) {
  switch (attempt->handshake().purpose()) {
    case LinkPurpose::control:
      return decide_control(attempt);
    case LinkPurpose::stripe:
      return decide_stripe(attempt);
    case LinkPurpose::enrol:
      return decide_enrol(attempt);
  }
}

void TlsLinkHub::Impl::decide_control(const std::shared_ptr<Attempt>& attempt) {
  const NodeKey peer = attempt->handshake().peer_key();
  const Link* standing = link(peer);
  PairSituation now{.own_key_is_smaller = trust_.own_key() < peer, .offer_out = offer_out(peer)};
  if (standing != nullptr) {
    now.linked = true;
    now.linked_by_us = standing->dialled().has_value();
    now.silent_for = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                                           standing->last_heard());
  }
  switch (judge_offer(now)) {
    case PairVerdict::park:
      return;
    case PairVerdict::refuse:
      attempt->cancel();
      return forget(attempt);
    case PairVerdict::replace:
      remove_link(peer, fail(ErrorCode::interrupted, "node " + peer.short_hex() + " has opened a new link"));
      break;
    case PairVerdict::accept:
      break;
  }
  if (attempt->answer()) link_up(attempt);
}

void TlsLinkHub::Impl::reconsider(const NodeKey& peer) {
  std::vector<std::shared_ptr<Attempt>> parked;
  for (const auto& attempt : attempts_) {
    const Handshake& handshake = attempt->handshake();
    if (handshake.state() == Handshake::State::deciding && handshake.purpose() == LinkPurpose::control &&
        handshake.peer_key() == peer) {
      parked.push_back(attempt);
    }
  }
  for (const auto& attempt : parked) {
    if (attempts_.contains(attempt)) decide_control(attempt);
  }
}

void TlsLinkHub::Impl::decide_stripe(const std::shared_ptr<Attempt>& attempt) {
  const NodeKey peer = attempt->handshake().peer_key();
  const Link* standing = link(peer);
  if (standing == nullptr || standing->stripe_count() >= kMaxStripes) {
    attempt->cancel();
    ++counters_.refused;
    note_refusal("node " + peer.short_hex(), fail(ErrorCode::untrusted, standing == nullptr
                                                                           ? "a stripe without a control connection"
                                                                           : "too many stripes"));
    return forget(attempt);
  }
  if (attempt->answer()) stripe_up(attempt);
}

void TlsLinkHub::Impl::decide_enrol(const std::shared_ptr<Attempt>& attempt) {
  const ProvenPeer peer = attempt->handshake().peer();
  if (!attempt->answer()) return;
  auto connection = attempt->release();
  forget(attempt);
  const EnrolmentId& id = peer.enrolment_id();
  wire::LinkMessage message;
  auto reply = handler_.link_enrol(Bytes(id.view().begin(), id.view().end()), peer.key());
  if (reply) {
    *message.mutable_enrol_reply() = std::move(*reply);
    spdlog::info("links: node {} has enrolled with token {}", peer.key().short_hex(), id.hex());
  } else {
    message.mutable_goodbye()->set_reason(reply.error().message);
    note_refusal("node " + peer.key().short_hex(), reply.error());
  }
  auto head = frame_head(message, 0);
  if (!head) spdlog::error("links: the answer to an enrolment is too large: {}", head.error().message);
  // The answer to the handshake may still be queued, and goes first.
  connection->finish(head ? std::optional(Outgoing{.head = std::move(*head)}) : std::nullopt, Connection::Queued::send);
}

void TlsLinkHub::Impl::attempt_proven(const std::shared_ptr<Attempt>& attempt) {
  const NodeKey peer = attempt->handshake().peer_key();
  if (attempt->handshake().purpose() == LinkPurpose::stripe) {
    if (link(peer) != nullptr) return stripe_up(attempt);
  } else if (link(peer) == nullptr) {
    return link_up(attempt);
  }
  attempt->cancel();
  forget(attempt);
  if (attempt->target) dialer_.attempt_over(*attempt->target, fail(ErrorCode::busy, "linked with this node already"));
}

void TlsLinkHub::Impl::link_up(const std::shared_ptr<Attempt>& attempt) {
  const ProvenPeer peer = attempt->handshake().peer();
  const bool ours = attempt->handshake().side() == LinkSide::initiator;
  const auto dialled = ours ? attempt->target : std::nullopt;
  auto connection = attempt->release();
  forget(attempt);
  Peer& entry = peers_[peer.key()];
  entry.link = std::make_unique<Link>(peer, std::move(connection), dialled, tuning_for(peer.hello()), entry.totals, *this);
  entry.stripe_backoff.reset();
  entry.next_stripe = {};
  ++counters_.links_up;
  spdlog::info("links: up with node {} ({}, region {}), {}", peer.key().short_hex(), peer.hello().name(),
               peer.hello().region(), dialled ? "dialled at " + to_string(*dialled) : std::string("which dialled"));
  entry.link->begin();
  dialer_.link_up(peer.key());
  std::vector<std::shared_ptr<Attempt>> others;  // ours that lost, and offers that waited for this
  for (const auto& other : attempts_) {
    if (other->handshake().peer_key() == peer.key() && other->handshake().purpose() == LinkPurpose::control) {
      others.push_back(other);
    }
  }
  for (const auto& other : others) {
    other->cancel();
    forget(other);
    if (other->target) dialer_.attempt_over(*other->target, fail(ErrorCode::busy, "linked with this node already"));
  }
  emit([this, key = peer.key(), hello = peer.hello()] { handler_.link_up(key, hello); });
  open_stripes(peer.key());
}

// Stripes.

void TlsLinkHub::Impl::open_stripes(const NodeKey& peer) {
  const Link* standing = link(peer);
  if (standing == nullptr || !standing->dialled()) return;
  Peer& entry = peers_[peer];
  const Time now = std::chrono::steady_clock::now();
  if (now < entry.next_stripe) return;
  const std::size_t wanted = standing->stripes_wanted();
  while (standing->stripe_count() + entry.stripe_dials.size() + entry.stripes_proving < wanted) {
    dial_stripe(peer, entry);
  }
}

void TlsLinkHub::Impl::dial_stripe(const NodeKey& peer, Peer& entry) {
  const std::uint64_t id = ++next_dial_;
  const auto timing = dialer_timing(options_);
  entry.stripe_dials[id] = connect_to(
      io_, *entry.link->dialled(), timing.local, timing.connect_timeout,
      [this, peer, id](Result<tcp::socket> socket) {
        Peer& dialling = peers_[peer];
        auto handle = std::move(dialling.stripe_dials[id]);  // outlives this call
        dialling.stripe_dials.erase(id);
        if (!socket) return stripe_failed(peer, socket.error());
        if (!dialling.link) return;
        auto attempt = begin(std::move(socket).value(),
                             Handshake::initiate(trust_, options_.hello,
                                                 {.purpose = LinkPurpose::stripe, .expected = peer, .attempt = 0, .ticket = {}}));
        stripe_attempts_[attempt.get()] = peer;
        ++dialling.stripes_proving;
      });
}

void TlsLinkHub::Impl::stripe_failed(const NodeKey& peer, const Error& reason) {
  Peer& entry = peers_[peer];
  static thread_local std::minstd_rand jitter{std::random_device()()};
  entry.next_stripe = std::chrono::steady_clock::now() + entry.stripe_backoff.next(jitter);
  spdlog::debug("links: a stripe to node {} did not come up: {}", peer.short_hex(), reason.message);
}

void TlsLinkHub::Impl::stripe_up(const std::shared_ptr<Attempt>& attempt) {
  const NodeKey peer = attempt->handshake().peer_key();
  auto connection = attempt->release();
  forget(attempt);
  peers_[peer].stripe_backoff.reset();
  link(peer)->add_stripe(std::move(connection));
}

LinkTuning TlsLinkHub::Impl::tuning_for(const wire::Hello& peer) const {
  const bool wan = peer.region() != options_.hello.region();
  return LinkTuning{.stripes = wan ? options_.stripes : options_.regional_stripes,
                    .congestion = options_.congestion,
                    .stripe_unsent = options_.stripe_unsent_bytes,
                    .control_unsent = options_.control_unsent_bytes,
                    .wmem_max = wmem_max_,
                    .max_control_queue = options_.max_control_queue,
                    .max_stripe_queue = options_.max_stripe_queue};
}

// Standing links.

Link* TlsLinkHub::Impl::link(const NodeKey& peer) const {
  auto it = peers_.find(peer);
  return it == peers_.end() ? nullptr : it->second.link.get();
}

void TlsLinkHub::Impl::remove_link(const NodeKey& peer, const Error& reason) {
  auto it = peers_.find(peer);
  if (it == peers_.end() || !it->second.link) return;
  // Its own methods may be on the stack.
  std::shared_ptr<Link> ended = std::move(it->second.link);
  ended->close();
  it->second.stripe_dials.clear();
  asio::post(io_, [keep = shared_from_this(), ended] {});
  ++counters_.links_down;
  spdlog::info("links: down with node {}: {}", peer.short_hex(), reason.message);
  dialer_.link_down(peer, std::chrono::steady_clock::now() - ended->since());
  emit([this, peer, reason] { handler_.link_down(peer, reason); });
}

void TlsLinkHub::Impl::end_link(const NodeKey& peer, const std::string& goodbye, const Error& reason) {
  Link* standing = link(peer);
  if (standing == nullptr) return;
  standing->say_goodbye(goodbye);
  remove_link(peer, reason);
}

void TlsLinkHub::Impl::recheck_links(const std::function<Status(const Link&)>& allowed) {
  std::vector<std::pair<NodeKey, Error>> refused;
  for (const auto& [key, peer] : peers_) {
    if (!peer.link) continue;
    if (auto status = allowed(*peer.link); !status) refused.emplace_back(key, status.error());
  }
  for (const auto& [key, reason] : refused) end_link(key, reason.message, reason);
}

void TlsLinkHub::Impl::link_said(Link& link, const wire::LinkMessage& message, Bytes payload) {
  drain();
  handler_.link_message(link.peer(), message, std::move(payload));
}

void TlsLinkHub::Impl::link_broken(Link& link, const Error& reason) {
  if (reason.code == ErrorCode::malformed || reason.code == ErrorCode::limit) ++counters_.links_broken_by_peer;
  remove_link(link.peer(), reason);
}

std::size_t TlsLinkHub::Impl::link_allowance(Link& link) {
  LinkClass& of = class_of(link);
  if (!of.limit.limited()) return Connection::kBatchBytes;
  const std::int64_t allowed = of.limit.allowed(std::chrono::steady_clock::now());
  if (allowed >= static_cast<std::int64_t>(LinkScratch::kRecordBytes)) return static_cast<std::size_t>(allowed);
  if (!std::exchange(of.waiting, true)) {
    of.timer.expires_after(of.limit.pause());
    of.timer.async_wait([this, &of, weak = weak_from_this()](boost::system::error_code error) {
      auto self = weak.lock();
      if (!self) return;
      of.waiting = false;
      if (!error) wake_class(of);
    });
  }
  return 0;
}

void TlsLinkHub::Impl::link_spent(Link& link, std::uint64_t payload) { class_of(link).limit.spend(payload); }

void TlsLinkHub::Impl::wake_class(LinkClass& of) {
  std::vector<Link*> members;
  for (auto& [key, peer] : peers_) {
    if (peer.link && &class_of(*peer.link) == &of) members.push_back(peer.link.get());
  }
  ++of.turn;  // whoever is woken first may take all there is
  for (std::size_t i = 0; i < members.size(); ++i) members[(of.turn + i) % members.size()]->wake_stripes();
}

void TlsLinkHub::Impl::set_wan_rate(std::uint64_t bits) {
  wan_.limit.set(bits);
  wan_.timer.cancel();
  wake_class(wan_);
}

// Time.

void TlsLinkHub::Impl::tick() {
  const Time now = std::chrono::steady_clock::now();
  beat(now);
  last_tick_ = now;
  ticker_.expires_after(options_.timing.heartbeat);
  ticker_.async_wait([this, weak = weak_from_this()](boost::system::error_code error) {
    auto self = weak.lock();
    if (self && !error && !stopping_) tick();
  });
}

void TlsLinkHub::Impl::beat(Time now) {
  const bool paused = now - last_tick_ > options_.timing.heartbeat + kOwnPause;
  std::vector<NodeKey> keys;
  for (const auto& [key, peer] : peers_) {
    if (peer.link) keys.push_back(key);
  }
  for (const NodeKey& key : keys) {
    Link* standing = link(key);
    if (standing == nullptr) continue;
    if (paused) standing->forgive_silence(now);
    if (now - standing->last_heard() >= options_.timing.silence) {
      remove_link(key, fail(ErrorCode::timed_out, "nothing heard from node " + key.short_hex() + " for " +
                                                      std::to_string(options_.timing.silence.count()) + " ms"));
      continue;
    }
    standing->tick(now);
    open_stripes(key);
  }
}

void TlsLinkHub::Impl::shutdown(const std::string& reason) {
  stopping_ = true;
  boost::system::error_code ignored;
  for (auto& acceptor : acceptors_) acceptor.close(ignored);
  ticker_.cancel();
  for (auto& attempt : attempts_) attempt->cancel();
  attempts_.clear();
  std::vector<NodeKey> keys;
  for (const auto& [key, peer] : peers_) keys.push_back(key);
  for (const NodeKey& key : keys) {
    dialer_.undial(key);
    end_link(key, reason, fail(ErrorCode::interrupted, "this daemon stops: " + reason));
  }
}

// Events for the handler, in order.

void TlsLinkHub::Impl::emit(std::function<void()> event) {
  events_.push_back(std::move(event));
  if (api_depth_ == 0) drain();
}

void TlsLinkHub::Impl::drain() {
  if (draining_) return;
  draining_ = true;
  while (!events_.empty()) {
    auto event = std::move(events_.front());
    events_.pop_front();
    event();
  }
  draining_ = false;
}

void TlsLinkHub::Impl::post_drain() {
  asio::post(io_, [this, weak = weak_from_this()] {
    if (auto self = weak.lock()) drain();
  });
}

}  // namespace p2pw
