// The inside of TlsLinkHub, shared by its two source files: hub_state.cpp has connections and peers, link_hub_tls.cpp the
// interface. Not for others.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <set>

#include "daemon/link/attempt.h"
#include "daemon/link/dialer.h"
#include "daemon/link/link.h"
#include "daemon/link/link_hub_tls.h"
#include "daemon/link/rate_limit.h"

namespace p2pw {

class TlsLinkHub::Impl final : public std::enable_shared_from_this<Impl>,
                               public Attempt::Owner,
                               public Link::Owner,
                               public Dialer::Owner {
 public:
  using Time = std::chrono::steady_clock::time_point;

  Impl(boost::asio::io_context& io, LinkHubOptions options, TlsContext tls, LinkHandler& handler);
  ~Impl() override;
  Status listen();
  void run();

  // One peer that is or was linked.
  struct Peer {
    std::unique_ptr<Link> link;
    LinkTotals totals;
    std::map<std::uint64_t, std::shared_ptr<Connecting>> stripe_dials;
    std::size_t stripes_proving = 0;
    Backoff stripe_backoff;
    Time next_stripe{};
  };

  // Links of one class share a rate.
  struct LinkClass {
    explicit LinkClass(boost::asio::io_context& io) : timer(io) {}
    RateLimit limit;
    boost::asio::steady_timer timer;
    bool waiting = false;
    std::size_t turn = 0;
  };

  // While one exists, events for the handler wait: the handler is never called from inside its own call.
  class ApiCall {
   public:
    explicit ApiCall(Impl& impl) : impl_(impl) { ++impl_.api_depth_; }
    ~ApiCall() {
      if (--impl_.api_depth_ == 0 && !impl_.events_.empty()) impl_.post_drain();
    }

   private:
    Impl& impl_;
  };

  Link* link(const NodeKey& peer) const;
  void remove_link(const NodeKey& peer, const Error& reason);  // closes it, tells handler and dialer
  void end_link(const NodeKey& peer, const std::string& goodbye, const Error& reason);
  void recheck_links(const std::function<Status(const Link&)>& allowed);
  void stop_attempts(const NodeKey& peer);
  void set_wan_rate(std::uint64_t bits);
  void shutdown(const std::string& reason);

  boost::asio::io_context& io_;
  LinkHubOptions options_;
  TlsContext tls_;
  LinkHandler& handler_;
  LinkTrust trust_;
  Dialer dialer_;
  std::map<NodeKey, Peer> peers_;
  std::vector<LinkEndpoint> listening_;
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
  std::size_t link_allowance(Link& link) override;
  void link_spent(Link& link, std::uint64_t payload) override;
  // Dialer::Owner
  bool dial_linked(const NodeKey& peer) const override { return link(peer) != nullptr; }
  void dial_connected(const LinkEndpoint& target, const std::optional<NodeKey>& expected, std::size_t attempt,
                      boost::asio::ip::tcp::socket socket) override;
  void dial_failed(const LinkEndpoint& target, const Error& reason, bool first) override;

  void accept_next(boost::asio::ip::tcp::acceptor& acceptor);
  void accepted(boost::asio::ip::tcp::socket socket);
  std::shared_ptr<Attempt> begin(boost::asio::ip::tcp::socket socket, Handshake handshake);
  void forget(const std::shared_ptr<Attempt>& attempt);

  bool offer_out(const NodeKey& peer) const;
  void decide_control(const std::shared_ptr<Attempt>& attempt);
  void decide_stripe(const std::shared_ptr<Attempt>& attempt);
  void decide_enrol(const std::shared_ptr<Attempt>& attempt);
  void reconsider(const NodeKey& peer);  // parked offers
  void link_up(const std::shared_ptr<Attempt>& attempt);
  void stripe_up(const std::shared_ptr<Attempt>& attempt);
  void open_stripes(const NodeKey& peer);
  void dial_stripe(const NodeKey& peer, Peer& entry);
  void stripe_failed(const NodeKey& peer, const Error& reason);

  void tick();
  void beat(Time now);
  LinkClass& class_of(const Link& link) { return is_wan(link) ? wan_ : regional_; }
  bool is_wan(const Link& link) const { return link.hello().region() != options_.hello.region(); }
  LinkTuning tuning_for(const wire::Hello& peer) const;
  void wake_class(LinkClass& of);

  void emit(std::function<void()> event);
  void drain();
  void post_drain();
  void note_refusal(const std::string& who, const Error& reason);

  std::vector<boost::asio::ip::tcp::acceptor> acceptors_;
  Admission admission_;
  std::shared_ptr<LinkScratch> scratch_ = std::make_shared<LinkScratch>();
  std::set<std::shared_ptr<Attempt>> attempts_;
  std::map<const Attempt*, std::string> incoming_;      // address that admission counts
  std::map<const Attempt*, NodeKey> stripe_attempts_;   // ours, by the link they are for
  std::uint64_t next_dial_ = 0;
  LinkClass wan_, regional_;
  boost::asio::steady_timer ticker_;
  Time last_tick_{};
  std::uint64_t wmem_max_;

  std::deque<std::function<void()>> events_;
  int api_depth_ = 0;
  bool draining_ = false;
  bool stopping_ = false;
  Time refusals_since_{};
  std::uint64_t refusals_logged_ = 0, refusals_silent_ = 0;
};

}  // namespace p2pw
