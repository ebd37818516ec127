#include "tests/support/memory_file_system.h"

#include <algorithm>

namespace p2pw::testing {
namespace {

constexpr std::size_t kPage = 4096;

std::string key(const std::filesystem::path& path) {
  std::string text = path.lexically_normal().string();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

Error not_there(const std::filesystem::path& path) {
  return fail(ErrorCode::not_found, path.string() + ": not there");
}

}  // namespace

class MemoryFile : public FileHandle {
 public:
  MemoryFile(MemoryFileSystem& files, std::shared_ptr<MemoryFileSystem::Inode> inode, std::filesystem::path path,
             OpenMode mode)
      : files_(files), inode_(std::move(inode)), path_(std::move(path)), mode_(mode), life_(files.life_) {}

  Result<std::size_t> read_some(std::uint64_t offset, std::span<std::byte> out) override {
    std::lock_guard lock(files_.mutex_);
    P2PW_CHECK(alive());
    if (offset >= inode_->data.size()) return std::size_t(0);
    std::size_t n = std::min<std::size_t>(out.size(), inode_->data.size() - offset);
    std::copy_n(inode_->data.begin() + static_cast<std::ptrdiff_t>(offset), n, out.begin());
    if (files_.watch) files_.watch(false, path_, n);
    return n;
  }

  Result<std::size_t> write_some(std::uint64_t offset, ByteView bytes) override {
    std::lock_guard lock(files_.mutex_);
    P2PW_CHECK(alive());
    if (mode_ == OpenMode::read) return fail(ErrorCode::io, path_.string() + ": opened for reading only");
    std::size_t n = bytes.size();
    if (files_.short_writes) n = 1 + files_.random_() % n;
    if (auto error = files_.step("write", path_)) {
      // A write that dies may have got some of its bytes in.
      if (files_.dead_) put(offset, bytes.first(files_.random_() % (n + 1)));
      return *error;
    }
    std::uint64_t end = offset + n;
    if (end > inode_->data.size()) P2PW_CHECK(files_.make_room(end - inode_->data.size(), path_));
    put(offset, bytes.first(n));
    if (files_.watch) files_.watch(true, path_, n);
    return n;
  }

  Result<std::uint64_t> size() override {
    std::lock_guard lock(files_.mutex_);
    P2PW_CHECK(alive());
    return inode_->data.size();
  }

  Status allocate(std::uint64_t bytes) override {
    std::lock_guard lock(files_.mutex_);
    P2PW_CHECK(alive());
    if (auto error = files_.step("allocate", path_)) return *error;
    if (bytes > inode_->data.size()) P2PW_CHECK(files_.make_room(bytes - inode_->data.size(), path_));
    inode_->data.resize(bytes);
    return {};
  }

  Status sync() override {
    std::lock_guard lock(files_.mutex_);
    P2PW_CHECK(alive());
    if (auto error = files_.step("sync", path_)) return *error;
    inode_->stable = inode_->data;
    inode_->dirty.clear();
    return {};
  }

  void start_writeback(std::uint64_t, std::uint64_t) override {}

  std::span<std::byte> map() override {
    std::lock_guard lock(files_.mutex_);
    return files_.mapped && mode_ != OpenMode::read ? std::span(inode_->data) : std::span<std::byte>();
  }

 private:
  Status alive() const {
    if (files_.dead_ || files_.life_ != life_) return fail(ErrorCode::io, "the process is dead");
    return {};
  }
  void put(std::uint64_t offset, ByteView bytes) {
    if (bytes.empty()) return;
    if (offset + bytes.size() > inode_->data.size()) inode_->data.resize(offset + bytes.size());
    std::copy(bytes.begin(), bytes.end(), inode_->data.begin() + static_cast<std::ptrdiff_t>(offset));
    for (std::size_t page = offset / kPage; page <= (offset + bytes.size() - 1) / kPage; ++page) {
      inode_->dirty.insert(page);
    }
  }

  MemoryFileSystem& files_;
  std::shared_ptr<MemoryFileSystem::Inode> inode_;
  std::filesystem::path path_;
  OpenMode mode_;
  std::uint64_t life_;
};

std::optional<Error> MemoryFileSystem::step(const std::string& operation, const std::filesystem::path& path) {
  if (dead_) return fail(ErrorCode::io, "the process is dead");
  if (dies_at_ && operations_ >= *dies_at_) {
    dead_ = true;
    return fail(ErrorCode::io, "the process dies in: " + operation + " " + path.string());
  }
  ++operations_;
  return fault ? fault(operation, path) : std::nullopt;
}

void MemoryFileSystem::die_at(std::uint64_t n) {
  std::lock_guard lock(mutex_);
  dies_at_ = operations_ + n;
}

void MemoryFileSystem::revive() {
  std::lock_guard lock(mutex_);
  dead_ = false;
  dies_at_.reset();
  ++life_;
}

void MemoryFileSystem::lose_power() {
  std::lock_guard lock(mutex_);
  for (auto& [directory, changes] : unsynced_) {
    std::size_t kept = random_() % (changes.size() + 1);
    for (std::size_t i = 0; i < kept; ++i) apply(stable_, changes[i]);
  }
  unsynced_.clear();
  // What lies in a folder that was lost is lost with it.
  for (auto it = stable_.begin(); it != stable_.end();) {
    std::string parent = key(std::filesystem::path(it->first).parent_path());
    it = parent == "/" || stable_.contains(parent) ? std::next(it) : stable_.erase(it);
  }
  for (auto& [path, node] : stable_) {
    if (node.inode == nullptr) continue;
    Inode& inode = *node.inode;
    Bytes after = inode.stable;
    if (random_() % 2 == 0) after.resize(inode.data.size());
    for (std::size_t page : inode.dirty) {
      std::size_t begin = page * kPage, end = std::min({begin + kPage, inode.data.size(), after.size()});
      if (begin < end && random_() % 2 == 0) {
        std::copy(inode.data.begin() + static_cast<std::ptrdiff_t>(begin),
                  inode.data.begin() + static_cast<std::ptrdiff_t>(end),
                  after.begin() + static_cast<std::ptrdiff_t>(begin));
      }
    }
    inode.data = inode.stable = after;
    inode.dirty.clear();
  }
  now_ = stable_;
  dead_ = false;
  dies_at_.reset();
  ++life_;
}

void MemoryFileSystem::drop_unsynced_data() {
  std::lock_guard lock(mutex_);
  for (auto& [path, node] : now_) {
    if (node.inode == nullptr) continue;
    std::size_t size = node.inode->data.size();
    node.inode->data = node.inode->stable;
    node.inode->data.resize(size);
    node.inode->dirty.clear();
  }
}

void MemoryFileSystem::apply(Names& names, const Change& change) {
  for (const auto& [path, node] : change.names) {
    if (node) {
      names[path] = *node;
    } else {
      names.erase(path);
    }
  }
}

void MemoryFileSystem::change(const std::filesystem::path& directory, Change change) {
  apply(now_, change);
  unsynced_[key(directory)].push_back(std::move(change));
}

std::uint64_t MemoryFileSystem::used() const {
  std::uint64_t total = 0;
  for (const auto& [path, node] : now_) total += node.inode == nullptr ? 0 : node.inode->data.size();
  return total;
}

Status MemoryFileSystem::make_room(std::uint64_t more, const std::filesystem::path& path) const {
  if (capacity && used() + more > *capacity) return fail(ErrorCode::no_space, path.string() + ": the disk is full");
  return {};
}

Result<std::unique_ptr<FileHandle>> MemoryFileSystem::open(const std::filesystem::path& path, OpenMode mode) {
  std::lock_guard lock(mutex_);
  if (dead_) return fail(ErrorCode::io, "the process is dead");
  auto found = now_.find(key(path));
  if (found == now_.end()) {
    if (mode != OpenMode::create || !now_.contains(key(path.parent_path()))) return not_there(path);
    if (auto error = step("create", path)) return *error;
    change(path.parent_path(), {{{key(path), Node{Node::Type::file, std::make_shared<Inode>(), {}}}}});
    found = now_.find(key(path));
  }
  if (found->second.inode == nullptr) return fail(ErrorCode::io, path.string() + ": is not a regular file");
  return std::unique_ptr<FileHandle>(std::make_unique<MemoryFile>(*this, found->second.inode, path, mode));
}

Status MemoryFileSystem::make_directories(const std::filesystem::path& path) {
  std::lock_guard lock(mutex_);
  if (dead_) return fail(ErrorCode::io, "the process is dead");
  std::filesystem::path so_far;
  for (const auto& part : std::filesystem::path(key(path))) {
    std::filesystem::path parent = so_far;
    so_far /= part;
    if (so_far == "/") continue;
    auto found = now_.find(key(so_far));
    if (found != now_.end() && found->second.type == Node::Type::directory) continue;
    if (found != now_.end()) return fail(ErrorCode::io, so_far.string() + ": is not a folder");
    if (auto error = step("make_directory", so_far)) return *error;
    change(parent, {{{key(so_far), Node{}}}});
  }
  return {};
}

Status MemoryFileSystem::rename(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::lock_guard lock(mutex_);
  if (auto error = step("rename", to)) return *error;
  auto found = now_.find(key(from));
  if (found == now_.end()) return not_there(from);
  Node node = found->second;
  change(to.parent_path(), {{{key(from), std::nullopt}, {key(to), node}}});
  return {};
}

Status MemoryFileSystem::remove(const std::filesystem::path& path) {
  std::lock_guard lock(mutex_);
  if (auto error = step("remove", path)) return *error;
  auto found = now_.find(key(path));
  if (found == now_.end()) return {};
  auto next = std::next(found);
  if (found->second.type == Node::Type::directory && next != now_.end() && next->first.starts_with(key(path) + "/")) {
    return fail(ErrorCode::io, path.string() + ": is not empty");
  }
  change(path.parent_path(), {{{key(path), std::nullopt}}});
  return {};
}

Status MemoryFileSystem::symlink(const std::string& target, const std::filesystem::path& path) {
  std::lock_guard lock(mutex_);
  if (auto error = step("symlink", path)) return *error;
  if (now_.contains(key(path))) return fail(ErrorCode::io, path.string() + ": exists");
  change(path.parent_path(), {{{key(path), Node{Node::Type::link, nullptr, target}}}});
  return {};
}

Result<std::string> MemoryFileSystem::read_link(const std::filesystem::path& path) {
  std::lock_guard lock(mutex_);
  if (dead_) return fail(ErrorCode::io, "the process is dead");
  auto found = now_.find(key(path));
  if (found == now_.end()) return not_there(path);
  if (found->second.type != Node::Type::link) return fail(ErrorCode::io, path.string() + ": is no link");
  return found->second.target;
}

Result<std::vector<DirectoryEntry>> MemoryFileSystem::list(const std::filesystem::path& directory) {
  std::lock_guard lock(mutex_);
  if (dead_) return fail(ErrorCode::io, "the process is dead");
  if (!now_.contains(key(directory))) return not_there(directory);
  std::string prefix = key(directory) + "/";
  std::vector<DirectoryEntry> entries;
  for (const auto& [path, node] : now_) {
    if (!path.starts_with(prefix) || path.find('/', prefix.size()) != std::string::npos) continue;
    entries.push_back({path.substr(prefix.size()), node.type == Node::Type::directory});
  }
  return entries;
}

Status MemoryFileSystem::sync_directory(const std::filesystem::path& directory) {
  std::lock_guard lock(mutex_);
  if (auto error = step("sync_directory", directory)) return *error;
  auto found = unsynced_.find(key(directory));
  if (found == unsynced_.end()) return {};
  for (const Change& change : found->second) apply(stable_, change);
  unsynced_.erase(found);
  return {};
}

std::optional<Bytes> MemoryFileSystem::contents(const std::filesystem::path& path) const {
  std::lock_guard lock(mutex_);
  auto found = now_.find(key(path));
  if (found == now_.end() || found->second.inode == nullptr) return std::nullopt;
  return found->second.inode->data;
}

void MemoryFileSystem::flip_byte(const std::filesystem::path& path, std::size_t offset) {
  std::lock_guard lock(mutex_);
  Inode& inode = *now_.at(key(path)).inode;
  inode.data.at(offset) ^= std::byte{0x40};
  inode.stable.resize(std::max(inode.stable.size(), offset + 1));
  inode.stable[offset] = inode.data[offset];
}

void MemoryFileSystem::erase(const std::filesystem::path& path) {
  std::lock_guard lock(mutex_);
  now_.erase(key(path));
  stable_.erase(key(path));
}

bool MemoryFileSystem::exists(const std::filesystem::path& path) const {
  std::lock_guard lock(mutex_);
  return now_.contains(key(path));
}

std::vector<std::string> MemoryFileSystem::files_under(const std::filesystem::path& directory) const {
  std::lock_guard lock(mutex_);
  std::string prefix = key(directory) + "/";
  std::vector<std::string> files;
  for (const auto& [path, node] : now_) {
    if (path.starts_with(prefix) && node.type != Node::Type::directory) files.push_back(path.substr(prefix.size()));
  }
  return files;
}

}  // namespace p2pw::testing
