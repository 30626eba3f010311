#include "cli/output/console.h"

#include <unistd.h>

#include <iostream>

#include "cli/errors.h"
#include "cli/output/terminal.h"

namespace outbox::cli {

bool Console::confirm(const std::string& question, bool yes) const {
  if (yes) return true;
  if (!can_ask) {
    throw UsageError(question + " There is no terminal to ask at: say --yes if you mean it.");
  }
  err << printable_lines(question) << " [y/N] " << std::flush;
  std::string answer;
  std::getline(in, answer);
  return answer == "y" || answer == "Y" || answer == "yes" || answer == "Yes";
}

Console standard_console() {
  return {.in = std::cin,
          .out = std::cout,
          .err = std::cerr,
          .color = wants_color(STDOUT_FILENO),
          .out_width = line_width(STDOUT_FILENO),
          .err_width = line_width(STDERR_FILENO),
          .can_ask = is_terminal(STDIN_FILENO) && is_terminal(STDERR_FILENO)};
}

}  // namespace outbox::cli
