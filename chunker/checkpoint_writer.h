// Writes a new checkpoint directory slab by slab, in any order, under a temporary name beside its own. Nobody sees it
// before commit(), and without commit() nothing is left behind.
//
// Threads: write() from any number at once, different slabs.
#pragma once

#include <memory>

#include "chunker/file_io.h"
#include "chunker/layout.h"

namespace p2pw {

class OpenFiles;

class CheckpointWriter {
 public:
  ~CheckpointWriter();
  // Errors: bad_input (`target` exists and is not an empty folder), not_found, io, no_space. The files are made at once
  // and their room is set aside, so that a full disk shows here. The layout must outlive the writer.
  static Result<std::unique_ptr<CheckpointWriter>> create(const std::filesystem::path& target, const Layout& layout);

  // The file table (slab bytes(0)) is nothing to write: it is the directory itself.
  Status write(const Slab& slab, ByteView bytes) const;
  // Puts all on disk, then gives the directory its name.
  Status commit();

 private:
  CheckpointWriter(std::filesystem::path target, TemporaryPath temporary, const Layout& layout);
  Status make_files();

  std::filesystem::path target_;
  TemporaryPath temporary_;
  const Layout& layout_;
  std::vector<std::filesystem::path> folders_;  // inner ones last
  std::unique_ptr<OpenFiles> open_;
};

// Why a checkpoint cannot be written there; ok when it can.
Status check_target(const std::filesystem::path& target);

}  // namespace p2pw
