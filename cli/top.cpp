#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/daemon_access.h"
#include "cli/top_frame.h"
#include "cli/verb.h"

namespace p2pw {
namespace {

struct Options {
  double interval = 1;
  std::uint64_t count = 0;
};

// The alternate screen with keys read one by one; the terminal is as it was when this goes, whichever way.
class Screen {
 public:
  Screen() : terminal_(isatty(STDOUT_FILENO) == 1) {
    keys_ = terminal_ && tcgetattr(STDIN_FILENO, &before_) == 0;
    if (keys_) {
      termios raw = before_;
      raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
      tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    }
    if (terminal_) write_all("\033[?1049h\033[?25l");
  }
  ~Screen() {
    if (terminal_) write_all("\033[?25h\033[?1049l");
    if (keys_) tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  Screen(const Screen&) = delete;

  void draw(const api::StatusReply& now, const api::StatusReply* before) {
    winsize size{};
    bool known = terminal_ && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0;
    auto lines = top_frame(now, before, known ? size.ws_col : 80u, known ? size.ws_row : 24u);
    std::string text = terminal_ ? "\033[H" : "";
    for (std::size_t i = 0; i < lines.size(); ++i) {
      text += lines[i] + (terminal_ ? "\033[K" : "") + (terminal_ && i + 1 == lines.size() ? "" : "\n");
    }
    write_all(text + (terminal_ ? "\033[J" : ""));
  }
  // True when the user has typed q, or Ctrl-C.
  bool wait(double seconds) {
    pollfd entry{keys_ ? STDIN_FILENO : -1, POLLIN, 0};
    if (::poll(&entry, 1, static_cast<int>(seconds * 1000)) <= 0) return interrupted();
    char key = 0;
    return ::read(STDIN_FILENO, &key, 1) == 1 && (key == 'q' || key == 'Q');
  }

 private:
  static void write_all(const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }
  bool terminal_ = false, keys_ = false;
  termios before_{};
};

Status top(const Options& options, Console& console) {
  P2PW_TRY(ApiClient daemon, connect_daemon(console));
  P2PW_TRY(api::StatusReply now, daemon.status());  // whoever is not there is told so on the plain terminal
  std::optional<api::StatusReply> before;
  std::optional<Screen> screen;
  if (!console.json()) screen.emplace();
  for (std::uint64_t frame = 1;; ++frame) {
    screen ? screen->draw(now, before ? &*before : nullptr) : console.event(api::to_json(now));
    if (options.count != 0 && frame >= options.count) return {};
    if (screen ? screen->wait(options.interval) : (::poll(nullptr, 0, static_cast<int>(options.interval * 1000)), interrupted())) {
      return {};
    }
    auto next = daemon.status();
    if (!next) return interrupted() ? Status() : Status(next.error());
    before = std::move(now);
    now = std::move(next).value();
  }
}

Run add_top(CLI::App& verb) {
  auto options = std::make_shared<Options>();
  verb.add_option("--interval,-i", options->interval, "Seconds between two pictures")->check(CLI::Range(0.1, 3600.0))->capture_default_str();
  verb.add_option("--count,-n", options->count, "End after so many pictures (0: at q or Ctrl-C)")->capture_default_str();
  return [options](Console& console) { return top(*options, console); };
}

const VerbRegistration kTop({"top", VerbGroup::fleet, "The fleet live on one screen: versions, regions, links, who is slow.",
                             "p2pw top\np2pw top --count 1", add_top});

}  // namespace
}  // namespace p2pw
