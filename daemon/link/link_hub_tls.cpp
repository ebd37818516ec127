#include "daemon/link/link_hub_tls.h"

#include <spdlog/spdlog.h>

#include "daemon/link/hub_state.h"

namespace p2pw {
namespace {

// A message of our own that cannot be sent is a mistake in this program, not the peer's.
std::optional<Outgoing> framed(const wire::LinkMessage& message, SharedBytes payload, Cargo cargo) {
  auto head = frame_head(message, payload ? payload->size() : 0);
  if (!head) {
    spdlog::error("links: not sent: {}", head.error().message);
    return std::nullopt;
  }
  return Outgoing{.head = std::move(*head), .payload = std::move(payload), .cargo = cargo, .bundle = {}};
}

}  // namespace

TlsLinkHub::TlsLinkHub(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TlsLinkHub::~TlsLinkHub() = default;

Result<std::unique_ptr<TlsLinkHub>> TlsLinkHub::start(boost::asio::io_context& io, LinkHubOptions options,
                                                      LinkHandler& handler) {
  P2PW_TRY(TlsContext tls, TlsContext::make(options.identity));
  auto impl = std::make_unique<Impl>(io, std::move(options), std::move(tls), handler);
  P2PW_CHECK(impl->start());
  return std::unique_ptr<TlsLinkHub>(new TlsLinkHub(std::move(impl)));
}

void TlsLinkHub::dial(const LinkEndpoint& endpoint, std::optional<NodeKey> expected) {
  EventQueue::OutsideCall guard(impl_->events_);
  impl_->dialer_.dial(endpoint, expected);
}

void TlsLinkHub::undial(const NodeKey& peer) {
  EventQueue::OutsideCall guard(impl_->events_);
  impl_->dialer_.undial(peer);
  impl_->stop_attempts(peer);
  Link* link = impl_->link(peer);
  if (link != nullptr && link->dialled()) {
    impl_->end_link(peer, "not needed any more",
                    fail(ErrorCode::interrupted, "the link is not needed any more"));
  }
}

void TlsLinkHub::undial(const LinkEndpoint& endpoint) {
  EventQueue::OutsideCall guard(impl_->events_);
  impl_->dialer_.undial(endpoint);
  for (const NodeKey& peer : links()) {
    if (impl_->link(peer)->dialled() != endpoint) continue;
    impl_->end_link(peer, "not needed any more",
                    fail(ErrorCode::interrupted, "the link is not needed any more"));
  }
}

bool TlsLinkHub::linked(const NodeKey& peer) const {
  return impl_->link(peer) != nullptr;
}

std::vector<NodeKey> TlsLinkHub::links() const {
  return impl_->linked_peers();
}

void TlsLinkHub::send(const NodeKey& peer, const wire::LinkMessage& message, SharedBytes payload) {
  EventQueue::OutsideCall guard(impl_->events_);
  Link* link = impl_->link(peer);
  if (link == nullptr) return;
  if (auto item = framed(message, std::move(payload), Cargo::control)) link->send(std::move(*item));
}

bool TlsLinkHub::send_chunk(const NodeKey& peer, const wire::Chunk& chunk, SharedBytes payload) {
  EventQueue::OutsideCall guard(impl_->events_);
  Link* link = impl_->link(peer);
  const auto bundle = BundleId::from(chunk.bundle());
  if (link == nullptr || !bundle) return false;
  wire::LinkMessage message;
  *message.mutable_chunk() = chunk;
  auto item = framed(message, std::move(payload), Cargo::chunk);
  if (!item) return false;
  item->bundle = *bundle;
  return link->send_bulk(std::move(*item));
}

bool TlsLinkHub::send_bulk(const NodeKey& peer, const wire::LinkMessage& message, SharedBytes payload) {
  EventQueue::OutsideCall guard(impl_->events_);
  Link* link = impl_->link(peer);
  if (link == nullptr) return false;
  auto item = framed(message, std::move(payload), Cargo::bulk);
  return item && link->send_bulk(std::move(*item));
}

void TlsLinkHub::cut_queue(const NodeKey& peer, const BundleId& bundle) {
  EventQueue::OutsideCall guard(impl_->events_);
  if (Link* link = impl_->link(peer)) link->cut(bundle);
}

void TlsLinkHub::drop(const NodeKey& peer, const Error& reason) {
  EventQueue::OutsideCall guard(impl_->events_);
  impl_->end_link(peer, reason.message, reason);
}

void TlsLinkHub::ban(const NodeKey& peer, const std::string& reason) {
  EventQueue::OutsideCall guard(impl_->events_);
  spdlog::warn("links: node {} is banned: {}", peer.hex(), reason);
  impl_->trust_.ban(peer, reason);
  impl_->dialer_.undial(peer);
  impl_->stop_attempts(peer);
  impl_->end_link(peer, "banned",
                  fail(ErrorCode::untrusted, "node " + peer.short_hex() + " is banned: " + reason));
}

std::optional<LinkStats> TlsLinkHub::stats(const NodeKey& peer) const {
  auto it = impl_->peers_.find(peer);
  if (it == impl_->peers_.end()) return std::nullopt;
  if (it->second.link) return it->second.link->stats();
  LinkStats stats;
  Link::add_totals(stats, it->second.totals);
  return stats;
}

std::optional<std::chrono::steady_clock::time_point> TlsLinkHub::last_heard(const NodeKey& peer) const {
  const Link* link = impl_->link(peer);
  return link == nullptr ? std::nullopt : std::optional(link->last_heard());
}

std::vector<LinkEndpoint> TlsLinkHub::listening() const {
  return impl_->listener_.listening();
}
LinkCounters TlsLinkHub::counters() const {
  return impl_->counters_;
}

void TlsLinkHub::set_fleet_secrets(std::vector<FleetSecret> newest_first) {
  EventQueue::OutsideCall guard(impl_->events_);
  impl_->trust_.set_secrets(std::move(newest_first));
  impl_->recheck_links([this](const Link& link) -> Status {
    if (impl_->trust_.secret(link.secret_id()) != nullptr) return {};
    return fail(ErrorCode::untrusted, "the fleet secret of this link is no longer accepted");
  });
}

void TlsLinkHub::set_allow_list(std::optional<AllowList> list) {
  EventQueue::OutsideCall guard(impl_->events_);
  impl_->trust_.set_allow_list(std::move(list));
  impl_->recheck_links([this](const Link& link) -> Status {
    P2PW_CHECK(impl_->trust_.admits(link.peer()));
    wire::Hello hello = link.hello();
    P2PW_CHECK(impl_->trust_.correct(link.peer(), hello));
    if (hello.region() == link.hello().region() && hello.trainer() == link.hello().trainer() &&
        hello.bootstrap() == link.hello().bootstrap()) {
      return {};
    }
    return fail(ErrorCode::interrupted, "the allow-list gives this node another region or role");
  });
}

void TlsLinkHub::set_hello(const wire::Hello& hello) {
  impl_->options_.hello = hello;
  impl_->options_.hello.set_node(std::string(impl_->trust_.own_key().text()));
}

void TlsLinkHub::set_wan_rate(std::uint64_t bits) {
  impl_->wan_.set(bits);
}

void TlsLinkHub::shutdown(const std::string& reason) {
  EventQueue::OutsideCall guard(impl_->events_);
  impl_->shutdown(reason);
}

}  // namespace p2pw
