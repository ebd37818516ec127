#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <boost/asio/post.hpp>

#include "daemon/link/hub_state.h"
#include "daemon/link/tcp_tools.h"

namespace p2pw {
namespace {

namespace asio = boost::asio;

// A tick that comes this late means that this very process did not run; peers are not to blame for the
// silence.
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

// Three quarters of the descriptors that this process may have.
std::size_t default_max_connections() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return 1u << 16;
  return static_cast<std::size_t>(limit.rlim_cur) / 4 * 3;
}

}  // namespace

TlsLinkHub::Impl::Impl(asio::io_context& io, LinkHubOptions options, TlsContext tls, LinkHandler& handler)
    : io_(io),
      options_(std::move(options)),
      tls_(std::move(tls)),
      handler_(handler),
      trust_(options_.identity.key()),
      dialer_(io, dialer_timing(options_), *this),
      listener_(io, [this](asio::ip::tcp::socket socket) { accepted(std::move(socket)); }),
      events_(io),
      wan_(io, [this](std::size_t turn) { wake_class(true, turn); }),
      regional_(io, [this](std::size_t turn) { wake_class(false, turn); }),
      timing_(dialer_timing(options_)),
      admission_(options_.admission),
      ticker_(io),
      random_(timing_.seed),
      wmem_max_(tcp_wmem_max()) {
  if (options_.max_connections == 0) options_.max_connections = default_max_connections();
  scratch_->max_held = options_.max_unfinished;
  options_.hello.set_node(std::string(options_.identity.key().text()));
  trust_.set_secrets(std::move(options_.fleet_secrets));
  trust_.set_allow_list(std::move(options_.allow_list));
  trust_.set_enrolments(std::move(options_.enrolments));
  wan_.set(options_.wan_rate_bits);
  regional_.set(options_.regional_rate_bits);
}

TlsLinkHub::Impl::~Impl() {
  for (auto& [age, entry] : pending_) entry.attempt->cancel();
}

Status TlsLinkHub::Impl::start() {
  P2PW_CHECK(listener_.listen(options_.listen));
  last_tick_ = std::chrono::steady_clock::now();
  tick();
  return {};
}

// Links.

Link* TlsLinkHub::Impl::link(const NodeKey& peer) const {
  auto it = peers_.find(peer);
  return it == peers_.end() ? nullptr : it->second.link.get();
}

std::vector<NodeKey> TlsLinkHub::Impl::linked_peers() const {
  std::vector<NodeKey> keys;
  for (const auto& [key, peer] : peers_) {
    if (peer.link) keys.push_back(key);
  }
  return keys;
}

std::size_t TlsLinkHub::Impl::connection_count() const {
  std::size_t count = pending_.size();
  for (const auto& [key, peer] : peers_) {
    count += peer.stripe_dials.size();
    if (peer.link) count += 1 + peer.link->stripe_count();
  }
  return count;
}

void TlsLinkHub::Impl::remove_link(const NodeKey& peer, const Error& reason) {
  auto it = peers_.find(peer);
  if (it == peers_.end() || !it->second.link) return;
  std::shared_ptr<Link> ended = std::move(it->second.link);
  ended->close();
  it->second.stripe_dials.clear();
  asio::post(io_, alive_.guard([ended] {}));  // its own methods may be on the stack now
  ++counters_.links_down;
  spdlog::info("links: down with node {}: {}", peer.short_hex(), reason.message);
  dialer_.link_down(peer, std::chrono::steady_clock::now() - ended->since());
  events_.add([this, peer, reason] { handler_.link_down(peer, reason); });
}

void TlsLinkHub::Impl::end_link(const NodeKey& peer, const std::string& goodbye, const Error& reason) {
  Link* standing = link(peer);
  if (standing == nullptr) return;
  standing->say_goodbye(goodbye);
  remove_link(peer, reason);
}

void TlsLinkHub::Impl::recheck_links(const std::function<Status(const Link&)>& allowed) {
  for (const NodeKey& key : linked_peers()) {
    if (auto status = allowed(*link(key)); !status) end_link(key, status.error().message, status.error());
  }
}

void TlsLinkHub::Impl::link_said(Link& link, const wire::LinkMessage& message, Bytes payload) {
  events_.drain();
  handler_.link_message(link.peer(), message, std::move(payload));
}

void TlsLinkHub::Impl::link_broken(Link& link, const Error& reason) {
  if (reason.code == ErrorCode::malformed || reason.code == ErrorCode::limit)
    ++counters_.links_broken_by_peer;
  remove_link(link.peer(), reason);
}

// Whoever makes us hold the most of messages that do not end has to go.
void TlsLinkHub::Impl::links_hold_too_much() {
  Link* worst = nullptr;
  for (const auto& [key, peer] : peers_) {
    if (peer.link && (worst == nullptr || peer.link->held() > worst->held())) worst = peer.link.get();
  }
  if (worst == nullptr) return;
  ++counters_.links_broken_by_peer;
  remove_link(worst->peer(), fail(ErrorCode::limit, "node " + worst->peer().short_hex() + " keeps " +
                                                        std::to_string(worst->held()) +
                                                        " bytes of unfinished messages waiting"));
}

void TlsLinkHub::Impl::wake_class(bool wan, std::size_t turn) {
  std::vector<Link*> members;
  for (auto& [key, peer] : peers_) {
    if (peer.link && is_wan(peer.link->hello()) == wan) members.push_back(peer.link.get());
  }
  // Whoever is woken first may take all there is.
  for (std::size_t i = 0; i < members.size(); ++i) members[(turn + i) % members.size()]->wake_stripes();
}

LinkTuning TlsLinkHub::Impl::tuning_for(const wire::Hello& peer) const {
  return LinkTuning{.stripes = is_wan(peer) ? options_.stripes : options_.regional_stripes,
                    .congestion = options_.congestion,
                    .stripe_unsent = options_.stripe_unsent_bytes,
                    .control_unsent = options_.control_unsent_bytes,
                    .wmem_max = wmem_max_,
                    // Where somebody bounds what goes out, nothing goes that is not needed. A trainer takes no chunks.
                    .warm_up = is_wan(peer) && !peer.trainer() && options_.wan_rate_bits == 0,
                    .max_control_queue = options_.max_control_queue,
                    .max_stripe_queue = options_.max_stripe_queue};
}

// Stripes: whoever dialled the link opens them.

void TlsLinkHub::Impl::open_stripes(const NodeKey& peer) {
  const Link* standing = link(peer);
  if (standing == nullptr || !standing->dialled() || stopping_) return;
  Peer& entry = peers_[peer];
  if (std::chrono::steady_clock::now() < entry.next_stripe) return;
  const std::size_t wanted = standing->stripes_wanted();
  while (standing->stripe_count() + entry.stripe_dials.size() + entry.stripes_proving < wanted) {
    if (connection_count() >= options_.max_connections) return;
    dial_stripe(peer, entry);
  }
}

void TlsLinkHub::Impl::dial_stripe(const NodeKey& peer, Peer& entry) {
  const std::uint64_t dial = ++count_;
  entry.stripe_dials[dial] = connect_to(io_, *entry.link->dialled(), timing_.local, timing_.connect_timeout,
                                        [this, peer, dial](Result<asio::ip::tcp::socket> socket) {
                                          stripe_connected(peer, dial, std::move(socket));
                                        });
}

void TlsLinkHub::Impl::stripe_connected(const NodeKey& peer, std::uint64_t dial,
                                        Result<asio::ip::tcp::socket> socket) {
  Peer& entry = peers_[peer];
  const auto handle = std::move(entry.stripe_dials[dial]);  // this is called from within it
  entry.stripe_dials.erase(dial);
  if (!socket) return stripe_failed(peer, socket.error());
  if (!entry.link) return;
  Pending& begun = begin(
      std::move(socket).value(),
      Handshake::initiate(trust_, options_.hello,
                          {.purpose = LinkPurpose::stripe, .expected = peer, .attempt = 0, .ticket = {}}));
  begun.stripe_of = peer;
  ++entry.stripes_proving;
}

void TlsLinkHub::Impl::stripe_failed(const NodeKey& peer, const Error& reason) {
  Peer& entry = peers_[peer];
  entry.next_stripe = std::chrono::steady_clock::now() + entry.stripe_backoff.next(random_);
  spdlog::debug("links: a stripe to node {} did not come up: {}", peer.short_hex(), reason.message);
}

void TlsLinkHub::Impl::stripe_up(const std::shared_ptr<Attempt>& attempt) {
  const NodeKey peer = attempt->handshake().peer_key();
  auto connection = attempt->release();
  forget(attempt);
  peers_[peer].stripe_backoff.reset();
  link(peer)->add_stripe(std::move(connection));
}

// Time.

void TlsLinkHub::Impl::tick() {
  const Time now = std::chrono::steady_clock::now();
  beat(now);
  last_tick_ = now;
  ticker_.expires_after(options_.timing.heartbeat);
  ticker_.async_wait(alive_.guard([this](boost::system::error_code error) {
    if (!error && !stopping_) tick();
  }));
}

void TlsLinkHub::Impl::beat(Time now) {
  const bool paused = now - last_tick_ > options_.timing.heartbeat + kOwnPause;
  for (const NodeKey& key : linked_peers()) {
    Link* standing = link(key);
    if (standing == nullptr) continue;  // the handler may have dropped it meanwhile
    if (paused) standing->forgive_silence(now);
    if (now - standing->last_heard() >= options_.timing.silence) {
      remove_link(key,
                  fail(ErrorCode::timed_out, "nothing heard from node " + key.short_hex() + " for " +
                                                 std::to_string(options_.timing.silence.count()) + " ms"));
      continue;
    }
    standing->tick(now);
    open_stripes(key);
  }
}

void TlsLinkHub::Impl::shutdown(const std::string& reason) {
  stopping_ = true;
  listener_.close();
  ticker_.cancel();
  dialer_.stop();
  for (auto& [age, entry] : pending_) entry.attempt->cancel();
  pending_.clear();
  for (const NodeKey& key : linked_peers()) {
    end_link(key, reason, fail(ErrorCode::interrupted, "this daemon stops: " + reason));
  }
}

}  // namespace p2pw
