#include "chunker/delta_file.h"

#include <algorithm>
#include <array>

#include "chunker/text.h"
#include "chunker/varint.h"
#include "protocol/limits.h"

namespace p2pw {
namespace {

constexpr std::string_view kMagic = "p2pwdlt";
constexpr std::size_t kHeaderBytes = 8;
constexpr std::size_t kTrailerBytes = 1 + 4 * 32 + 4 * 8;
constexpr std::size_t kCheckBytes = 8;
constexpr std::size_t kTailBytes = 1 + kCheckBytes;  // signature size, check
constexpr std::uint64_t kMaxMeta = 256u << 20;
constexpr std::uint64_t kLeastRow = 2 + Digest::kSize;
constexpr std::uint64_t kMaxFrame = limits::kSlabBytes + limits::kMaxFrameOverhead;
constexpr std::size_t kHashPiece = 1u << 20;

std::uint64_t number_of(SlabId slab) { return slab.raw() ^ SlabId::kByteSpace; }

FileCheck start_of(ByteView hash) { return *FileCheck::from(hash.first(FileCheck::kSize)); }

// Of trailer, signature and its size: guards the end of the file, which the trailer's own hash cannot.
Bytes tail_check(ByteView trailer, ByteView signature) {
  Sha256Stream hash;
  hash.add(trailer);
  hash.add(signature);
  auto size = static_cast<std::byte>(signature.size());
  hash.add(ByteView(&size, 1));
  Sha256 full = hash.finish();
  return Bytes(full.view().begin(), full.view().begin() + kCheckBytes);
}

void put_checks(Bytes& out, const std::vector<FileCheck>& checks) {
  put_varint(out, checks.size());
  for (const FileCheck& check : checks) put_bytes(out, check.view());
}

bool read_checks(ByteReader& reader, std::vector<FileCheck>& checks) {
  std::uint64_t count = 0;
  if (!reader.varint(count) || count > reader.left() / FileCheck::kSize) return false;
  checks.resize(count);
  return std::all_of(checks.begin(), checks.end(), [&](FileCheck& check) { return reader.blob(check); });
}

}  // namespace

std::vector<FileCheck> file_checks(const Layout& layout, const SlabDigests& digests) {
  std::vector<FileCheck> checks{start_of(layout.hash().view())};
  std::size_t tensor_slab = 0;
  for (std::size_t i = 0; i < layout.files().size(); ++i) {
    Sha256Stream hash;
    for (const Slab& slab : layout.table().byte_slabs_of(i)) {
      hash.add(digests.byte_slabs[slab.id.index()].view());
    }
    for (; tensor_slab < layout.tensor_slabs().size() && layout.tensor_slabs()[tensor_slab].file == i; ++tensor_slab) {
      hash.add(digests.tensor_slabs[tensor_slab].view());
    }
    checks.push_back(start_of(hash.finish().view()));
  }
  return checks;
}

std::string first_difference(const std::vector<FileCheck>& expected, const Layout& layout,
                             const SlabDigests& digests) {
  std::vector<FileCheck> found = file_checks(layout, digests);
  if (expected.size() != found.size()) return "its list of files and tensors";
  // The file table and headers are part of the layout, so files come first: they say more.
  for (std::size_t i = 1; i < found.size(); ++i) {
    if (expected[i] != found[i]) return printable(layout.files()[i - 1].path);
  }
  return expected[0] != found[0] ? "its list of files and tensors" : "";
}

DeltaFileWriter::DeltaFileWriter(std::filesystem::path path, TemporaryPath temporary, File file)
    : path_(std::move(path)), temporary_(std::move(temporary)), file_(std::move(file)) {}

Result<std::unique_ptr<DeltaFileWriter>> DeltaFileWriter::create(const std::filesystem::path& path) {
  P2PW_TRY(TemporaryPath temporary, TemporaryPath::beside(path));
  P2PW_TRY(File file, File::create(temporary.path()));
  std::unique_ptr<DeltaFileWriter> writer(new DeltaFileWriter(path, std::move(temporary), std::move(file)));
  Bytes header;
  put_bytes(header, as_bytes(kMagic));
  header.push_back(std::byte{kDeltaFileFormat});
  P2PW_CHECK(writer->append(header));
  return writer;
}

DeltaFileWriter::~DeltaFileWriter() = default;

Status DeltaFileWriter::append(ByteView bytes) {
  P2PW_CHECK(file_.write(size_, bytes));
  hash_.add(bytes);
  size_ += bytes.size();
  return {};
}

Status DeltaFileWriter::take(Frame&& frame) {
  std::uint64_t number = number_of(frame.slab);
  put_varint(rows_, number - next_number_);
  put_varint(rows_, frame.bytes.size());
  put_bytes(rows_, frame.digest.view());
  next_number_ = number + 1;
  ++frames_;
  return append(frame.bytes);
}

Result<std::uint64_t> DeltaFileWriter::commit(const DeltaFileInfo& info, const SigningKey* key) {
  Bytes meta;
  put_varint(meta, frames_);
  put_bytes(meta, rows_);
  put_checks(meta, info.parent_checks);
  put_checks(meta, info.checks);
  if (meta.size() > kMaxMeta) return fail(ErrorCode::limit, path_.string() + ": too many frames and files");
  P2PW_CHECK(append(meta));

  Bytes end;
  end.push_back(static_cast<std::byte>(info.kind));
  put_bytes(end, hash_.finish().view());
  put_bytes(end, info.layout_hash.view());
  put_bytes(end, info.parent_table.view());
  put_bytes(end, info.table.view());
  put_u64(end, info.input_bytes);
  put_u64(end, info.total_elements);
  put_u64(end, info.changed_elements);
  put_u64(end, meta.size());
  Bytes signature;
  if (key != nullptr) put_bytes(signature, key->sign(end).view());
  Bytes check = tail_check(end, signature);
  put_bytes(end, signature);
  end.push_back(static_cast<std::byte>(signature.size()));
  put_bytes(end, check);
  P2PW_CHECK(file_.write(size_, end));
  size_ += end.size();
  P2PW_CHECK(file_.sync());
  P2PW_CHECK(temporary_.rename_to(path_));
  return size_;
}

Error DeltaFile::malformed(const std::string& why) const {
  return fail(ErrorCode::malformed, file_.path().string() + ": " + why);
}

Result<DeltaFile> DeltaFile::open(const std::filesystem::path& path) {
  DeltaFile delta;
  P2PW_TRY(delta.file_, File::open(path));
  P2PW_TRY(delta.size_, delta.file_.size());
  std::array<std::byte, kHeaderBytes> header{};
  if (delta.size_ < header.size()) return delta.malformed("not a p2pw delta file; p2pw diff OLD NEW -o FILE makes one");
  P2PW_CHECK(delta.file_.read(0, header));
  if (as_text(ByteView(header).first(kMagic.size())) != kMagic) return delta.malformed("not a p2pw delta file; p2pw diff OLD NEW -o FILE makes one");
  if (auto format = std::to_integer<unsigned>(header.back()); format != kDeltaFileFormat) {
    return fail(ErrorCode::unsupported, path.string() + ": delta file format " + std::to_string(format) +
                                            "; this build knows " + std::to_string(kDeltaFileFormat));
  }
  P2PW_TRY(std::uint64_t meta_begin, delta.parse_tail());
  std::uint64_t meta_end = delta.size_ - kTailBytes - kTrailerBytes -
                           (delta.signature_ ? Signature::kSize : 0);
  P2PW_CHECK(delta.check_body(meta_end, delta.body_hash_));
  Bytes meta(meta_end - meta_begin);
  P2PW_CHECK(delta.file_.read(meta_begin, meta));
  P2PW_CHECK(delta.parse_meta(meta, meta_begin - kHeaderBytes));
  return delta;
}

Result<std::uint64_t> DeltaFile::parse_tail() {
  if (size_ < kHeaderBytes + kTrailerBytes + kTailBytes) return malformed("cut short");
  std::array<std::byte, kTailBytes> tail{};
  P2PW_CHECK(file_.read(size_ - tail.size(), tail));
  std::size_t signature_bytes = std::to_integer<std::size_t>(tail[0]);
  if ((signature_bytes != 0 && signature_bytes != Signature::kSize) ||
      size_ < kHeaderBytes + kTrailerBytes + signature_bytes + kTailBytes) {
    return malformed("damaged or cut short at its end");
  }
  Bytes end(kTrailerBytes + signature_bytes);
  P2PW_CHECK(file_.read(size_ - tail.size() - end.size(), end));
  ByteView trailer = ByteView(end).first(kTrailerBytes), signature = ByteView(end).subspan(kTrailerBytes);
  Bytes check = tail_check(trailer, signature);
  if (!std::equal(check.begin(), check.end(), tail.begin() + 1)) {
    return fail(ErrorCode::integrity, file_.path().string() + ": damaged or cut short at its end");
  }
  trailer_.assign(trailer.begin(), trailer.end());
  if (signature_bytes != 0) signature_ = Signature::from(signature);
  std::uint64_t meta_bytes = 0;
  P2PW_CHECK(parse_trailer(trailer, meta_bytes));
  std::uint64_t room = size_ - kHeaderBytes - kTrailerBytes - signature_bytes - kTailBytes;
  if (meta_bytes > kMaxMeta) return fail(ErrorCode::limit, file_.path().string() + ": meta larger than 256 MiB");
  if (meta_bytes > room) return malformed("its meta is longer than the file");
  return kHeaderBytes + room - meta_bytes;
}

Status DeltaFile::parse_trailer(ByteView trailer, std::uint64_t& meta_bytes) {
  auto kind = std::to_integer<unsigned>(trailer[0]);
  if (kind != static_cast<unsigned>(Kind::anchor) && kind != static_cast<unsigned>(Kind::delta)) {
    return malformed("neither a delta nor an anchor");
  }
  info_.kind = static_cast<Kind>(kind);
  ByteReader reader(trailer.subspan(1));
  bool whole = reader.blob(body_hash_) && reader.blob(info_.layout_hash) && reader.blob(info_.parent_table) &&
               reader.blob(info_.table) && reader.u64(info_.input_bytes) && reader.u64(info_.total_elements) &&
               reader.u64(info_.changed_elements) && reader.u64(meta_bytes) && reader.done();
  return whole ? Status() : malformed("trailer of a wrong size");
}

Status DeltaFile::check_body(std::uint64_t bytes, const Sha256& expected) const {
  Sha256Stream hash;
  Bytes piece(std::min<std::uint64_t>(kHashPiece, bytes));
  for (std::uint64_t offset = 0; offset < bytes; offset += piece.size()) {
    auto part = std::span(piece).first(std::min<std::uint64_t>(piece.size(), bytes - offset));
    P2PW_CHECK(file_.read(offset, part));
    hash.add(part);
  }
  if (hash.finish() != expected) {
    return fail(ErrorCode::integrity, file_.path().string() + ": damaged: its bytes do not have its hash");
  }
  return {};
}

Status DeltaFile::parse_meta(ByteView meta, std::uint64_t frame_bytes) {
  ByteReader reader(meta);
  std::uint64_t count = 0, number = 0, offset = 0;
  if (!reader.varint(count) || count > reader.left() / kLeastRow) return malformed("meta cut short");
  frames_.resize(count);
  for (Entry& entry : frames_) {
    std::uint64_t step = 0, length = 0;
    if (!reader.varint(step) || !reader.varint(length) || !reader.blob(entry.digest)) {
      return malformed("meta cut short");
    }
    if (step > UINT32_MAX || number + step > UINT32_MAX) return malformed("a frame of no slab");
    if (length == 0 || length > kMaxFrame || length > frame_bytes - offset) {
      return malformed("a frame of an impossible length");
    }
    number += step;
    entry.slab = SlabId(static_cast<std::uint32_t>(number) ^ SlabId::kByteSpace);
    entry.offset = kHeaderBytes + offset;
    entry.length = static_cast<std::uint32_t>(length);
    offset += length;
    ++number;
  }
  if (offset != frame_bytes) return malformed("the frames do not fill it");
  if (!read_checks(reader, info_.parent_checks) || !read_checks(reader, info_.checks) || !reader.done()) {
    return malformed("meta of a wrong size");
  }
  return {};
}

const DeltaFile::Entry* DeltaFile::find(SlabId slab) const {
  auto it = std::lower_bound(frames_.begin(), frames_.end(), number_of(slab),
                             [](const Entry& entry, std::uint64_t number) { return number_of(entry.slab) < number; });
  return it != frames_.end() && it->slab == slab ? &*it : nullptr;
}

Status DeltaFile::read(const Entry& entry, Bytes& out) const {
  out.resize(entry.length);
  return file_.read(entry.offset, out);
}

std::optional<KeyId> DeltaFile::signer() const {
  if (!signature_) return std::nullopt;
  return KeyId::from(signature_->view().subspan(2, KeyId::kSize));
}

Status DeltaFile::check_signature(const VerifyingKey& publisher) const {
  auto untrusted = [&](const std::string& why) {
    return fail(ErrorCode::untrusted, file_.path().string() + ": " + why);
  };
  if (!signature_) return untrusted("unsigned; make it with p2pw diff --sign");
  if (*signer() != publisher.id) {
    return untrusted("signed by key " + signer()->hex() + ", not by " + publisher.id.hex());
  }
  if (!publisher.verify(trailer_, *signature_)) return untrusted("its signature does not verify");
  return {};
}

}  // namespace p2pw
