#include "cli/commands/help.h"

#include <utility>

namespace outbox::cli {

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

}  // namespace outbox::cli
