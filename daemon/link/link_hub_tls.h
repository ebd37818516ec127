// The LinkHub of the daemon: TLS 1.3 over TCP, one control connection and several stripes to each peer.
//
// Ownership: the hub owns listeners and connections; the handler must outlive it. Destroying it closes
// everything at once without a callback; shutdown() says goodbye first. Threads: all calls on the thread that
// runs the io_context, from where the handler is called too, never from inside a call to the hub.
//
// Before a peer has proven itself everything is bounded: time, bytes, messages, connections in all and per
// address. A refusal closes without a word to the peer; it is logged (at a bounded rate) and counted.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/link/admission.h"
#include "daemon/link/identity.h"
#include "daemon/link/link_hub.h"
#include "daemon/link/trust.h"
#include "daemon/link/tuning.h"

namespace boost::asio {
class io_context;
}

namespace p2pw {

struct LinkTiming {
  std::chrono::milliseconds connect{5000};
  std::chrono::milliseconds handshake{5000};  // TLS and proof, from the connected socket on
  std::chrono::milliseconds heartbeat{1000};
  std::chrono::milliseconds silence{5000};  // a link on which nothing came for so long is down
};

struct LinkHubOptions {
  NodeIdentity identity;
  wire::Hello hello = {};  // this daemon's own; `node` is filled in from the identity

  std::vector<LinkEndpoint> listen = {};  // IP literals; port 0 = any free one (see listening())
  std::string bind_address = {};          // of outgoing connections; empty or a wildcard = the system chooses

  std::vector<FleetSecret> fleet_secrets = {};  // newest first; see LinkTrust::set_secrets
  std::optional<AllowList> allow_list = {};
  EnrolmentLookup enrolments = {};

  std::uint32_t stripes =
      kDefaultStripes;  // towards other regions; more where rate x round trip asks for them
  std::uint32_t regional_stripes = 1;
  std::string congestion = "auto";
  std::uint64_t wan_rate_bits = 0;       // chunk payload to other regions, all links together; 0 = no limit
  std::uint64_t regional_rate_bits = 0;  // the same inside the region

  LinkTiming timing = {};
  AdmissionLimits admission = {};
  std::size_t max_connections = 0;          // of all kinds; 0 = 3/4 of the descriptors this process may have
  std::size_t max_unfinished = 256u << 20;  // bytes held of messages that have not come to their end
  std::size_t max_control_queue = 64u << 20;  // bytes; a peer that lets more pile up is dropped
  std::size_t max_stripe_queue = 512u << 20;  // bytes; send_chunk() says false beyond
  std::uint32_t stripe_unsent_bytes =
      0;  // what the kernel may hold of a stripe unsent; 0 = by its rate, unsent_for()
  std::uint32_t control_unsent_bytes = 64u << 10;
};

struct LinkCounters {
  std::uint64_t accepted = 0;     // incoming connections
  std::uint64_t turned_away = 0;  // of these, closed at once: too many unproven ones
  std::uint64_t refused = 0;      // of these, closed during TLS or handshake
  std::uint64_t abandoned = 0;    // of these, closed by the peer before it had proven itself
  std::uint64_t dials_failed = 0;
  std::uint64_t enrolled = 0;
  std::uint64_t links_up = 0, links_down = 0;
  std::uint64_t links_broken_by_peer = 0;                // malformed or oversized messages
  std::map<std::string, std::uint64_t> refused_by_code;  // name of the ErrorCode
};

class TlsLinkHub final : public LinkHub {
 public:
  // Listens at once. Errors: io (an address cannot be bound), failed (TLS).
  static Result<std::unique_ptr<TlsLinkHub>> start(boost::asio::io_context& io, LinkHubOptions options,
                                                   LinkHandler& handler);
  ~TlsLinkHub() override;

  void dial(const LinkEndpoint& endpoint, std::optional<NodeKey> expected) override;
  void undial(const NodeKey& peer) override;
  void undial(const LinkEndpoint& endpoint) override;
  bool linked(const NodeKey& peer) const override;
  std::vector<NodeKey> links() const override;
  void send(const NodeKey& peer, const wire::LinkMessage& message, SharedBytes payload = {}) override;
  bool send_chunk(const NodeKey& peer, const wire::Chunk& chunk, SharedBytes payload) override;
  bool send_bulk(const NodeKey& peer, const wire::LinkMessage& message, SharedBytes payload = {}) override;
  void cut_queue(const NodeKey& peer, const BundleId& bundle) override;
  void drop(const NodeKey& peer, const Error& reason) override;
  void ban(const NodeKey& peer, const std::string& reason) override;
  std::optional<LinkStats> stats(const NodeKey& peer) const override;
  std::optional<std::chrono::steady_clock::time_point> last_heard(const NodeKey& peer) const override;

  std::vector<LinkEndpoint> listening() const;  // with the ports that were really bound
  LinkCounters counters() const;

  // Replaced while links stand. Links that the new secrets or the new list would not let in are dropped (and
  // dialled again where they were dialled).
  void set_fleet_secrets(std::vector<FleetSecret> newest_first);
  void set_allow_list(std::optional<AllowList> list);
  // For links from now on.
  void set_hello(const wire::Hello& hello);
  void set_wan_rate(std::uint64_t bits);

  // Says goodbye on every link, stops listening and dialling. The io_context should run for up to a second
  // more.
  void shutdown(const std::string& reason);

 private:
  class Impl;
  explicit TlsLinkHub(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace p2pw
