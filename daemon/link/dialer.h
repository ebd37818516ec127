// What this daemon wants to be linked with, and when each is dialled: at once, and again after every failure
// or loss with a short, growing pause. A target that turns out to be a peer which is linked already rests
// until that link ends.
//
//   state:    waiting -> connecting -> proving -> linked
//   waiting:  from every other state, for one pause
//   linked:   from proving, and from waiting when the peer was linked some other way
//
// Owned by the hub, on its thread.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <map>
#include <memory>
#include <optional>
#include <random>

#include "daemon/link/backoff.h"
#include "daemon/link/connector.h"

namespace p2pw {

class Dialer {
 public:
  // A link that stood for this long was a good one: the next pause is the shortest.
  static constexpr std::chrono::seconds kGoodLink{2};

  class Owner {
   public:
    virtual ~Owner() = default;
    virtual bool dial_linked(const NodeKey& peer) const = 0;
    // TCP stands: prove it. attempt_over() or link_up() is to follow. `attempt` counts the tries since the
    // last link.
    virtual void dial_connected(const LinkEndpoint& target, const std::optional<NodeKey>& expected,
                                std::size_t attempt, boost::asio::ip::tcp::socket socket) = 0;
    virtual void dial_failed(const LinkEndpoint& target, const Error& reason, bool first) = 0;
  };

  struct Timing {
    boost::asio::ip::address local;
    std::chrono::milliseconds connect_timeout{5000};
    std::uint64_t seed = 0;  // of the pauses' jitter
  };

  Dialer(boost::asio::io_context& io, Timing timing, Owner& owner);
  ~Dialer();

  void dial(const LinkEndpoint& endpoint, std::optional<NodeKey> expected);
  void undial(const LinkEndpoint& endpoint);
  // True when something was wanted of this peer.
  bool undial(const NodeKey& peer);

  void stop() { targets_.clear(); }

  // The target answered with this key.
  void learned(const LinkEndpoint& endpoint, const NodeKey& peer);
  // Its attempt ended without a link.
  void attempt_over(const LinkEndpoint& endpoint, const Error& reason);
  void link_up(const NodeKey& peer);
  void link_down(const NodeKey& peer, std::chrono::steady_clock::duration lasted);
  bool wants(const LinkEndpoint& endpoint) const { return targets_.contains(endpoint); }

 private:
  enum class State { waiting, connecting, proving, linked };
  struct Target;
  void try_now(const std::shared_ptr<Target>& target);
  void connected(const std::shared_ptr<Target>& target, Result<boost::asio::ip::tcp::socket> socket);
  void retry(const std::shared_ptr<Target>& target);
  void failed(const std::shared_ptr<Target>& target, const Error& reason);

  boost::asio::io_context& io_;
  Timing timing_;
  Owner& owner_;
  std::mt19937_64 random_;
  std::map<LinkEndpoint, std::shared_ptr<Target>> targets_;
};

}  // namespace p2pw
