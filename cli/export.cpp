// p2pw export --sparse OLD DELTA -o F
#include <CLI/CLI.hpp>

#include "chunker/sparse_export.h"
#include "cli/checkpoint_verb.h"

namespace p2pw {
namespace {

struct Options {
  bool sparse = false;
  std::string old_dir, file, output, publisher;
};

Status run(const Options& options, Console& console) {
  if (!options.sparse) return fail(ErrorCode::usage, "say in which form: export --sparse; `p2pw export --help` shows how");
  catch_interrupts();
  Stopwatch watch;
  P2PW_TRY(DeltaFile delta, DeltaFile::open(options.file));
  P2PW_TRY(std::string signature, check_publisher(delta, options.publisher));
  P2PW_TRY(SparseSummary made, export_sparse(options.old_dir, delta, options.output, interrupted));
  console.answer({{"file", options.output},
                  {"bytes", made.bytes},
                  {"tensors", made.tensors},
                  {"changed_elements", made.elements},
                  {"signature", signature},
                  {"seconds", watch.seconds()}},
                 options.output + ": " + grouped(made.elements) + " elements of " + grouped(made.tensors) +
                     " tensors, " + human_bytes(made.bytes) + "\n");
  return {};
}

Run add(CLI::App& verb) {
  auto options = std::make_shared<Options>();
  verb.add_flag("--sparse", options->sparse, "For each changed tensor T: T.indices (I64, flat) and T.values");
  verb.add_option("OLD", options->old_dir, "Checkpoint folder that the delta starts from")->required();
  verb.add_option("DELTA", options->file, "Delta file, from p2pw diff")->required();
  verb.add_option("-o,--output", options->output, "Safetensors file to write")->required()->type_name("F");
  verb.add_option("--publisher", options->publisher, "Refuse a delta that this public key has not signed")
      ->type_name("KEY");
  return [options](Console& console) { return run(*options, console); };
}

const VerbRegistration kExport({"export", VerbGroup::checkpoint, "Write a delta in a form that other tools read",
                                "p2pw export --sparse step_0001 2.delta -o 2.safetensors", add});

}  // namespace
}  // namespace p2pw
