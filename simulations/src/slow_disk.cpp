// A slow disk for one process: LD_PRELOAD this, and P2PW_SLOW_DISK_MB_PER_S says how many megabytes a second it may write
// to regular files. Writes beyond that wait, as they would for a disk whose queue is full. Reads are not slowed.
//
// Only for the lab.
#include <dlfcn.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <thread>

namespace {

using Clock = std::chrono::steady_clock;

double bytes_per_second() {
  static const double rate = [] {
    const char* text = std::getenv("P2PW_SLOW_DISK_MB_PER_S");
    return text == nullptr ? 0.0 : std::strtod(text, nullptr) * 1e6;
  }();
  return rate;
}

// Called after the write, with what it returned: the disk is busy with these bytes from when it is done with the last.
void charge(int fd, ssize_t written) {
  static std::mutex mutex;
  static Clock::time_point idle_from{};
  struct stat info;
  if (written <= 0 || bytes_per_second() <= 0 || fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) return;
  Clock::time_point until;
  {
    const std::lock_guard lock(mutex);
    const auto busy = std::chrono::duration<double>(static_cast<double>(written) / bytes_per_second());
    idle_from = std::max(idle_from, Clock::now()) + std::chrono::duration_cast<Clock::duration>(busy);
    until = idle_from;
  }
  const int error = errno;
  std::this_thread::sleep_until(until);
  errno = error;
}

template <class F>
F next(const char* name) {
  return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

ssize_t write(int fd, const void* data, size_t size) {
  static const auto real = next<ssize_t (*)(int, const void*, size_t)>("write");
  const ssize_t written = real(fd, data, size);
  charge(fd, written);
  return written;
}

ssize_t pwrite(int fd, const void* data, size_t size, off_t offset) {
  static const auto real = next<ssize_t (*)(int, const void*, size_t, off_t)>("pwrite");
  const ssize_t written = real(fd, data, size, offset);
  charge(fd, written);
  return written;
}

ssize_t pwrite64(int fd, const void* data, size_t size, off64_t offset) {
  static const auto real = next<ssize_t (*)(int, const void*, size_t, off64_t)>("pwrite64");
  const ssize_t written = real(fd, data, size, offset);
  charge(fd, written);
  return written;
}

ssize_t writev(int fd, const iovec* parts, int count) {
  static const auto real = next<ssize_t (*)(int, const iovec*, int)>("writev");
  const ssize_t written = real(fd, parts, count);
  charge(fd, written);
  return written;
}

ssize_t pwritev(int fd, const iovec* parts, int count, off_t offset) {
  static const auto real = next<ssize_t (*)(int, const iovec*, int, off_t)>("pwritev");
  const ssize_t written = real(fd, parts, count, offset);
  charge(fd, written);
  return written;
}

ssize_t pwritev64(int fd, const iovec* parts, int count, off64_t offset) {
  static const auto real = next<ssize_t (*)(int, const iovec*, int, off64_t)>("pwritev64");
  const ssize_t written = real(fd, parts, count, offset);
  charge(fd, written);
  return written;
}

}  // extern "C"
