// The inside of TlsLinkHub, not for others. link_hub_tls.cpp has the interface, hub_links.cpp the links that
// stand, hub_attempts.cpp the connections that have not proven themselves.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <random>

#include "daemon/link/attempt.h"
#include "daemon/link/dialer.h"
#include "daemon/link/event_queue.h"
#include "daemon/link/link.h"
#include "daemon/link/link_hub_tls.h"
#include "daemon/link/listener.h"
#include "daemon/link/rate_class.h"
#include "daemon/link/refusal_log.h"

namespace p2pw {

class TlsLinkHub::Impl final : public Attempt::Owner, public Link::Owner, public Dialer::Owner {
 public:
  using Time = std::chrono::steady_clock::time_point;

  Impl(boost::asio::io_context& io, LinkHubOptions options, TlsContext tls, LinkHandler& handler);
  ~Impl() override;
  Status start();

  Link* link(const NodeKey& peer) const;
  std::vector<NodeKey> linked_peers() const;
  // Closes the link and tells handler and dialer; end_link() says goodbye first.
  void remove_link(const NodeKey& peer, const Error& reason);
  void end_link(const NodeKey& peer, const std::string& goodbye, const Error& reason);
  void recheck_links(const std::function<Status(const Link&)>& allowed);
  void stop_attempts(const NodeKey& peer);
  void shutdown(const std::string& reason);

  // One peer that is or was linked.
  struct Peer {
    std::unique_ptr<Link> link;
    LinkTotals totals;
    std::map<std::uint64_t, std::shared_ptr<Connecting>> stripe_dials;
    std::size_t stripes_proving = 0;
    Backoff stripe_backoff;
    Time next_stripe{};
  };

  boost::asio::io_context& io_;
  LinkHubOptions options_;
  TlsContext tls_;
  LinkHandler& handler_;
  LinkTrust trust_;
  Dialer dialer_;
  Listener listener_;
  EventQueue events_;
  RateClass wan_, regional_;
  std::map<NodeKey, Peer> peers_;
  LinkCounters counters_;

 private:
  // Attempt::Owner
  Status attempt_may_offer(Attempt& attempt) override;
  void attempt_decide(const std::shared_ptr<Attempt>& attempt) override;
  void attempt_proven(const std::shared_ptr<Attempt>& attempt) override;
  void attempt_failed(const std::shared_ptr<Attempt>& attempt, const Error& reason) override;
  // Link::Owner
  void link_said(Link& link, const wire::LinkMessage& message, Bytes payload) override;
  void link_broken(Link& link, const Error& reason) override;
  std::size_t link_allowance(Link& link) override { return class_of(link).allowance(); }
  void link_spent(Link& link, std::uint64_t payload) override { class_of(link).spend(payload); }
  void links_hold_too_much() override;
  // Dialer::Owner
  bool dial_linked(const NodeKey& peer) const override { return link(peer) != nullptr; }
  void dial_connected(const LinkEndpoint& target, const std::optional<NodeKey>& expected, std::size_t attempt,
                      boost::asio::ip::tcp::socket socket) override;
  void dial_failed(const LinkEndpoint& target, const Error& reason, bool first) override;

  // A connection that has not proven itself, or that waits for a decision.
  struct Pending {
    std::shared_ptr<Attempt> attempt;
    std::string address;               // incoming: counted by admission under this
    std::optional<NodeKey> stripe_of;  // ours: the link that it is for
    bool incoming() const { return !address.empty(); }
  };
  void accepted(boost::asio::ip::tcp::socket socket);
  void evict_oldest();
  Pending& begin(boost::asio::ip::tcp::socket socket, Handshake handshake);
  Pending* pending(const Attempt& attempt);
  bool forget(const std::shared_ptr<Attempt>& attempt);
  void give_up(const std::shared_ptr<Attempt>& attempt, const Error& reason);
  template <class Which>
  std::vector<std::shared_ptr<Attempt>> attempts_where(Which which) const;
  void note_refusal(const std::string& who, const Error& reason);

  std::size_t offers_out(const NodeKey& peer) const;
  void decide_control(const std::shared_ptr<Attempt>& attempt);
  void decide_stripe(const std::shared_ptr<Attempt>& attempt);
  void decide_enrol(const std::shared_ptr<Attempt>& attempt);
  void reconsider_parked(const NodeKey& peer);
  void link_up(const std::shared_ptr<Attempt>& attempt);

  void stripe_up(const std::shared_ptr<Attempt>& attempt);
  void open_stripes(const NodeKey& peer);
  void dial_stripe(const NodeKey& peer, Peer& entry);
  void stripe_connected(const NodeKey& peer, std::uint64_t dial, Result<boost::asio::ip::tcp::socket> socket);
  void stripe_failed(const NodeKey& peer, const Error& reason);
  std::size_t connection_count() const;

  void tick();
  void beat(Time now);
  bool is_wan(const wire::Hello& peer) const { return peer.region() != options_.hello.region(); }
  RateClass& class_of(const Link& link) { return is_wan(link.hello()) ? wan_ : regional_; }
  void wake_class(bool wan, std::size_t turn);
  LinkTuning tuning_for(const wire::Hello& peer) const;

  Dialer::Timing timing_;
  Admission admission_;
  RefusalLog refusals_;
  std::shared_ptr<LinkScratch> scratch_ = std::make_shared<LinkScratch>();
  std::map<std::uint64_t, Pending> pending_;  // by age
  std::uint64_t count_ = 0;                   // names what is pending or dialled
  boost::asio::steady_timer ticker_;
  Time last_tick_{};
  std::mt19937_64 random_;
  std::uint64_t wmem_max_;
  bool stopping_ = false;
  Alive alive_;
};

template <class Which>
std::vector<std::shared_ptr<Attempt>> TlsLinkHub::Impl::attempts_where(Which which) const {
  std::vector<std::shared_ptr<Attempt>> found;
  for (const auto& [age, entry] : pending_) {
    if (which(entry.attempt->handshake())) found.push_back(entry.attempt);
  }
  return found;
}

}  // namespace p2pw
