// What attacks are tried on: a fleet of real daemons on loopback (a trainer, regions r1 with two nodes and r2 with one),
// and the parts to build hostile peers from.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <string>
#include <vector>

#include "daemon/client/config.h"
#include "protocol/record.h"
#include "tests/daemon/link_hostile.h"
#include "tests/integration/fleet.h"

namespace p2pw::attacks {

struct Outcome {
  bool refused = false;
  std::string effect;  // what was seen
};

class Stage {
 public:
  // Empty; fill with up().
  Stage() = default;
  // Starts the fleet and publishes a first version. False: `why` says why not.
  bool up(std::string& why);

  testing::Fleet& fleet() { return fleet_; }
  boost::asio::io_context& io() { return io_; }
  const Config& config(const std::string& daemon);
  LinkEndpoint link_of(const std::string& daemon);
  NodeKey key_of(const std::string& daemon);
  FleetSecret secret();  // what any member holds
  std::filesystem::path state(const std::string& daemon) { return config(daemon).state; }

  // Handles network events until `done`; false after that many seconds.
  bool until(const std::function<bool()>& done, int seconds = 10) {
    return testing::run_until(io_, done, std::chrono::seconds(seconds));
  }
  void pump(int milliseconds);
  nlohmann::json status(const std::string& daemon);
  bool has_event(const std::string& daemon, const std::string& event, const std::string& detail = "");
  // Links that stand at this daemon.
  std::size_t links_of(const std::string& daemon) { return status(daemon)["links"].size(); }
  std::uint64_t rss(const std::string& daemon);         // anonymous bytes
  std::size_t descriptors(const std::string& daemon);
  // Answers of the local API over TCP (trainer), one request, until it hangs up.
  std::string http(const std::string& text);
  std::string over_socket(const std::filesystem::path& socket, const std::string& bytes);
  // Every daemon answers and the first version is still served everywhere.
  bool healthy(std::string& why);

  std::filesystem::path series;
  static constexpr const char* kDaemons[] = {"trainer", "r1-1", "r1-2", "r2-1"};
  static constexpr const char* kApiToken = "attack-test-token";

 private:
  testing::Fleet fleet_;
  boost::asio::io_context io_;
  std::map<std::string, Config> configs_;
};

// A proven member that does not keep to the rules: links with one daemon and stays linked by heartbeats.
class Insider {
 public:
  Insider(Stage& stage, const std::string& victim, const std::string& region,
          std::function<void(wire::Hello&)> change = nullptr);
  bool linked() const { return linked_ && !peer_.gone; }
  bool gone() const { return peer_.gone; }
  std::string why() const { return peer_.why.message; }
  void say(const wire::LinkMessage& message, const Bytes& payload = {}) {
    if (!peer_.gone) peer_.say(message.SerializeAsString(), payload);
  }
  // Waits until what was said has left.
  void flush();
  NodeKey key() const { return peer_.identity.key(); }
  testing::HostilePeer& peer() { return peer_; }
  std::function<void(const wire::LinkMessage&, const Bytes& payload)> on_message;

 private:
  void beat();
  Stage& stage_;
  testing::HostilePeer peer_;
  boost::asio::steady_timer timer_;
  bool linked_ = false;
};

struct Attack {
  std::string name;
  std::function<Outcome(Stage&)> run;
};
void add_outsiders(std::vector<Attack>& attacks);
void add_enrolment(std::vector<Attack>& attacks);
void add_insiders(std::vector<Attack>& attacks);
void add_record_attacks(std::vector<Attack>& attacks);
void add_swarm_attacks(std::vector<Attack>& attacks);
void add_swarm_process(std::vector<Attack>& attacks);
void add_local(std::vector<Attack>& attacks);

}  // namespace p2pw::attacks
