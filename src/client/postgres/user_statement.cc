#include "client/postgres/user_statement.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "base/hex.h"
#include "base/sql_text.h"
#include "base/utf8.h"
#include "client/postgres/libpq.h"
#include "outbox/error.h"

namespace outbox::postgres {
namespace {

constexpr int kText = 0;
constexpr int kBinary = 1;

// With the NUL behind it.
constexpr std::size_t kLongestNumber = 32;

template <class T>
T number(std::string_view text) {
  T value{};
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

Blob unescaped(const char* text) {
  std::size_t size = 0;
  const std::unique_ptr<unsigned char, Destroyer<PQfreemem>> bytes(
      PQunescapeBytea(reinterpret_cast<const unsigned char*>(text), &size));
  return Blob{std::string(reinterpret_cast<const char*>(bytes.get()), size)};
}

}  // namespace

UserValues::UserValues(std::span<const Parameter> values) {
  std::size_t bytes = 0;
  for (const Parameter& value : values) {
    const auto* text = std::get_if<std::string_view>(&value.held());
    bytes += text == nullptr ? kLongestNumber : text->size() + 1;
  }
  texts_.reserve(bytes);
  types_.reserve(values.size());
  formats_.reserve(values.size());
  pointers_.reserve(values.size());
  lengths_.reserve(values.size());
  for (const Parameter& value : values) {
    std::visit([this](const auto& held) { add(held); }, value.held());
  }
}

void UserValues::add(std::nullptr_t) { push(nullptr, 0, 0, kText); }

void UserValues::add(std::int64_t value) {
  char text[kLongestNumber];
  const auto end = std::to_chars(std::begin(text), std::end(text), value).ptr;
  add_text({text, static_cast<std::size_t>(end - text)});
}

void UserValues::add(double value) {
  char text[kLongestNumber];
  const auto end = std::to_chars(std::begin(text), std::end(text), value).ptr;
  add_text({text, static_cast<std::size_t>(end - text)});
}

void UserValues::add(std::string_view text) {
  if (text.find('\0') != std::string_view::npos) {
    throw MisuseError(
        "a text value has a NUL character, which PostgreSQL cannot store in a "
        "text; pass it as outbox::Blob");
  }
  add_text(text);
}

void UserValues::add(Parameter::Bytes bytes) {
  const std::string_view data = as_text(bytes);
  push(data.data(), data.size(), oid::kBytea, kBinary);
}

void UserValues::add_text(std::string_view text) {
  const std::size_t at = texts_.size();
  texts_.append(text).push_back('\0');
  push(texts_.data() + at, text.size(), 0, kText);
}

void UserValues::push(const char* data, std::size_t size, Oid type, int format) {
  pointers_.push_back(data);
  lengths_.push_back(static_cast<int>(size));
  types_.push_back(type);
  formats_.push_back(format);
}

Value value_of(const PGresult* result, int row, int column) {
  if (PQgetisnull(result, row, column) != 0) return nullptr;
  const char* data = PQgetvalue(result, row, column);
  const std::string_view text(data, static_cast<std::size_t>(PQgetlength(result, row, column)));
  switch (PQftype(result, column)) {
    case oid::kBool:
      return std::int64_t{text == "t"};
    case oid::kInt2:
    case oid::kInt4:
    case oid::kInt8:
      return number<std::int64_t>(text);
    case oid::kFloat4:
    case oid::kFloat8:
      return number<double>(text);
    case oid::kBytea:
      return unescaped(data);
    default:
      return std::string(text);
  }
}

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Also bytes of characters beyond ASCII: they are letters to the server.
bool begins_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

bool goes_on_in_word(char c) { return begins_word(c) || is_digit(c) || c == '$'; }

// Goes through a statement as the server's scanner does, and puts something else in the place of
// its placeholders: numbers in that of each `?`, or literals in that of $1, $2, ...
class Replacing {
 public:
  Replacing(std::string_view sql, bool backslashes,
            std::optional<std::span<const std::string>> literals = std::nullopt)
      : rest_(sql), backslashes_(backslashes), literals_(literals) {
    result_.reserve(sql.size() + 16);
  }

  // False if `?` was to be replaced, and the statement has placeholders of the server's own.
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
        const bool is_placeholder = rest_.size() > 1 && is_digit(rest_[1]);
        if (is_placeholder && !literals_) return false;
        if (is_placeholder) {
          take_number();
        } else {
          take_dollar_quoted();
        }
      } else if (rest_.starts_with("--")) {
        take(std::min(rest_.find('\n'), rest_.size()));
      } else if (rest_.starts_with("/*")) {
        take_comment();
      } else if (c == '?' && !literals_) {
        take_question_mark();
      } else {
        take(1);
      }
    }
    return true;
  }

  std::string& result() { return result_; }

  // How many values the statement takes.
  std::size_t placeholders() const { return placeholders_; }

 private:
  void take(std::size_t size) {
    result_.append(rest_.substr(0, size));
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

  void take_number() {
    std::size_t number = 0;
    const char* const digits = rest_.data() + 1;
    const char* const end = std::from_chars(digits, rest_.data() + rest_.size(), number).ptr;
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    placeholders_ = std::max(placeholders_, number);
    // A word before it would become part of it, or say what kind of literal it is.
    if (number > 0 && number <= literals_->size())
      result_.append(" ").append((*literals_)[number - 1]);
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
    if (result_.ends_with('@')) return take(1);
    result_.append("$").append(std::to_string(++placeholders_));
    rest_.remove_prefix(1);
    // Digits and words would become part of it.
    if (!rest_.empty() && goes_on_in_word(rest_.front())) result_.push_back(' ');
  }

  std::string_view rest_;
  const bool backslashes_;
  const std::optional<std::span<const std::string>> literals_;
  std::string result_;
  std::size_t placeholders_ = 0;
};

}  // namespace

std::string numbered(std::string_view sql, bool backslashes) {
  Replacing numbering(sql, backslashes);
  if (!numbering.run()) return std::string(sql);
  return std::move(numbering.result());
}

std::string filled_in(std::string_view sql, bool backslashes,
                      std::span<const std::string> literals) {
  Replacing filling(sql, backslashes, literals);
  filling.run();
  if (filling.placeholders() != literals.size()) {
    throw MisuseError("the statement takes " + std::to_string(filling.placeholders()) +
                      " values, and was given " + std::to_string(literals.size()));
  }
  return std::move(filling.result());
}

namespace {

// What means nothing to a scanner of SQL, wherever it stands, nor to a client library.
bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view(" _-+.,/=@").find(c) != std::string_view::npos;
}

// In E'...', where backslashes escape whatever standard_conforming_strings is.
std::string escaped(std::string_view text) {
  std::string sql = "E'";
  while (!text.empty()) {
    const std::size_t size = utf8_sequence(text);
    if (size == 0) throw MisuseError("a text value is not UTF-8: pass it as outbox::Blob");
    if (text.front() == '\0') {
      throw MisuseError(
          "a text value has a NUL character, which PostgreSQL cannot store in a "
          "text; pass it as outbox::Blob");
    }
    const char32_t character = code_point(text.substr(0, size));
    if (size == 1 && is_plain(text.front())) {
      sql.push_back(text.front());
    } else if (character <= 0x7f) {
      append_hex(sql.append("\\x"), character, 2);
    } else if (character <= 0xffff) {
      append_hex(sql.append("\\u"), character, 4);
    } else {
      append_hex(sql.append("\\U"), character, 8);
    }
    text.remove_prefix(size);
  }
  return sql + "'";
}

// Numbers are sent as texts, too: so a minus begins no comment, and the server infers what they
// are.
template <class Number>
std::string quoted(Number value) {
  std::array<char, 32> text{};
  char* const end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return "'" + std::string(text.data(), end) + "'";
}

struct Literal {
  std::string operator()(std::nullptr_t) const { return "NULL"; }
  std::string operator()(std::int64_t value) const { return quoted(value); }
  std::string operator()(double value) const { return quoted(value); }
  std::string operator()(std::string_view text) const { return escaped(text); }
  std::string operator()(Parameter::Bytes bytes) const {
    std::string sql = "decode('";
    append_hex(sql, as_text(bytes));
    return sql + "', 'hex')";
  }
};

}  // namespace

std::string literal(const Parameter& value) { return std::visit(Literal{}, value.held()); }

}  // namespace outbox::postgres
