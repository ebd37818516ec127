#include "chunker/checkpoint_writer.h"

#include <fcntl.h>

#include <map>
#include <mutex>
#include <set>

namespace p2pw {

namespace fs = std::filesystem;

// Files that are open for writing; not all at once, a checkpoint may have more files than a process may open.
class OpenFiles {
 public:
  Result<std::shared_ptr<const File>> get(std::uint32_t index, const fs::path& path) {
    std::lock_guard lock(mutex_);
    auto it = open_.find(index);
    if (it != open_.end()) return it->second;
    P2PW_TRY(File file, File::open_or_create(path));
    if (open_.size() >= kMost) open_.erase(open_.begin());
    return open_.emplace(index, std::make_shared<const File>(std::move(file))).first->second;
  }
  void clear() { open_.clear(); }

 private:
  static constexpr std::size_t kMost = 128;
  std::mutex mutex_;
  std::map<std::uint32_t, std::shared_ptr<const File>> open_;
};

Status check_target(const fs::path& target) {
  std::error_code ec;
  fs::file_status status = fs::symlink_status(target, ec);
  if (status.type() == fs::file_type::not_found) return {};
  if (ec) return fail(ErrorCode::io, target.string() + ": " + ec.message());
  if (status.type() != fs::file_type::directory || !fs::is_empty(target, ec)) {
    return fail(ErrorCode::bad_input, target.string() + ": exists already; name a new or empty folder");
  }
  return {};
}

CheckpointWriter::~CheckpointWriter() = default;

CheckpointWriter::CheckpointWriter(fs::path target, TemporaryPath temporary, const Layout& layout)
    : target_(std::move(target)),
      temporary_(std::move(temporary)),
      layout_(layout),
      open_(std::make_unique<OpenFiles>()) {}

Result<std::unique_ptr<CheckpointWriter>> CheckpointWriter::create(const fs::path& target, const Layout& layout) {
  P2PW_CHECK(check_target(target));
  P2PW_TRY(TemporaryPath temporary, TemporaryPath::beside(target));
  std::unique_ptr<CheckpointWriter> writer(new CheckpointWriter(target, std::move(temporary), layout));
  P2PW_CHECK(writer->make_files());
  return writer;
}

Status CheckpointWriter::make_files() {
  std::set<fs::path> folders{temporary_.path()};
  for (const FileEntry& file : layout_.files()) {
    for (fs::path folder = fs::path(file.path).parent_path(); !folder.empty(); folder = folder.parent_path()) {
      folders.insert(temporary_.path() / folder);
    }
  }
  folders_.assign(folders.begin(), folders.end());
  for (const fs::path& folder : folders_) {
    std::error_code ec;
    if (!fs::create_directory(folder, ec)) return fail(ErrorCode::io, folder.string() + ": " + ec.message());
  }
  for (const FileEntry& entry : layout_.files()) {
    P2PW_TRY(File file, File::create(temporary_.path() / entry.path));
    P2PW_CHECK(file.reserve(entry.size));
  }
  return {};
}

Status CheckpointWriter::write(const Slab& slab, ByteView bytes) const {
  if (slab.id == SlabId::bytes(0)) return {};
  P2PW_TRY(auto file, open_->get(slab.file, temporary_.path() / layout_.files()[slab.file].path));
  return file->write(slab.offset, bytes);
}

Status CheckpointWriter::commit() {
  open_->clear();
  for (const FileEntry& entry : layout_.files()) {
    P2PW_TRY(File file, File::open(temporary_.path() / entry.path));
    P2PW_CHECK(file.sync());
  }
  for (auto folder = folders_.rbegin(); folder != folders_.rend(); ++folder) P2PW_CHECK(sync_folder(*folder));
  P2PW_CHECK(check_target(target_));
  return temporary_.rename_to(target_);
}

}  // namespace p2pw
