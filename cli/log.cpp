#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/daemon_access.h"
#include "cli/verb.h"

namespace p2pw {
namespace {

constexpr std::uint64_t kPage = 1000;
constexpr std::chrono::milliseconds kFollowInterval{500};

struct Options {
  std::string channel;
  std::uint64_t after = 0;
  std::uint64_t limit = 100;
  bool follow = false;
};

std::string line_of(const api::LogEntry& entry) {
  std::time_t seconds = static_cast<std::time_t>(entry.at_ms / 1000);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char stamp[64];
  std::snprintf(stamp, sizeof stamp, "%04d-%02d-%02dT%02d:%02d:%02d.%03uZ", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                utc.tm_hour, utc.tm_min, utc.tm_sec, static_cast<unsigned>(entry.at_ms % 1000));
  std::string text = std::to_string(entry.id) + "  " + stamp + "  " + entry.channel;
  if (entry.version != 0) text += "  v" + std::to_string(entry.version);
  text += "  " + entry.event;
  if (!entry.node.empty()) text += "  " + entry.node;
  if (!entry.detail.empty()) text += "  " + entry.detail;
  return text;
}

void print(Console& console, const api::LogEntry& entry) { console.answer(api::to_json(entry), line_of(entry)); }

Status log(const Options& options, Console& console) {
  P2PW_TRY(ApiClient daemon, connect_daemon(console));
  std::uint64_t after = options.after, left = options.limit;
  while (!interrupted()) {
    std::uint64_t page = options.follow ? kPage : std::min(kPage, left);
    P2PW_TRY(api::LogReply reply, daemon.log(options.channel, after, page));
    for (const api::LogEntry& entry : reply.entries) print(console, entry);
    after = std::max(after, reply.next);
    if (options.follow) {
      if (reply.entries.empty()) std::this_thread::sleep_for(kFollowInterval);
      continue;
    }
    left -= std::min<std::uint64_t>(left, reply.entries.size());
    if (left == 0 || reply.entries.size() < page) return {};
  }
  return fail(ErrorCode::interrupted, "interrupted");
}

Run add_log(CLI::App& verb) {
  auto options = std::make_shared<Options>();
  verb.add_option("--channel,-c", options->channel, "Only this channel's");
  verb.add_option("--after", options->after, "Only entries with a higher id")->capture_default_str();
  verb.add_option("--limit,-n", options->limit, "At most so many")->capture_default_str();
  verb.add_flag("--follow,-f", options->follow, "Go on as new ones come, until Ctrl-C; ids rise by one, so a gap shows");
  return [options](Console& console) { return log(*options, console); };
}

const VerbRegistration kLog({"log", VerbGroup::fleet, "What happened: records, switches, gateways; one line an event.",
                             "p2pw log --follow\np2pw log --channel policy --json", add_log});

}  // namespace
}  // namespace p2pw
