#include "daemon/client/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace p2pw {
namespace {

Error os_error(const std::string& what, const std::filesystem::path& path, int number) {
  ErrorCode code = number == ENOENT ? ErrorCode::not_found : number == ENOSPC ? ErrorCode::no_space : ErrorCode::io;
  return fail(code, "cannot " + what + " " + path.string() + ": " + std::strerror(number));
}

struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

Result<std::string> read_open_file(int fd, const std::filesystem::path& path, std::size_t max_bytes) {
  std::string content;
  char buffer[16384];
  for (;;) {
    ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return os_error("read", path, errno);
    if (got == 0) return content;
    content.append(buffer, static_cast<std::size_t>(got));
    if (content.size() > max_bytes) {
      return fail(ErrorCode::limit, path.string() + " is larger than " + std::to_string(max_bytes) + " bytes");
    }
  }
}

Status make_folder(const std::filesystem::path& folder, mode_t mode) {
  if (folder.empty()) return {};
  if (::mkdir(folder.c_str(), mode) == 0 || errno == EEXIST) return {};
  if (errno != ENOENT) return os_error("make the folder", folder, errno);
  P2PW_CHECK(make_folder(folder.parent_path(), mode));
  if (::mkdir(folder.c_str(), mode) == 0 || errno == EEXIST) return {};
  return os_error("make the folder", folder, errno);
}

Status write_all(int fd, const std::filesystem::path& path, std::string_view content) {
  while (!content.empty()) {
    ssize_t put = ::write(fd, content.data(), content.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return os_error("write", path, errno);
    content.remove_prefix(static_cast<std::size_t>(put));
  }
  return {};
}

Status write_and_rename(int fd, const std::string& temporary, const std::filesystem::path& path,
                        std::string_view content, mode_t mode) {
  if (::fchmod(fd, mode) != 0) return os_error("set the mode of", temporary, errno);
  P2PW_CHECK(write_all(fd, temporary, content));
  if (::fsync(fd) != 0) return os_error("sync", temporary, errno);
  if (::rename(temporary.c_str(), path.c_str()) != 0) return os_error("write", path, errno);
  return {};
}

void sync_folder(const std::filesystem::path& folder) {
  Descriptor directory{::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (directory.fd >= 0) ::fsync(directory.fd);
}

}  // namespace

Result<std::string> read_small_file(const std::filesystem::path& path, std::size_t max_bytes) {
  Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) return os_error("read", path, errno);
  return read_open_file(file.fd, path, max_bytes);
}

Result<std::string> read_secret_file(const std::filesystem::path& path, std::size_t max_bytes) {
  Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) return os_error("read", path, errno);
  struct stat info {};
  if (::fstat(file.fd, &info) != 0) return os_error("read", path, errno);
  if ((info.st_mode & 077) != 0) {
    return fail(ErrorCode::untrusted, path.string() + " holds a secret and others may read it: type chmod 600 " +
                                          path.string());
  }
  return read_open_file(file.fd, path, max_bytes);
}

Result<std::string> read_credential(const std::string& name, const std::filesystem::path& file, std::size_t max_bytes) {
  // The service manager's file is readable by this user alone, though not always by its mode bits.
  if (const char* folder = std::getenv("CREDENTIALS_DIRECTORY"); folder != nullptr && folder[0] == '/') {
    auto handed = read_small_file(std::filesystem::path(folder) / name, max_bytes);
    if (handed || handed.error().code != ErrorCode::not_found) return handed;
  }
  if (file.empty()) return fail(ErrorCode::not_found, "no credential " + name);
  return read_secret_file(file, max_bytes);
}

Status write_small_file(const std::filesystem::path& path, std::string_view content, mode_t mode,
                        mode_t folder_mode) {
  P2PW_CHECK(make_folder(path.parent_path(), folder_mode));
  std::string temporary = path.string() + ".XXXXXX";
  Descriptor file{::mkostemp(temporary.data(), O_CLOEXEC)};
  if (file.fd < 0) return os_error("write", path, errno);
  Status written = write_and_rename(file.fd, temporary, path, content, mode);
  if (!written) {
    ::unlink(temporary.c_str());
    return written;
  }
  sync_folder(path.parent_path());
  return {};
}

}  // namespace p2pw
