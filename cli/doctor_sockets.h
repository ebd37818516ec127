// What doctor's checks of the network share: addresses, and connections with patience and Ctrl-C in mind.
#pragma once

#include <netdb.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace p2pw::doctor {

constexpr std::chrono::seconds kPatience{5};

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_;
};

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;
// Null when there are none; then `why` says so. `flags`: getaddrinfo's.
Addresses resolve(const std::string& host, const std::string& port, int flags, std::string& why);

// A connection, non-blocking, or none; then `why` says so. `from`: bound first; empty = the kernel's choice.
Descriptor connect_to(const std::string& host, std::uint16_t port, const std::string& from, const std::function<bool()>& stop,
                      std::string& why);

// Waits until poll() says `events`. What stopped it ("no answer", "interrupted"); empty when it came about.
std::string wait_for(int fd, short events, const std::function<bool()>& stop);

}  // namespace p2pw::doctor
