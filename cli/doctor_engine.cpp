#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

#include "cli/doctor_checks.h"
#include "cli/doctor_sockets.h"

namespace p2pw::doctor {
namespace {

constexpr std::size_t kStatusLine = 12;  // "HTTP/1.1 200"

// The status of a GET; 0 when there is none, and `why` says so.
int http_status(const EngineUrl& url, const std::string& target, const std::string& token, const std::function<bool()>& stop,
                std::string& why) {
  Descriptor socket = connect_to(url.host, static_cast<std::uint16_t>(std::stoul(url.port)), "", stop, why);
  if (!socket) return 0;
  std::string request = "GET " + url.path + target + " HTTP/1.1\r\nHost: " + url.host + "\r\nConnection: close\r\n";
  if (!token.empty()) request += "Authorization: Bearer " + token + "\r\n";
  request += "\r\n";
  if (::send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size())) {
    why = "takes no request";
    return 0;
  }
  std::string line;
  while (line.size() < kStatusLine) {
    why = wait_for(socket.get(), POLLIN, stop);
    if (!why.empty()) return 0;
    char part[kStatusLine];
    ssize_t got = ::recv(socket.get(), part, kStatusLine - line.size(), 0);
    if (got <= 0) {
      why = "closes the connection without an answer";
      return 0;
    }
    line.append(part, static_cast<std::size_t>(got));
  }
  if (!line.starts_with("HTTP/1.")) {
    why = "does not speak HTTP";
    return 0;
  }
  return std::atoi(line.c_str() + 9);
}

// What the first step of a load asks; it changes nothing.
const char* question(HookKind kind) { return kind == HookKind::sglang ? "/get_model_info" : "/is_paused"; }

void check_http(const HookConfig& hook, const std::function<bool()>& stop, Finding& finding) {
  auto url = parse_engine_url(hook.url);
  if (!url) return;  // refused with the configuration
  std::string why;
  int status = 0;
  if (hook.kind == HookKind::webhook) {
    Descriptor socket = connect_to(url->host, static_cast<std::uint16_t>(std::stoul(url->port)), "", stop, why);
    status = socket ? 200 : 0;
  } else {
    status = http_status(url.value(), question(hook.kind), hook.token, stop, why);
  }
  if (status == 200) {
    finding.detail = hook.url + (hook.kind == HookKind::webhook ? " accepts connections" : " answers");
    return;
  }
  finding.verdict = Verdict::bad;
  finding.detail = hook.url + ": " + (status == 0 ? why : "answers " + std::to_string(status) + " to " + question(hook.kind));
  if (status == 401 || status == 403) {
    finding.remedy = "give the engine's API key as token in [channels.NAME.hook]";
  } else if (status == 404 && hook.kind == HookKind::vllm) {
    finding.remedy = "start vLLM with VLLM_SERVER_DEV_MODE=1: without it it cannot be paused";
  } else if (status == 404) {
    finding.remedy = "is that the engine? Correct url in [channels.NAME.hook]";
  } else {
    finding.remedy = "start the engine, or correct url in [channels.NAME.hook]; p2pwd asks again by itself";
  }
}

void check_socket(const HookConfig& hook, Finding& finding) {
  finding.detail = hook.socket.string();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (hook.socket.string().size() >= sizeof address.sun_path) return;  // refused with the configuration
  std::memcpy(address.sun_path, hook.socket.c_str(), hook.socket.string().size());
  Descriptor socket{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
    finding.detail += " accepts connections";
    return;
  }
  int error = errno;
  finding.verdict = Verdict::bad;
  finding.detail += std::string(": ") + std::strerror(error);
  finding.remedy = error == EACCES ? "let user p2pw write to the socket: a group that both are in, mode 0660"
                                   : "start the engine, or correct socket in [channels.NAME.hook]";
}

void check_program(const HookConfig& hook, Finding& finding) {
  const std::string& program = hook.command.front();
  struct stat info {};
  finding.detail = program;
  if (::stat(program.c_str(), &info) != 0) {
    finding.verdict = Verdict::bad;
    finding.detail += std::string(": ") + std::strerror(errno);
    finding.remedy = "correct command in [channels.NAME.hook]: an absolute path that user p2pw may reach";
  } else if (!S_ISREG(info.st_mode) || ::access(program.c_str(), X_OK) != 0) {
    finding.verdict = Verdict::bad;
    finding.detail += S_ISREG(info.st_mode) ? " is not executable" : " is not a program";
    finding.remedy = "chmod 755 " + program + ", or correct command in [channels.NAME.hook]";
  } else if ((info.st_mode & S_IWOTH) != 0) {
    finding.verdict = Verdict::warning;
    finding.detail += " may be written by everybody";
    finding.remedy = "chmod o-w " + program + ": p2pwd runs it";
  } else {
    finding.detail += " is executable";
  }
}

}  // namespace

void check_hooks(const Config& config, const std::function<bool()>& stop, Findings& findings) {
  for (const ChannelConfig& channel : config.channels) {
    const HookConfig& hook = channel.hook;
    if (!hook) continue;
    Finding finding{"hook of " + channel.name.str() + " (" + std::string(name_of(hook.kind)) + ")", Verdict::good, "", ""};
    if (hook.over_http()) check_http(hook, stop, finding);
    if (hook.kind == HookKind::socket) check_socket(hook, finding);
    if (hook.kind == HookKind::exec) check_program(hook, finding);
    auto at = finding.remedy.find("NAME");
    if (at != std::string::npos) finding.remedy.replace(at, 4, channel.name.str());
    findings.push_back(std::move(finding));
  }
}

}  // namespace p2pw::doctor
