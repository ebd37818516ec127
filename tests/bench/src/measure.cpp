#include "tests/bench/src/measure.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <thread>

namespace p2pw::bench {
namespace {

double now(const Settings& settings) {
  if (settings.cpu_clock) {
    timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9) / settings.threads;
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Calls f(thread, slab) for every slab.
template <class F>
double over_slabs(const Pair& pair, const Settings& settings, F f) {
  std::atomic<std::size_t> next{0};
  const auto work = [&](unsigned thread) {
    for (std::size_t s = next++; s < pair.slabs.size(); s = next++) f(thread, s);
  };
  const double start = now(settings);
  if (settings.threads == 1) {
    work(0);
  } else {
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < settings.threads; ++t) threads.emplace_back(work, t);
    for (auto& thread : threads) thread.join();
  }
  return now(settings) - start;
}

double median(std::vector<double>& seconds) {
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2), seconds.end());
  return seconds[seconds.size() / 2];
}

}  // namespace

Row measure(const Entry& entry, const Pair& pair, Region& work, const Settings& settings) {
  std::vector<std::unique_ptr<Competitor>> codecs;
  for (unsigned t = 0; t < settings.threads; ++t) codecs.push_back(entry.make());
  std::vector<Bytes> frames(pair.slabs.size());
  std::vector<double> encode, decode, copy;
  const bool decodes = entry.name != "p2pw published";
  bool good = true;
  const int runs = entry.slow ? 1 : settings.runs + 1;  // the first one warms up
  for (int run = 0; run < runs; ++run) {
    const double copied = over_slabs(pair, settings, [&](unsigned, std::size_t s) {
      std::memcpy(work.data() + pair.slabs[s].offset, pair.new_slab(s).data(), pair.slabs[s].length);
    });
    std::memcpy(work.data(), pair.before.data(), work.size());
    const double encoded = over_slabs(pair, settings, [&](unsigned t, std::size_t s) {
      frames[s].clear();
      const std::span<std::byte> before(work.data() + pair.slabs[s].offset, pair.slabs[s].length);
      codecs[t]->encode(before, pair.new_slab(s), pair.slabs[s].dtype, frames[s]);
    });
    std::memcpy(work.data(), pair.before.data(), work.size());
    const double decoded = over_slabs(pair, settings, [&](unsigned t, std::size_t s) {
      const std::span<std::byte> slab(work.data() + pair.slabs[s].offset, pair.slabs[s].length);
      if (decodes && !frames[s].empty() && !codecs[t]->decode(frames[s], pair.slabs[s].dtype, slab)) good = false;
    });
    if (!good || (decodes && std::memcmp(work.data(), pair.after.data(), work.size()) != 0)) {
      std::fprintf(stderr, "%s on %s does not give the new checkpoint\n", entry.name.c_str(), pair.name.c_str());
      std::exit(1);
    }
    if (run == 0 && runs > 1) continue;
    encode.push_back(encoded);
    decode.push_back(decoded);
    copy.push_back(copied);
  }
  Row row;
  row.codec = entry.name;
  row.data = pair.name;
  for (const Bytes& frame : frames) row.bytes += frame.size();
  row.bits_per_changed_element = pair.changed == 0 ? 0 : static_cast<double>(row.bytes) * 8 / static_cast<double>(pair.changed);
  const double gigabytes = static_cast<double>(work.size()) / 1e9;
  row.encode = gigabytes / median(encode);
  if (decodes) row.decode = gigabytes / median(decode);
  row.memcpy = gigabytes / median(copy);
  row.threads = settings.threads;
  return row;
}

}  // namespace p2pw::bench
