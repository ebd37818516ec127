// Everything that crosses the loopback interface between the addresses of one fleet, as a cable tap would see it. Needs root
// (a packet socket).
#pragma once

#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

namespace p2pw::testing {

class WireCapture {
 public:
  // `net`: the second octet of the fleet's addresses. `why` is set when nothing can be captured.
  WireCapture(int net, std::string& why);
  ~WireCapture();

  // Ends the capture. False when the kernel dropped packets: then nothing can be said.
  bool finish();
  // TCP payload of each direction of each connection, in the order of its sequence numbers.
  std::vector<std::string> streams() const;
  std::uint64_t bytes() const { return bytes_; }

 private:
  using Flow = std::tuple<std::uint32_t, std::uint32_t, std::uint16_t, std::uint16_t>;
  struct Stream {
    std::uint32_t first = 0;
    std::map<std::uint64_t, std::string> parts;  // by offset
  };
  void run();
  void take(const unsigned char* packet, std::size_t size);

  int net_, fd_ = -1;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
  std::map<Flow, Stream> flows_;
  std::uint64_t bytes_ = 0;
};

// Byte strings to look for, all at least 8 bytes long.
class Needles {
 public:
  void add(const std::string& name, std::string bytes);
  std::size_t size() const { return needles_.size(); }
  // Names of those that occur in the text, each once.
  std::vector<std::string> found_in(const std::string& text) const;

 private:
  struct Needle {
    std::string name, bytes;
  };
  std::multimap<std::uint64_t, std::size_t> by_start_;  // first 8 bytes
  std::vector<bool> filter_ = std::vector<bool>(1u << 20);
  std::vector<Needle> needles_;
};

}  // namespace p2pw::testing
