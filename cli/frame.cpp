#include "cli/frame.h"

#include <CLI/CLI.hpp>
#include <cstring>
#include <exception>
#include <iostream>

#include "daemon/client/version.h"

namespace p2pw {
namespace {

const char* heading_of(VerbGroup group) {
  switch (group) {
    case VerbGroup::setup: return "Set up";
    case VerbGroup::publish: return "Publish";
    case VerbGroup::fleet: return "Watch the fleet";
    case VerbGroup::checkpoint: return "Work on checkpoints, without a daemon";
    case VerbGroup::operate: return "Operate";
  }
  return "";
}

const Verb* find_verb(const std::string& name) {
  for (const Verb& verb : all_verbs()) {
    if (verb.name == name) return &verb;
  }
  return nullptr;
}

// A verb's help begins with an example; the list of verbs has one line each.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_description(const CLI::App* app) const override {
    const Verb* verb = find_verb(app->get_name());
    if (verb == nullptr) return app->get_description() + "\n";
    std::string example(verb->example);
    for (std::size_t at = 0; (at = example.find('\n', at)) != std::string::npos; at += 3) example.insert(at + 1, "  ");
    return "Example:\n  " + example + "\n\n" + std::string(verb->summary) + "\n";
  }
  std::string make_subcommand(const CLI::App* sub) const override {
    const Verb* verb = find_verb(sub->get_name());
    std::string name = "  " + sub->get_name();
    name.resize(std::max<std::size_t>(name.size() + 1, 14), ' ');
    return name + std::string(verb == nullptr ? "" : verb->summary) + "\n";
  }
};

void add_common_options(CLI::App& app, ConsoleOptions& options) {
  constexpr const char* kGroup = "For every verb";
  app.add_flag("--json", options.json, "Answer with JSON, errors included")->group(kGroup);
  app.add_flag("--quiet,-q", options.quiet, "No notes and no progress, only the answer and errors")->group(kGroup);
  app.add_option("--config", options.config, "Configuration file of the daemon meant (default: $P2PW_CONFIG, else "
                                             "/etc/p2pw/p2pw.toml)")->group(kGroup)->type_name("FILE");
  app.add_option("--state", options.state, "Its state folder, when it is not the one in the configuration")
      ->group(kGroup)->type_name("DIR");
}

// The verb that a mistyped one comes closest to: fewest edits, at most two.
std::string nearest_verb(const std::string& typed) {
  std::string best;
  std::size_t best_distance = 3;
  for (const Verb& verb : all_verbs()) {
    std::vector<std::size_t> row(verb.name.size() + 1);
    for (std::size_t j = 0; j < row.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= typed.size(); ++i) {
      std::size_t diagonal = row[0];
      row[0] = i;
      for (std::size_t j = 1; j < row.size(); ++j) {
        std::size_t change = diagonal + (typed[i - 1] == verb.name[j - 1] ? 0 : 1);
        diagonal = row[j];
        row[j] = std::min({row[j] + 1, row[j - 1] + 1, change});
      }
    }
    if (row.back() < best_distance) {
      best_distance = row.back();
      best = verb.name;
    }
  }
  return best;
}

Error unknown_verb(const std::string& typed) {
  std::string nearest = nearest_verb(typed);
  std::string hint = nearest.empty() ? "" : "did you mean \"" + nearest + "\"? ";
  return fail(ErrorCode::usage, "there is no verb \"" + typed + "\": " + hint + "`p2pw --help` lists them");
}

// The first word that is neither an option nor the value of one.
std::string typed_verb(int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    if (word == "--config" || word == "--state") {
      ++i;
    } else if (!word.starts_with('-')) {
      return word;
    }
  }
  return {};
}

int usage_failure(int argc, const char* const* argv, const ConsoleOptions& parsed, const std::string& reason) {
  ConsoleOptions options = parsed;
  for (int i = 1; i < argc; ++i) options.json = options.json || std::strcmp(argv[i], "--json") == 0;
  Console console = Console::standard(options);
  std::string verb = typed_verb(argc, argv);
  if (!verb.empty() && find_verb(verb) == nullptr) return console.fail(unknown_verb(verb));
  std::string help = verb.empty() ? "p2pw --help" : "p2pw " + verb + " --help";
  return console.fail(fail(ErrorCode::usage, reason + "; `" + help + "` shows how"));
}

int run_verb(const Run& run, const ConsoleOptions& options) {
  Console console = Console::standard(options);
  try {
    Status status = run(console);
    return status ? 0 : console.fail(status.error());
  } catch (const std::exception& error) {
    return console.fail(fail(ErrorCode::failed, std::string("unexpected: ") + error.what()));
  }
}

}  // namespace

CommandLine::CommandLine()
    : app(std::make_unique<CLI::App>("p2pw moves new weights from one trainer to a fleet of nodes in many regions.",
                                     "p2pw")),
      options(std::make_shared<ConsoleOptions>()) {
  app->formatter(std::make_shared<HelpFormatter>());
  app->set_version_flag("--version", std::string("p2pw ") + kSoftwareVersion);
  app->require_subcommand(0, 1);
  app->footer("`p2pw VERB --help` begins with an example. Exit codes: 0 ok, 1 failed, 2 usage, 3 daemon unreachable,\n"
              "4 integrity, 5 not found, 6 timed out or incomplete, 7 busy, 130 interrupted.");
  add_common_options(*app, *options);
  for (const Verb& verb : all_verbs()) {
    CLI::App* sub = app->add_subcommand(std::string(verb.name), std::string(verb.summary));
    sub->group(heading_of(verb.group));
    runs[std::string(verb.name)] = verb.add(*sub);
    add_common_options(*sub, *options);
  }
}

CommandLine::~CommandLine() = default;

int run_command_line(int argc, const char* const* argv) {
  CommandLine line;
  try {
    line.app->parse(argc, argv);
  } catch (const CLI::Success& answer) {  // --help, --version
    return line.app->exit(answer);
  } catch (const CLI::ParseError& error) {
    return usage_failure(argc, argv, *line.options, error.what());
  } catch (const std::exception& error) {
    return usage_failure(argc, argv, *line.options, error.what());
  }
  auto chosen = line.app->get_subcommands();
  if (chosen.empty()) {
    std::cerr << line.app->help();
    return exit_code_of(ErrorCode::usage);
  }
  return run_verb(line.runs[chosen.front()->get_name()], *line.options);
}

}  // namespace p2pw
