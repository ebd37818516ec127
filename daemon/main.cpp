// p2pwd: reads the configuration, starts the node, runs until a signal. Started by itself, it is the process that runs
// the node's swarm.
#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <cstdio>

#include "daemon/client/config.h"
#include "daemon/client/next_step.h"
#include "daemon/client/version.h"
#include "daemon/core/node.h"
#include "daemon/core/notify.h"
#include "daemon/swarm/swarm_child.h"
#include "daemon/swarm/swarm_child_main.h"

namespace p2pw {
namespace {

void set_up_log(const LogConfig& log) {
  spdlog::set_level(spdlog::level::from_str(log.level == "warn" ? "warning" : log.level));
  spdlog::set_pattern(log.json ? R"({"at":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l","message":"%v"})"
                               : "%Y-%m-%d %H:%M:%S.%e %l %v");
}

// A gateway of a large region has a connection for each neighbour and bundle.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 65'536);
  setrlimit(RLIMIT_NOFILE, &limit);
}

int run(const std::string& file) {
  auto report = [](const Error& error) {
    std::fprintf(stderr, "p2pwd: %s\n", with_next_step(error).c_str());
    return exit_code_of(error.code);
  };
  auto config = load_config(file);
  if (!config.ok() && config.error().code == ErrorCode::not_found) {
    return report(fail(ErrorCode::not_found, "there is no configuration at " + file + ": `p2pw init` sets up a trainer, "
                                                 "`p2pw join` a node; or name another file with --config"));
  }
  if (!config.ok()) return report(config.error());
  set_up_log(config->log);
  raise_descriptor_limit();

  boost::asio::io_context io(1);
  SwarmChildOptions swarm;
  swarm.swarm.address = config->listen.address;
  swarm.swarm.port = config->listen.swarm_port;
  auto factory = [&](SwarmEvents& events, const NodeKey& self) {
    swarm.swarm.self = self;
    return open_child_swarm(io, swarm, events);
  };
  auto node = Node::start(io, std::move(*config), factory);
  if (!node.ok()) return report(node.error());

  int signal = 0;
  boost::asio::signal_set signals(io, SIGINT, SIGTERM);
  boost::asio::steady_timer farewell(io);
  signals.async_wait([&](boost::system::error_code error, int number) {
    if (error) return;
    signal = number;
    spdlog::info("stopping on signal {}", number);
    notify_service_manager("STOPPING=1");
    (*node)->shutdown("stopping");
    farewell.expires_after(std::chrono::milliseconds(300));
    farewell.async_wait([&](auto) { io.stop(); });
  });
  Watchdog watchdog(io, **node);
  notify_service_manager("READY=1");
  io.run();
  node->reset();
  return 0;
}

}  // namespace
}  // namespace p2pw

int main(int argc, char** argv) {
  if (int parent = 0; p2pw::is_swarm_child(argc, argv, parent)) return p2pw::swarm_child_main(parent);
  CLI::App app{"p2pwd: the node daemon of p2pw. Set it up with p2pw init (trainer) or p2pw join (node).\n"
               "Example: p2pwd --config /etc/p2pw/p2pw.toml"};
  std::string file;
  app.add_option("--config", file, "configuration file (default: $P2PW_CONFIG, else /etc/p2pw/p2pw.toml)");
  app.set_version_flag("--version", std::string("p2pwd ") + p2pw::kSoftwareVersion);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& answer) {  // --help, --version
    return app.exit(answer);
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "p2pwd: %s; `p2pwd --help` shows how\n", error.what());
    return p2pw::exit_code_of(p2pw::ErrorCode::usage);
  }
  return p2pw::run(p2pw::config_path(file).string());
}
