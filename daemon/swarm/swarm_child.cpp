#include "daemon/swarm/swarm_child.h"

#include <poll.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include "daemon/swarm/child_ledger.h"
#include "daemon/swarm/child_orders.h"
#include "daemon/swarm/child_process.h"

namespace p2pw {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;

constexpr int kPacketsAtOnce = 64;  // then others on the control thread have their turn
constexpr std::chrono::seconds kStartPatience{20};
constexpr std::chrono::milliseconds kPortPatience{1500};
constexpr int kWatches = 6;  // in the longest silence

// The process: starting -> running -> ending -> waiting -> starting ...
enum class State {
  starting,  // from waiting, or the first; to running when it says that it listens, to ending when it fails
  running,   // from starting; to ending
  ending,    // it was killed, or is gone by itself; to waiting when it is reaped
  waiting,   // to starting, after a while
};

class ChildSwarm final : public Swarm {
 public:
  ChildSwarm(asio::io_context& io, SwarmChildOptions options, SwarmEvents& events)
      : options_(std::move(options)), events_(events), socket_(io), exit_(io), timer_(io), watch_(io), wait_(options_.first_wait) {}
  ~ChildSwarm() override { let_go(); }

  Status open();

  void add(const BundleId& id, const BundleRecord& record, std::vector<ChunkRoot> roots,
           std::shared_ptr<BundleFile> file, SwarmGroups group) override;
  void offer(const BundleId& id, ChunkIndex chunk) override {
    const ChildLedger::Number number = ledger_.find(id);
    if (number != 0) tell([&] { orders_.offer(number, chunk); });
  }
  void remove(const BundleId& id) override {
    const ChildLedger::Number number = ledger_.remove(id);
    if (number != 0) tell([&] { orders_.remove(number); });
  }
  void set_members(std::vector<SwarmPeer> members) override {
    members_ = std::move(members);
    tell([&] { orders_.members(members_); });
  }
  void drop(const NodeKey& member) override {
    tell([&] { orders_.drop(member); });
  }
  SwarmCounters counters() const override;
  std::uint16_t listen_port() const override { return options_.swarm.port; }
  SwarmConfinement confinement() const override { return confinement_; }
  void distrust(const std::string& why) override { end(why); }

 private:
  bool alive() const { return state_ == State::starting || state_ == State::running; }
  template <class Work>
  void tell(Work work) {
    if (!alive()) return;  // the next one is told everything
    work();
    flush();
  }
  // A handler that does nothing once this object is gone, or its process another one.
  template <class Work>
  auto guarded(Work work) {
    return [this, weak = std::weak_ptr<int>(life_), process = processes_, work](boost::system::error_code error) {
      if (!error && !weak.expired() && process == processes_) work();
    };
  }
  Status open_once();
  Status launch();
  void flush();
  void listen();
  void watch();
  void read();
  void take(const std::string& packet);
  void on(const ChildLedger::Nothing&) {}
  void on(const ChildLedger::Started& started);
  void on(const ChildLedger::Arrived& arrived);
  void on(const ChildLedger::HandedOn& handed_on);
  void on(const ChildLedger::Blocked& blocked) { events_.swarm_peer_blocked(blocked.bundle, blocked.address, blocked.reason); }
  void on(const ChildLedger::Failed& failed);
  void on(const SwarmCounters& counters) { now_ = counters; }
  void end(const std::string& why);
  void ended();
  void let_go();

  SwarmChildOptions options_;
  SwarmEvents& events_;
  ChildProcess process_;
  asio::posix::stream_descriptor socket_, exit_;  // the process's; not theirs to close
  asio::steady_timer timer_, watch_;
  ChildLedger ledger_;
  ChildOrders orders_;
  std::vector<SwarmPeer> members_;
  SwarmCounters now_, before_;  // of this process, of those before
  SwarmConfinement confinement_{.own_process = true};
  State state_ = State::waiting;
  std::uint64_t processes_ = 0;
  std::string why_;                // it is ending
  std::optional<Error> no_start_;  // what it said instead of `started`
  bool waits_to_write_ = false;
  std::chrono::milliseconds wait_;
  int quiet_ = 0;  // watches without a word
  Clock::time_point launched_;
  std::shared_ptr<int> life_ = std::make_shared<int>();
};

Status ChildSwarm::open() {
  const Clock::time_point until = Clock::now() + kPortPatience;
  while (true) {
    Status opened = open_once();
    const bool taken = !opened && opened.error().code == ErrorCode::busy;
    if (!taken || Clock::now() > until) return opened;
    let_go();
    no_start_.reset();
    poll(nullptr, 0, 20);
  }
}

Status ChildSwarm::open_once() {
  P2PW_CHECK(launch());
  while (state_ == State::starting) {
    pollfd waiting{process_.socket(), POLLIN, 0};
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(launched_ + kStartPatience - Clock::now());
    if (left.count() <= 0 || poll(&waiting, 1, static_cast<int>(left.count())) == 0) {
      return fail(ErrorCode::timed_out, "the swarm's process does not listen after " +
                                            std::to_string(kStartPatience.count()) + " s");
    }
    read();
  }
  if (state_ == State::running) return {};
  if (no_start_) return *no_start_;
  return fail(ErrorCode::io, "the swarm's process ended before it listened: " + why_ + "; " + process_.reap());
}

void ChildSwarm::add(const BundleId& id, const BundleRecord&, std::vector<ChunkRoot> roots,
                     std::shared_ptr<BundleFile> file, SwarmGroups group) {
  if (ledger_.find(id) != 0) return;
  if (roots != file->roots()) {  // the process is told the file's
    asio::post(timer_.get_executor(), [this, weak = std::weak_ptr<int>(life_), id] {
      if (weak.expired()) return;
      events_.swarm_failed(id, fail(ErrorCode::integrity, "the roots of bundle " + id.short_hex() + " are not its file's"));
    });
    return;
  }
  const ChildLedger::Number number = ledger_.add(id, file, group);
  tell([&] { orders_.add(number, id, std::move(file), group); });
}

Status ChildSwarm::launch() {
  ++processes_;
  launched_ = Clock::now();
  quiet_ = 0;
  waits_to_write_ = false;
  P2PW_TRY(process_, ChildProcess::start(options_.program, options_.arguments));
  state_ = State::starting;
  socket_.assign(process_.socket());
  exit_.assign(process_.pidfd());
  ledger_.begin(launched_);
  orders_ = ChildOrders();
  orders_.start(options_.swarm);
  orders_.members(members_);
  for (const auto& [number, bundle] : ledger_.bundles()) orders_.add(number, bundle.id, bundle.file, bundle.group);
  listen();
  watch();
  flush();
  return {};
}

void ChildSwarm::flush() {
  if (!alive() || waits_to_write_) return;
  switch (orders_.send(process_.socket())) {
    case PacketState::done:
      return;
    case PacketState::ended:
      return end("it is gone");
    case PacketState::would_wait:
      break;
  }
  if (orders_.size() > ChildOrders::kMost) return end("it takes no orders any more");
  waits_to_write_ = true;
  socket_.async_wait(asio::posix::stream_descriptor::wait_write, guarded([this] {
                       waits_to_write_ = false;
                       flush();
                     }));
}

void ChildSwarm::listen() {
  socket_.async_wait(asio::posix::stream_descriptor::wait_read, guarded([this] {
                       read();
                       if (alive()) listen();
                     }));
}

// Counted in turns of this thread, not by the clock: who was stopped together with the process does not blame it.
void ChildSwarm::watch() {
  watch_.expires_after(std::chrono::milliseconds(options_.silence) / kWatches);
  watch_.async_wait(guarded([this] {
    if (!alive()) return;
    if (++quiet_ > kWatches) return end("it has said nothing for " + std::to_string(options_.silence.count()) + " s");
    watch();
  }));
}

void ChildSwarm::read() {
  std::string packet;
  for (int i = 0; i < kPacketsAtOnce && alive(); ++i) {
    switch (receive_packet(process_.socket(), packet)) {
      case PacketState::would_wait:
        return;
      case PacketState::ended:
        return end("it hung up");
      case PacketState::done:
        take(packet);
    }
  }
}

void ChildSwarm::take(const std::string& packet) {
  quiet_ = 0;
  auto report = ledger_.take(packet, Clock::now());
  if (!report.ok()) return end(report.error().message);
  std::visit([this](const auto& said) { on(said); }, *report);
}

void ChildSwarm::on(const ChildLedger::Started& started) {
  std::uint16_t& port = options_.swarm.port;  // the next one is to listen there too
  if (port != 0 && started.port != port) return end("it listens on port " + std::to_string(started.port));
  port = started.port;
  confinement_.landlock = started.landlock;
  confinement_.seccomp = started.seccomp;
  state_ = State::running;
}

void ChildSwarm::on(const ChildLedger::Arrived& arrived) {
  for (ChunkIndex chunk : arrived.chunks) {
    if (arrived.file->has(chunk)) continue;  // it came over a link at the same time
    arrived.file->mark(chunk);
    events_.swarm_chunk_arrived(arrived.bundle, chunk);
  }
}

void ChildSwarm::on(const ChildLedger::HandedOn& handed_on) {
  for (ChunkIndex chunk : handed_on.chunks) events_.swarm_chunk_handed_on(handed_on.bundle, chunk);
}

void ChildSwarm::on(const ChildLedger::Failed& failed) {
  if (state_ == State::running) return events_.swarm_failed(failed.bundle, failed.error);
  no_start_ = failed.error;
  end(failed.error.message);
}

void ChildSwarm::end(const std::string& why) {
  if (!alive()) return;
  why_ = why;
  state_ = State::ending;
  process_.kill();
  socket_.cancel();
  watch_.cancel();
  exit_.async_wait(asio::posix::stream_descriptor::wait_read, guarded([this] { ended(); }));
}

void ChildSwarm::ended() {
  const std::string how = process_.reap();
  let_go();
  before_ = counters();
  now_ = {};
  ++confinement_.ended;
  state_ = State::waiting;
  if (Clock::now() - launched_ >= options_.steady) wait_ = options_.first_wait;
  timer_.expires_after(wait_);
  wait_ = std::min(wait_ * 2, options_.last_wait);
  timer_.async_wait(guarded([this] {
    Status launched = launch();
    if (launched.ok()) return;
    why_ = launched.error().message;
    ended();
  }));
  events_.swarm_ended(why_ + (how.empty() ? "" : " (" + how + ")"));
}

void ChildSwarm::let_go() {
  if (socket_.is_open()) socket_.release();
  if (exit_.is_open()) exit_.release();
  process_ = ChildProcess();
}

SwarmCounters ChildSwarm::counters() const {
  SwarmCounters sum = now_;  // what is a number of things now, is this process's
  sum.payload_sent += before_.payload_sent;
  sum.payload_received += before_.payload_received;
  sum.redundant += before_.redundant;
  sum.hash_failures += before_.hash_failures;
  sum.refused_strangers += before_.refused_strangers;
  return sum;
}

}  // namespace

Result<std::unique_ptr<Swarm>> open_child_swarm(asio::io_context& io, SwarmChildOptions options, SwarmEvents& events) {
  auto swarm = std::make_unique<ChildSwarm>(io, std::move(options), events);
  P2PW_CHECK(swarm->open());
  return std::unique_ptr<Swarm>(std::move(swarm));
}

}  // namespace p2pw
