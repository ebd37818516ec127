#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <chrono>
#include <cstring>

#include "cli/console.h"
#include "cli/doctor_checks.h"
#include "daemon/client/files.h"
#include "daemon/client/fleet_secrets.h"
#include "protocol/limits.h"
#include "protocol/record.h"

namespace p2pw::doctor {
namespace {

constexpr std::uint64_t kLittleRoom = 2ull << 30;
constexpr std::chrono::hours kRenewSoon{7 * 24};
constexpr std::chrono::milliseconds kSlowSync{200};

void check_key(const std::filesystem::path& file, const std::string& what, const std::string& when_missing,
               Findings& findings) {
  auto text = read_secret_file(file, limits::kMaxKeyFileBytes);
  if (text) {
    auto key = SigningKey::parse(text.value());
    if (key) {
      findings.push_back({what, Verdict::good, file.string(), ""});
    } else {
      findings.push_back({what, Verdict::bad, file.string() + ": " + key.error().message, "restore it from a backup"});
    }
    return;
  }
  bool missing = text.error().code == ErrorCode::not_found;
  findings.push_back({what, Verdict::bad, text.error().message,
                      missing ? when_missing : "make it readable for the daemon's user and nobody else: chmod 600 " + file.string()});
}

void check_delegate(const Config& config, const ChannelConfig& channel, WallTime now, Findings& findings) {
  std::string what = "delegate of " + channel.name.str();
  std::string renew = "renew it by publishing (p2pw seed), or with p2pw init --force and the same arguments";
  auto envelope = read_small_file(config.paths().delegate(channel.name), limits::kMaxRecordBytes);
  if (!envelope) return findings.push_back({what, Verdict::bad, envelope.error().message, renew});
  auto record = RecordVerifier(channel.name, channel.publisher).verify(as_bytes(envelope.value()), now);
  const DelegateRecord* delegate = record ? record->as<DelegateRecord>() : nullptr;
  if (delegate == nullptr) {
    return findings.push_back({what, Verdict::bad, record ? "is another record" : record.error().message, renew});
  }
  auto left = std::chrono::duration_cast<std::chrono::hours>(delegate->expires - now);
  if (left.count() <= 0) return findings.push_back({what, Verdict::bad, "has expired: nodes see the channel as frozen", renew});
  std::string detail = "good for " + std::to_string(left.count() / 24) + " days";
  findings.push_back({what, left < kRenewSoon ? Verdict::warning : Verdict::good, detail, left < kRenewSoon ? renew : ""});
}

void check_fleet_secret(const Config& config, Findings& findings) {
  auto secrets = load_fleet_secrets(config.paths());
  if (!secrets) return findings.push_back({"fleet secret", Verdict::bad, secrets.error().message, "restore the state folder"});
  if (!secrets->empty()) {
    return findings.push_back({"fleet secret", Verdict::good, std::to_string(secrets->size()) + " held", ""});
  }
  std::error_code ignored;
  if (std::filesystem::exists(config.paths().enrolment_pending(), ignored)) {
    return findings.push_back({"fleet secret", Verdict::warning, "not enrolled yet; the token is at hand",
                               "start p2pwd; tokens are good for one hour, p2pw token on the trainer prints another"});
  }
  findings.push_back({"fleet secret", Verdict::bad, "this node has not enrolled and has no token",
                      "p2pw join TOKEN --region " + config.node.region.str() + " --force"});
}

}  // namespace

std::string_view name_of(Verdict verdict) {
  return verdict == Verdict::good ? "ok" : verdict == Verdict::warning ? "warning" : "failed";
}

void excuse_user(Findings& findings) {
  for (Finding& finding : findings) {
    if (finding.verdict != Verdict::bad || !finding.detail.ends_with(std::strerror(EACCES))) continue;
    finding.verdict = Verdict::warning;
    finding.remedy = "not for this user to see: sudo p2pw doctor";
  }
}

void check_keys(const Config& config, WallTime now, Findings& findings) {
  check_key(config.paths().node_key(), "node key", "set up this machine with p2pw init or p2pw join", findings);
  check_fleet_secret(config, findings);
  if (config.node.role != Role::trainer) return;
  for (const ChannelConfig& channel : config.channels) {
    check_key(config.paths().online_key(channel.name), "online key of " + channel.name.str(),
              "p2pw init --force with the same arguments makes it", findings);
    check_delegate(config, channel, now, findings);
  }
}

void check_state_folder(const Config& config, Findings& findings) {
  std::filesystem::path probe = config.state / ".doctor";
  auto started = std::chrono::steady_clock::now();
  Status written = write_small_file(probe, "written by p2pw doctor\n", 0600);
  auto took = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - started);
  ::unlink(probe.c_str());
  if (!written) {
    return findings.push_back({"state folder", Verdict::bad, written.error().message,
                               "it must exist and belong to the user that p2pwd runs as"});
  }
  bool slow = took > kSlowSync;
  findings.push_back({"state folder", slow ? Verdict::warning : Verdict::good,
                      config.state.string() + ": write, sync and rename took " + std::to_string(took.count()) + " ms",
                      slow ? "the disk is slow or busy: put the slots on another one ([channels.NAME] root)" : ""});
}

void check_room(const Config& config, Findings& findings) {
  for (const ChannelConfig& channel : config.channels) {
    std::filesystem::path folder = config.channel_root(channel.name);
    std::error_code ignored;
    while (!folder.empty() && folder != folder.parent_path() && !std::filesystem::exists(folder, ignored)) {
      folder = folder.parent_path();
    }
    struct statvfs info {};
    if (::statvfs(folder.c_str(), &info) != 0) {
      findings.push_back({"room for " + channel.name.str(), Verdict::bad, folder.string() + ": " + std::strerror(errno), "name another folder with [channels." + channel.name.str() + "] root"});
      continue;
    }
    std::uint64_t room = std::uint64_t(info.f_bavail) * info.f_frsize;
    findings.push_back({"room for " + channel.name.str(), room < kLittleRoom ? Verdict::warning : Verdict::good,
                        human_bytes(room) + " left below " + folder.string(),
                        room < kLittleRoom ? "a node needs room for " + std::to_string(channel.slots) +
                                                 " checkpoints and a few deltas" : ""});
  }
}

}  // namespace p2pw::doctor
