// `p2pw diff` without its command line: two checkpoint directories in, a delta file out.
#pragma once

#include "chunker/delta_file.h"

namespace p2pw {

struct MakeDeltaOptions {
  unsigned threads = 0;            // 0: all
  std::optional<Kind> kind;        // not given: a delta where the layouts allow one
  const SigningKey* key = nullptr;  // not given: unsigned
  std::function<bool()> stop;      // true ends the run with ErrorCode::interrupted
  std::function<void(std::uint64_t done, std::uint64_t total)> progress;  // bytes of the new checkpoint
};

struct DeltaSummary {
  Kind kind = Kind::anchor;
  std::uint64_t delta_bytes = 0;  // size of the file
  std::uint64_t input_bytes = 0;  // of the new checkpoint
  std::uint64_t changed_elements = 0;
  std::uint64_t total_elements = 0;
  double bits_per_changed_element() const {
    return changed_elements == 0 ? 0.0
                                 : 8.0 * static_cast<double>(delta_bytes) / static_cast<double>(changed_elements);
  }
};

// Every frame is decoded and compared before the file gets its name; after an error there is no file. Errors: those of
// Layout::scan and diff.h, and of writing.
Result<DeltaSummary> make_delta_file(const std::filesystem::path& parent, const std::filesystem::path& now,
                                     const std::filesystem::path& file, const MakeDeltaOptions& options);

}  // namespace p2pw
