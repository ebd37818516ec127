// What plain TCP reaches on the emulated network, for the lab to compare the daemons with.
//
//   tcp_pump serve                                        prints {"port": P}, then serves until it is killed
//   tcp_pump ping  HOST PORT --count N                    round trips of one byte
//   tcp_pump rate  HOST PORT --connections C --warm-ms W --for-ms M --cc NAME [--pace-bits B]
//                                                         goodput in a window of M ms that begins W ms after the first byte
//   tcp_pump burst HOST PORT --connections C --warm-bytes W --bytes B --cc NAME
//                                                         seconds from the first write of B bytes, over connections that
//                                                         have already carried W, to the last byte at the receiver
//
// --pace-bits: all connections together send no faster than this. Each prints one JSON object. `burst` compares the sender's clock with the receiver's, so both must run on one
// machine. Nothing runs longer than five minutes (`serve`: an hour).
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr unsigned kServerLifetimeSeconds = 3600;
constexpr unsigned kLifetimeSeconds = 300;
constexpr std::size_t kBlockBytes = 64u << 10;
constexpr int kUnsentBytes = 256 << 10;  // small, so that the quickest connection takes the next block

enum class Kind : std::uint32_t { kPing = 1, kRate = 2, kBurst = 3 };

struct Header {
  Kind kind = Kind::kPing;
  std::uint32_t reserved = 0;
  std::uint64_t warm = 0;    // rate: nanoseconds; burst: bytes
  std::uint64_t amount = 0;  // rate: nanoseconds
};

struct Answer {
  std::uint64_t bytes = 0;
  std::uint64_t nanoseconds = 0;  // rate: of the window; burst: the clock when the last byte was read
};

std::uint64_t now() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "tcp_pump: %s: %s\n", what, std::strerror(errno));
  std::_Exit(1);
}

bool read_all(int fd, void* data, std::size_t size) {
  for (std::size_t have = 0; have < size;) {
    const ssize_t got = recv(fd, static_cast<char*>(data) + have, size - have, 0);
    if (got <= 0) return false;
    have += static_cast<std::size_t>(got);
  }
  return true;
}

bool write_all(int fd, const void* data, std::size_t size) {
  for (std::size_t sent = 0; sent < size;) {
    const ssize_t put = send(fd, static_cast<const char*>(data) + sent, size - sent, MSG_NOSIGNAL);
    if (put <= 0) return false;
    sent += static_cast<std::size_t>(put);
  }
  return true;
}

// Takes at most `limit` bytes off the socket without copying them. 0: the peer is done.
std::size_t discard(int fd, std::size_t limit) {
  static thread_local std::array<char, 1> unused;
  const ssize_t got = recv(fd, unused.data(), limit, MSG_TRUNC);
  return got > 0 ? static_cast<std::size_t>(got) : 0;
}

void serve_ping(int fd) {
  for (char byte = 0; read_all(fd, &byte, 1);) {
    if (!write_all(fd, &byte, 1)) return;
  }
}

void serve_rate(int fd, const Header& header) {
  std::uint64_t begin = 0;  // of the window; 0 until the first byte
  std::uint64_t counted_from = 0;
  Answer answer;
  while (const std::size_t got = discard(fd, 1u << 20)) {
    const std::uint64_t at = now();
    if (begin == 0) begin = at + header.warm;
    if (at < begin) continue;
    if (counted_from == 0) {
      counted_from = at;
      continue;
    }
    answer.bytes += got;
    answer.nanoseconds = at - counted_from;
    if (at >= begin + header.amount) break;
  }
  write_all(fd, &answer, sizeof answer);
}

void serve_burst(int fd, const Header& header) {
  for (std::uint64_t left = header.warm; left > 0;) {
    const std::size_t got = discard(fd, std::min<std::uint64_t>(left, 1u << 20));
    if (got == 0) return;
    left -= got;
  }
  const char warm = 1;
  if (!write_all(fd, &warm, 1)) return;
  Answer answer;
  while (const std::size_t got = discard(fd, 1u << 20)) {
    answer.bytes += got;
    answer.nanoseconds = now();
  }
  write_all(fd, &answer, sizeof answer);
}

void serve_connection(int fd) {
  Header header;
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (read_all(fd, &header, sizeof header)) {
    if (header.kind == Kind::kPing) serve_ping(fd);
    if (header.kind == Kind::kRate) serve_rate(fd, header);
    if (header.kind == Kind::kBurst) serve_burst(fd, header);
  }
  close(fd);
}

int serve() {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t size = sizeof address;
  if (listener < 0 || bind(listener, reinterpret_cast<sockaddr*>(&address), size) != 0) fail("bind");
  if (listen(listener, 64) != 0) fail("listen");
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
  std::printf("{\"port\": %u}\n", ntohs(address.sin_port));
  std::fflush(stdout);
  for (;;) {
    const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd >= 0) std::thread(serve_connection, fd).detach();
  }
}

struct Options {
  std::string host;
  std::uint16_t port = 0;
  std::uint64_t count = 20, connections = 4, warm_ms = 2000, for_ms = 3000, warm_bytes = 0, bytes = 0;
  std::uint64_t pace_bits = 0;  // 0 = as fast as the congestion control lets them
  std::string congestion;
};

int dial(const Options& options, const Header& header) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) fail("socket");
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (header.kind != Kind::kPing) {
    setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kUnsentBytes, sizeof kUnsentBytes);
  }
  if (!options.congestion.empty() &&
      setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, options.congestion.data(),
                 static_cast<socklen_t>(options.congestion.size())) != 0) {
    fail("set the congestion control");
  }
  if (options.pace_bits > 0) {
    const std::uint64_t bytes_per_second = options.pace_bits / 8 / options.connections;
    setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &bytes_per_second, sizeof bytes_per_second);
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(options.port);
  if (inet_pton(AF_INET, options.host.c_str(), &address.sin_addr) != 1) fail("read the address");
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) fail("connect");
  if (!write_all(fd, &header, sizeof header)) fail("send");
  return fd;
}

int ping(const Options& options) {
  const int fd = dial(options, {Kind::kPing});
  std::vector<double> trips;
  for (std::uint64_t i = 0; i < options.count + 1; ++i) {
    char byte = 1;
    const std::uint64_t begin = now();
    if (!write_all(fd, &byte, 1) || !read_all(fd, &byte, 1)) fail("ping");
    if (i > 0) trips.push_back(static_cast<double>(now() - begin) / 1e6);
  }
  std::sort(trips.begin(), trips.end());
  std::printf("{\"min_ms\": %.3f, \"median_ms\": %.3f, \"max_ms\": %.3f}\n", trips.front(),
              trips[trips.size() / 2], trips.back());
  return 0;
}

int rate(const Options& options) {
  const Header header{Kind::kRate, 0, options.warm_ms * 1'000'000, options.for_ms * 1'000'000};
  std::vector<Answer> answers(options.connections);
  std::vector<std::thread> threads;
  for (Answer& answer : answers) {
    threads.emplace_back([&options, &header, &answer] {
      const int fd = dial(options, header);
      const std::vector<char> block(kBlockBytes);
      // The receiver answers at the end of its window; what is still on the way then is nobody's concern.
      while (recv(fd, &answer, sizeof answer, MSG_PEEK | MSG_DONTWAIT) != sizeof answer) {
        if (!write_all(fd, block.data(), block.size())) break;
      }
      if (!read_all(fd, &answer, sizeof answer)) answer = {};
      const linger abort{1, 0};
      setsockopt(fd, SOL_SOCKET, SO_LINGER, &abort, sizeof abort);
      close(fd);
    });
  }
  for (std::thread& thread : threads) thread.join();
  double bits_per_second = 0;
  std::uint64_t bytes = 0;
  for (const Answer& answer : answers) {
    bytes += answer.bytes;
    if (answer.nanoseconds > 0) {
      bits_per_second += static_cast<double>(answer.bytes) * 8e9 / static_cast<double>(answer.nanoseconds);
    }
  }
  std::printf("{\"goodput_bits\": %.0f, \"bytes\": %llu}\n", bits_per_second, static_cast<unsigned long long>(bytes));
  return 0;
}

int burst(const Options& options) {
  const std::uint64_t warm_each = options.warm_bytes / options.connections;
  const Header header{Kind::kBurst, 0, warm_each, 0};
  std::vector<Answer> answers(options.connections);
  std::atomic<std::int64_t> left = static_cast<std::int64_t>(options.bytes);
  std::atomic<std::uint64_t> begin = 0;
  std::barrier all_warm(static_cast<std::ptrdiff_t>(options.connections), [&begin]() noexcept { begin = now(); });
  std::vector<std::thread> threads;
  for (Answer& answer : answers) {
    threads.emplace_back([&, warm_each] {
      const int fd = dial(options, header);
      const std::vector<char> block(kBlockBytes);
      for (std::uint64_t todo = warm_each; todo > 0;) {
        const std::size_t part = std::min<std::uint64_t>(todo, block.size());
        if (!write_all(fd, block.data(), part)) fail("warm up");
        todo -= part;
      }
      char warm = 0;
      if (!read_all(fd, &warm, 1)) fail("warm up");
      all_warm.arrive_and_wait();
      for (;;) {
        const std::int64_t before = left.fetch_sub(kBlockBytes);
        if (before <= 0) break;
        if (!write_all(fd, block.data(), static_cast<std::size_t>(std::min<std::int64_t>(before, kBlockBytes)))) {
          fail("send");
        }
      }
      shutdown(fd, SHUT_WR);
      if (!read_all(fd, &answer, sizeof answer)) fail("read the answer");
      close(fd);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::uint64_t last = 0, bytes = 0;
  for (const Answer& answer : answers) {
    bytes += answer.bytes;
    last = std::max(last, answer.nanoseconds);
  }
  std::printf("{\"seconds\": %.6f, \"bytes\": %llu}\n", static_cast<double>(last - begin) / 1e9,
              static_cast<unsigned long long>(bytes));
  return 0;
}

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  if (argc < 4 || argc % 2 != 0) return std::nullopt;
  options.host = argv[2];
  options.port = static_cast<std::uint16_t>(std::strtoul(argv[3], nullptr, 10));
  const std::map<std::string, std::uint64_t*> numbers = {
      {"--count", &options.count},     {"--connections", &options.connections}, {"--warm-ms", &options.warm_ms},
      {"--for-ms", &options.for_ms}, {"--warm-bytes", &options.warm_bytes},   {"--bytes", &options.bytes},
      {"--pace-bits", &options.pace_bits}};
  for (int i = 4; i + 1 < argc; i += 2) {
    if (std::string(argv[i]) == "--cc") {
      options.congestion = argv[i + 1];
    } else if (const auto found = numbers.find(argv[i]); found != numbers.end()) {
      *found->second = std::strtoull(argv[i + 1], nullptr, 10);
    } else {
      return std::nullopt;
    }
  }
  if (options.connections == 0 || options.connections > 64 || options.count == 0) return std::nullopt;
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string verb = argc > 1 ? argv[1] : "";
  alarm(verb == "serve" ? kServerLifetimeSeconds : kLifetimeSeconds);
  if (verb == "serve") return serve();
  if (const std::optional<Options> options = parse(argc, argv)) {
    if (verb == "ping") return ping(*options);
    if (verb == "rate") return rate(*options);
    if (verb == "burst") return burst(*options);
  }
  std::fprintf(stderr, "usage: tcp_pump serve | ping|rate|burst HOST PORT [--count N] [--connections C] [--warm-ms W] "
                       "[--for-ms M] [--warm-bytes W] [--bytes B] [--cc NAME] [--pace-bits B]\n");
  return 2;
}
