#include "base/sql_text.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/quote.h"
#include "outbox/error.h"

namespace outbox {
namespace {

// Takes the first word off, in capitals; blanks and comments are skipped.
std::string take_word(std::string_view& text) {
  const auto skip_past = [&](std::string_view end) {
    const auto at = text.find(end);
    text.remove_prefix(at == std::string_view::npos ? text.size() : at + end.size());
  };
  const auto is = [](int (*of_kind)(int), char c) {
    return of_kind(static_cast<unsigned char>(c)) != 0;
  };
  while (!text.empty()) {
    if (text.starts_with("--")) {
      skip_past("\n");
    } else if (text.starts_with("/*")) {
      skip_past("*/");
    } else if (is(std::isspace, text.front()) || text.front() == ';') {
      text.remove_prefix(1);
    } else {
      break;
    }
  }
  std::string word;
  while (!text.empty() && is(std::isalpha, text.front())) {
    word.push_back(static_cast<char>(std::toupper(static_cast<unsigned char>(text.front()))));
    text.remove_prefix(1);
  }
  return word;
}

}  // namespace

std::string first_word(std::string_view text) { return take_word(text); }

void refuse_transaction_control(std::string_view text) {
  static constexpr std::array<std::string_view, 8> kWords{
      "BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT", "SAVEPOINT", "RELEASE"};
  const std::string word = take_word(text);
  if (std::find(kWords.begin(), kWords.end(), word) != kWords.end() ||
      (word == "PREPARE" && take_word(text) == "TRANSACTION")) {
    throw MisuseError("cannot execute '" + word +
                      "': transactions and savepoints are begun and ended by the calls of that "
                      "name, so that events follow them");
  }
}

void check_table_name(const std::string& table) {
  const auto is_letter = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
  };
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const bool valid =
      !table.empty() && is_letter(table.front()) &&
      std::all_of(table.begin(), table.end(), [&](char c) { return is_letter(c) || is_digit(c); });
  if (!valid) {
    throw MisuseError(quote(table) +
                      " is no table name: it needs letters, digits and _ only, and no digit "
                      "first ([A-Za-z_][A-Za-z0-9_]*)");
  }
}

std::string quoted_name(std::string_view name, char quote) {
  std::string text(1, quote);
  for (const char c : name) {
    if (c == quote) text.push_back(c);
    text.push_back(c);
  }
  text.push_back(quote);
  return text;
}

void throw_as(FailureKind kind, const std::string& message) {
  switch (kind) {
    case FailureKind::retryable:
      throw RetryableError(message);
    case FailureKind::misuse:
      throw MisuseError(message);
    case FailureKind::permanent:
      break;
  }
  throw PermanentError(message);
}

}  // namespace outbox
