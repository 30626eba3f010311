// `outbox completion bash`: made from the command line itself, so that it
// cannot say anything else.
#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/errors.h"

namespace outbox::cli {
namespace {

constexpr const char* kHead = R"bash(# shellcheck shell=bash
# Completion of outbox for bash. Made by: outbox completion bash
_outbox() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
  local command='' words='' i
  COMPREPLY=()

  # bash takes "sqlite:shop.db" for three words.
  if [[ $current == : ]]; then
    current='' previous=${COMP_WORDS[COMP_CWORD - 2]}
  elif [[ $previous == : ]]; then
    previous=${COMP_WORDS[COMP_CWORD - 3]}
  fi

  # Which command it is for.
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case "$command ${COMP_WORDS[i]}" in
)bash";

constexpr const char* kMiddle = R"bash()
        command=${command:+$command }${COMP_WORDS[i]} ;;
    esac
  done

  # What an option takes.
  case "$command $previous" in
)bash";

constexpr const char* kTail = R"bash(  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}
complete -F _outbox outbox
)bash";

// A command with the words that lead to it: "events list".
struct Command {
  std::string path;
  const CLI::App* app;
};

void collect(const CLI::App& app, const std::string& path, std::vector<Command>& all) {
  all.push_back({path, &app});
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_group().empty()) continue;  // hidden
    collect(*command, path.empty() ? command->get_name() : path + " " + command->get_name(), all);
  }
}

std::vector<const CLI::Option*> visible_options(const CLI::App& app) {
  std::vector<const CLI::Option*> options;
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_group().empty() && !option->get_lnames().empty()) options.push_back(option);
  }
  return options;
}

// What the shell offers after an option, by what --help calls its value.
std::string offer_for(const std::string& type) {
  constexpr const char* kFrom = "      mapfile -t COMPREPLY < <(compgen ";
  constexpr const char* kFiles = "-f -- \"$current\")\n      compopt -o filenames 2>/dev/null\n";
  if (type == "PATH") return std::string(kFrom) + kFiles;
  if (type == "URL") return std::string(kFrom) + "-W 'postgresql:// mysql:// mariadb://' " + kFiles;
  if (type == "STATUS") {
    return std::string(kFrom) + "-W 'NEW RETRY DONE DEAD' -- \"$current\")\n";
  }
  return {};
}

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

std::string joined(const std::set<std::string>& words, const char* between_words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between_words) + word;
  return text;
}

// The names of commands directly below one.
std::string names_below(const std::vector<Command>& commands, const std::string& path) {
  const std::string prefix = path.empty() ? "" : path + " ";
  std::string names;
  for (const Command& command : commands) {
    if (command.path.empty() || !command.path.starts_with(prefix)) continue;
    const std::string name = command.path.substr(prefix.size());
    if (!name.empty() && name.find(' ') == std::string::npos) names += name + " ";
  }
  return names;
}

// Options that are flags in one command and take a value in another.
std::set<std::string> ambiguous_options(const std::vector<Command>& commands) {
  std::set<std::string> flags;
  std::set<std::string> takers;
  for (const Command& command : commands) {
    for (const CLI::Option* option : visible_options(*command.app)) {
      (takes_value(*option) ? takers : flags).insert(option->get_lnames().front());
    }
  }
  std::set<std::string> both;
  std::set_intersection(flags.begin(), flags.end(), takers.begin(), takers.end(),
                        std::inserter(both, both.begin()));
  return both;
}

std::string bash_completion(const CLI::App& app) {
  std::vector<Command> commands;
  collect(app, "", commands);
  const std::set<std::string> ambiguous = ambiguous_options(commands);
  std::map<std::string, std::set<std::string>> takers;  // patterns by what is offered
  std::string paths;
  std::string words;
  for (const Command& command : commands) {
    std::string offered = names_below(commands, command.path);
    for (const CLI::Option* option : visible_options(*command.app)) {
      const std::string name = option->get_lnames().front();
      offered += "--" + name + " ";
      if (!takes_value(*option)) continue;
      takers[offer_for(option->get_type_name())].insert(
          ambiguous.contains(name) ? "'" + command.path + " --" + name + "'"
                                   : "*' --" + name + "'");
    }
    offered.pop_back();
    words += "    '" + command.path + "') words='" + offered + "' ;;\n";
    if (command.path.empty()) continue;
    // "events list" as it is, "events" with the empty command before it.
    const bool nested = command.path.find(' ') != std::string::npos;
    paths +=
        (paths.empty() ? "      '" : " | '") + std::string(nested ? "" : " ") + command.path + "'";
  }
  std::string script = kHead + paths + kMiddle;
  for (const auto& [offer, patterns] : takers) {
    script += "    " + joined(patterns, " | ") + ")\n" + offer + "      return ;;\n";
  }
  script += "  esac\n\n  case $command in\n" + words;
  return script + kTail;
}

}  // namespace

void add_completion(CLI::App& app, Session& session) {
  CLI::App& group = *app.add_subcommand("completion", "Print a completion for a shell")->group("");
  CLI::App& bash = *group.add_subcommand("bash", "Print the completion for bash");
  bash.footer(
      "Examples:\n"
      "  source <(outbox completion bash)                                 in this shell\n"
      "  outbox completion bash > ~/.local/share/bash-completion/completions/outbox");
  bash.callback([&app, &session] {
    session.chosen = [&app, &session] {
      session.console.out << bash_completion(app);
      return kOk;
    };
  });
}

}  // namespace outbox::cli
