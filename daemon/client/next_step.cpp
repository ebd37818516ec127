#include "daemon/client/next_step.h"

#include <cerrno>
#include <cstring>

namespace p2pw {
namespace {

constexpr struct {
  int number;
  const char* step;
} kSteps[] = {
    {ENOENT, "check the path"},
    {ENOTDIR, "a part of that path is a file; check it"},
    {EISDIR, "that is a folder; name a file"},
    {EACCES, "use sudo, or join group p2pw to use the daemon"},
    {EPERM, "use sudo, or join group p2pw to use the daemon"},
    {ENOSPC, "make room there, or name a place on another disk"},
    {EDQUOT, "make room there, or name a place on another disk"},
    {EROFS, "name a place that can be written"},
    {EIO, "the disk may be failing: dmesg tells"},
    {EMFILE, "raise the limit of open files (ulimit -n, LimitNOFILE= in the unit)"},
    {ENFILE, "raise fs.file-max (sysctl)"},
    {EADDRINUSE, "another program has that port: ss -ltnp names it; or set another port"},
    {EADDRNOTAVAIL, "it must be an address of this machine: ip addr lists them"},
};

}  // namespace

std::string with_next_step(const Error& error) {
  for (const auto& row : kSteps) {
    if (error.message.ends_with(std::strerror(row.number))) return error.message + "; " + row.step;
  }
  return error.message;
}

}  // namespace p2pw
