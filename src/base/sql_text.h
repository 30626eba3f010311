// SQL text of users.
#pragma once

#include <string>
#include <string_view>

namespace outbox {

// The first word of a statement, in capitals; blanks and comments are skipped.
std::string first_word(std::string_view text);

// Throws MisuseError if the statement begins or ends a transaction or savepoint:
// those are calls of a connection, so that events follow them.
void refuse_transaction_control(std::string_view text);

// Throws MisuseError unless it is `[A-Za-z_][A-Za-z0-9_]*`.
void check_table_name(const std::string& table);

// In quotes, those inside doubled.
std::string quoted_name(std::string_view name, char quote = '"');

// Fills in what SQL text of a store leaves open in braces: `fill(name)` for `{name}`.
template <class Fill>
std::string expand_names(std::string_view text, Fill fill) {
  std::string expanded;
  expanded.reserve(text.size() + 64);
  while (!text.empty()) {
    const auto open = text.find('{');
    expanded.append(text.substr(0, open));
    if (open == std::string_view::npos) break;
    const auto close = text.find('}', open);
    expanded.append(fill(text.substr(open + 1, close - open - 1)));
    text.remove_prefix(close + 1);
  }
  return expanded;
}

}  // namespace outbox
