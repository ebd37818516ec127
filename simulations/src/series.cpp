// p2pw-series: makes series of checkpoints to try p2pw on.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "simulations/src/series/writer.h"

namespace {

using p2pw::series::SeriesOptions;
using p2pw::series::SeriesSummary;

// "64MiB", "1GB", "1000000".
std::uint64_t parse_bytes(const std::string& text) {
  std::size_t used = 0;
  double number = std::stod(text, &used);
  std::string unit = text.substr(used);
  double factor = unit.empty() || unit == "B" ? 1
                  : unit == "KiB" ? 1024.0 : unit == "MiB" ? 1048576.0 : unit == "GiB" ? 1073741824.0
                  : unit == "kB" || unit == "KB" ? 1e3 : unit == "MB" ? 1e6 : unit == "GB" ? 1e9 : -1;
  if (factor < 0 || number < 0) throw CLI::ValidationError("--bytes", "\"" + text + "\": use a number with kB, MB, GB, KiB, MiB or GiB");
  return static_cast<std::uint64_t>(number * factor);
}

double mean_changed_percent(const SeriesSummary& made) {
  if (made.changed.empty() || made.elements == 0) return 0;
  double sum = 0;
  for (std::uint64_t count : made.changed) sum += static_cast<double>(count);
  return 100 * sum / static_cast<double>(made.changed.size()) / static_cast<double>(made.elements);
}

void report(const std::string& out, const SeriesOptions& options, const SeriesSummary& made, double seconds, bool json) {
  double written = static_cast<double>(made.checkpoint_bytes) * static_cast<double>(made.checkpoints);
  if (json) {
    nlohmann::ordered_json object = {{"directory", out},
                                     {"checkpoints", made.checkpoints},
                                     {"checkpoint_bytes", made.checkpoint_bytes},
                                     {"tensors", made.tensors},
                                     {"shards", made.shards},
                                     {"total_elements", made.elements},
                                     {"changed_elements", made.changed},
                                     {"changed_percent", mean_changed_percent(made)},
                                     {"seed", options.seed},
                                     {"seconds", seconds},
                                     {"gb_per_s", written / seconds / 1e9}};
    std::printf("%s\n", object.dump().c_str());
    return;
  }
  std::printf("%s: %zu checkpoints of %.1f MB, %zu tensors in %zu shards; %.2f %% of the elements change in a step; %.2f s\n",
              out.c_str(), made.checkpoints, static_cast<double>(made.checkpoint_bytes) / 1e6, made.tensors, made.shards,
              mean_changed_percent(made), seconds);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Makes OUT/step_0000 to OUT/step_K: sharded safetensors checkpoints whose weights move as in training.\n"
               "Example: p2pw-series /tmp/series --bytes 64MiB --changed 1.5 --steps 3");
  std::string out, bytes = "64MiB";
  SeriesOptions options;
  bool json = false;
  app.add_option("OUT", out, "Folder to write to")->required();
  app.add_option("--bytes", bytes, "Size of one checkpoint, about")->capture_default_str();
  app.add_option("--changed", options.changed_percent, "Elements that change in one step, percent, about")
      ->check(CLI::Range(0.0, 100.0))->capture_default_str();
  app.add_option("--steps", options.steps, "Steps after step_0000")->check(CLI::Range(0, 9999))->capture_default_str();
  app.add_option("--dtype", options.model.dtype, "fp8-block: codes in 128 x 128 blocks with scales; moe: small experts")
      ->check(CLI::IsMember({"BF16", "F16", "F32", "F8_E4M3", "mixed", "fp8-block", "moe"}))->capture_default_str();
  app.add_option("--moe-tensors", options.model.moe_tensors, "Expert tensors in all, with --dtype moe");
  app.add_flag("--dense", options.dense, "Every step draws all weights anew: nothing to gain from a delta");
  app.add_flag("--change-config", options.change_config, "config.json tells the step, so a side file changes too");
  app.add_option("--seed", options.seed, "Same seed, same bytes")->capture_default_str();
  app.add_option("--threads", options.threads, "Default: one for each core");
  app.add_flag("--json", json, "Answer with one JSON object");
  try {
    app.parse(argc, argv);
    options.model.bytes = parse_bytes(bytes);
  } catch (const CLI::ParseError& e) {
    return e.get_exit_code() == 0 ? app.exit(e) : (app.exit(e), 2);
  } catch (const std::exception&) {
    std::fprintf(stderr, "p2pw-series: --bytes \"%s\" is not a size\n", bytes.c_str());
    return 2;
  }
  auto start = std::chrono::steady_clock::now();
  auto made = p2pw::series::write_series(out, options);
  if (!made) {
    std::fprintf(stderr, "p2pw-series: %s\n", made.error().message.c_str());
    return p2pw::exit_code_of(made.error().code);
  }
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  report(out, options, *made, seconds, json);
  return 0;
}
