// What the region's swarm adds: the time from offer() to the chunk at a neighbour, and megabytes a second from one node to
// others on loopback, with all libtorrents in this process (here) or each in a process of its own, as in a daemon (child).
// Usage: swarm_bench [here|child] [nodes] [MiB] [chunk KiB]
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "tests/swarm/swarm_world.h"

namespace p2pw::testing {
namespace {

using Clock = std::chrono::steady_clock;
double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

double cpu_seconds() {
  double sum = 0;
  for (int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage used{};
    getrusage(who, &used);
    for (const timeval& t : {used.ru_utime, used.ru_stime}) sum += static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  }
  return sum;
}

void latency(Where where, std::uint32_t nodes, std::uint32_t chunk_bytes) {
  ControlLoop loop;
  std::vector<std::unique_ptr<TestNode>> all;
  std::vector<TestNode*> raw;
  for (std::uint32_t i = 0; i < nodes; ++i) {
    all.push_back(std::make_unique<TestNode>(loop, static_cast<std::uint8_t>(i + 1), nullptr, where));
    raw.push_back(all.back().get());
  }
  introduce(raw);
  const TestBundle bundle = make_bundle(std::uint64_t(100) * chunk_bytes, chunk_bytes, 1);
  for (TestNode* node : raw) node->add(bundle);
  std::vector<double> times;
  for (std::uint32_t chunk = 0; chunk < 100; ++chunk) {
    const auto start = Clock::now();
    raw[0]->put_and_offer(bundle, chunk);
    loop.run_until([&] {
      return std::all_of(raw.begin() + 1, raw.end(),
                         [&](TestNode* n) { return n->arrived[bundle.id].contains(chunk); });
    });
    times.push_back(ms_since(start));
  }
  std::printf("first chunk %.2f ms, last chunk %.2f ms\n", times.front(), times.back());
  std::sort(times.begin(), times.end());
  std::printf("offer -> all %u neighbours, %u KiB chunks: median %.2f ms, 90 %% %.2f ms, worst %.2f ms\n",
              nodes - 1, chunk_bytes >> 10, times[50], times[90], times[99]);
}

void throughput(Where where, std::uint32_t nodes, std::uint64_t bytes, std::uint32_t chunk_bytes) {
  ControlLoop loop;
  std::vector<std::unique_ptr<TestNode>> all;
  std::vector<TestNode*> raw;
  for (std::uint32_t i = 0; i < nodes; ++i) {
    all.push_back(std::make_unique<TestNode>(loop, static_cast<std::uint8_t>(i + 1), nullptr, where));
    raw.push_back(all.back().get());
  }
  introduce(raw);
  const TestBundle bundle = make_bundle(bytes, chunk_bytes, 2);
  auto file = raw[0]->file(bundle, all_chunks(bundle));
  const auto start = Clock::now();
  raw[0]->swarm().add(bundle.id, bundle.record, bundle.roots, file, kEveryGroup);
  for (std::uint32_t i = 1; i < nodes; ++i) raw[i]->add(bundle);
  const bool done = loop.run_until(
      [&] { return std::all_of(raw.begin(), raw.end(), [&](TestNode* n) { return n->complete(bundle); }); },
      std::chrono::seconds(120));
  const double ms = ms_since(start);
  std::printf("%llu MiB to %u neighbours: %s in %.0f ms, %.0f MB/s each\n",
              static_cast<unsigned long long>(bytes >> 20), nodes - 1, done ? "all" : "NOT all", ms,
              static_cast<double>(bytes) / 1e3 / ms);
  std::uint64_t sent = 0;
  loop.run_until(  // a process tells its counters once a second
      [&] {
        sent = 0;
        for (TestNode* n : raw) sent += n->swarm().counters().payload_sent;
        return sent >= bytes * (nodes - 1);
      },
      std::chrono::seconds(3));
  std::printf("payload sent: %.4f copies each\n",
              static_cast<double>(sent) / static_cast<double>(bytes) / (nodes - 1));
}

}  // namespace
}  // namespace p2pw::testing

int main(int argc, char** argv) {
  using p2pw::testing::Where;
  const Where where = argc > 1 && std::string_view(argv[1]) == "child" ? Where::child : Where::here;
  const auto nodes = static_cast<std::uint32_t>(argc > 2 ? std::atoi(argv[2]) : 3);
  const auto mib = static_cast<std::uint64_t>(argc > 3 ? std::atoi(argv[3]) : 256);
  const auto chunk = static_cast<std::uint32_t>(argc > 4 ? std::atoi(argv[4]) : 1024) << 10;
  p2pw::testing::latency(where, nodes, chunk);
  const double before = p2pw::testing::cpu_seconds();
  p2pw::testing::throughput(where, nodes, mib << 20, chunk);
  // Processes that have ended by now are counted, and with them the nodes' start and end.
  std::printf("CPU: %.2f s\n", p2pw::testing::cpu_seconds() - before);
}
