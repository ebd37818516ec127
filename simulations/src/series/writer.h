// Writes a whole series of checkpoints at once: each block of a tensor goes through all its steps while it is in cache, so
// memory does not grow with the model or with the number of steps.
#pragma once

#include <filesystem>

#include "protocol/result.h"
#include "simulations/src/series/plan.h"
#include "simulations/src/series/training.h"

namespace p2pw::series {

struct SeriesOptions {
  ModelOptions model;
  std::size_t steps = 3;       // after step_0000
  double changed_percent = 1.5;
  bool dense = false;          // every step draws all weights anew
  bool change_config = false;  // config.json tells the step
  std::uint64_t seed = 1;
  unsigned threads = 0;        // 0: all
};

struct SeriesSummary {
  std::size_t checkpoints = 0, tensors = 0, shards = 0;
  std::uint64_t checkpoint_bytes = 0;       // of the tensors of one
  std::uint64_t elements = 0;               // of one
  std::vector<std::uint64_t> changed;       // in each step
};

// Makes OUT/step_0000 to OUT/step_K, which must not be there.
Result<SeriesSummary> write_series(const std::filesystem::path& out, const SeriesOptions& options);

}  // namespace p2pw::series
