// p2pw apply OLD F -o DIR
#include "chunker/apply.h"

#include <CLI/CLI.hpp>

#include "cli/checkpoint_verb.h"

namespace p2pw {
namespace {

struct Options {
  std::string old_dir, file, output, publisher;
  unsigned threads = 0;
};

Status run(const Options& options, Console& console) {
  catch_interrupts();
  Stopwatch watch;
  P2PW_TRY(DeltaFile delta, DeltaFile::open(options.file));
  P2PW_TRY(std::string signature, check_publisher(delta, options.publisher));
  std::optional<Layout> layout;
  {
    SharedProgress progress(console, "apply", delta.info().input_bytes);
    ApplyOptions apply;
    apply.threads = options.threads;
    apply.stop = interrupted;
    apply.progress = [&](std::uint64_t done) { progress.at_least(done); };
    P2PW_TRY(layout, apply_delta(options.old_dir, delta, options.output, apply));
  }
  double seconds = watch.seconds();
  console.answer({{"directory", options.output},
                  {"kind", name_of(delta.info().kind)},
                  {"signature", signature},
                  {"delta_bytes", delta.size()},
                  {"output_bytes", layout->total_bytes()},
                  {"files", layout->files().size()},
                  {"seconds", seconds},
                  {"bit_identical", true}},
                 options.output + ": " + human_bytes(layout->total_bytes()) + " in " +
                     grouped(layout->files().size()) + " files, every slab checked; signature " + signature + "; " +
                     human_seconds(seconds) + "\n");
  return {};
}

Run add(CLI::App& verb) {
  auto options = std::make_shared<Options>();
  verb.add_option("OLD", options->old_dir, "Checkpoint folder that the delta starts from (not read for an anchor)")
      ->required();
  verb.add_option("F", options->file, "Delta file, from p2pw diff")->required();
  verb.add_option("-o,--output", options->output, "New folder to write")->required()->type_name("DIR");
  verb.add_option("--publisher", options->publisher, "Refuse a file that this public key has not signed")
      ->type_name("KEY");
  verb.add_option("--threads", options->threads, "Worker threads (default: one for each core)");
  return [options](Console& console) { return run(*options, console); };
}

const VerbRegistration kApply({"apply", VerbGroup::checkpoint, "Rebuild a checkpoint from an older one and a delta file",
                               "p2pw apply step_0001 2.delta -o step_0002", add});

}  // namespace
}  // namespace p2pw
