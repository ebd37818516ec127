// How fast a link carries chunks on this machine: TLS, framing and the kernel's loopback, without anything else.
//   build/bin/link_bench [gigabytes] [stripes] [chunk KiB]
// Prints MB/s by wall clock and per CPU second of each side. Sender and receiver run in two processes.
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <cstdio>
#include <cstdlib>

#include "daemon/link/link_hub_tls.h"
#include "protocol/links.pb.h"

namespace p2pw {
namespace {

struct Side : LinkHandler {
  void link_up(const NodeKey& peer, const wire::Hello&) override { other = peer; }
  void link_down(const NodeKey&, const Error&) override { gone = true; }
  void link_message(const NodeKey&, const wire::LinkMessage&, Bytes payload) override { received += payload.size(); }
  Result<wire::EnrolReply> link_enrol(const Bytes&, const NodeKey&) override {
    return fail(ErrorCode::untrusted, "no tokens here");
  }
  std::optional<NodeKey> other;
  bool gone = false;
  std::uint64_t received = 0;
};

double cpu_seconds() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  const auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6; };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

LinkHubOptions options(const SigningKey& key, const FleetSecret& secret, const std::string& region, unsigned stripes) {
  LinkHubOptions made{.identity = NodeIdentity::make(key).value()};
  made.hello.set_region(region);
  made.fleet_secrets.push_back(secret.clone());
  made.stripes = stripes;
  return made;
}

void report(const char* who, std::uint64_t bytes, double wall, double cpu) {
  std::printf("%-8s %7.0f MB/s wall  %7.0f MB per CPU second\n", who, static_cast<double>(bytes) / 1e6 / wall,
              static_cast<double>(bytes) / 1e6 / cpu);
  std::fflush(stdout);
}

int receive(boost::asio::io_context& io, std::unique_ptr<TlsLinkHub> hub, Side& side, std::uint64_t total) {
  while (side.received == 0) io.run_one();
  const double cpu = cpu_seconds();
  const auto begin = std::chrono::steady_clock::now();
  while (side.received < total) io.run_one();
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
  report("receiver", total, wall.count(), cpu_seconds() - cpu);
  hub->shutdown("done");
  io.run_for(std::chrono::milliseconds(50));
  return 0;
}

int send(boost::asio::io_context& io, TlsLinkHub& hub, Side& side, std::uint64_t total, std::size_t chunk_bytes,
         unsigned stripes) {
  while (!side.other || hub.stats(*side.other)->stripes < stripes) io.run_one();
  auto payload = std::make_shared<Bytes>(chunk_bytes, std::byte{42});
  wire::Chunk chunk;
  chunk.set_bundle(std::string(32, 'b'));
  const double cpu = cpu_seconds();
  const auto begin = std::chrono::steady_clock::now();
  std::uint64_t sent = 0;
  while (sent < total) {
    while (sent < total && hub.stats(*side.other)->stripe_queue < 16u << 20) {
      hub.send_chunk(*side.other, chunk, payload);
      sent += chunk_bytes;
    }
    io.run_one();
  }
  while (!side.gone && hub.stats(*side.other)->stripe_queue > 0) io.run_one();
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
  report("sender", total, wall.count(), cpu_seconds() - cpu);
  while (!side.gone) io.run_one();
  return 0;
}

}  // namespace
}  // namespace p2pw

int main(int argc, char** argv) {
  using namespace p2pw;
  const double gigabytes = argc > 1 ? std::atof(argv[1]) : 2;
  const unsigned stripes = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 4;
  const std::size_t chunk_bytes = (argc > 3 ? static_cast<std::size_t>(std::atoi(argv[3])) : 1024) << 10;
  const std::uint64_t total = static_cast<std::uint64_t>(gigabytes * 1e9) / chunk_bytes * chunk_bytes;
  spdlog::set_level(spdlog::level::warn);
  const SigningKey here = SigningKey::generate(), there = SigningKey::generate();
  const FleetSecret secret = FleetSecret::generate();

  boost::asio::io_context io;
  Side side;
  auto listening = options(there, secret, "far", stripes);
  listening.listen = {{"127.0.0.1", 0}};
  auto receiver = TlsLinkHub::start(io, std::move(listening), side);
  if (!receiver) return std::fprintf(stderr, "%s\n", receiver.error().message.c_str()), 1;
  const LinkEndpoint place = (*receiver)->listening().front();
  io.notify_fork(boost::asio::io_context::fork_prepare);
  const pid_t child = fork();
  if (child == 0) {
    io.notify_fork(boost::asio::io_context::fork_child);
    std::exit(receive(io, std::move(receiver).value(), side, total));
  }
  io.notify_fork(boost::asio::io_context::fork_parent);
  std::move(receiver).value().reset();
  auto sender = TlsLinkHub::start(io, options(here, secret, "near", stripes), side);
  if (!sender) return 1;
  (*sender)->dial(place, std::nullopt);
  const int result = send(io, **sender, side, total, chunk_bytes, stripes);
  waitpid(child, nullptr, 0);
  return result;
}
