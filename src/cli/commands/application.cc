#include "cli/commands/application.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/quote.h"
#include "base/url.h"
#include "cli/commands/commands.h"
#include "cli/errors.h"
#include "outbox/version.h"

namespace outbox::cli {
namespace {

constexpr const char* kAbout =
    "outbox, the transactional outbox for C++.\n"
    "\n"
    "An application writes its events in the same transaction as its data; a dispatcher delivers\n"
    "them afterwards. Committed events are delivered, rolled-back ones never, whatever\n"
    "crashes in between. This is the operator's tool; `outbox demo` shows it at work.\n";

constexpr const char* kFooter =
    "--db or the environment variable OUTBOX_DB names the database: sqlite:PATH, or just a path;\n"
    "postgresql://USER@HOST:PORT/DATABASE; mysql://USER@HOST:PORT/DATABASE, or mariadb://.\n"
    "Other users can read a command line: keep passwords in ~/.pgpass or MYSQL_PWD.\n"
    "Options come after the command. With --json, every line of output is one JSON object. Colors\n"
    "are for terminals only; NO_COLOR turns them off.\n"
    "\n"
    "Exit codes: 0 success; 1 a bad answer (not found, not dead, a check failed, not confirmed);\n"
    "64 wrong usage; 69 the database or something else is unavailable, try again; 78 the database\n"
    "cannot be used as it is.\n"
    "\n"
    "Examples:\n"
    "  export OUTBOX_DB=sqlite:shop.db\n"
    "  outbox migrate up                      create the tables\n"
    "  outbox status                          pending, dead and held events, and who delivers\n"
    "  outbox dead groups                     dead events by error\n"
    "  outbox dead replay --all --error timeout --rate 50\n"
    "  outbox doctor                          is everything in order?\n"
    "  outbox events list --help              every command explains itself";

// The innermost command that the command line names, and the words to it.
struct Place {
  const CLI::App* app;
  std::string words;
};

Place innermost(const CLI::App& app) {
  Place place{&app, "outbox"};
  while (true) {
    const auto chosen = place.app->get_subcommands();
    if (chosen.empty()) return place;
    place.app = chosen.front();
    place.words += " " + place.app->get_name();
  }
}

void name_groups(CLI::App& app) {
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!command->get_group().empty()) command->group("Commands");
    name_groups(*command);
  }
}

std::string visible_commands(const CLI::App& app) {
  std::string names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_group().empty()) continue;
    names += (names.empty() ? "" : ", ") + command->get_name();
  }
  return names;
}

// Says what was wrong with the command line, and where to read on.
int complain(const Console& console, const CLI::App& app, const CLI::ParseError& error,
             std::string_view first_argument) {
  const Place place = innermost(app);
  const std::vector<std::string> unknown = app.remaining(true);
  std::string what = without_secrets(error.what());
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !unknown.empty()) {
    const bool option = unknown.front().starts_with("-");
    what = std::string(option ? "unknown option " : "unexpected argument ") +
           quote(without_secrets(unknown.front()));
    if (option && unknown.front() == first_argument) what += "; options come after the command";
    if (!option) {
      const std::string names = visible_commands(*place.app);
      if (!names.empty()) {
        what =
            "unknown command " + quote(without_secrets(unknown.front())) + "; commands: " + names;
      }
    }
  }
  const auto replace = [&what](std::string_view part, std::string_view by) {
    const auto at = what.find(part);
    if (at != std::string::npos) what.replace(at, part.size(), by);
    return at != std::string::npos;
  };
  if (dynamic_cast<const CLI::ExcludesError*>(&error) != nullptr) {
    replace(" excludes ", " cannot be combined with ");
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    if (!replace(": At Most 1 required but received 2", " is given twice")) {
      replace(": 1 required ", " needs a value: ");
      replace(" missing", "");
    }
  }
  console.say("outbox: " + what + "\nTry: " + place.words + " --help");
  return kUsage;
}

// The answer may not have reached anybody: a full disk, a closed pipe.
int finish(const Console& console, int code) {
  console.out.flush();
  if (console.out) return code;
  console.say("outbox: cannot write to standard output");
  return kFailed;
}

// --- How --help looks ---

// CLI11's own form with less noise: what an option is called and takes, what it
// does, and whether it must be there.
class HelpFormat final : public CLI::Formatter {
 public:
  HelpFormat();

  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;
  std::string make_option_opts(const CLI::Option* option) const override;
};

HelpFormat::HelpFormat() {
  label("SUBCOMMAND", "COMMAND");
  label("Positionals", "Arguments");
  constexpr std::size_t kColumn = 33;
  column_width(kColumn);
}

std::string HelpFormat::make_help(const CLI::App* app, std::string name,
                                  CLI::AppFormatMode mode) const {
  std::string text = CLI::Formatter::make_help(app, std::move(name), mode);
  if (const auto usage = text.find("\nUsage:"); usage != std::string::npos)
    text.insert(usage, "\n");
  for (auto gap = text.find("\n\n\n"); gap != std::string::npos; gap = text.find("\n\n\n", gap)) {
    text.erase(gap, 1);
  }
  return text;
}

std::string HelpFormat::make_option_opts(const CLI::Option* option) const {
  std::string text;
  if (!option->get_type_name().empty()) text += " " + option->get_type_name();
  if (option->get_positional() && option->get_expected_max() > 1) text += "...";
  if (option->get_required() && !option->get_positional()) text += " (required)";
  return text;
}

// --- Completion: made from the command line itself, so that it cannot say anything else ---

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

void add_completion(CLI::App& app, Session& session) {
  CLI::App& group = *app.add_subcommand("completion", "Print a completion for a shell")->group("");
  group.footer("Examples:\n  source <(outbox completion bash)");
  CLI::App& bash =
      *group.add_subcommand("bash", "Print the completion for bash")->group("Commands");
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

}  // namespace

void add_store_command(CLI::App& group, Session& session, const char* name, const char* about,
                       const char* footer, int (*run)(const Console&, const StoreOptions&),
                       bool of_subscription) {
  CLI::App& command = *group.add_subcommand(name, about)->footer(footer);
  const auto options = std::make_shared<StoreOptions>();
  add_store_options(command, *options);
  if (of_subscription) add_subscription_option(command, *options);
  on_chosen(command, session, options, run);
}

int run(int argc, const char* const* argv, const Console& console) {
  CLI::App app{kAbout, "outbox"};
  app.set_version_flag("--version", "outbox " + std::string(version()),
                       "Print the version and exit");
  app.set_help_flag("-h,--help", "Print this help and exit");
  app.formatter(std::make_shared<HelpFormat>());
  app.footer(kFooter);

  Session session{.console = console};
  add_status(app, session);
  add_doctor(app, session);
  add_events(app, session);
  add_dead(app, session);
  add_subscriptions(app, session);
  add_purge(app, session);
  add_migrate(app, session);
  add_demo(app, session);
  add_completion(app, session);
  name_groups(app);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) return complain(console, app, error, argc > 1 ? argv[1] : "");
    return finish(console, app.exit(error, console.out, console.err));
  }
  if (!session.chosen) {
    const Place place = innermost(app);
    console.say("outbox: missing command; commands: " + visible_commands(*place.app) +
                "\nTry: " + place.words + " --help");
    return kUsage;
  }
  try {
    return finish(console, session.chosen());
  } catch (const std::exception& error) {
    console.out.flush();
    console.say("outbox: " + std::string(error.what()));
    return exit_code_of(error);
  }
}

}  // namespace outbox::cli
