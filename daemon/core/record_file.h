// The signed records of one channel on disk, as they were received, in the order in which they were accepted: u32 length
// (little-endian) and the envelope, again and again. A record that was cut short by a crash is dropped on opening.
// Control thread only.
#pragma once

#include <filesystem>
#include <vector>

#include "protocol/ids.h"

namespace p2pw {

class RecordFile {
 public:
  // Creates it when there is none. Errors: io, no_space.
  static Result<RecordFile> open(const std::filesystem::path& path);
  RecordFile(RecordFile&& other) noexcept;
  ~RecordFile();

  const std::vector<Bytes>& loaded() const { return loaded_; }  // what was there on opening
  void forget_loaded() { loaded_ = {}; }
  // `sync`: on stable storage before it returns (seals: a version that was acknowledged must not be forgotten).
  Status append(ByteView envelope, bool sync);
  // Replaces the whole file, for dropping what retention no longer needs. Errors leave the old file.
  Status rewrite(const std::vector<Bytes>& envelopes);

 private:
  RecordFile(int fd, std::filesystem::path path) : fd_(fd), path_(std::move(path)) {}
  int fd_;
  std::filesystem::path path_;
  std::vector<Bytes> loaded_;
};

}  // namespace p2pw
