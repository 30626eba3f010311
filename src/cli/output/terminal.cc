#include "cli/output/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace outbox::cli {
namespace {

constexpr std::size_t kUsualWidth = 80;

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

bool is_terminal(int descriptor) { return isatty(descriptor) == 1; }

bool wants_color(int descriptor) {
  return is_terminal(descriptor) && environment("NO_COLOR").empty() &&
         environment("TERM") != "dumb";
}

std::optional<std::size_t> line_width(int descriptor) {
  if (!is_terminal(descriptor)) return std::nullopt;
  winsize window{};
  if (ioctl(descriptor, TIOCGWINSZ, &window) != 0 || window.ws_col == 0) return kUsualWidth;
  return window.ws_col;
}

}  // namespace outbox::cli
