#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "cli/daemon_access.h"
#include "cli/timeline_text.h"
#include "cli/verb.h"

namespace p2pw {
namespace {

constexpr std::uint64_t kPage = 1000;
constexpr std::chrono::seconds kLongPoll{20};
constexpr std::chrono::milliseconds kRetry{500};

struct Options {
  std::string channel;
  std::optional<std::uint64_t> after;
  std::uint64_t limit = 100;
  std::uint64_t run = 0;
  bool follow = false;
  std::optional<std::uint64_t> timeline;
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

// "p2pw log" shows all that is held; only whoever had read up to an id can have missed something.
void tell_gap(Console& console, std::uint64_t after, std::uint64_t known_run, const api::LogReply& reply) {
  bool restarted = known_run != 0 && reply.run != known_run;
  if (!restarted && (reply.lost == 0 || after == 0)) return;
  std::string what = restarted ? "the daemon has started anew: ids begin at 1 again"
                               : std::to_string(reply.lost) + " entries are lost: the log keeps the last 20000";
  console.answer({{"gap", {{"after", after}, {"lost", reply.lost}, {"run", reply.run}, {"restarted", restarted}}}},
                 "---  gap: " + what);
}

// Where to begin: behind --after, or with the newest.
ApiClient::LogQuery first_query(const Options& options) {
  ApiClient::LogQuery query;
  query.channel = options.channel;
  query.after = options.after.value_or(0);
  query.newest = options.after ? 0 : options.limit;
  query.run = options.run;
  return query;
}

Status follow(const Options& options, ApiClient& daemon, Console& console) {
  ApiClient::LogQuery query = first_query(options);
  query.limit = kPage;
  if (query.newest == 0) query.wait = kLongPoll;
  bool told_down = false;
  while (!interrupted()) {
    auto reply = daemon.log(query);
    if (!reply) {
      if (reply.error().code != ErrorCode::unreachable && reply.error().code != ErrorCode::failed) return reply.error();
      if (query.run == 0) return reply.error();  // it never answered
      if (!told_down) console.note(reply.error().message + "; waiting for it");
      told_down = true;
      std::this_thread::sleep_for(kRetry);
      continue;
    }
    told_down = false;
    tell_gap(console, query.after, query.run, *reply);
    for (const api::LogEntry& entry : reply->entries) console.answer(api::to_json(entry), line_of(entry));
    query.after = reply->next;
    query.run = reply->run;
    query.newest = 0;
    query.wait = kLongPoll;
  }
  return fail(ErrorCode::interrupted, "interrupted");
}

Status page_through(const Options& options, ApiClient& daemon, Console& console) {
  ApiClient::LogQuery query = first_query(options);
  std::uint64_t left = options.limit;
  while (left > 0 && !interrupted()) {
    query.limit = std::min(kPage, left);
    P2PW_TRY(api::LogReply reply, daemon.log(query));
    tell_gap(console, query.after, query.run, reply);
    for (const api::LogEntry& entry : reply.entries) console.answer(api::to_json(entry), line_of(entry));
    left -= std::min<std::uint64_t>(left, reply.entries.size());
    if (reply.entries.size() < query.limit) return {};
    query.after = reply.next;
    query.run = reply.run;
    query.newest = 0;
  }
  return interrupted() ? Status(fail(ErrorCode::interrupted, "interrupted")) : Status();
}

Status log(const Options& options, Console& console) {
  P2PW_TRY(ApiClient daemon, connect_daemon(console));
  if (options.timeline) {
    P2PW_TRY(Channel channel, chosen_channel(console, options.channel));
    P2PW_TRY(api::TimelineReply reply, daemon.timeline(channel, *options.timeline));
    console.answer(api::to_json(reply), timeline_text(reply));
    return {};
  }
  return options.follow ? follow(options, daemon, console) : page_through(options, daemon, console);
}

Run add_log(CLI::App& verb) {
  auto options = std::make_shared<Options>();
  verb.add_option("--channel,-c", options->channel, "Only this channel's");
  verb.add_option("--after", options->after, "Only entries with a higher id; 0: all that are held (default: the newest)");
  verb.add_option("--run", options->run, "The log that --after is from, as the API's `run` names it: after a restart of the "
                                         "daemon ids begin anew, and then all is shown");
  verb.add_option("--limit,-n", options->limit, "At most so many; with --follow: begin with so many of the newest")->capture_default_str();
  auto* follow_flag = verb.add_flag("--follow,-f", options->follow, "Go on as new ones come, until Ctrl-C, also over a restart of "
                                                               "the daemon; a gap in the ids is told");
  verb.add_option("--timeline", options->timeline, "Instead: when which node was how far with this version, and what took "
                                                   "longest")->type_name("VERSION")->excludes(follow_flag);
  return [options](Console& console) { return log(*options, console); };
}

const VerbRegistration kLog({"log", VerbGroup::fleet, "What happened: records, switches, gateways; one line an event.",
                             "p2pw log --follow\np2pw log --channel policy --json\np2pw log --timeline 7", add_log});

}  // namespace
}  // namespace p2pw
