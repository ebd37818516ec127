// p2pw export --sparse OLD DELTA... -o F, and the same from a daemon's two slots: --channel C [--version N] [--from M]
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "chunker/sparse_export.h"
#include "cli/checkpoint_verb.h"
#include "cli/daemon_access.h"

namespace p2pw {
namespace {

struct Options {
  bool sparse = false;
  std::string old_dir, output, publisher, channel;
  std::vector<std::string> files;
  std::uint64_t version = 0, from = 0;
};

std::string summary(const std::string& file, std::uint64_t elements, std::uint64_t tensors, std::uint64_t bytes) {
  return file + ": " + grouped(elements) + " elements of " + grouped(tensors) + " tensors, " + human_bytes(bytes) + "\n";
}

Status from_files(const Options& options, Console& console) {
  catch_interrupts();
  Stopwatch watch;
  std::vector<DeltaFile> deltas;
  std::string signature;
  for (const std::string& file : options.files) {
    P2PW_TRY(DeltaFile delta, DeltaFile::open(file));
    P2PW_TRY(signature, check_publisher(delta, options.publisher));
    deltas.push_back(std::move(delta));
  }
  P2PW_TRY(SparseSummary made, export_sparse(options.old_dir, deltas, options.output, interrupted));
  console.answer({{"file", options.output},
                  {"bytes", made.bytes},
                  {"tensors", made.tensors},
                  {"changed_elements", made.elements},
                  {"signature", signature},
                  {"seconds", watch.seconds()}},
                 summary(options.output, made.elements, made.tensors, made.bytes));
  return {};
}

Status copy_whole(const std::filesystem::path& from, const std::filesystem::path& to) {
  P2PW_TRY(TemporaryPath temporary, TemporaryPath::beside(to));
  std::error_code error;
  std::filesystem::copy_file(from, temporary.path(), std::filesystem::copy_options::overwrite_existing, error);
  if (error) return fail(ErrorCode::io, from.string() + ": cannot be copied to " + to.string() + ": " + error.message());
  return temporary.rename_to(to);
}

Status from_daemon(const Options& options, Console& console) {
  Stopwatch watch;
  P2PW_TRY(Channel channel, chosen_channel(console, options.channel));
  P2PW_TRY(ApiClient daemon, connect_daemon(console));
  P2PW_TRY(api::SparseReply made, daemon.sparse(channel, {options.from, options.version}));
  P2PW_CHECK(copy_whole(made.file, options.output));
  console.answer({{"file", options.output},
                  {"bytes", made.bytes},
                  {"tensors", made.tensors},
                  {"changed_elements", made.changed_elements},
                  {"from", made.from},
                  {"version", made.version},
                  {"seconds", watch.seconds()}},
                 "version " + std::to_string(made.from) + " to " + std::to_string(made.version) + ": " +
                     summary(options.output, made.changed_elements, made.tensors, made.bytes));
  return {};
}

Status run(const Options& options, Console& console) {
  if (!options.sparse) return fail(ErrorCode::usage, "say in which form: export --sparse; `p2pw export --help` shows how");
  if (options.old_dir.empty()) return from_daemon(options, console);
  if (options.files.empty()) return fail(ErrorCode::usage, "name the delta files that lead on from " + options.old_dir + ", oldest first");
  return from_files(options, console);
}

Run add(CLI::App& verb) {
  auto options = std::make_shared<Options>();
  verb.add_flag("--sparse", options->sparse, "For each changed tensor T: T.indices (I64, flat) and T.values");
  verb.add_option("OLD", options->old_dir, "Checkpoint folder that the first delta starts from; without: the daemon's two slots");
  verb.add_option("DELTA", options->files, "Delta files, from p2pw diff, oldest first; they fold into one");
  verb.add_option("-o,--output", options->output, "Safetensors file to write")->required()->type_name("F");
  verb.add_option("--publisher", options->publisher, "Refuse a delta that this public key has not signed")
      ->type_name("KEY");
  verb.add_option("--channel,-c", options->channel, "Of the daemon: which channel, when there are several");
  verb.add_option("--version,-v", options->version, "Of the daemon: the version to lead to (default: the newer one)");
  verb.add_option("--from", options->from, "Of the daemon: the version to start from (default: the other one)");
  return [options](Console& console) { return run(*options, console); };
}

const VerbRegistration kExport({"export", VerbGroup::checkpoint, "Write a delta in a form that other tools read",
                                "p2pw export --sparse step_0001 2.delta 3.delta -o 3.safetensors\n"
                                "p2pw export --sparse --channel policy --version 7 -o 7.safetensors", add});

}  // namespace
}  // namespace p2pw
