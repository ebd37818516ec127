// Completion scripts, generated from the same tree that parses the command line.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/frame.h"
#include "cli/verb.h"

namespace p2pw {
namespace {

struct OptionWords {
  std::vector<std::string> words;  // "--channel", "-c"
  std::string description;
  bool takes_value = false;
};

std::vector<OptionWords> options_of(const CLI::App& app) {
  std::vector<OptionWords> all;
  for (const CLI::Option* option : app.get_options()) {
    OptionWords words;
    for (const std::string& name : option->get_lnames()) words.words.push_back("--" + name);
    for (const std::string& name : option->get_snames()) words.words.push_back("-" + name);
    words.description = option->get_description();
    words.takes_value = option->get_items_expected_max() > 0;
    if (!words.words.empty()) all.push_back(words);
  }
  return all;
}

std::string joined_words(const CLI::App& app) {
  std::string text;
  for (const OptionWords& option : options_of(app)) {
    for (const std::string& word : option.words) text += (text.empty() ? "" : " ") + word;
  }
  return text;
}

std::string joined_verbs() {
  std::string text;
  for (const Verb& verb : all_verbs()) text += (text.empty() ? "" : " ") + std::string(verb.name);
  return text;
}

// For single quotes in a shell.
std::string shell_quoted(std::string_view text) {
  std::string out = "'";
  for (char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string bash(const CLI::App& root) {
  std::string text =
      "# bash completion for p2pw\n"
      "_p2pw() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} verb= i\n"
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    case ${COMP_WORDS[i]} in\n"
      "      --config|--state) ((i++)) ;;\n"
      "      -*) ;;\n"
      "      *) verb=${COMP_WORDS[i]}; break ;;\n"
      "    esac\n"
      "  done\n"
      "  local words=\n"
      "  case $verb in\n"
      "    '') words='" + joined_verbs() + " " + joined_words(root) + "' ;;\n";
  for (const CLI::App* sub : root.get_subcommands({})) {
    text += "    " + sub->get_name() + ") words='" + joined_words(*sub) + "' ;;\n";
  }
  text +=
      "  esac\n"
      "  if [[ $word == -* || -z $verb ]]; then\n"
      "    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
      "  else\n"
      "    COMPREPLY=($(compgen -f -- \"$word\"))\n"
      "  fi\n"
      "}\n"
      "complete -o filenames -F _p2pw p2pw\n";
  return text;
}

std::string zsh_option(const OptionWords& option) {
  std::string description;
  for (char c : option.description) {
    if (c == '[' || c == ']' || c == ':') description += '\\';
    description += c;
  }
  std::string text;
  for (const std::string& word : option.words) {
    text += " \\\n        " + shell_quoted(word + "[" + description + "]" + (option.takes_value ? ":value:_files" : ""));
  }
  return text;
}

std::string zsh(const CLI::App& root) {
  std::string text = "#compdef p2pw\n# zsh completion for p2pw\n_p2pw() {\n  local -a verbs\n  verbs=(\n";
  for (const Verb& verb : all_verbs()) {
    text += "    " + shell_quoted(std::string(verb.name) + ":" + std::string(verb.summary)) + "\n";
  }
  text +=
      "  )\n"
      "  if ((CURRENT == 2)); then\n"
      "    _describe 'verb' verbs\n"
      "    return\n"
      "  fi\n"
      "  local verb=$words[2]\n"
      "  shift words\n"
      "  ((CURRENT--))\n"
      "  case $verb in\n";
  for (const CLI::App* sub : root.get_subcommands({})) {
    text += "    " + sub->get_name() + ")\n      _arguments";
    for (const OptionWords& option : options_of(*sub)) text += zsh_option(option);
    text += " \\\n        '*:file:_files' ;;\n";
  }
  return text + "  esac\n}\n_p2pw \"$@\"\n";
}

std::string fish(const CLI::App& root) {
  std::string text = "# fish completion for p2pw\n";
  for (const Verb& verb : all_verbs()) {
    text += "complete -c p2pw -n __fish_use_subcommand -f -a " + std::string(verb.name) + " -d " + shell_quoted(verb.summary) + "\n";
  }
  for (const CLI::App* sub : root.get_subcommands({})) {
    for (const OptionWords& option : options_of(*sub)) {
      text += "complete -c p2pw -n '__fish_seen_subcommand_from " + sub->get_name() + "'";
      for (const std::string& word : option.words) {
        text += word.starts_with("--") ? " -l " + word.substr(2) : " -s " + word.substr(1);
      }
      text += (option.takes_value ? " -r" : "") + std::string(" -d ") + shell_quoted(option.description) + "\n";
    }
  }
  return text;
}

Status completion(const std::string& shell, Console& console) {
  CommandLine line;
  std::string script = shell == "bash" ? bash(*line.app) : shell == "zsh" ? zsh(*line.app) : fish(*line.app);
  console.answer({{"shell", shell}, {"script", script}}, script);
  return {};
}

Run add_completion(CLI::App& verb) {
  auto shell = std::make_shared<std::string>();
  verb.add_option("SHELL", *shell, "bash, zsh or fish")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
  return [shell](Console& console) { return completion(*shell, console); };
}

const VerbRegistration kCompletion({"completion", VerbGroup::operate, "Print a completion script for your shell.",
                                    "p2pw completion bash > /etc/bash_completion.d/p2pw", add_completion});

}  // namespace
}  // namespace p2pw
