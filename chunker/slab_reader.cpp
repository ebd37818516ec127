#include "chunker/slab_reader.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>

#include "chunker/text.h"

namespace p2pw {
namespace {

// Far below the usual limit of 1024 descriptors, two readers and their threads included.
constexpr std::size_t kMostOpenFiles = 128;

}  // namespace

struct SlabReader::Stamp {
  ino_t inode;
  std::int64_t changed_seconds, changed_nanoseconds;
  bool operator==(const Stamp&) const = default;
};

SlabReader::SlabReader(std::filesystem::path directory, const Layout& layout)
    : directory_(std::move(directory)), layout_(layout) {}
SlabReader::~SlabReader() = default;

Result<SlabReader::Stamp> SlabReader::stamp(const File& file, const FileEntry& entry) const {
  struct stat st {};
  if (fstat(file.fd(), &st) != 0) return os_error(file.path(), "stat");
  if (static_cast<std::uint64_t>(st.st_size) != entry.size) {
    return fail(ErrorCode::bad_input, file.path().string() + ": changed its size from " + std::to_string(entry.size) +
                                          " to " + std::to_string(st.st_size) + " bytes while it was being read");
  }
  return Stamp{st.st_ino, st.st_mtim.tv_sec, st.st_mtim.tv_nsec};
}

Result<std::shared_ptr<const File>> SlabReader::file(std::uint32_t index) const {
  std::lock_guard lock(mutex_);
  auto it = open_.find(index);
  if (it != open_.end()) return it->second;
  const FileEntry& entry = layout_.files()[index];
  P2PW_TRY(File opened, File::open(directory_ / entry.path));
  P2PW_TRY(Stamp now, stamp(opened, entry));
  auto [known, fresh] = stamps_.try_emplace(index, now);
  if (!fresh && known->second != now) {
    return fail(ErrorCode::bad_input, opened.path().string() + ": changed while it was being read");
  }
  if (open_.size() >= kMostOpenFiles) open_.erase(open_.begin());
  posix_fadvise(opened.fd(), 0, 0, POSIX_FADV_SEQUENTIAL);
  return open_.emplace(index, std::make_shared<const File>(std::move(opened))).first->second;
}

Status SlabReader::read(const Slab& slab, std::span<std::byte> out) const {
  if (slab.id == SlabId::bytes(0)) {
    std::copy_n(layout_.file_table().begin(), out.size(), out.begin());
    return {};
  }
  P2PW_TRY(auto from, file(slab.file));
  return from->read(slab.offset, out);
}

Status SlabReader::check_unchanged() const {
  std::lock_guard lock(mutex_);
  for (const auto& [index, before] : stamps_) {
    const FileEntry& entry = layout_.files()[index];
    P2PW_TRY(File opened, File::open(directory_ / entry.path));
    P2PW_TRY(Stamp now, stamp(opened, entry));
    if (now != before) {
      return fail(ErrorCode::bad_input, opened.path().string() + ": changed while it was being read");
    }
  }
  return {};
}

}  // namespace p2pw
