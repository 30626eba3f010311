#include "cli/output/style.h"

namespace outbox::cli {
namespace {

const char* code_of(Style style) {
  switch (style) {
    case Style::plain:
      break;
    case Style::bold:
      return "\x1b[1m";
    case Style::faint:
      return "\x1b[2m";
    case Style::good:
      return "\x1b[32m";
    case Style::warning:
      return "\x1b[33m";
    case Style::bad:
      return "\x1b[31m";
  }
  return "";
}

}  // namespace

std::string styled(std::string_view text, Style style, bool color) {
  if (!color || style == Style::plain || text.empty()) return std::string(text);
  return code_of(style) + std::string(text) + "\x1b[0m";
}

}  // namespace outbox::cli
