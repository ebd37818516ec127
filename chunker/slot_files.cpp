#include "chunker/slot_files.h"

#include <algorithm>

namespace p2pw {
namespace {

// The folders of all files, parents first, "" for the checkpoint itself.
std::set<std::string> folders_of(const Layout& layout) {
  std::set<std::string> folders{""};
  for (const FileEntry& file : layout.files()) {
    for (std::size_t at = file.path.find('/'); at != std::string::npos; at = file.path.find('/', at + 1)) {
      folders.insert(file.path.substr(0, at));
    }
  }
  return folders;
}

// The bytes of this file that come from byte slabs are the same in both.
bool same_bytes(const ByteTable& a, const ByteTable& b, std::size_t file) {
  const FileTable& table = a.layout->table();
  auto there = b.layout->table().find(table.files()[file].path);
  if (!there || b.layout->files()[*there].size != table.files()[file].size) return false;
  auto mine = table.byte_slabs_of(file), theirs = b.layout->table().byte_slabs_of(*there);
  return std::equal(mine.begin(), mine.end(), theirs.begin(), theirs.end(), [&](const Slab& x, const Slab& y) {
    return x.length == y.length && a.digests[x.id.index()] == b.digests[y.id.index()];
  });
}

}  // namespace

SlotFiles::SlotFiles(FileSystem& files, std::filesystem::path checkpoint)
    : files_(files), checkpoint_(std::move(checkpoint)) {}

Result<std::shared_ptr<FileHandle>> SlotFiles::open(const std::string& path) {
  std::lock_guard lock(mutex_);
  if (auto found = open_.find(path); found != open_.end()) return found->second;
  // Those in use stay open through their owners.
  if (open_.size() >= kMaxOpenFiles) open_.clear();
  P2PW_TRY(auto file, files_.open(checkpoint_ / path, OpenMode::write));
  return open_.emplace(path, std::move(file)).first->second;
}

Status SlotFiles::read(const std::string& path, std::uint64_t offset, std::span<std::byte> out) const {
  P2PW_TRY(auto file, files_.open(checkpoint_ / path, OpenMode::read));
  return read_exact(*file, offset, out);
}

void SlotFiles::mark_dirty(const std::string& path) {
  std::lock_guard lock(mutex_);
  dirty_.insert(path);
}

void SlotFiles::mark_all_dirty() {
  std::lock_guard lock(mutex_);
  all_dirty_ = folders_dirty_ = true;
}

Status SlotFiles::check_sizes(const Layout& layout) const {
  for (const FileEntry& entry : layout.files()) {
    P2PW_TRY(auto file, files_.open(checkpoint_ / entry.path, OpenMode::read));
    P2PW_TRY(std::uint64_t size, file->size());
    if (size != entry.size) {
      return fail(ErrorCode::integrity, (checkpoint_ / entry.path).string() + ": has " + std::to_string(size) +
                                            " bytes instead of " + std::to_string(entry.size));
    }
  }
  return {};
}

Status SlotFiles::make(const Layout& layout) {
  {
    std::lock_guard lock(mutex_);
    open_.clear();
  }
  folders_dirty_ = true;
  P2PW_CHECK(files_.make_directories(checkpoint_));
  P2PW_CHECK(remove_strangers(layout, checkpoint_, ""));
  P2PW_CHECK(make_parents(layout));
  for (const FileEntry& entry : layout.files()) {
    if (!entry.is_tensor_file()) continue;
    P2PW_TRY(auto file, files_.open(checkpoint_ / entry.path, OpenMode::create));
    mark_dirty(entry.path);
    P2PW_CHECK(file->allocate(entry.size));
  }
  return {};
}

Status SlotFiles::make_parents(const Layout& layout) {
  for (const std::string& folder : folders_of(layout)) {
    P2PW_CHECK(files_.make_directories(checkpoint_ / folder));
  }
  return {};
}

Status SlotFiles::place_bytes(const ByteStore& store, const ByteTable& want, const ByteTable* placed) {
  const Layout& layout = *want.layout;
  if (placed == nullptr || placed->layout->file_table() != layout.file_table()) {
    folders_dirty_ = true;
    P2PW_CHECK(remove_strangers(layout, checkpoint_, ""));
    P2PW_CHECK(make_parents(layout));
  }
  for (std::size_t file = 0; file < layout.files().size(); ++file) {
    if (placed != nullptr && same_bytes(want, *placed, file)) continue;
    P2PW_CHECK(place_file(store, want, file));
  }
  return {};
}

Status SlotFiles::place_file(const ByteStore& store, const ByteTable& want, std::size_t file) {
  const FileEntry& entry = want.layout->files()[file];
  P2PW_TRY(auto handle, files_.open(checkpoint_ / entry.path, OpenMode::create));
  mark_dirty(entry.path);
  if (!entry.is_tensor_file()) P2PW_CHECK(handle->allocate(entry.size));
  for (const Slab& slab : want.layout->table().byte_slabs_of(file)) {
    P2PW_TRY(Bytes bytes, store.get(want.digests[slab.id.index()]));
    P2PW_CHECK(write_all(*handle, slab.offset, bytes));
  }
  return {};
}

Status SlotFiles::remove_strangers(const Layout& layout, const std::filesystem::path& folder,
                                   const std::string& prefix) {
  P2PW_TRY(auto entries, files_.list(folder));
  for (const DirectoryEntry& entry : entries) {
    std::string path = prefix + entry.name;
    if (entry.is_directory) {
      P2PW_CHECK(remove_strangers(layout, folder / entry.name, path + "/"));
      // Stays when it is not empty; one that a file's name needs is caught when that file is made.
      (void)files_.remove(folder / entry.name);
    } else if (!layout.table().find(path)) {
      P2PW_CHECK(files_.remove(folder / entry.name));
    }
  }
  return {};
}

Status SlotFiles::sync(const Layout& layout) {
  bool all = false;
  std::set<std::string> paths;
  {
    std::lock_guard lock(mutex_);
    all = all_dirty_;
    paths = dirty_;
  }
  for (const FileEntry& entry : layout.files()) {
    if (!all && !paths.contains(entry.path)) continue;
    P2PW_TRY(auto file, open(entry.path));
    P2PW_CHECK(file->sync());
  }
  P2PW_CHECK(sync_folders(layout));
  std::lock_guard lock(mutex_);
  all_dirty_ = false;
  dirty_.clear();
  return {};
}

Status SlotFiles::sync_folders(const Layout& layout) {
  if (!folders_dirty_) return {};
  for (const std::string& folder : folders_of(layout)) {
    P2PW_CHECK(files_.sync_directory(folder.empty() ? checkpoint_ : checkpoint_ / folder));
  }
  P2PW_CHECK(files_.sync_directory(checkpoint_.parent_path()));
  folders_dirty_ = false;
  return {};
}

}  // namespace p2pw
