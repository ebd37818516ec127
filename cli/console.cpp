#include "cli/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "daemon/client/config.h"
#include "daemon/client/next_step.h"

namespace p2pw {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kBarInterval{100};
constexpr std::chrono::seconds kLineInterval{10};
constexpr int kBarCells = 30;

// Bytes from files and the network may be no UTF-8; the answer must not fail for that.
std::string dump(const nlohmann::ordered_json& object) {
  return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string printed(const char* format, double value, const char* unit) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, format, value, unit);
  return buffer;
}

std::string amount(std::uint64_t value, bool bytes) { return bytes ? human_bytes(value) : std::to_string(value); }

// What a terminal would take as a command must not reach it from a file name or a peer.
std::string printable(std::string_view text) {
  std::string out;
  for (char c : text) {
    auto code = static_cast<unsigned char>(c);
    bool control = (code < 0x20 && c != '\n' && c != '\t') || code == 0x7f;
    out += control ? '?' : c;
  }
  return out;
}

}  // namespace

std::string human_bytes(std::uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 999.5 && unit + 1 < std::size(kUnits)) {
    value /= 1000;
    ++unit;
  }
  return printed(unit == 0 || value >= 99.95 ? "%.0f %s" : value >= 9.995 ? "%.1f %s" : "%.2f %s", value, kUnits[unit]);
}

std::string human_seconds(double seconds) {
  if (seconds < 0.9995) return printed("%.0f %s", seconds * 1000, "ms");
  if (seconds < 59.95) return printed("%.1f %s", seconds, "s");
  auto whole = static_cast<long long>(seconds + 0.5);
  char buffer[64];
  if (whole < 3600) {
    std::snprintf(buffer, sizeof buffer, "%lld min %02lld s", whole / 60, whole % 60);
  } else {
    std::snprintf(buffer, sizeof buffer, "%lld h %02lld min", whole / 3600, whole % 3600 / 60);
  }
  return buffer;
}

Console::Console(ConsoleOptions options, std::ostream& out, std::ostream& err, bool terminal)
    : options_(std::move(options)), out_(&out), err_(&err), terminal_(terminal) {}

Console Console::standard(ConsoleOptions options) {
  return Console(std::move(options), std::cout, std::cerr, isatty(STDERR_FILENO) == 1);
}

void Console::answer(const nlohmann::ordered_json& object, std::string_view text) {
  finish();
  if (options_.json) {
    *out_ << dump(object) << "\n";
  } else if (!text.empty()) {
    *out_ << text << (text.back() == '\n' ? "" : "\n");
  }
  out_->flush();
}

void Console::event(const nlohmann::ordered_json& object) {
  if (!options_.json) return;
  finish();
  *out_ << dump(object) << "\n";
  out_->flush();
}

void Console::note(std::string_view line) {
  if (options_.quiet) return;
  finish();
  *err_ << printable(line) << "\n";
}

void Console::progress(std::string_view label, std::uint64_t done, std::uint64_t total) {
  show(label, done, total, Unit::bytes);
}
void Console::count(std::string_view label, std::uint64_t done, std::uint64_t total) {
  show(label, done, total, Unit::things);
}

void Console::show(std::string_view label, std::uint64_t done, std::uint64_t total, Unit unit) {
  if (options_.quiet || (options_.json && !terminal_)) return;
  auto now = Clock::now();
  if (label != bar_label_) {
    finish();
    bar_label_ = label;
    started_ = now;
    last_drawn_ = terminal_ ? Clock::time_point{} : now;
  }
  bool complete = total != 0 && done >= total;
  if (terminal_) {
    if (!complete && now - last_drawn_ < kBarInterval) return;
    last_drawn_ = now;
    return draw_bar(label, done, total, unit);
  }
  if (now - last_drawn_ < kLineInterval) return;
  last_drawn_ = now;
  *err_ << printable(label) << ": " << amount(done, unit == Unit::bytes);
  if (total != 0) *err_ << " of " << amount(total, unit == Unit::bytes);
  *err_ << "\n";
}

void Console::draw_bar(std::string_view label, std::uint64_t done, std::uint64_t total, Unit unit) {
  double seconds = std::chrono::duration<double>(Clock::now() - started_).count();
  std::string line = printable(label) + " ";
  if (total != 0) {
    double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
    int filled = static_cast<int>(share * kBarCells);
    line += "[" + std::string(static_cast<std::size_t>(filled), '#') +
            std::string(static_cast<std::size_t>(kBarCells - filled), '.') + "] " + printed("%3.0f%s", share * 100, "%");
  }
  line += "  " + amount(done, unit == Unit::bytes);
  if (unit == Unit::things) line += " of " + std::to_string(total);
  if (unit == Unit::bytes && seconds > 0.5) line += "  " + human_bytes(static_cast<std::uint64_t>(static_cast<double>(done) / seconds)) + "/s";
  winsize size{};
  std::size_t width = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80u;
  if (line.size() >= width) line.resize(width - 1);
  *err_ << "\r\033[K" << line << std::flush;
  bar_drawn_ = true;
}

void Console::wipe_bar() {
  if (bar_drawn_) *err_ << "\r\033[K" << std::flush;
  bar_drawn_ = false;
}

void Console::finish() {
  wipe_bar();
  bar_label_.clear();
}

void Console::partial(const nlohmann::ordered_json& object) { partial_ = dump(object); }

int Console::fail(const Error& error) {
  finish();
  int exit_code = exit_code_of(error.code);
  std::string message = with_next_step(error);
  if (options_.json) {
    auto object = nlohmann::ordered_json::parse(partial_.empty() ? "{}" : partial_, nullptr, false);
    object["error"] = {{"code", name_of(error.code)}, {"message", message}, {"exit", exit_code}};
    event(object);
  }
  *err_ << "p2pw: " << printable(message) << "\n";
  return exit_code;
}

Result<Config> Console::config() const {
  std::filesystem::path file = config_path(options_.config);
  auto loaded = load_config(file);
  if (!loaded && loaded.error().code == ErrorCode::not_found) {
    if (options_.config.empty() && !options_.state.empty()) {
      Config config;
      config.state = options_.state;
      return config;
    }
    return p2pw::fail(ErrorCode::not_found, "there is no configuration at " + file.string() +
                                                ": `p2pw init` sets up a trainer, `p2pw join` a node; or name another "
                                                "file with --config or $P2PW_CONFIG");
  }
  if (loaded && !options_.state.empty()) {
    loaded->state = options_.state;
    loaded->api.socket.clear();
    loaded->api.publish_socket.clear();
  }
  return loaded;
}

}  // namespace p2pw
