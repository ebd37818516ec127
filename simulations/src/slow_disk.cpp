// A slow disk for one daemon: LD_PRELOAD this, and P2PW_SLOW_DISK_MB_PER_S says how many megabytes a second it may write
// to regular files. Writes beyond that wait, as they would for a disk whose queue is full. Reads are not slowed.
//
// The process that runs the daemon's swarm has the same disk: it is given no environment but what the loader reads, so it
// finds rate and queue in memory that the daemon keeps at a descriptor of a known number.
//
// Only for the lab.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace {

using Clock = std::chrono::steady_clock;  // one for all processes of a machine

struct Disk {
  std::atomic<double> bytes_per_second{0};
  std::atomic<std::int64_t> idle_from{0};  // nanoseconds of Clock
};
constexpr int kDescriptor = 900;

Disk* map_disk(int fd) {
  void* memory = fd < 0 ? MAP_FAILED : mmap(nullptr, sizeof(Disk), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<Disk*>(memory);
}

Disk* make_disk(const char* rate) {
  const int fd = memfd_create("slow-disk", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, sizeof(Disk)) != 0 || dup3(fd, kDescriptor, O_CLOEXEC) < 0) return nullptr;
  close(fd);
  Disk* disk = map_disk(kDescriptor);
  if (disk != nullptr) disk->bytes_per_second = std::strtod(rate, nullptr) * 1e6;
  return disk;
}

Disk* parents_disk() {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", static_cast<int>(getppid()), kDescriptor);
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  Disk* disk = map_disk(fd);
  if (fd >= 0) close(fd);
  return disk;
}

Disk* disk = nullptr;

// Before main(): later a sandbox may forbid it.
__attribute__((constructor)) void find_disk() {
  const char* rate = std::getenv("P2PW_SLOW_DISK_MB_PER_S");
  disk = rate != nullptr ? make_disk(rate) : parents_disk();
}

bool is_file(int fd, ssize_t written) {
  struct stat info;
  if (fstat(fd, &info) == 0) return S_ISREG(info.st_mode);
  return errno == EPERM && written >= 512 && lseek(fd, 0, SEEK_CUR) >= 0;  // in a sandbox
}

// Called after the write, with what it returned: the disk is busy with these bytes from when it is done with the last.
void charge(int fd, ssize_t written) {
  const int error = errno;
  if (written > 0 && disk != nullptr && disk->bytes_per_second > 0 && is_file(fd, written)) {
    const auto busy = static_cast<std::int64_t>(static_cast<double>(written) / disk->bytes_per_second * 1e9);
    const std::int64_t now = std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
    std::int64_t before = disk->idle_from, until;
    do {
      until = std::max(before, now) + busy;
    } while (!disk->idle_from.compare_exchange_weak(before, until));
    std::this_thread::sleep_until(Clock::time_point(std::chrono::nanoseconds(until)));
  }
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
