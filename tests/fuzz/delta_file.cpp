// Delta files: as they come, and, because a random one never has the right hashes, with the hashes put right. What opens
// as an anchor is also read up to its layout.
#include "chunker/delta_file.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "chunker/delta_slabs.h"

namespace {

constexpr std::size_t kTrailer = 1 + 4 * 32 + 4 * 8;  // chunker/delta_file.h

const std::filesystem::path& path() {
  static const std::filesystem::path kPath =
      std::filesystem::temp_directory_path() / ("p2pw-fuzz-" + std::to_string(getpid()));
  return kPath;
}

void check(p2pw::ByteView file) {
  std::filesystem::remove(path());
  {
    auto out = p2pw::File::create(path());
    if (!out || !out->write(0, file)) std::abort();
  }
  auto delta = p2pw::DeltaFile::open(path());
  if (!delta) return;
  p2pw::Bytes frame;
  for (const auto& entry : delta->frames()) {
    if (delta->find(entry.slab) != &entry || !delta->read(entry, frame)) std::abort();
  }
  if (delta->info().kind == p2pw::Kind::anchor) (void)p2pw::DeltaByteSlabs(*delta, nullptr).layout();
}

// Trailer first, then what stands before it: a mutation of the body leaves the trailer alone.
p2pw::Bytes repaired(p2pw::ByteView input) {
  p2pw::Bytes file;
  p2pw::ByteView head = p2pw::as_bytes("p2pwdlt\x01");
  file.insert(file.end(), head.begin(), head.end());
  file.insert(file.end(), input.begin() + kTrailer, input.end());
  p2pw::Sha256 body = p2pw::sha256(file);
  p2pw::Bytes trailer(input.begin(), input.begin() + kTrailer);
  std::copy(body.view().begin(), body.view().end(), trailer.begin() + 1);
  trailer.push_back(std::byte{0});  // not signed
  p2pw::Sha256 tail = p2pw::sha256(trailer);
  trailer.insert(trailer.end(), tail.view().begin(), tail.view().begin() + 8);
  file.insert(file.end(), trailer.begin(), trailer.end());
  return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  p2pw::ByteView input = std::as_bytes(std::span(data, size));
  check(input);
  if (size > kTrailer) check(repaired(input));
  std::filesystem::remove(path());
  return 0;
}
