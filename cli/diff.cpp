// p2pw diff OLD NEW -o F
#include <CLI/CLI.hpp>

#include "chunker/make_delta.h"
#include "cli/checkpoint_verb.h"

namespace p2pw {
namespace {

struct Options {
  std::string old_dir, new_dir, file, key, kind = "auto";
  unsigned threads = 0;
};

std::string describe(const DeltaSummary& made, const std::string& file, double seconds) {
  char line[256];
  std::snprintf(line, sizeof line,
                "%s: %s of %s, %.2f %% of the checkpoint's %s\n%s of %s elements changed (%.2f %%), %.2f bits each; %s\n",
                file.c_str(), std::string(name_of(made.kind)).c_str(), human_bytes(made.delta_bytes).c_str(),
                100.0 * static_cast<double>(made.delta_bytes) / static_cast<double>(std::max<std::uint64_t>(1, made.input_bytes)),
                human_bytes(made.input_bytes).c_str(), grouped(made.changed_elements).c_str(),
                grouped(made.total_elements).c_str(),
                100.0 * static_cast<double>(made.changed_elements) /
                    static_cast<double>(std::max<std::uint64_t>(1, made.total_elements)),
                made.bits_per_changed_element(), human_seconds(seconds).c_str());
  return line;
}

Status run(const Options& options, Console& console) {
  catch_interrupts();
  MakeDeltaOptions make;
  make.threads = options.threads;
  make.stop = interrupted;
  if (options.kind != "auto") make.kind = options.kind == "anchor" ? Kind::anchor : Kind::delta;
  std::optional<SigningKey> key;
  if (!options.key.empty()) {
    P2PW_TRY(SigningKey read, read_signing_key(options.key));
    key.emplace(std::move(read));
    make.key = &*key;
  }
  make.progress = [&](std::uint64_t done, std::uint64_t total) { console.progress("diff", done, total); };
  Stopwatch watch;
  auto made = make_delta_file(options.old_dir, options.new_dir, options.file, make);
  console.finish();
  if (!made) return std::move(made).error();
  double seconds = watch.seconds();
  console.answer({{"file", options.file},
                  {"kind", name_of(made->kind)},
                  {"delta_bytes", made->delta_bytes},
                  {"input_bytes", made->input_bytes},
                  {"changed_elements", made->changed_elements},
                  {"total_elements", made->total_elements},
                  {"bits_per_changed_element", made->bits_per_changed_element()},
                  {"seconds", seconds},
                  {"bit_identical", true}},
                 describe(*made, options.file, seconds));
  return {};
}

Run add(CLI::App& verb) {
  auto options = std::make_shared<Options>();
  verb.add_option("OLD", options->old_dir, "Checkpoint folder that receivers have")->required();
  verb.add_option("NEW", options->new_dir, "Checkpoint folder that they shall have")->required();
  verb.add_option("-o,--output", options->file, "Delta file to write")->required()->type_name("F");
  verb.add_option("--sign", options->key, "Sign it with this secret key (p2pw keygen)")->type_name("KEY");
  verb.add_option("--kind", options->kind, "delta, anchor (needs no OLD), or auto: a delta where the layouts allow one")
      ->check(CLI::IsMember({"auto", "delta", "anchor"}));
  verb.add_option("--threads", options->threads, "Worker threads (default: one for each core)");
  return [options](Console& console) { return run(*options, console); };
}

const VerbRegistration kDiff({"diff", VerbGroup::checkpoint, "Write what changed between two checkpoints to a file",
                              "p2pw diff step_0001 step_0002 -o 2.delta", add});

}  // namespace
}  // namespace p2pw
