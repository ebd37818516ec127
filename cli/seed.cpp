#include <CLI/CLI.hpp>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/daemon_access.h"
#include "cli/folder_watch.h"
#include "cli/publish_run.h"
#include "cli/setup.h"
#include "cli/verb.h"
#include "cli/wait.h"
#include "daemon/client/files.h"

namespace p2pw {
namespace {

struct Options {
  std::string directory, channel, kind = "auto", key, wait_active, watch, marker;
  double settle = 3;
  bool existing = false;
  std::optional<std::int64_t> step;
  std::uint64_t version = 0;
  double timeout = 600;
  std::uint64_t anchor_every = kAnchorEvery;
  std::optional<std::uint64_t> certify_every;  // as often as anchors when absent
  unsigned threads = 0;
  bool wait = false;
};

Result<SigningKey> publisher_key(const Options& options, const Config& config, const Channel& channel) {
  const ChannelConfig* configured = config.channel(channel);
  if (configured == nullptr && !config.channels.empty()) {
    return fail(ErrorCode::not_found, "channel " + channel.str() + " is not in " + config.file.string() +
                                          ": `p2pw channel list` shows which are, `p2pw channel add` adds one");
  }
  std::filesystem::path file = options.key.empty() ? publisher_key_path(config.file, channel) : std::filesystem::path(options.key);
  const std::string missing = "the publisher key is not here (" + file.string() +
                              "): seed on the trainer, or give the key with --key";
  P2PW_TRY(SigningKey key, setup::read_secret_key(file, "--key", options.key.empty() ? missing : ""));
  if (configured != nullptr && configured->publisher != key.verifying_key()) {
    return fail(ErrorCode::untrusted, file.string() + " is not the publisher key of channel " + channel.str() + " in " +
                                          config.file.string() + ", and nodes would refuse the version: give the right "
                                          "one with --key");
  }
  return key;
}

// Whom the delegate in force names. Nothing when there is none to renew; then only `head` stays away.
std::optional<VerifyingKey> online_key(const Config& config, const Channel& channel, const SigningKey& publisher,
                                       Console& console) {
  auto envelope = read_small_file(config.paths().delegate(channel), limits::kMaxRecordBytes);
  if (envelope) {
    RecordVerifier verifier(channel, publisher.verifying_key());
    auto record = verifier.verify(as_bytes(envelope.value()), WallTime{});
    if (record && record->as<DelegateRecord>() != nullptr) return record->as<DelegateRecord>()->key;
  }
  console.note("The delegate of channel " + channel.str() + " cannot be renewed (" +
               (envelope ? config.paths().delegate(channel).string() + " does not verify" : envelope.error().message) +
               "); without one that is valid, nodes cannot tell a frozen channel from an idle one.");
  return std::nullopt;
}

std::string describe(const PublishResult& result, double seconds) {
  double share = 100.0 * static_cast<double>(result.delta_bytes) / static_cast<double>(std::max<std::uint64_t>(1, result.input_bytes));
  char line[256];
  std::snprintf(line, sizeof line, "version %llu: %s of %s, %.2f%% of %s; %.2f bits per changed element; staged in %s",
                static_cast<unsigned long long>(result.version.value()), std::string(name_of(result.kind)).c_str(),
                human_bytes(result.delta_bytes).c_str(), share, human_bytes(result.input_bytes).c_str(),
                result.bits_per_changed_element(), human_seconds(seconds).c_str());
  return line;
}

nlohmann::ordered_json json_of(const Options& options, const Channel& channel, const PublishResult& result, double seconds) {
  nlohmann::ordered_json object = {{"channel", channel.str()},
                                   {"version", result.version.value()},
                                   {"parent", result.parent.value()},
                                   {"kind", name_of(result.kind)},
                                   {"delta_bytes", result.delta_bytes},
                                   {"input_bytes", result.input_bytes},
                                   {"changed_elements", result.changed_elements},
                                   {"total_elements", result.total_elements},
                                   {"bits_per_changed_element", result.bits_per_changed_element()},
                                   {"bundles", result.bundles},
                                   {"seconds", seconds}};
  if (options.step) object["step"] = *options.step;
  return object;
}

Result<PublishResult> publish(const Options& options, const Config& config, const Channel& channel, Console& console,
                              Version anchor_of = {}) {
  P2PW_TRY(SigningKey key, publisher_key(options, config, channel));
  PublishRequest request;
  request.directory = options.directory;
  request.channel = channel;
  request.version = options.version;
  request.anchor_of = anchor_of;
  if (anchor_of.value() != 0) request.kind = Kind::anchor;
  if (anchor_of.value() != 0) request.version = 0;
  if (options.kind != "auto" && anchor_of.value() == 0) request.kind = options.kind == "anchor" ? Kind::anchor : Kind::delta;
  request.step = options.step;
  request.wait_for_fleet = options.wait;
  request.threads = options.threads;
  request.certify_every = options.certify_every.value_or(options.anchor_every);
  P2PW_TRY(Layout layout, Layout::scan(request.directory));
  request.online_key = online_key(config, channel, key, console);
  P2PW_TRY(PublishClient daemon, PublishClient::connect(config.publish_socket(), interrupted));
  auto progress = [&console](const char* what, std::uint64_t done, std::uint64_t total) {
    std::string_view label = what;
    label == "diff" ? console.progress(label, done, total) : console.count(label, done, total);
  };
  PublishRun run(daemon, key, request, interrupted, progress);
  auto result = run.run(layout);
  console.finish();
  return result;
}

Status seed_one(const Options& options, Console& console) {
  auto started = std::chrono::steady_clock::now();
  P2PW_TRY(Channel channel, chosen_channel(console, options.channel));
  P2PW_TRY(Config config, daemon_config(console));
  FleetWait wanted;
  if (!options.wait_active.empty()) {
    P2PW_TRY(wanted.percent, parse_percent(options.wait_active));
  }
  catch_interrupts();
  P2PW_TRY(PublishResult result, publish(options, config, channel, console));
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  nlohmann::ordered_json object = json_of(options, channel, result, seconds);
  std::string text = describe(result, seconds);
  if (!options.wait_active.empty()) {
    console.partial(object);
    ApiClient api(config.api_socket(), interrupted);
    wanted.channel = channel;
    wanted.version = result.version.value();
    wanted.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(options.timeout * 1000));
    P2PW_TRY(api::WaitReply reply, wait_for_fleet(api, wanted, console));
    object["active"] = reply.active;
    object["total"] = reply.total;
    text += "\nactive on " + std::to_string(reply.active) + " of " + std::to_string(reply.total) + " nodes";
  }
  // Once the fleet has been served: where a newcomer to an empty region, or after a loss of state, starts from.
  bool due = options.anchor_every != 0 && result.version.value() % options.anchor_every == 0;
  if (due && result.kind == Kind::delta) {
    auto anchor = publish(options, config, channel, console, result.version);
    object["anchor_bytes"] = anchor ? anchor->delta_bytes : 0;
    if (!anchor) console.note("No anchor of version " + std::to_string(result.version.value()) + ": " + anchor.error().message);
  }
  console.answer(object, text);
  return {};
}

// What another try may mend: the daemon restarts, another seed holds the channel, the folder is being moved.
bool passes_by_itself(ErrorCode code) {
  return code == ErrorCode::unreachable || code == ErrorCode::busy || code == ErrorCode::timed_out;
}

Status watch(const Options& options, Console& console) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(options.watch, ignored)) {
    return fail(ErrorCode::not_found, options.watch + " is no folder: --watch wants the one that checkpoints are written into");
  }
  P2PW_TRY(Config config, daemon_config(console));
  P2PW_TRY(Channel channel, chosen_channel(console, options.channel));
  FolderWatch::Options looking;
  looking.root = options.watch;
  looking.settle = std::chrono::milliseconds(static_cast<std::int64_t>(options.settle * 1000));
  looking.marker = options.marker;
  looking.existing = options.existing;
  looking.readable = [](const std::filesystem::path& folder) { return Layout::scan(folder).ok(); };
  FolderWatch folders(looking);
  catch_interrupts();
  console.note("Watching " + options.watch + " for channel " + channel.str() + "; Ctrl-C ends it.");
  while (!interrupted()) {
    auto finished = folders.look(std::chrono::steady_clock::now());
    for (std::size_t i = 0; i + 1 < finished.size(); ++i) {
      console.event({{"skipped", finished[i].string()}, {"newer", finished.back().string()}});
      console.note(finished[i].string() + " is skipped: a newer one is finished, too");
    }
    if (!finished.empty()) {
      Options one = options;
      one.directory = finished.back().string();
      one.step = number_in_name(finished.back().filename().string());
      one.wait = true;
      Status done = seed_one(one, console);
      if (!done.ok() && done.error().code == ErrorCode::interrupted) break;
      if (!done.ok()) {
        console.fail(fail(done.error().code, one.directory + ": " + done.error().message));
        if (passes_by_itself(done.error().code)) folders.again(finished.back());
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
  return fail(ErrorCode::interrupted, "interrupted");
}

Status seed(const Options& options, Console& console) {
  if (options.directory.empty() == options.watch.empty()) {
    return fail(ErrorCode::usage, "give either a checkpoint folder or --watch DIR; `p2pw seed --help` shows how");
  }
  if (!options.watch.empty() && (options.step || options.version != 0)) {
    return fail(ErrorCode::usage, "with --watch the step is the last number in a folder's name, and versions count up: "
                                  "leave --step and --version away");
  }
  return options.watch.empty() ? seed_one(options, console) : watch(options, console);
}

Run add_seed(CLI::App& verb) {
  auto options = std::make_shared<Options>();
  verb.add_option("DIR", options->directory, "Checkpoint folder: safetensors files and what lies beside them");
  verb.add_option("--watch,-w", options->watch, "Instead of DIR: publish each new folder below this one once it is finished: "
                                                "it reads as a whole checkpoint, nothing in it has changed for --settle "
                                                "seconds, and its name does not begin with . or tmp. The last number in "
                                                "its name is the step; of several, the newest is taken")->type_name("DIR");
  verb.add_option("--settle", options->settle, "For --watch: how long nothing may change, in seconds")
      ->check(CLI::Range(0.0, 3600.0))->capture_default_str();
  verb.add_option("--marker", options->marker, "For --watch: a folder is finished when it holds a file of this name, instead of "
                                               "--settle")->type_name("NAME");
  verb.add_flag("--existing", options->existing, "For --watch: also publish the newest folder that is finished already");
  verb.add_option("--channel,-c", options->channel, "Channel to publish on, when there are several");
  verb.add_option("--step,-s", options->step, "Training step, a label that travels along");
  verb.add_option("--version,-v", options->version, "Number of the version (default: the highest seen + 1)");
  verb.add_option("--kind", options->kind, "delta, anchor (complete), or auto: chosen from a sample")
      ->check(CLI::IsMember({"auto", "anchor", "delta"}))->capture_default_str();
  verb.add_flag("--wait", options->wait, "Wait while the fleet is two versions behind, instead of exit code 7");
  verb.add_option("--wait-active", options->wait_active, "Then wait until this share of the nodes serves it, like 95%");
  verb.add_option("--timeout,-t", options->timeout, "For --wait-active, in seconds; exit code 6 when they are over")
      ->check(CLI::Range(0.0, 1e7))->capture_default_str();
  verb.add_option("--anchor-every", options->anchor_every, "Versions that this divides also get an anchor, kept by the "
                                                           "trainer for newcomers; 0: none")->capture_default_str();
  verb.add_option("--certify-every", options->certify_every, "Versions that this divides are certified: nodes check every slab of "
                                                             "theirs against a signed SHA-256 root (default: as --anchor-every)");
  verb.add_option("--key", options->key, "Publisher key (default: publisher.key beside the configuration)")->type_name("FILE");
  verb.add_option("--threads", options->threads, "Worker threads (default: one for each core)");
  return [options](Console& console) { return seed(*options, console); };
}

const VerbRegistration kSeed({"seed", VerbGroup::publish, "Publish a checkpoint: the whole fleet rebuilds it bit for bit.",
                              "p2pw seed checkpoints/step_0100 --channel policy --step 100 --wait-active 95%\n"
                              "p2pw seed --watch checkpoints --channel policy", add_seed});

}  // namespace
}  // namespace p2pw
