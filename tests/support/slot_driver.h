// Drives a Slot through versions of a TestSeries on one thread, the way the rebuilder does it on many.
#pragma once

#include "chunker/slot_pair.h"
#include "tests/support/memory_file_system.h"
#include "tests/support/test_versions.h"

namespace p2pw::testing {

class SlotDriver {
 public:
  SlotDriver(TestSeries& series, Slot& slot, const Slot* other = nullptr)
      : series_(series), slot_(slot), other_(other) {}

  // From whatever the slot holds: by an anchor of path.front() unless the slot holds it (or came from it), then by the
  // deltas of the others, all in one sweep. Errors: the first one; incomplete when a slab could not be had.
  Result<StagedVersion> go(const std::vector<Version>& path);

  std::size_t refilled() const { return refilled_; }
  std::size_t decoded() const { return decoded_; }  // frames

 private:
  Status tensor_slab(std::uint32_t index, const std::vector<TestSeries::Frames>& steps, bool from_nothing,
                     const TestVersion& first);

  TestSeries& series_;
  Slot& slot_;
  const Slot* other_;
  SlabScratch scratch_;
  std::size_t refilled_ = 0, decoded_ = 0;
};

// What lies in a checkpoint folder.
Files files_in(const MemoryFileSystem& files, const std::filesystem::path& checkpoint);

}  // namespace p2pw::testing
