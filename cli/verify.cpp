// p2pw verify DIR [F]
#include <CLI/CLI.hpp>

#include "chunker/apply.h"
#include "cli/checkpoint_verb.h"

namespace p2pw {
namespace {

struct Options {
  std::string directory, file, publisher;
  unsigned threads = 0;
};

Status run(const Options& options, Console& console) {
  catch_interrupts();
  Stopwatch watch;
  std::optional<DeltaFile> delta;
  std::string signature;
  if (!options.file.empty()) {
    P2PW_TRY(delta, DeltaFile::open(options.file));
    P2PW_TRY(signature, check_publisher(*delta, options.publisher));
  }
  P2PW_TRY(Layout layout, Layout::scan(options.directory));
  DiffOptions reading;
  reading.threads = options.threads;
  reading.stop = interrupted;
  P2PW_TRY(SlabDigests digests, digest_checkpoint({options.directory, &layout}, reading));
  if (delta) P2PW_CHECK(check_leads_to(*delta, options.directory, layout, digests));

  std::size_t tensors = 0;
  for (const FileEntry& file : layout.files()) tensors += file.tensors.size();
  std::string table = digests.table_hash(layout.hash()).hex();
  nlohmann::ordered_json object = {{"directory", options.directory}, {"files", layout.files().size()},
                                   {"tensors", tensors},             {"bytes", layout.total_bytes()},
                                   {"total_elements", layout.total_elements()},
                                   {"layout_hash", layout.hash().hex()}, {"table_hash", table}};
  if (delta) {
    object["signature"] = signature;
    object["bit_identical"] = true;
  }
  object["seconds"] = watch.seconds();
  std::string verdict = delta ? "is what " + options.file + " leads to (signature " + signature + ")" : "well formed";
  console.answer(object, options.directory + ": " + verdict + "\n" + grouped(tensors) + " tensors in " +
                             grouped(layout.files().size()) + " files, " + human_bytes(layout.total_bytes()) +
                             "\ndigest " + table + "\n");
  return {};
}

Run add(CLI::App& verb) {
  auto options = std::make_shared<Options>();
  verb.add_option("DIR", options->directory, "Checkpoint folder")->required();
  verb.add_option("F", options->file, "Delta file that should lead to it");
  verb.add_option("--publisher", options->publisher, "Refuse a file that this public key has not signed")
      ->type_name("KEY");
  verb.add_option("--threads", options->threads, "Worker threads (default: one for each core)");
  return [options](Console& console) { return run(*options, console); };
}

const VerbRegistration kVerify({"verify", VerbGroup::checkpoint, "Read a checkpoint strictly and print its digest",
                                "p2pw verify step_0002\np2pw verify step_0002 2.delta --publisher key.pub", add});

}  // namespace
}  // namespace p2pw
