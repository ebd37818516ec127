#include "chunker/file_table.h"

#include <algorithm>

#include "chunker/text.h"
#include "protocol/limits.h"

namespace p2pw {
namespace {

constexpr std::uint8_t kFormat = 1;
constexpr std::size_t kMaxPartLength = 255;  // what Linux file systems take

// The path as a case-insensitive file system sees it, with the separator below every other character, so that sorting
// puts what lies in one folder side by side, right after a file of the folder's name.
std::string folded(std::string_view path) {
  std::string out(path);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == '/') c = '\x01';
  }
  return out;
}

// Why two neighbours in the order of folded() cannot live in one directory; empty when they can.
std::string why_clash(std::string_view a, std::string_view b) {
  for (;;) {
    std::size_t a_end = std::min(a.find('/'), a.size()), b_end = std::min(b.find('/'), b.size());
    std::string_view a_part = a.substr(0, a_end), b_part = b.substr(0, b_end);
    if (folded(a_part) != folded(b_part)) return {};
    if (a_part != b_part) return "differs from \"" + printable(a_part) + "\" only in case";
    bool a_ends = a_end == a.size(), b_ends = b_end == b.size();
    if (a_ends && b_ends) return "named twice";
    if (a_ends || b_ends) return "\"" + printable(a_part) + "\" is both a file and a folder";
    a.remove_prefix(a_end + 1);
    b.remove_prefix(b_end + 1);
  }
}

void put_number(Bytes& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<std::byte>(value | 0x80));
  out.push_back(static_cast<std::byte>(value));
}

class Reader {
 public:
  explicit Reader(ByteView bytes) : bytes_(bytes) {}
  bool number(std::uint64_t& value) {
    value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (bytes_.empty()) return false;
      auto b = std::to_integer<std::uint64_t>(bytes_[0]);
      bytes_ = bytes_.subspan(1);
      if (shift == 63 && b > 1) return false;
      value |= (b & 0x7f) << shift;
      if (b < 0x80) return b != 0 || shift == 0;  // a last byte of zero is a longer form than needed
    }
    return false;
  }
  bool text(std::size_t length, std::string& out) {
    if (length > bytes_.size()) return false;
    out = as_text(bytes_.first(length));
    bytes_ = bytes_.subspan(length);
    return true;
  }
  bool done() const { return bytes_.empty(); }
  std::size_t left() const { return bytes_.size(); }

 private:
  ByteView bytes_;
};

}  // namespace

std::string why_bad_path(std::string_view path) {
  if (path.empty()) return "is empty";
  if (path.size() > limits::kMaxPathLength) return "is longer than 1024 bytes";
  for (char c : path) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return "holds a control character";
  }
  if (!is_utf8(path)) return "is not UTF-8";
  if (path[0] == '/') return "is not relative";
  for (std::size_t begin = 0; begin <= path.size();) {
    std::size_t end = std::min(path.find('/', begin), path.size());
    std::string_view part = path.substr(begin, end - begin);
    if (part.empty()) return "has an empty part";
    if (part == "." || part == "..") return "has the part \"" + std::string(part) + "\"";
    if (part.size() > kMaxPartLength) return "has a part longer than 255 bytes";
    begin = end + 1;
  }
  return {};
}

Result<FileTable> FileTable::make(std::vector<FileEntry> files, ErrorCode code) {
  FileTable table;
  table.files_ = std::move(files);
  std::sort(table.files_.begin(), table.files_.end(),
            [](const FileEntry& a, const FileEntry& b) { return a.path < b.path; });
  P2PW_CHECK(table.check(code));
  table.encode();
  if (table.encoded_.size() > limits::kSlabBytes) {
    return fail(code, "the names of the files take more than 8 MiB; put fewer files into the checkpoint");
  }
  P2PW_CHECK(table.cut(code));
  return table;
}

Result<FileTable> FileTable::parse(ByteView encoded) {
  auto malformed = [](const char* why) { return fail(ErrorCode::malformed, std::string("file table: ") + why); };
  if (encoded.size() > limits::kSlabBytes) return fail(ErrorCode::limit, "file table: larger than 8 MiB");
  if (encoded.empty()) return malformed("empty");
  if (auto format = std::to_integer<unsigned>(encoded[0]); format != kFormat) {
    return fail(ErrorCode::unsupported, "file table: format " + std::to_string(format) + "; this build knows 1");
  }
  Reader reader(encoded.subspan(1));
  std::uint64_t count = 0;
  if (!reader.number(count)) return malformed("cut short");
  // Four bytes is the least that a file takes.
  if (count > limits::kMaxFiles || count > reader.left() / 4) return malformed("more files than it can hold");

  FileTable table;
  table.files_.resize(count);
  for (FileEntry& file : table.files_) {
    std::uint64_t length = 0;
    if (!reader.number(length) || length > limits::kMaxPathLength || !reader.text(length, file.path) ||
        !reader.number(file.size) || !reader.number(file.header_bytes)) {
      return malformed("cut short or badly encoded");
    }
  }
  if (!reader.done()) return malformed("bytes after its end");
  for (std::size_t i = 1; i < count; ++i) {
    if (!(table.files_[i - 1].path < table.files_[i].path)) return malformed("files out of order");
  }
  P2PW_CHECK(table.check(ErrorCode::malformed));
  table.encoded_.assign(encoded.begin(), encoded.end());
  P2PW_CHECK(table.cut(ErrorCode::limit));
  return table;
}

Status FileTable::check(ErrorCode code) const {
  auto refuse = [&](const FileEntry& file, const std::string& why) {
    return fail(code, "file \"" + printable(file.path) + "\": " + why);
  };
  if (files_.empty()) return fail(code, "a checkpoint without files");
  if (files_.size() > limits::kMaxFiles) return fail(code, "more than 100000 files");
  std::uint64_t total = 0;
  for (const FileEntry& file : files_) {
    if (std::string why = why_bad_path(file.path); !why.empty()) return refuse(file, "its name " + why);
    if (is_safetensors_name(file.path) != file.is_tensor_file()) {
      return refuse(file, file.is_tensor_file() ? "a header in a file that is not .safetensors"
                                                : "a .safetensors file without a header");
    }
    if (file.is_tensor_file() &&
        (file.header_bytes <= kSafetensorsPrefix || file.header_bytes > file.size ||
         file.header_bytes > limits::kMaxSafetensorsHeader + kSafetensorsPrefix)) {
      return refuse(file, "an impossible header size");
    }
    if (!file.is_tensor_file() && file.size > limits::kMaxSideFileBytes) {
      return refuse(file, "larger than 4 GiB and not .safetensors; keep such files out of the checkpoint");
    }
    if (__builtin_add_overflow(total, file.size, &total) || total > limits::kMaxCheckpointBytes) {
      return refuse(file, "the checkpoint is larger than 32 TiB");
    }
  }
  return check_names(code);
}

Status FileTable::check_names(ErrorCode code) const {
  std::vector<std::pair<std::string, std::size_t>> names;
  for (std::size_t i = 0; i < files_.size(); ++i) names.emplace_back(folded(files_[i].path), i);
  std::sort(names.begin(), names.end());
  for (std::size_t i = 1; i < names.size(); ++i) {
    const std::string& path = files_[names[i].second].path;
    std::string why = why_clash(files_[names[i - 1].second].path, path);
    if (!why.empty()) return fail(code, "file \"" + printable(path) + "\": " + why);
  }
  return {};
}

Status FileTable::cut(ErrorCode code) {
  byte_slabs_.push_back({SlabId::bytes(0), 0, 0, static_cast<std::uint32_t>(encoded_.size()), Dtype::bytes});
  first_slab_.assign(files_.size(), 0);
  bool fits = true;
  auto cut_file = [&](std::size_t index, std::uint64_t bytes) {
    first_slab_[index] = static_cast<std::uint32_t>(byte_slabs_.size());
    for (std::uint64_t offset = 0; offset < bytes && fits; offset += limits::kSlabBytes) {
      auto length = static_cast<std::uint32_t>(std::min<std::uint64_t>(limits::kSlabBytes, bytes - offset));
      SlabId id = SlabId::bytes(static_cast<std::uint32_t>(byte_slabs_.size()));
      byte_slabs_.push_back({id, static_cast<std::uint32_t>(index), offset, length, Dtype::bytes});
      fits = byte_slabs_.size() < limits::kMaxSlabs;
    }
    total_bytes_ += files_[index].size;
  };
  for (std::size_t i = 0; i < files_.size(); ++i) {
    if (files_[i].is_tensor_file()) cut_file(i, files_[i].header_bytes);
  }
  for (std::size_t i = 0; i < files_.size(); ++i) {
    if (!files_[i].is_tensor_file()) cut_file(i, files_[i].size);
  }
  if (!fits) return fail(code, "the checkpoint needs more than 4 million slabs");
  return {};
}

void FileTable::encode() {
  encoded_.push_back(std::byte{kFormat});
  put_number(encoded_, files_.size());
  for (const FileEntry& file : files_) {
    put_number(encoded_, file.path.size());
    ByteView path = as_bytes(file.path);
    encoded_.insert(encoded_.end(), path.begin(), path.end());
    put_number(encoded_, file.size);
    put_number(encoded_, file.header_bytes);
  }
}

std::span<const Slab> FileTable::byte_slabs_of(std::size_t file) const {
  std::uint64_t bytes = files_[file].is_tensor_file() ? files_[file].header_bytes : files_[file].size;
  return std::span(byte_slabs_).subspan(first_slab_[file], (bytes + limits::kSlabBytes - 1) / limits::kSlabBytes);
}

std::optional<std::size_t> FileTable::find(std::string_view path) const {
  auto it = std::lower_bound(files_.begin(), files_.end(), path,
                             [](const FileEntry& file, std::string_view p) { return file.path < p; });
  if (it == files_.end() || it->path != path) return std::nullopt;
  return static_cast<std::size_t>(it - files_.begin());
}

const Slab* FileTable::counterpart(const Slab& slab, const FileTable& other) const {
  if (slab.id == SlabId::bytes(0)) return &other.byte_slabs_[0];
  auto file = other.find(files_[slab.file].path);
  if (!file) return nullptr;
  auto slabs = other.byte_slabs_of(*file);
  std::size_t place = slab.offset / limits::kSlabBytes;
  return place < slabs.size() ? &slabs[place] : nullptr;
}

}  // namespace p2pw
