#include "tests/support/slot_driver.h"

namespace p2pw::testing {
namespace {

RunId run_id(Version version) {
  RunId id;
  id.data[0] = static_cast<std::uint8_t>(version.value());
  return id;
}

}  // namespace

Result<StagedVersion> SlotDriver::go(const std::vector<Version>& path) {
  const TestVersion& first = series_.at(path.front());
  const TestVersion& last = series_.at(path.back());
  bool from_nothing = slot_.version() != path.front();
  P2PW_CHECK(from_nothing ? slot_.begin_new(run_id(last.version), last.version)
                          : slot_.begin_delta(run_id(last.version), last.version));

  std::vector<TestSeries::Frames> steps;
  ByteTable bytes;
  if (from_nothing) {
    steps.push_back(series_.frames(nullptr, first));
    P2PW_TRY(bytes, advance_byte_table(slot_.byte_store(), nullptr, steps[0].bytes, first.table.bytes.layout->hash(),
                                       scratch_.decoder));
    P2PW_CHECK(slot_.set_layout(bytes.layout));
  } else {
    bytes = slot_.table()->bytes;
  }
  for (std::size_t i = 1; i < path.size(); ++i) {
    const TestVersion& now = series_.at(path[i]);
    steps.push_back(series_.frames(&series_.at(path[i - 1]), now));
    ByteTable parent = bytes;
    P2PW_TRY(bytes, advance_byte_table(slot_.byte_store(), &parent, steps.back().bytes,
                                       now.table.bytes.layout->hash(), scratch_.decoder));
  }
  for (std::uint32_t i = 0; i < last.table.tensors.size(); ++i) {
    P2PW_CHECK(tensor_slab(i, steps, from_nothing, first));
  }
  auto want = std::make_shared<CheckpointTable>(CheckpointTable{bytes, last.table.tensors});
  SealHash seal;
  seal.data[0] = static_cast<std::uint8_t>(last.version.value());
  P2PW_TRY(Slot::Finish finish, slot_.finish(last.version, seal, last.table.hash(), want));
  if (!finish.staged) return fail(ErrorCode::incomplete, std::to_string(finish.open_slabs.size()) + " slabs are open");
  return *finish.staged;
}

Status SlotDriver::tensor_slab(std::uint32_t index, const std::vector<TestSeries::Frames>& steps, bool from_nothing,
                               const TestVersion& first) {
  SlabChain chain;
  if (!from_nothing) chain.parent = first.table.tensors[index];
  std::vector<const Bytes*> frames;
  for (const TestSeries::Frames& step : steps) {
    auto found = step.tensors.find(index);
    if (found == step.tensors.end()) continue;
    chain.after.push_back(found->second.digest);
    frames.push_back(&found->second.frame);
  }
  chain.frame = [&](std::size_t step) -> Result<ByteView> { return ByteView(*frames[step]); };
  // A slab without a frame that is known to be the parent's needs no look.
  if (chain.after.empty() && slot_.known_digest(index) == chain.parent) return {};

  for (int attempt = 0; attempt < 2; ++attempt) {
    P2PW_TRY(Applied applied, slot_.apply(index, chain, scratch_));
    decoded_ += applied.steps;
    if (applied.done) return {};
    if (other_ == nullptr) continue;
    P2PW_TRY(bool refilled, slot_.refill(index, *other_, chain, scratch_));
    refilled_ += refilled;
  }
  return fail(ErrorCode::incomplete, "slab " + std::to_string(index) + " cannot be had");
}

Files files_in(const MemoryFileSystem& files, const std::filesystem::path& checkpoint) {
  Files found;
  for (const std::string& path : files.files_under(checkpoint)) found[path] = *files.contents(checkpoint / path);
  return found;
}

}  // namespace p2pw::testing
