#include "daemon/link/dialer.h"

#include <boost/asio/post.hpp>

namespace p2pw {

struct Dialer::Target {
  Target(boost::asio::io_context& io, LinkEndpoint where) : endpoint(std::move(where)), timer(io) {}
  LinkEndpoint endpoint;
  std::optional<NodeKey> expected;
  std::optional<NodeKey> peer;  // expected, or found there
  State state = State::waiting;
  Backoff backoff;
  std::size_t attempts = 0;  // since the last link
  std::string last_failure;
  boost::asio::steady_timer timer;
  std::shared_ptr<Connecting> connecting;
};

Dialer::Dialer(boost::asio::io_context& io, Timing timing, Owner& owner)
    : io_(io), timing_(std::move(timing)), owner_(owner), random_(timing_.seed) {}

Dialer::~Dialer() = default;

void Dialer::dial(const LinkEndpoint& endpoint, std::optional<NodeKey> expected) {
  if (auto it = targets_.find(endpoint); it != targets_.end()) {
    if (!expected || it->second->expected == expected) return;
    undial(endpoint);  // another daemon is expected there now
  }
  auto target = std::make_shared<Target>(io_, endpoint);
  target->expected = target->peer = expected;
  targets_[endpoint] = target;
  target->timer.expires_after(std::chrono::seconds(0));
  target->timer.async_wait([this, weak = std::weak_ptr(target)](boost::system::error_code error) {
    if (auto held = weak.lock(); held && !error) try_now(held);
  });
}

void Dialer::undial(const LinkEndpoint& endpoint) {
  targets_.erase(endpoint);
}

bool Dialer::undial(const NodeKey& peer) {
  return std::erase_if(targets_, [&](const auto& entry) { return entry.second->peer == peer; }) > 0;
}

void Dialer::try_now(const std::shared_ptr<Target>& target) {
  if (target->state != State::waiting) return;
  if (target->peer && owner_.dial_linked(*target->peer)) {
    target->state = State::linked;
    return;
  }
  target->state = State::connecting;
  target->connecting =
      connect_to(io_, target->endpoint, timing_.local, timing_.connect_timeout,
                 [this, weak = std::weak_ptr(target)](Result<boost::asio::ip::tcp::socket> socket) {
                   if (auto held = weak.lock()) connected(held, std::move(socket));
                 });
}

void Dialer::connected(const std::shared_ptr<Target>& target, Result<boost::asio::ip::tcp::socket> socket) {
  target->connecting.reset();
  if (!socket) return failed(target, socket.error());
  target->state = State::proving;
  owner_.dial_connected(target->endpoint, target->expected, target->attempts++, std::move(socket).value());
}

void Dialer::failed(const std::shared_ptr<Target>& target, const Error& reason) {
  const bool first = target->last_failure != reason.message;
  target->last_failure = reason.message;
  owner_.dial_failed(target->endpoint, reason, first);
  if (targets_.contains(target->endpoint)) retry(target);
}

void Dialer::retry(const std::shared_ptr<Target>& target) {
  target->state = State::waiting;
  target->timer.expires_after(target->backoff.next(random_));
  target->timer.async_wait([this, weak = std::weak_ptr(target)](boost::system::error_code error) {
    if (auto held = weak.lock(); held && !error) try_now(held);
  });
}

void Dialer::learned(const LinkEndpoint& endpoint, const NodeKey& peer) {
  if (auto it = targets_.find(endpoint); it != targets_.end()) it->second->peer = peer;
}

void Dialer::attempt_over(const LinkEndpoint& endpoint, const Error& reason) {
  auto it = targets_.find(endpoint);
  if (it == targets_.end() || it->second->state != State::proving) return;
  if (it->second->peer && owner_.dial_linked(*it->second->peer)) {
    it->second->state = State::linked;
  } else {
    failed(it->second, reason);
  }
}

void Dialer::link_up(const NodeKey& peer) {
  for (auto& [endpoint, target] : targets_) {
    if (target->peer != peer) continue;
    target->attempts = 0;
    target->last_failure.clear();
    target->timer.cancel();
    target->connecting.reset();
    target->state = State::linked;
  }
}

void Dialer::link_down(const NodeKey& peer, std::chrono::steady_clock::duration lasted) {
  for (auto& [endpoint, target] : targets_) {
    if (target->peer != peer || target->state != State::linked) continue;
    if (lasted >= kGoodLink) target->backoff.reset();
    retry(target);
  }
}

}  // namespace p2pw
