// The file that `p2pw diff` writes: the unsealed frames of one delta or anchor, with what is needed to check them.
//
//   "p2pwdlt", format byte (1)
//   frames end to end
//   meta:     varint number of frames; for each: varint step from the slab before, varint length, 16 bytes digest;
//             then two lists of file checks (of the parent, none for an anchor; of the new checkpoint): varint number,
//             4 bytes each
//   trailer:  kind (1), SHA-256 of all before the trailer, layout hash, parent's table hash (zero for an anchor), table
//             hash, u64 input bytes, total elements, changed elements, meta bytes (little-endian)
//   signature of the trailer: 74 bytes, or none
//   u8 size of the signature, first 8 bytes of the SHA-256 of trailer, signature and that size
//
// Slabs are numbered for the steps as they are walked: byte slabs from 0, tensor slabs from 2^31; a step is the distance
// to the number after the last one, so no slab occurs twice. A file check is the start of a hash, enough to name the file
// that differs; whether any differs is decided by the table hashes. Check 0 is of the layout.
#pragma once

#include <memory>
#include <optional>

#include "chunker/diff.h"
#include "chunker/file_io.h"
#include "protocol/hash.h"
#include "protocol/signing.h"

namespace p2pw {

inline constexpr std::uint8_t kDeltaFileFormat = 1;

using FileCheck = Blob<struct FileCheckTag, 4>;

// For the layout, then for each file over the digests of its slabs.
std::vector<FileCheck> file_checks(const Layout& layout, const SlabDigests& digests);
// The first file of `layout` whose check differs, or "its list of files and tensors"; empty when none does.
std::string first_difference(const std::vector<FileCheck>& expected, const Layout& layout,
                             const SlabDigests& digests);

struct DeltaFileInfo {
  Kind kind = Kind::anchor;
  LayoutHash layout_hash;
  Sha256 parent_table;
  Sha256 table;
  std::uint64_t input_bytes = 0;
  std::uint64_t total_elements = 0;
  std::uint64_t changed_elements = 0;
  std::vector<FileCheck> parent_checks, checks;
};

// Writes a delta file under a temporary name next to its own, which commit() gives it. Without commit() nothing is left
// behind. One thread.
class DeltaFileWriter : public FrameSink {
 public:
  static Result<std::unique_ptr<DeltaFileWriter>> create(const std::filesystem::path& path);
  ~DeltaFileWriter() override;

  Status take(Frame&& frame) override;
  // Returns the size of the file. `key` may be null: not signed.
  Result<std::uint64_t> commit(const DeltaFileInfo& info, const SigningKey* key);

 private:
  DeltaFileWriter(std::filesystem::path path, TemporaryPath temporary, File file);
  Status append(ByteView bytes);

  std::filesystem::path path_;
  TemporaryPath temporary_;
  File file_;
  std::uint64_t size_ = 0;
  Sha256Stream hash_;
  Bytes rows_;  // of the meta
  std::uint64_t frames_ = 0;
  std::uint64_t next_number_ = 0;
};

// A delta file, checked from end to end when it is opened, its signature apart.
class DeltaFile {
 public:
  // Errors: not_found, io, malformed, unsupported (another format), integrity (damaged), limit.
  static Result<DeltaFile> open(const std::filesystem::path& path);

  struct Entry {
    SlabId slab;
    std::uint64_t offset = 0;
    std::uint32_t length = 0;
    Digest digest;
  };
  const DeltaFileInfo& info() const { return info_; }
  const std::vector<Entry>& frames() const { return frames_; }  // in slab order
  const Entry* find(SlabId slab) const;
  std::uint64_t size() const { return size_; }
  const std::filesystem::path& path() const { return file_.path(); }

  // `out` is replaced. Any thread.
  Status read(const Entry& entry, Bytes& out) const;

  bool is_signed() const { return signature_.has_value(); }
  std::optional<KeyId> signer() const;  // as the signature names it, unchecked
  // Errors: untrusted (unsigned, by another key, does not verify).
  Status check_signature(const VerifyingKey& publisher) const;

 private:
  DeltaFile() = default;
  Result<std::uint64_t> parse_tail();  // returns where the meta begins
  Status parse_trailer(ByteView trailer, std::uint64_t& meta_bytes);
  Status parse_meta(ByteView meta, std::uint64_t frame_bytes);
  Status check_body(std::uint64_t bytes, const Sha256& expected) const;
  Error malformed(const std::string& why) const;

  File file_;
  std::uint64_t size_ = 0;
  DeltaFileInfo info_;
  Sha256 body_hash_;
  std::vector<Entry> frames_;
  Bytes trailer_;
  std::optional<Signature> signature_;
};

}  // namespace p2pw
