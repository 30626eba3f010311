#include "base/check_text.h"

#include <string>

#include "base/quote.h"
#include "base/utf8.h"
#include "outbox/error.h"

namespace outbox {
namespace {

[[noreturn]] void refuse(std::string_view field, const std::string& fault, std::string_view value) {
  throw MisuseError(std::string(field) + ' ' + fault + ": " + quote(value));
}

}  // namespace

void check_text(std::string_view field, std::string_view value, std::size_t max_length) {
  if (const std::size_t bad = valid_utf8_prefix(value); bad < value.size()) {
    refuse(field, "must be UTF-8, which it is not at byte " + std::to_string(bad), value);
  }
  if (const std::size_t nul = value.find('\0'); nul != value.npos) {
    refuse(field, "must not contain NUL, as it does at byte " + std::to_string(nul), value);
  }
  if (value.size() <= max_length) return;
  if (const std::size_t length = count_code_points(value); length > max_length) {
    refuse(field,
           "is " + std::to_string(length) + " characters long, at most " +
               std::to_string(max_length) + " are allowed",
           value);
  }
}

void check_name(std::string_view field, std::string_view value, std::size_t max_length) {
  if (value.empty()) {
    throw MisuseError(std::string(field) + " is \"\", 1 to " + std::to_string(max_length) +
                      " characters are needed");
  }
  check_text(field, value, max_length);
}

}  // namespace outbox
