// p2pw-bench-codec: size and speed of the codec beside what others do, on the same data in the same run.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "chunker/codec/kernels.h"
#include "simulations/src/series/writer.h"
#include "tests/bench/src/floor.h"
#include "tests/bench/src/measure.h"
#include "tests/bench/src/xdelta.h"
#include "tests/support/temp_dir.h"

namespace p2pw::bench {
namespace {

struct Options {
  std::vector<std::string> data;
  std::string simd;
  std::vector<unsigned> threads = {1, 2};
  std::vector<std::string> sets;
  Settings settings;
  std::uint64_t mebibytes = 1024;
  bool json = false, quick = false, ours_only = false;
};

// A series to be made, and how its pair is called.
struct Generated {
  std::string name, dtype;
  double changed;
  std::size_t moe_tensors = 0;
};
const Generated kGenerated[] = {{"0.1%", "BF16", 0.1}, {"1%", "BF16", 1}, {"1.5%", "BF16", 1.5}, {"2%", "BF16", 2},
                                {"5%", "BF16", 5}, {"20%", "BF16", 20}, {"mixed", "mixed", 1.5},
                                {"fp8-block", "fp8-block", 1.5}, {"moe", "moe", 1.5, 100'000}};

Result<Pair> generate(const Generated& what, std::uint64_t mebibytes) {
  const testing::TempDir folder;
  series::SeriesOptions options;
  options.model.bytes = mebibytes << 20;
  options.model.dtype = what.dtype;
  options.model.moe_tensors = what.moe_tensors;
  options.steps = 1;
  options.changed_percent = what.changed;
  P2PW_TRY(const series::SeriesSummary made, series::write_series(folder / "s", options));
  (void)made;
  return load_pair(folder / "s" / "step_0000", folder / "s" / "step_0001", what.name);
}

class Report {
 public:
  explicit Report(bool json) : json_(json) {}
  void start(const Pair& pair) {
    if (json_) return;
    const double percent = 100 * static_cast<double>(pair.changed) / static_cast<double>(pair.elements);
    std::printf("\n%s: %.1f MB, %zu slabs, %llu of %llu elements changed (%.3f %%)\n", pair.name.c_str(),
                static_cast<double>(pair.after.size()) / 1e6, pair.slabs.size(),
                static_cast<unsigned long long>(pair.changed), static_cast<unsigned long long>(pair.elements), percent);
    std::printf("%-34s %-7s %2s %12s %8s %8s %8s %7s %8s %7s\n", "codec", "simd", "t", "bytes", "ratio", "bits/ch",
                "enc GB/s", "/memcpy", "dec GB/s", "/memcpy");
  }
  void add(const Row& row, const Pair& pair) {
    if (json_) return add_json(row);
    std::printf("%-34s %-7s %2u %12llu %8.5f %8.4f", row.codec.c_str(), row.simd.c_str(), row.threads,
                static_cast<unsigned long long>(row.bytes),
                static_cast<double>(row.bytes) / static_cast<double>(pair.after.size()), row.bits_per_changed_element);
    for (const auto& speed : {row.encode, row.decode}) {
      if (!speed) {
        std::printf(" %8s %7s", "-", "-");
      } else if (!row.memcpy) {
        std::printf(" %8.2f %7s", *speed, "-");
      } else {
        std::printf(" %8.2f %7.3f", *speed, *speed / *row.memcpy);
      }
    }
    std::printf("\n");
    std::fflush(stdout);
  }

 private:
  static nlohmann::ordered_json number(const std::optional<double>& value) {
    return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
  }
  static void add_json(const Row& row) {
    const nlohmann::ordered_json object = {{"codec", row.codec},
                                           {"data", row.data},
                                           {"bytes", row.bytes},
                                           {"bits_per_changed_element", row.bits_per_changed_element},
                                           {"encode_gb_per_s", number(row.encode)},
                                           {"decode_gb_per_s", number(row.decode)},
                                           {"memcpy_gb_per_s", number(row.memcpy)},
                                           {"threads", row.threads},
                                           {"simd", row.simd}};
    std::printf("%s\n", object.dump().c_str());
    std::fflush(stdout);
  }
  bool json_;
};

void add_floor(const Pair& pair, Report& report) {
  if (pair.changed == 0) return;
  const Floor floor = entropy_floor(pair);
  for (const auto& [name, bits] : {std::pair{"floor, empirical", floor.empirical_bits},
                                   std::pair{"floor, adaptive", floor.adaptive_bits}}) {
    Row row;
    row.codec = name;
    row.data = pair.name;
    row.bytes = static_cast<std::uint64_t>(bits / 8);
    row.bits_per_changed_element = bits / static_cast<double>(pair.changed);
    report.add(row, pair);
  }
}

void run(const Pair& pair, const Options& options, Report& report) {
  report.start(pair);
  Region work(pair.after.size());
  add_floor(pair, report);
  const codec::Simd best = codec::detected_simd();
  for (codec::Simd simd : {codec::Simd::avx512, codec::Simd::avx2, codec::Simd::scalar}) {
    if (!codec::force_simd(simd)) continue;
    const std::string name = codec::kernels().name;
    if (options.simd.empty() ? simd == codec::Simd::scalar && simd != best : options.simd != name) continue;
    for (unsigned threads : options.threads) {
      for (const Entry& entry : our_codecs()) {
        Settings settings = options.settings;
        settings.threads = threads;
        Row row = measure(entry, pair, work, settings);
        row.simd = name;
        report.add(row, pair);
      }
    }
  }
  codec::force_simd(best);
  if (options.ours_only) return;
  for (const Entry& entry : other_codecs()) report.add(measure(entry, pair, work, options.settings), pair);
  // Minutes for a gigabyte.
  if (pair.after.size() <= (64u << 20)) {
    if (const auto row = measure_xdelta(pair)) report.add(*row, pair);
  }
}

int main_with(Options options) {
  if (options.quick) {
    options.mebibytes = std::min<std::uint64_t>(options.mebibytes, 64);
    options.settings.runs = std::min(options.settings.runs, 3);
  }
  Report report(options.json);
  const auto each = [&](Result<Pair> pair) {
    if (!pair.ok()) {
      std::fprintf(stderr, "%s\n", pair.error().message.c_str());
      return false;
    }
    run(*pair, options, report);
    return true;
  };
  if (!options.data.empty()) {
    for (std::size_t i = 0; i + 1 < options.data.size(); ++i) {
      const std::filesystem::path before = options.data[i], after = options.data[i + 1];
      const std::string name = before.filename().string() + " -> " + after.filename().string();
      if (!each(load_pair(before, after, name))) return 2;
    }
    return 0;
  }
  for (const Generated& what : kGenerated) {
    const bool wanted = options.sets.empty() || std::find(options.sets.begin(), options.sets.end(), what.name) != options.sets.end();
    if (wanted && !each(generate(what, options.mebibytes))) return 1;
  }
  return 0;
}

}  // namespace
}  // namespace p2pw::bench

int main(int argc, char** argv) {
  CLI::App app("Size and speed of the codec beside what others do, slab by slab in memory, on the same data in the same\n"
               "run. Speeds are GB of new bytes a second, medians, beside memcpy between touched buffers.\n"
               "Example: tests/bench/codec --data RUN/step_0000 RUN/step_0001 RUN/step_0002");
  p2pw::bench::Options options;
  app.add_option("--data", options.data, "Checkpoint directories (or equally large files), each the next one's parent")
      ->expected(2, -1);
  app.add_option("--set", options.sets, "Without --data, only these made-up series: 0.1% 1% 1.5% 2% 5% 20% mixed fp8-block moe");
  app.add_option("--mebibytes", options.mebibytes, "Size of a made-up checkpoint")->capture_default_str();
  app.add_option("--simd", options.simd, "Only this instruction set")->check(CLI::IsMember({"scalar", "avx2", "avx512"}));
  app.add_option("--threads", options.threads, "Numbers of threads for the project's own codec")->capture_default_str();
  app.add_option("--runs", options.settings.runs, "Runs of which the median is taken")->capture_default_str();
  app.add_flag("--cpu-clock", options.settings.cpu_clock, "Processor time instead of wall time, on a machine in use");
  app.add_flag("--ours", options.ours_only, "Only the project's own codec");
  app.add_flag("--quick", options.quick, "64 MiB and 3 runs");
  app.add_flag("--json", options.json, "One JSON object a row");
  CLI11_PARSE(app, argc, argv);
  return p2pw::bench::main_with(options);
}
