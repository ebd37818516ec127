#include "daemon/swarm/sandbox.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "protocol/limits.h"

namespace p2pw {
namespace {

// Newer than the kernel headers of Debian 12, from Documentation/userspace-api/landlock.rst.
struct Ruleset {
  std::uint64_t handled_access_fs = 0;
  std::uint64_t handled_access_net = 0;  // ABI 4
  std::uint64_t scoped = 0;              // ABI 6
};
struct PortRule {
  std::uint64_t allowed_access = 0;
  std::uint64_t port = 0;
};
constexpr std::uint32_t kRulePort = 2;
constexpr std::uint64_t kBindTcp = 1;
constexpr std::uint64_t kScopeAbstractUnix = 1, kScopeSignal = 2;

constexpr std::uint64_t low_bits(int n) {
  return (std::uint64_t(1) << n) - 1;
}

// Access rights to files by ABI: 13 in the first, then REFER, TRUNCATE, and from the fifth on IOCTL_DEV.
std::uint64_t file_rights(std::uint32_t abi) {
  if (abi >= 5) return low_bits(16);
  return low_bits(abi >= 3 ? 15 : abi == 2 ? 14 : 13);
}
std::size_t ruleset_size(std::uint32_t abi) {
  if (abi >= 6) return sizeof(Ruleset);
  return abi >= 4 ? offsetof(Ruleset, scoped) : offsetof(Ruleset, handled_access_net);
}

std::uint32_t enter_landlock(std::uint16_t port) {
  const long answer = syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  if (answer <= 0) return 0;
  const auto abi = static_cast<std::uint32_t>(answer);
  Ruleset ruleset;
  ruleset.handled_access_fs = file_rights(abi);
  if (abi >= 4) ruleset.handled_access_net = kBindTcp;
  if (abi >= 6) ruleset.scoped = kScopeAbstractUnix | kScopeSignal;
  const int fd = static_cast<int>(syscall(SYS_landlock_create_ruleset, &ruleset, ruleset_size(abi), 0));
  if (fd < 0) return 0;
  bool good = true;
  if (abi >= 4) {
    for (std::uint16_t allowed : {port, std::uint16_t(0)}) {
      const PortRule rule{kBindTcp, allowed};
      good = good && syscall(SYS_landlock_add_rule, fd, kRulePort, &rule, 0) == 0;
    }
  }
  good = good && syscall(SYS_landlock_restrict_self, fd, 0) == 0;
  close(fd);
  return good ? abi : 0;
}

// Whatever the arguments are.
constexpr int kAllowed[] = {
    // bytes in and out of descriptors that are there
    SCMP_SYS(read), SCMP_SYS(write), SCMP_SYS(readv), SCMP_SYS(writev), SCMP_SYS(pread64), SCMP_SYS(pwrite64),
    SCMP_SYS(preadv), SCMP_SYS(pwritev), SCMP_SYS(preadv2), SCMP_SYS(pwritev2), SCMP_SYS(lseek), SCMP_SYS(close),
    // TCP; which sockets there can be is said below
    SCMP_SYS(bind), SCMP_SYS(connect), SCMP_SYS(listen), SCMP_SYS(accept), SCMP_SYS(accept4), SCMP_SYS(shutdown),
    SCMP_SYS(getsockname), SCMP_SYS(getpeername), SCMP_SYS(setsockopt), SCMP_SYS(getsockopt), SCMP_SYS(sendto),
    SCMP_SYS(recvfrom), SCMP_SYS(sendmsg), SCMP_SYS(recvmsg),
    // waiting
    SCMP_SYS(epoll_create), SCMP_SYS(epoll_create1), SCMP_SYS(epoll_ctl), SCMP_SYS(epoll_wait), SCMP_SYS(epoll_pwait),
    SCMP_SYS(poll), SCMP_SYS(ppoll), SCMP_SYS(eventfd2), SCMP_SYS(timerfd_create), SCMP_SYS(timerfd_settime),
    SCMP_SYS(nanosleep), SCMP_SYS(clock_nanosleep), SCMP_SYS(clock_gettime), SCMP_SYS(clock_getres),
    SCMP_SYS(gettimeofday), SCMP_SYS(time), SCMP_SYS(restart_syscall),
    // memory and threads
    SCMP_SYS(brk), SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise), SCMP_SYS(futex), SCMP_SYS(set_robust_list),
    SCMP_SYS(rseq), SCMP_SYS(sched_yield), SCMP_SYS(sched_getaffinity), SCMP_SYS(membarrier), SCMP_SYS(getrandom),
    // itself
    SCMP_SYS(getpid), SCMP_SYS(gettid), SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn),
    SCMP_SYS(sigaltstack), SCMP_SYS(exit), SCMP_SYS(exit_group)};

bool allow(scmp_filter_ctx filter, int call, std::initializer_list<scmp_arg_cmp> when) {
  return seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, call, static_cast<unsigned>(when.size()), when.begin()) == 0;
}

scmp_arg_cmp argument(unsigned index, scmp_compare how, std::uint64_t a, std::uint64_t b = 0) {
  scmp_arg_cmp compare{};
  compare.arg = index;
  compare.op = how;
  compare.datum_a = a;
  compare.datum_b = b;
  return compare;
}

bool fill(scmp_filter_ctx filter) {
  bool good = true;
  for (int call : kAllowed) good = good && allow(filter, call, {});
  for (int family : {AF_INET, AF_INET6}) {
    good = good && allow(filter, SCMP_SYS(socket), {argument(0, SCMP_CMP_EQ, static_cast<std::uint64_t>(family))});
  }
  // Never executable.
  for (int call : {SCMP_SYS(mmap), SCMP_SYS(mprotect)}) {
    good = good && allow(filter, call, {argument(2, SCMP_CMP_MASKED_EQ, PROT_EXEC, 0)});
  }
  // Threads of this process, and no processes. glibc asks for clone3 first, whose arguments a filter cannot see; told
  // that there is none it takes the older one.
  good = good && allow(filter, SCMP_SYS(clone), {argument(0, SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD)});
  good = good && seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0) == 0;
  // abort() ends this process, and nobody another.
  const auto self = static_cast<std::uint64_t>(getpid());
  good = good && allow(filter, SCMP_SYS(tgkill), {argument(0, SCMP_CMP_EQ, self)});
  for (std::uint64_t command : {F_GETFL, F_SETFL, F_GETFD, F_SETFD}) {
    good = good && allow(filter, SCMP_SYS(fcntl), {argument(1, SCMP_CMP_EQ, command)});
  }
  constexpr std::uint64_t kFionbio = 0x5421, kFionread = 0x541b;
  for (std::uint64_t request : {kFionbio, kFionread}) {
    good = good && allow(filter, SCMP_SYS(ioctl), {argument(1, SCMP_CMP_EQ, request)});
  }
  // The names of threads, for ps and top.
  return good && allow(filter, SCMP_SYS(prctl), {argument(0, SCMP_CMP_EQ, PR_SET_NAME)});
}

bool enter_seccomp() {
  scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
  if (filter == nullptr) return false;
  // Binary tree: a call on the path of bytes is found in a few comparisons.
  (void)seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
  const bool good = fill(filter) && seccomp_load(filter) == 0;
  seccomp_release(filter);
  return good;
}

// When memory runs out, this one rather than the daemon: it can be started again.
void volunteer_for_oom() {
  const int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  (void)!write(fd, "300", 3);
  close(fd);
}

}  // namespace

bool seal_process(int parent, int first_closed) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) return false;
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  volunteer_for_oom();
  prctl(PR_SET_DUMPABLE, 0);
  syscall(SYS_close_range, static_cast<unsigned>(first_closed), ~0U, 0);
  // The daemon decides when it is over, not who stops a service or presses Ctrl-C; then the daemon hangs up.
  for (int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXFSZ}) signal(number, SIG_IGN);
  // A bundle file cannot be made larger than a bundle.
  const rlimit largest{limits::kMaxBundleBytes + limits::kMaxChunkBytes, limits::kMaxBundleBytes + limits::kMaxChunkBytes};
  setrlimit(RLIMIT_FSIZE, &largest);
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  return true;
}

Sandbox enter_sandbox(std::uint16_t port) {
  Sandbox sandbox;
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return sandbox;
  sandbox.landlock = enter_landlock(port);
  sandbox.seccomp = enter_seccomp();
  return sandbox;
}

}  // namespace p2pw
