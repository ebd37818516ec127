#include "cli/setup.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pwd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/service.h"
#include "daemon/client/files.h"
#include "protocol/limits.h"

namespace p2pw::setup {
namespace {

constexpr const char* kDaemonUser = "p2pw";
constexpr std::uint16_t kDashboardPort = 4712;

Error cannot_give(const std::filesystem::path& path) {
  return fail(ErrorCode::io, "cannot change the owner of " + path.string() + ": " + std::strerror(errno));
}

Status answer_after(const Status& done, Console& console, const nlohmann::ordered_json& object, const std::string& text) {
  if (done || !console.json()) console.answer(object, text);
  if (!done) console.partial(object);
  return done;
}

std::string name_of_local_end(int descriptor) {
  sockaddr_storage local{};
  socklen_t length = sizeof local;
  char text[INET6_ADDRSTRLEN] = {};
  if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&local), &length) != 0) return {};
  const void* address = local.ss_family == AF_INET6
                            ? static_cast<const void*>(&reinterpret_cast<sockaddr_in6*>(&local)->sin6_addr)
                            : static_cast<const void*>(&reinterpret_cast<sockaddr_in*>(&local)->sin_addr);
  return inet_ntop(local.ss_family, address, text, sizeof text) == nullptr ? "" : text;
}

}  // namespace

Result<SigningKey> load_or_make_key(const std::filesystem::path& file) {
  std::error_code ignored;
  if (std::filesystem::exists(file, ignored)) return read_secret_key(file);
  SigningKey key = SigningKey::generate();
  P2PW_CHECK(write_small_file(file, key.file(), 0600));
  return key;
}

std::string local_address_towards(const std::string& peer) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_DGRAM;
  if (getaddrinfo(peer.c_str(), "9", &hints, &found) != 0) return {};
  std::string address;
  for (addrinfo* entry = found; entry != nullptr && address.empty(); entry = entry->ai_next) {
    int descriptor = ::socket(entry->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0) continue;
    if (::connect(descriptor, entry->ai_addr, entry->ai_addrlen) == 0) address = name_of_local_end(descriptor);
    ::close(descriptor);
  }
  freeaddrinfo(found);
  return address;
}

Result<ListenConfig> listen_config(const ListenOptions& options, const std::string& peer) {
  ListenConfig listen;
  std::string reachable = options.address;
  if (reachable.empty()) reachable = options.listen.empty() ? local_address_towards(peer) : options.listen;
  if (reachable.empty()) {
    return fail(ErrorCode::usage, "cannot find out this machine's address (no route to " + peer +
                                      "): give it with --address");
  }
  listen.address = options.listen.empty() ? reachable : options.listen;
  if (reachable != listen.address) listen.advertise = reachable;
  listen.port = options.port;
  listen.swarm_port = options.swarm_port;
  return listen;
}

void add_dashboard(Config& config) {
  unsigned char random[16];
  if (getentropy(random, sizeof random) != 0) std::abort();
  static constexpr char kDigits[] = "0123456789abcdef";
  config.api.http_address = "127.0.0.1";
  config.api.http_port = kDashboardPort;
  config.api.token.clear();
  for (unsigned char byte : random) {
    config.api.token += kDigits[byte >> 4];
    config.api.token += kDigits[byte & 15];
  }
}

Result<SigningKey> read_secret_key(const std::filesystem::path& file, const std::string& option, const std::string& missing) {
  auto text = read_secret_file(file, limits::kMaxKeyFileBytes);
  if (!text && text.error().code == ErrorCode::not_found && !missing.empty()) return fail(ErrorCode::not_found, missing);
  if (!text && text.error().message.ends_with(std::strerror(EACCES))) {
    const std::string other = option.empty() ? "" : ", or give one that you may read with " + option;
    return fail(text.error().code, text.error().message + ": it is its owner's alone; use sudo" + other);
  }
  if (!text) return text.error();
  auto key = SigningKey::parse(*text);
  if (!key) return fail(key.error().code, file.string() + ": " + key.error().message);
  return key;
}

Result<std::string> token_text(const std::string& given) {
  if (given != "-") return given;
  std::string text(limits::kMaxTokenLength + 1, '\0');
  std::cin.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::cin.gcount()));
  return text;
}

void place(Config& config, const Console& console) {
  config.file = std::filesystem::absolute(config_path(console.options().config));
  if (!console.options().state.empty()) config.state = std::filesystem::absolute(console.options().state);
}

Status check_place(const Config& config) {
  std::filesystem::path folder = config.file.parent_path();
  std::error_code ignored;
  while (folder.has_relative_path() && !std::filesystem::exists(folder, ignored)) folder = folder.parent_path();
  if (::access(folder.c_str(), W_OK) == 0 || errno != EACCES) return {};
  return fail(ErrorCode::usage, "this user may not write to " + folder.string() +
                                    ": use sudo, or name places of your own with --config FILE --state DIR");
}

Status check_values(Config config) {
  for (ChannelConfig& channel : config.channels) {
    if (channel.publisher == VerifyingKey{}) channel.publisher = SigningKey::generate().verifying_key();
  }
  auto checked = parse_config(to_short_toml(config), config.file.string());
  return checked ? Status{} : fail(ErrorCode::usage, checked.error().message);
}

std::string name_for_people(const std::string& given) {
  if (!given.empty()) return given;
  char host[65] = {};
  return gethostname(host, sizeof host - 1) == 0 && host[0] != '\0' ? host : "p2pw";
}

std::string how_to_start(const Config& config) {
  bool usual = config.file == kDefaultConfigFile;
  return "Start it:  " + std::string(usual ? "systemctl enable --now p2pwd    (or: " : "") + "p2pwd --config " +
         config.file.string() + (usual ? ")" : "");
}

Status answer_and_start(Console& console, const nlohmann::ordered_json& object, const std::string& text, bool start) {
  Status started = start ? service::start() : Status{};
  if (started && start) console.note("Started p2pwd, now and at every boot.");
  return answer_after(started, console, object, text);
}

Status answer_and_restart(Console& console, const nlohmann::ordered_json& object, const std::string& text, bool restart) {
  Status restarted = restart ? service::restart() : Status{};
  if (restarted && restart) console.note("Restarted p2pwd.");
  return answer_after(restarted, console, object, text);
}

Status give_to_daemon(const Config& config) {
  const passwd* user = geteuid() == 0 ? getpwnam(kDaemonUser) : nullptr;
  if (user == nullptr) return {};
  uid_t uid = user->pw_uid;
  gid_t gid = user->pw_gid;
  if (::lchown(config.file.c_str(), 0, gid) != 0) return cannot_give(config.file);
  if (::lchown(config.state.c_str(), uid, gid) != 0) return cannot_give(config.state);
  std::error_code error;
  for (std::filesystem::recursive_directory_iterator it(config.state, error), end; !error && it != end;
       it.increment(error)) {
    if (::lchown(it->path().c_str(), uid, gid) != 0) return cannot_give(it->path());
  }
  return {};
}

Status give_to_caller(const std::filesystem::path& file) {
  const char* uid = std::getenv("SUDO_UID");
  const char* gid = std::getenv("SUDO_GID");
  if (geteuid() != 0 || uid == nullptr || gid == nullptr) return {};
  auto number = [](const char* text) { return static_cast<unsigned>(std::strtoul(text, nullptr, 10)); };
  if (::lchown(file.c_str(), number(uid), number(gid)) != 0) return cannot_give(file);
  return {};
}

}  // namespace p2pw::setup
