#include "chunker/file_system.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <system_error>

namespace p2pw {
namespace {

Error os_failure(int number, std::string_view verb, const std::filesystem::path& path) {
  std::string message = path.string() + ": cannot " + std::string(verb) + ": " + std::generic_category().message(number);
  switch (number) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return fail(ErrorCode::no_space, message + "; make room, the work goes on then");
    case ENOENT:
    case ENOTDIR:
      return fail(ErrorCode::not_found, message);
    default:
      return fail(ErrorCode::io, message);
  }
}

bool lives_in_memory(int fd) {
  struct statfs info;
  if (fstatfs(fd, &info) != 0) return false;
  auto type = static_cast<unsigned long>(info.f_type);
  return type == TMPFS_MAGIC || type == RAMFS_MAGIC || type == HUGETLBFS_MAGIC;
}

class RealFile : public FileHandle {
 public:
  RealFile(int fd, std::filesystem::path path, bool writable) : fd_(fd), path_(std::move(path)), writable_(writable) {}
  ~RealFile() override {
    unmap();
    close(fd_);
  }

  Result<std::size_t> read_some(std::uint64_t offset, std::span<std::byte> out) override {
    for (;;) {
      ssize_t n = pread(fd_, out.data(), out.size(), static_cast<off_t>(offset));
      if (n >= 0) return static_cast<std::size_t>(n);
      if (errno != EINTR) return os_failure(errno, "read", path_);
    }
  }

  Result<std::size_t> write_some(std::uint64_t offset, ByteView bytes) override {
    for (;;) {
      ssize_t n = pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (n > 0) return static_cast<std::size_t>(n);
      if (n == 0) return os_failure(EIO, "write", path_);
      if (errno != EINTR) return os_failure(errno, "write", path_);
    }
  }

  Result<std::uint64_t> size() override {
    struct stat info;
    if (fstat(fd_, &info) != 0) return os_failure(errno, "look at", path_);
    return static_cast<std::uint64_t>(info.st_size);
  }

  Status allocate(std::uint64_t bytes) override {
    unmap();
    P2PW_TRY(std::uint64_t now, size());
    if (now > bytes && ftruncate(fd_, static_cast<off_t>(bytes)) != 0) return os_failure(errno, "shorten", path_);
    while (bytes > 0) {
      int error = posix_fallocate(fd_, 0, static_cast<off_t>(bytes));
      if (error == 0) break;
      if (error != EINTR) return os_failure(error, "reserve " + std::to_string(bytes) + " bytes", path_);
    }
    return {};
  }

  Status sync() override {
    if (fsync(fd_) != 0) return os_failure(errno, "sync", path_);
    return {};
  }

  void start_writeback(std::uint64_t offset, std::uint64_t length) override {
    sync_file_range(fd_, static_cast<off_t>(offset), static_cast<off_t>(length), SYNC_FILE_RANGE_WRITE);
  }

  std::span<std::byte> map() override {
    std::lock_guard lock(mutex_);
    if (!tried_map_) {
      tried_map_ = true;
      struct stat info;
      if (writable_ && lives_in_memory(fd_) && fstat(fd_, &info) == 0 && info.st_size > 0) {
        auto length = static_cast<std::size_t>(info.st_size);
        void* memory = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
        if (memory != MAP_FAILED) {
          madvise(memory, length, MADV_HUGEPAGE);
          map_ = {static_cast<std::byte*>(memory), length};
        }
      }
    }
    return map_;
  }

 private:
  void unmap() {
    std::lock_guard lock(mutex_);
    if (!map_.empty()) munmap(map_.data(), map_.size());
    map_ = {};
    tried_map_ = false;
  }

  int fd_;
  std::filesystem::path path_;
  bool writable_;
  std::mutex mutex_;
  bool tried_map_ = false;
  std::span<std::byte> map_;
};

class RealFileSystem : public FileSystem {
 public:
  Result<std::unique_ptr<FileHandle>> open(const std::filesystem::path& path, OpenMode mode) override {
    int flags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    flags |= mode == OpenMode::read ? O_RDONLY : mode == OpenMode::write ? O_RDWR : O_RDWR | O_CREAT;
    int fd = ::open(path.c_str(), flags, 0666);
    if (fd < 0) return os_failure(errno, "open", path);
    auto file = std::make_unique<RealFile>(fd, path, mode != OpenMode::read);
    struct stat info;
    if (fstat(fd, &info) != 0) return os_failure(errno, "look at", path);
    if (!S_ISREG(info.st_mode)) return fail(ErrorCode::io, path.string() + ": is not a regular file; remove it");
    return std::unique_ptr<FileHandle>(std::move(file));
  }

  Status make_directories(const std::filesystem::path& path) override {
    std::error_code error;
    std::filesystem::create_directories(path, error);
    if (error) return os_failure(error.value(), "make the folder", path);
    return {};
  }

  Status rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) return os_failure(errno, "replace", to);
    return {};
  }

  Status remove(const std::filesystem::path& path) override {
    if (::remove(path.c_str()) != 0 && errno != ENOENT) return os_failure(errno, "remove", path);
    return {};
  }

  Status symlink(const std::string& target, const std::filesystem::path& path) override {
    if (::symlink(target.c_str(), path.c_str()) != 0) return os_failure(errno, "make the link", path);
    return {};
  }

  Result<std::string> read_link(const std::filesystem::path& path) override {
    std::error_code error;
    std::filesystem::path target = std::filesystem::read_symlink(path, error);
    if (error) return os_failure(error.value(), "read the link", path);
    return target.string();
  }

  Result<std::vector<DirectoryEntry>> list(const std::filesystem::path& directory) override {
    DIR* stream = opendir(directory.c_str());
    if (stream == nullptr) return os_failure(errno, "list", directory);
    std::vector<DirectoryEntry> entries;
    errno = 0;
    while (dirent* entry = readdir(stream)) {
      std::string name = entry->d_name;
      if (name != "." && name != "..") entries.push_back({name, is_directory(directory / name, entry->d_type)});
      errno = 0;
    }
    int error = errno;
    closedir(stream);
    if (error != 0) return os_failure(error, "list", directory);
    return entries;
  }

  Status sync_directory(const std::filesystem::path& directory) override {
    int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return os_failure(errno, "open", directory);
    int error = fsync(fd) == 0 ? 0 : errno;
    close(fd);
    // EINVAL: a file system that has nothing to sync in a folder.
    if (error != 0 && error != EINVAL) return os_failure(error, "sync", directory);
    return {};
  }

 private:
  static bool is_directory(const std::filesystem::path& path, unsigned char type) {
    if (type != DT_UNKNOWN) return type == DT_DIR;
    struct stat info;
    return lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
  }
};

}  // namespace

FileSystem& real_file_system() {
  static RealFileSystem files;
  return files;
}

Status read_exact(FileHandle& file, std::uint64_t offset, std::span<std::byte> out) {
  while (!out.empty()) {
    P2PW_TRY(std::size_t n, file.read_some(offset, out));
    if (n == 0) return fail(ErrorCode::io, "a file ended at byte " + std::to_string(offset) + ", before its data did");
    offset += n;
    out = out.subspan(n);
  }
  return {};
}

Status write_all(FileHandle& file, std::uint64_t offset, ByteView bytes) {
  while (!bytes.empty()) {
    P2PW_TRY(std::size_t n, file.write_some(offset, bytes));
    offset += n;
    bytes = bytes.subspan(n);
  }
  return {};
}

Result<Bytes> read_small_file(FileSystem& files, const std::filesystem::path& path, std::size_t at_most) {
  P2PW_TRY(auto file, files.open(path, OpenMode::read));
  P2PW_TRY(std::uint64_t size, file->size());
  if (size > at_most) {
    return fail(ErrorCode::limit, path.string() + ": " + std::to_string(size) + " bytes, more than the " +
                                      std::to_string(at_most) + " allowed");
  }
  Bytes out(size);
  P2PW_CHECK(read_exact(*file, 0, out));
  return out;
}

Status replace_file(FileSystem& files, const std::filesystem::path& path, ByteView contents) {
  std::filesystem::path temporary = path;
  temporary += ".new";
  {
    P2PW_TRY(auto file, files.open(temporary, OpenMode::create));
    P2PW_CHECK(file->allocate(contents.size()));
    P2PW_CHECK(write_all(*file, 0, contents));
    P2PW_CHECK(file->sync());
  }
  P2PW_CHECK(files.rename(temporary, path));
  return files.sync_directory(path.parent_path());
}

}  // namespace p2pw
