#include "daemon/client/fleet_secrets.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "daemon/client/files.h"

namespace p2pw {
namespace {

constexpr std::size_t kMaxSecretFile = 4096;

// 0 for a name that is none of ours.
unsigned number_of(const std::filesystem::path& file) {
  std::string stem = file.stem().string();
  bool digits = !stem.empty() && stem.size() <= 9 && stem.find_first_not_of("0123456789") == std::string::npos;
  return digits && file.extension() == ".secret" ? static_cast<unsigned>(std::strtoul(stem.c_str(), nullptr, 10)) : 0;
}

std::vector<std::pair<unsigned, std::filesystem::path>> secret_files(const StatePaths& paths) {
  std::vector<std::pair<unsigned, std::filesystem::path>> files;
  std::error_code missing;
  for (std::filesystem::directory_iterator it(paths.fleet(), missing), end; !missing && it != end; it.increment(missing)) {
    if (unsigned number = number_of(it->path())) files.emplace_back(number, it->path());
  }
  std::sort(files.rbegin(), files.rend());
  return files;
}

}  // namespace

Result<std::vector<FleetSecret>> load_fleet_secrets(const StatePaths& paths) {
  std::vector<FleetSecret> secrets;
  for (const auto& [number, file] : secret_files(paths)) {
    P2PW_TRY(std::string text, read_secret_file(file, kMaxSecretFile));
    auto secret = FleetSecret::parse(text);
    if (!secret) return fail(secret.error().code, file.string() + ": " + secret.error().message);
    secrets.push_back(std::move(secret).value());
  }
  auto handed = read_credential("p2pw.fleet.secret", {}, kMaxSecretFile);
  if (!handed && handed.error().code != ErrorCode::not_found) return handed.error();
  if (handed) {
    P2PW_TRY(FleetSecret secret, FleetSecret::parse(handed.value()));
    bool known = std::any_of(secrets.begin(), secrets.end(), [&](const FleetSecret& s) { return s.id() == secret.id(); });
    if (!known) secrets.push_back(std::move(secret));
  }
  return secrets;
}

Status add_fleet_secret(const StatePaths& paths, const FleetSecret& secret) {
  P2PW_TRY(std::vector<FleetSecret> held, load_fleet_secrets(paths));
  for (const FleetSecret& known : held) {
    if (known.id() == secret.id()) return {};
  }
  auto files = secret_files(paths);
  unsigned next = files.empty() ? 1 : files.front().first + 1;
  char name[32];
  std::snprintf(name, sizeof name, "%04u.secret", next);
  return write_small_file(paths.fleet() / name, secret.file(), 0600);
}

}  // namespace p2pw
