// From inside the sandbox: what a swarm's process that was taken over can still do. Each try happens in a process of its
// own, which says by its exit code how it went: 0, it was refused.
#include "daemon/swarm/sandbox.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/landlock.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <thread>

#include "tests/support/temp_dir.h"

namespace p2pw::testing {
namespace {

constexpr int kNoSandbox = 99;

// Exit code of `work` inside.
int inside(const std::function<int()>& work, std::uint16_t port = 0) {
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    if (!seal_process(parent, 1000)) _exit(98);
    const Sandbox sandbox = enter_sandbox(port);
    if (sandbox.landlock == 0 && !sandbox.seccomp) _exit(kNoSandbox);
    _exit(work());
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int refused(long result) { return result < 0 && (errno == EPERM || errno == EACCES) ? 0 : 1; }

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

class SandboxTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (inside([] { return 0; }) == kNoSandbox) GTEST_SKIP() << "this kernel has neither Landlock nor seccomp";
    fd_ = open((dir_ / "file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ASSERT_EQ(write(fd_, "secret", 6), 6);
  }
  void TearDown() override {
    if (fd_ >= 0) close(fd_);
  }
  TempDir dir_;
  int fd_ = -1;
};

TEST_F(SandboxTest, NoFileCanBeOpenedMadeOrNamed) {
  const std::string file = dir_ / "file", other = dir_ / "other";
  EXPECT_EQ(inside([&] { return refused(open(file.c_str(), O_RDONLY)); }), 0);
  EXPECT_EQ(inside([&] { return refused(open("/etc/passwd", O_RDONLY)); }), 0);
  EXPECT_EQ(inside([&] { return refused(open("/proc/self/environ", O_RDONLY)); }), 0);
  EXPECT_EQ(inside([&] { return refused(open(dir_.path().c_str(), O_RDONLY | O_DIRECTORY)); }), 0);
  EXPECT_EQ(inside([&] { return refused(open(other.c_str(), O_WRONLY | O_CREAT, 0600)); }), 0);
  EXPECT_EQ(inside([&] { return refused(unlink(file.c_str())); }), 0);
  EXPECT_EQ(inside([&] { return refused(rename(file.c_str(), other.c_str())); }), 0);
  EXPECT_EQ(inside([&] { return refused(truncate(file.c_str(), 0)); }), 0);
  EXPECT_EQ(inside([&] { return refused(syscall(SYS_openat2, AT_FDCWD, file.c_str(), nullptr, 0)); }), 0);
}

// A bundle's file: read and written where it is, and no more.
TEST_F(SandboxTest, ADescriptorThatIsThereCanBeUsedButNotMadeShorter) {
  EXPECT_EQ(inside([&] { return pwrite(fd_, "S", 1, 0) == 1 ? 0 : 1; }), 0);
  char first = 0;
  ASSERT_EQ(pread(fd_, &first, 1, 0), 1);
  EXPECT_EQ(first, 'S');
  EXPECT_EQ(inside([&] { return refused(ftruncate(fd_, 0)); }), 0);
  EXPECT_EQ(inside([&] { return refused(fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4)); }), 0);
  EXPECT_EQ(inside([&] { return refused(fchmod(fd_, 0666)); }), 0);
  // Nor much longer: 64 GiB would fill the disk.
  EXPECT_EQ(inside([&] { return pwrite(fd_, "x", 1, std::int64_t(1) << 36) < 0 && errno == EFBIG ? 0 : 1; }), 0);
}

TEST_F(SandboxTest, NoProgramAndNoProcessCanBeStarted) {
  EXPECT_EQ(inside([] {
              char* const argv[] = {const_cast<char*>("/bin/true"), nullptr};
              execv(argv[0], argv);
              return refused(-1);
            }),
            0);
  EXPECT_EQ(inside([] {
              const pid_t pid = static_cast<pid_t>(syscall(SYS_fork));
              if (pid == 0) _exit(0);
              return refused(pid);
            }),
            0);
  EXPECT_EQ(inside([] { return refused(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)); }), 0);
}

TEST_F(SandboxTest, NoOtherProcessCanBeSignalledOrLookedInto) {
  const pid_t parent = getpid();
  EXPECT_EQ(inside([&] { return refused(kill(parent, SIGTERM)); }), 0);
  EXPECT_EQ(inside([&] { return refused(kill(parent, 0)); }), 0);
  EXPECT_EQ(inside([&] { return refused(syscall(SYS_tgkill, parent, parent, SIGTERM)); }), 0);
  EXPECT_EQ(inside([&] { return refused(ptrace(PTRACE_ATTACH, parent, nullptr, nullptr)); }), 0);
  EXPECT_EQ(inside([&] { return refused(syscall(SYS_pidfd_open, parent, 0)); }), 0);
  EXPECT_EQ(inside([&] {
              char byte = 0;
              iovec mine{&byte, 1}, theirs{&byte, 1};
              return refused(process_vm_readv(parent, &mine, 1, &theirs, 1, 0));
            }),
            0);
}

TEST_F(SandboxTest, NoUnixSocketAndNoOtherWayToTheDaemon) {
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, (dir_ / "api.sock").c_str(), sizeof address.sun_path - 1);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(listener, 1), 0);
  EXPECT_EQ(inside([] { return refused(socket(AF_UNIX, SOCK_STREAM, 0)); }), 0);
  EXPECT_EQ(inside([] { return refused(socket(AF_NETLINK, SOCK_RAW, 0)); }), 0);
  EXPECT_EQ(inside([] { return refused(socket(AF_PACKET, SOCK_RAW, 0)); }), 0);
  EXPECT_EQ(inside([] {
              int pair[2];
              return refused(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
            }),
            0);
  close(listener);
}

TEST_F(SandboxTest, NoKernelInterfaceThatBugsLiveIn) {
  EXPECT_EQ(inside([] { return refused(syscall(SYS_io_uring_setup, 1, nullptr)); }), 0);
  EXPECT_EQ(inside([] { return refused(syscall(SYS_bpf, 0, nullptr, 0)); }), 0);
  EXPECT_EQ(inside([] { return refused(syscall(SYS_userfaultfd, 0)); }), 0);
  EXPECT_EQ(inside([] { return refused(syscall(SYS_perf_event_open, nullptr, 0, -1, -1, 0)); }), 0);
  EXPECT_EQ(inside([] { return refused(syscall(SYS_unshare, 0x10000000)); }), 0);
  EXPECT_EQ(inside([] { return refused(syscall(SYS_keyctl, 0, 0, 0, 0, 0)); }), 0);
  EXPECT_EQ(inside([] { return refused(syscall(SYS_memfd_create, "x", 0)); }), 0);
  EXPECT_EQ(inside([] { return refused(prctl(PR_SET_DUMPABLE, 1)); }), 0);
  EXPECT_EQ(inside([] {
              void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
              return page == MAP_FAILED && errno == EPERM ? 0 : 1;
            }),
            0);
  EXPECT_EQ(inside([] {
              void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
              return refused(mprotect(page, 4096, PROT_READ | PROT_EXEC));
            }),
            0);
}

TEST_F(SandboxTest, WhatASwarmNeedsIsLeft) {
  EXPECT_EQ(inside([] {
              const int server = socket(AF_INET, SOCK_STREAM, 0);
              sockaddr_in address = loopback(0);
              socklen_t size = sizeof address;
              if (bind(server, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 || listen(server, 1) != 0 ||
                  getsockname(server, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
                return 1;
              }
              const int client = socket(AF_INET, SOCK_STREAM, 0);
              if (connect(client, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return 2;
              return accept(server, nullptr, nullptr) >= 0 ? 0 : 3;
            }),
            0);
  EXPECT_EQ(inside([] {
              int done = 0;
              std::thread([&] { done = 1; }).join();
              return done == 1 ? 0 : 1;
            }),
            0);
  EXPECT_EQ(inside([]() -> int { abort(); }), 128 + SIGABRT);
}

TEST_F(SandboxTest, ItListensOnItsPortOnly) {
  const long abi = syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  if (abi < 4) GTEST_SKIP() << "Landlock of this kernel does not know ports";
  const int taken = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in free = loopback(0);
  socklen_t size = sizeof free;
  ASSERT_EQ(bind(taken, reinterpret_cast<sockaddr*>(&free), sizeof free), 0);
  ASSERT_EQ(getsockname(taken, reinterpret_cast<sockaddr*>(&free), &size), 0);
  close(taken);
  auto binds = [&] {
    return bind(socket(AF_INET, SOCK_STREAM, 0), reinterpret_cast<const sockaddr*>(&free), sizeof free);
  };
  const std::uint16_t port = ntohs(free.sin_port);
  EXPECT_EQ(inside([&] { return binds() == 0 ? 0 : 1; }, port), 0);
  EXPECT_EQ(inside([&] { return refused(binds()); }, static_cast<std::uint16_t>(port ^ 1)), 0);
}

}  // namespace
}  // namespace p2pw::testing
