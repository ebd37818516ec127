// How fast links carry chunks. Alone, over this machine's loopback, sender and receiver in two processes:
//   build/bin/link_bench [--gigabytes 2] [--stripes 4] [--chunk-kib 1024]
// Over a real or emulated network, both ends with the same secret file (the first to start makes it):
//   build/bin/link_bench --secret FILE --receive ADDRESS:PORT
//   build/bin/link_bench --secret FILE --send ADDRESS:PORT [--congestion auto] [--bursts 3] [--pause 2] ...
// For each burst: seconds and MB/s from the first chunk queued to the last one acknowledged, MB per CPU
// second of the sender. In flight is never more than --window MB.
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdio>
#include <fstream>

#include "daemon/link/link_hub_tls.h"
#include "protocol/links.pb.h"

namespace p2pw {
namespace {

struct Settings {
  double gigabytes = 2;
  std::uint32_t stripes = 4;
  std::size_t chunk_kib = 1024;
  double window_mb = 64;
  std::string congestion = "auto";
  int bursts = 1;
  double pause = 2;
  std::string secret_file, receive, send;
};

struct Side : LinkHandler {
  void link_up(const NodeKey& peer, const wire::Hello&) override { other = peer; }
  void link_down(const NodeKey&, const Error&) override { gone = true; }
  void link_message(const NodeKey& peer, const wire::LinkMessage& message, Bytes payload) override {
    if (message.has_chunk_ack()) ++acknowledged;
    if (!message.has_chunk()) return;
    received += payload.size();
    wire::LinkMessage answer;
    answer.mutable_chunk_ack()->set_chunk(message.chunk().index());
    hub->send(peer, answer);
  }
  Result<wire::EnrolReply> link_enrol(const Bytes&, const NodeKey&) override {
    return fail(ErrorCode::untrusted, "no tokens here");
  }
  TlsLinkHub* hub = nullptr;
  std::optional<NodeKey> other;
  bool gone = false;
  std::uint64_t received = 0, acknowledged = 0;
};

double cpu_seconds() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

FleetSecret secret_of(const std::string& file) {
  if (file.empty()) return FleetSecret::generate();
  std::ifstream in(file);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  if (auto read = FleetSecret::parse(text)) return std::move(read).value();
  FleetSecret made = FleetSecret::generate();
  std::ofstream(file) << made.file();
  return made;
}

LinkEndpoint endpoint(const std::string& text) {
  const auto colon = text.rfind(':');
  return {text.substr(0, colon), static_cast<std::uint16_t>(std::stoi(text.substr(colon + 1)))};
}

std::unique_ptr<TlsLinkHub> start(boost::asio::io_context& io, const Settings& settings,
                                  const FleetSecret& secret, const std::string& region,
                                  std::vector<LinkEndpoint> listen, Side& side) {
  LinkHubOptions made{.identity = NodeIdentity::make(SigningKey::generate()).value()};
  made.hello.set_region(region);
  made.fleet_secrets.push_back(secret.clone());
  made.stripes = settings.stripes;
  made.congestion = settings.congestion;
  made.listen = std::move(listen);
  auto started = TlsLinkHub::start(io, std::move(made), side);
  if (!started) {
    std::fprintf(stderr, "%s\n", started.error().message.c_str());
    std::exit(1);
  }
  side.hub = started->get();
  return std::move(started).value();
}

void receive(boost::asio::io_context& io, Side& side) {
  while (!side.gone) io.run_one();
  std::printf("receiver %8.0f MB, %.0f MB per CPU second\n", static_cast<double>(side.received) / 1e6,
              static_cast<double>(side.received) / 1e6 / cpu_seconds());
}

void burst(boost::asio::io_context& io, Side& side, const Settings& settings, int number) {
  const std::size_t chunk_bytes = settings.chunk_kib << 10;
  const auto chunks = static_cast<std::uint64_t>(settings.gigabytes * 1e9) / chunk_bytes;
  const auto window =
      std::max<std::uint64_t>(1, static_cast<std::uint64_t>(settings.window_mb * 1e6) / chunk_bytes);
  const auto payload = std::make_shared<Bytes>(chunk_bytes, std::byte{42});
  wire::Chunk chunk;
  chunk.set_bundle(std::string(32, 'b'));
  side.acknowledged = 0;
  const double cpu = cpu_seconds();
  const auto begin = std::chrono::steady_clock::now();
  for (std::uint64_t sent = 0; side.acknowledged < chunks && !side.gone;) {
    while (sent < chunks && sent - side.acknowledged < window) {
      side.hub->send_chunk(*side.other, chunk, payload);
      ++sent;
    }
    io.run_one();
  }
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
  const double megabytes = static_cast<double>(chunks * chunk_bytes) / 1e6;
  const LinkStats stats = *side.hub->stats(*side.other);
  std::printf(
      "burst %d %8.0f MB in %.3f s, %.0f MB/s, %.0f MB per CPU second; %u stripes, %s, rtt %.1f ms, %llu "
      "retransmitted\n",
      number, megabytes, wall.count(), megabytes / wall.count(), megabytes / (cpu_seconds() - cpu),
      stats.stripes, stats.congestion.c_str(), static_cast<double>(stats.round_trip.count()) / 1e3,
      static_cast<unsigned long long>(stats.retransmitted));
  std::fflush(stdout);
}

void send(boost::asio::io_context& io, Side& side, const Settings& settings, const LinkEndpoint& to) {
  side.hub->dial(to, std::nullopt);
  while (!side.other || side.hub->stats(*side.other)->stripes < settings.stripes) io.run_one();
  for (int i = 1; i <= settings.bursts && !side.gone; ++i) {
    if (i > 1) io.run_for(std::chrono::milliseconds(static_cast<int>(settings.pause * 1000)));
    burst(io, side, settings, i);
  }
  side.hub->shutdown("done");
  io.run_for(std::chrono::milliseconds(200));
}

void both(const Settings& settings) {
  const FleetSecret secret = FleetSecret::generate();
  boost::asio::io_context io;
  Side side;
  auto receiver = start(io, settings, secret, "far", {{"127.0.0.1", 0}}, side);
  const LinkEndpoint place = receiver->listening().front();
  io.notify_fork(boost::asio::io_context::fork_prepare);
  const pid_t child = fork();
  if (child == 0) {
    io.notify_fork(boost::asio::io_context::fork_child);
    receive(io, side);
    std::fflush(stdout);
    _exit(0);
  }
  io.notify_fork(boost::asio::io_context::fork_parent);
  receiver.reset();
  auto sender = start(io, settings, secret, "near", {}, side);
  send(io, side, settings, place);
  waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace p2pw

int main(int argc, char** argv) {
  using namespace p2pw;
  Settings settings;
  CLI::App app{"Throughput of links"};
  app.add_option("--gigabytes", settings.gigabytes);
  app.add_option("--stripes", settings.stripes);
  app.add_option("--chunk-kib", settings.chunk_kib);
  app.add_option("--window", settings.window_mb);
  app.add_option("--congestion", settings.congestion);
  app.add_option("--bursts", settings.bursts);
  app.add_option("--pause", settings.pause);
  app.add_option("--secret", settings.secret_file);
  app.add_option("--receive", settings.receive);
  app.add_option("--send", settings.send);
  CLI11_PARSE(app, argc, argv);
  spdlog::set_level(spdlog::level::warn);
  if (settings.receive.empty() && settings.send.empty()) {
    both(settings);
    return 0;
  }
  const FleetSecret secret = secret_of(settings.secret_file);
  boost::asio::io_context io;
  Side side;
  if (!settings.receive.empty()) {
    auto hub = start(io, settings, secret, "far", {endpoint(settings.receive)}, side);
    receive(io, side);
  } else {
    auto hub = start(io, settings, secret, "near", {}, side);
    send(io, side, settings, endpoint(settings.send));
  }
  return 0;
}
