#include "client/postgres/placeholders.h"

#include <algorithm>
#include <cstddef>

namespace outbox::postgres {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Also bytes of characters beyond ASCII: they are letters to the server.
bool begins_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

bool goes_on_in_word(char c) { return begins_word(c) || is_digit(c) || c == '$'; }

// Goes through a statement as the server's scanner does.
class Numbering {
 public:
  Numbering(std::string_view sql, bool backslashes) : rest_(sql), backslashes_(backslashes) {
    numbered_.reserve(sql.size() + 16);
  }

  // False if the statement has placeholders of the server's own.
  bool run() {
    while (!rest_.empty()) {
      const char c = rest_.front();
      if (begins_word(c)) {
        take_word();
      } else if (is_digit(c)) {
        take_while(goes_on_in_word);
      } else if (c == '\'') {
        take_quoted('\'', backslashes_);
      } else if (c == '"') {
        take_quoted('"', false);
      } else if (c == '$') {
        if (rest_.size() > 1 && is_digit(rest_[1])) return false;
        take_dollar_quoted();
      } else if (rest_.starts_with("--")) {
        take(std::min(rest_.find('\n'), rest_.size()));
      } else if (rest_.starts_with("/*")) {
        take_comment();
      } else if (c == '?') {
        take_question_mark();
      } else {
        take(1);
      }
    }
    return true;
  }

  std::string& result() { return numbered_; }

 private:
  void take(std::size_t size) {
    numbered_.append(rest_.substr(0, size));
    rest_.remove_prefix(std::min(size, rest_.size()));
  }

  template <class Predicate>
  void take_while(Predicate predicate) {
    const auto end = std::find_if_not(rest_.begin(), rest_.end(), predicate);
    take(static_cast<std::size_t>(end - rest_.begin()));
  }

  // An E in front of a quote says that backslashes escape in it.
  void take_word() {
    const std::string_view before = rest_;
    take_while(goes_on_in_word);
    const std::string_view word = before.substr(0, before.size() - rest_.size());
    if (!rest_.starts_with('\'')) return;
    take_quoted('\'', backslashes_ || word == "E" || word == "e");
  }

  // A doubled quote ends one and begins the next, which comes to the same.
  void take_quoted(char quote, bool backslashes) {
    std::size_t end = 1;
    while (end < rest_.size() && rest_[end] != quote) {
      end += backslashes && rest_[end] == '\\' ? 2 : 1;
    }
    take(end + 1);
    // Backslashes go on escaping behind it: E'it''s \' a quote'.
    if (backslashes && rest_.starts_with(quote)) take_quoted(quote, backslashes);
  }

  void take_dollar_quoted() {
    std::size_t end = 1;
    while (end < rest_.size() && rest_[end] != '$' && goes_on_in_word(rest_[end])) ++end;
    if (end == rest_.size() || rest_[end] != '$') return take(1);
    const std::string_view tag = rest_.substr(0, end + 1);
    const std::size_t close = rest_.find(tag, tag.size());
    take(close == std::string_view::npos ? rest_.size() : close + tag.size());
  }

  // Comments nest.
  void take_comment() {
    int depth = 0;
    do {
      const bool opens = rest_.starts_with("/*");
      const bool closes = rest_.starts_with("*/");
      depth += opens ? 1 : closes ? -1 : 0;
      take(opens || closes ? 2 : 1);
    } while (depth > 0 && !rest_.empty());
  }

  void take_question_mark() {
    if (rest_.starts_with("??")) {
      rest_.remove_prefix(1);
      take(1);
      if (rest_.starts_with('|') || rest_.starts_with('&')) take(1);
      return;
    }
    // `?||` is a placeholder, and a text behind it.
    const auto is_operator = [&](char second) {
      return rest_.size() > 1 && rest_[1] == second && (rest_.size() == 2 || rest_[2] != second);
    };
    if (is_operator('|') || is_operator('&')) return take(2);
    if (numbered_.ends_with('@')) return take(1);
    numbered_.append("$").append(std::to_string(++placeholders_));
    rest_.remove_prefix(1);
    // Digits and words would become part of it.
    if (!rest_.empty() && goes_on_in_word(rest_.front())) numbered_.push_back(' ');
  }

  std::string_view rest_;
  const bool backslashes_;
  std::string numbered_;
  int placeholders_ = 0;
};

}  // namespace

std::string numbered(std::string_view sql, bool backslashes) {
  Numbering numbering(sql, backslashes);
  if (!numbering.run()) return std::string(sql);
  return std::move(numbering.result());
}

}  // namespace outbox::postgres
