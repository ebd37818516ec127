// p2pw inspect F
#include <CLI/CLI.hpp>
#include <map>

#include "chunker/codec/codec.h"
#include "cli/checkpoint_verb.h"

namespace p2pw {
namespace {

struct Options {
  std::string file, publisher;
};

struct ModeSums {
  std::uint64_t frames = 0, bytes = 0, changed = 0;
};

Result<std::map<std::string, ModeSums>> sum_modes(const DeltaFile& delta) {
  std::map<std::string, ModeSums> modes;
  Bytes frame;
  for (const DeltaFile::Entry& entry : delta.frames()) {
    P2PW_CHECK(delta.read(entry, frame));
    P2PW_TRY(codec::FrameInfo info, codec::inspect_frame(frame));
    ModeSums& sums = modes[std::string(info.mode)];
    ++sums.frames;
    sums.bytes += entry.length;
    sums.changed += entry.slab.is_bytes() ? 0 : info.changed_elements;
  }
  return modes;
}

std::string describe(const DeltaFile& delta, const std::string& signature, const std::map<std::string, ModeSums>& modes) {
  const DeltaFileInfo& info = delta.info();
  std::string text = std::string(name_of(info.kind)) + ", format " + std::to_string(kDeltaFileFormat) + ", " +
                     human_bytes(delta.size()) + " for a checkpoint of " + human_bytes(info.input_bytes) + "\n";
  text += "changed    " + grouped(info.changed_elements) + " of " + grouped(info.total_elements) + " elements\n";
  if (info.kind == Kind::delta) text += "parent     " + info.parent_table.hex() + "\n";
  text += "leads to   " + info.table.hex() + "\n";
  text += "layout     " + info.layout_hash.hex() + "\n";
  text += "signature  " + signature + (delta.is_signed() ? ", key " + delta.signer()->hex() : "") + "\n";
  for (const auto& [mode, sums] : modes) {
    text += "frames     " + mode + ": " + grouped(sums.frames) + ", " + human_bytes(sums.bytes) + ", " +
            grouped(sums.changed) + " changes\n";
  }
  return text;
}

Status run(const Options& options, Console& console) {
  P2PW_TRY(DeltaFile delta, DeltaFile::open(options.file));
  P2PW_TRY(std::string signature, check_publisher(delta, options.publisher));
  P2PW_TRY(auto modes, sum_modes(delta));
  const DeltaFileInfo& info = delta.info();
  nlohmann::ordered_json by_mode = nlohmann::ordered_json::object();
  std::uint64_t frame_bytes = 0;
  for (const auto& [mode, sums] : modes) {
    by_mode[mode] = {{"frames", sums.frames}, {"bytes", sums.bytes}, {"changed_elements", sums.changed}};
    frame_bytes += sums.bytes;
  }
  nlohmann::ordered_json object = {{"file", options.file},
                                   {"format", kDeltaFileFormat},
                                   {"kind", name_of(info.kind)},
                                   {"delta_bytes", delta.size()},
                                   {"frame_bytes", frame_bytes},
                                   {"input_bytes", info.input_bytes},
                                   {"changed_elements", info.changed_elements},
                                   {"total_elements", info.total_elements},
                                   {"frames", delta.frames().size()},
                                   {"modes", by_mode},
                                   {"layout_hash", info.layout_hash.hex()},
                                   {"table_hash", info.table.hex()},
                                   {"signature", signature}};
  if (info.kind == Kind::delta) object["parent_table_hash"] = info.parent_table.hex();
  if (delta.is_signed()) object["signer"] = delta.signer()->hex();
  console.answer(object, describe(delta, signature, modes));
  return {};
}

Run add(CLI::App& verb) {
  auto options = std::make_shared<Options>();
  verb.add_option("F", options->file, "Delta file, from p2pw diff")->required();
  verb.add_option("--publisher", options->publisher, "Refuse a file that this public key has not signed")
      ->type_name("KEY");
  return [options](Console& console) { return run(*options, console); };
}

const VerbRegistration kInspect({"inspect", VerbGroup::checkpoint, "Show what is in a delta file, after checking it",
                                 "p2pw inspect 2.delta", add});

}  // namespace
}  // namespace p2pw
