// Small checkpoints with many slabs, a series of versions of them, and the frames and bundles that lead from one to the
// next. Everything follows from the seed.
#pragma once

#include <map>
#include <random>
#include <string>
#include <vector>

#include "chunker/bundle_file.h"
#include "chunker/checkpoint_table.h"
#include "protocol/record.h"
#include "protocol/sealing.h"

namespace p2pw::testing {

// A checkpoint directory in memory: path -> bytes.
using Files = std::map<std::string, Bytes>;

struct SeriesShape {
  std::size_t files = 2;
  std::size_t slabs_per_file = 6;   // tensors of alternating dtype
  std::size_t elements = 3000;      // of each tensor
  double slabs_changed = 0.5;       // of each step
};

struct TestVersion {
  Version version;
  Files files;
  CheckpointTable table;
  std::vector<Bytes> byte_slabs, tensor_slabs;
};

// A run as its records, metas and bundles tell it.
struct TestRun {
  RunId id;
  OpenRecord open;
  std::shared_ptr<const FrameSealer> sealer;
  struct Bundle {
    BundleId id;
    BundleRecord record;
    std::shared_ptr<const BundleMeta> meta;
    Bytes bytes;
    std::shared_ptr<BundleFile> file(const std::filesystem::path& directory) const;  // opens, nothing in it yet
    ByteView chunk(std::uint32_t index) const;
  };
  std::vector<Bundle> bundles;
  SealRecord seal;
  SealHash seal_hash;
};

class TestSeries {
 public:
  explicit TestSeries(std::uint64_t seed, SeriesShape shape = {});

  const TestVersion& at(Version version) const { return versions_.at(version); }
  const TestVersion& first();                          // makes version 1
  // Makes the next version. `side`: config.json grows and a side file comes or goes.
  const TestVersion& step(Version parent, bool side = false);
  const TestVersion& step_again(Version parent, Version version);  // another version with the same parent
  // Another layout: one tensor more in each file.
  const TestVersion& reshape(Version parent);

  TestRun anchor(Version version, std::size_t frames_per_bundle = 4);
  TestRun delta(Version parent, Version version, std::size_t frames_per_bundle = 4);

  // The frames between two versions in the clear, by slab.
  struct Frames {
    std::map<std::uint32_t, ByteFrame> bytes, tensors;
  };
  Frames frames(const TestVersion* parent, const TestVersion& now);

  std::mt19937_64& random() { return random_; }

 private:
  const TestVersion& keep(Version version, Files files);
  Files change(const TestVersion& parent, bool side);
  TestRun run(Kind kind, const TestVersion* parent, const TestVersion& now, std::size_t frames_per_bundle);
  TestRun::Bundle bundle(const TestRun& run, const std::vector<std::pair<SlabId, ByteFrame>>& frames, std::size_t begin,
                         std::size_t end, std::uint32_t index);
  template <class Blob>
  Blob random_blob() {
    Blob blob;
    for (auto& byte : blob.data) byte = static_cast<std::uint8_t>(random_());
    return blob;
  }

  std::mt19937_64 random_;
  SeriesShape shape_;
  FleetSecret secret_;
  codec::SlabEncoder encoder_;
  std::map<Version, TestVersion> versions_;
  Version newest_;
};

}  // namespace p2pw::testing
