#include "client/mysql/literal.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <variant>

#include "base/hex.h"
#include "base/sql_text.h"
#include "base/time_text.h"
#include "outbox/error.h"

namespace outbox::mysql {
namespace {

void append_hex_literal(std::string& sql, std::string_view bytes) {
  sql.reserve(sql.size() + 2 * bytes.size() + 3);
  sql += "x'";
  append_hex(sql, bytes);
  sql += '\'';
}

}  // namespace

void append_literal(std::string& sql, std::nullptr_t) { sql += "NULL"; }

void append_literal(std::string& sql, std::int64_t value) { sql += std::to_string(value); }

void append_literal(std::string& sql, double value) {
  if (!std::isfinite(value)) {
    throw MisuseError("a value is infinite or not a number, which MySQL cannot store");
  }
  std::array<char, 32> text{};
  char* const end =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::scientific)
          .ptr;
  sql.append(text.data(), end);
}

void append_literal(std::string& sql, std::string_view text) {
  // Whether a backslash is one depends on the SQL mode; a quote is doubled in all.
  const bool is_plain =
      text.find('\\') == std::string_view::npos && text.find('\0') == std::string_view::npos;
  sql += "_utf8mb4 ";
  if (!is_plain) return append_hex_literal(sql, text);
  sql.reserve(sql.size() + text.size() + 2);
  sql += '\'';
  while (true) {
    const auto quote = std::min(text.find('\''), text.size());
    sql += text.substr(0, quote);
    if (quote == text.size()) break;
    sql += "''";
    text.remove_prefix(quote + 1);
  }
  sql += '\'';
}

void append_ascii_literal(std::string& sql, std::string_view text) {
  const bool is_harmless = std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view(" _-+.,/=@").find(c) != std::string_view::npos;
  });
  sql += "_utf8mb4 ";
  if (!is_harmless) return append_hex_literal(sql, text);
  sql.append("'").append(text).append("'");
}

void append_literal(std::string& sql, Bytes bytes) { append_hex_literal(sql, bytes.data); }

void append_literal(std::string& sql, Time time) {
  sql.append("TIMESTAMP'").append(datetime_text(time)).append("'");
}

std::string datetime_text(Time time) {
  std::string text = time_text(std::clamp(time, kEarliestTime, kLatestTime));
  text.pop_back();  // the Z
  text[text.find('T')] = ' ';
  return text;
}

namespace {

struct Appended {
  std::string& sql;

  void operator()(std::nullptr_t) const { append_literal(sql, nullptr); }
  void operator()(std::string_view text) const { append_ascii_literal(sql, text); }
  void operator()(Parameter::Bytes bytes) const { append_literal(sql, Bytes{as_text(bytes)}); }
  // With a blank, or a minus before it would begin a comment.
  void operator()(std::int64_t value) const { append_literal(sql += ' ', value); }
  void operator()(double value) const { append_literal(sql += ' ', value); }
};

// The offset behind a quote that begins at `at`.
std::size_t end_of_quoted(std::string_view sql, std::size_t at, bool backslashes) {
  const char quote = sql[at++];
  while (at < sql.size() && sql[at] != quote) at += backslashes && sql[at] == '\\' ? 2 : 1;
  return std::min(at + 1, sql.size());  // a doubled one begins the next
}

std::size_t end_of(std::string_view sql, std::size_t at, std::string_view end) {
  const std::size_t found = sql.find(end, at);
  return found == std::string_view::npos ? sql.size() : found + end.size();
}

// The offset behind what begins at `at` and holds no placeholders; `at` itself if nothing does.
std::size_t skipped(std::string_view sql, std::size_t at, bool backslashes) {
  const std::string_view rest = sql.substr(at);
  if (rest.starts_with('\'') || rest.starts_with('"')) return end_of_quoted(sql, at, backslashes);
  if (rest.starts_with('`')) return end_of_quoted(sql, at, false);
  // Two minuses alone are no comment: 1--1.
  const bool is_comment =
      rest.starts_with('#') || (rest.starts_with("--") && (rest.size() == 2 || rest[2] <= ' '));
  if (is_comment) return end_of(sql, at, "\n");
  // What is in /*! ... */ is part of the statement.
  const bool is_code = rest.starts_with("/*!") || rest.starts_with("/*M!");
  if (rest.starts_with("/*") && !is_code) return end_of(sql, at + 2, "*/");
  return at;
}

}  // namespace

std::string literal(const Parameter& value) {
  std::string sql;
  std::visit(Appended{sql}, value.held());
  return sql;
}

std::string filled_in(std::string_view sql, bool backslashes,
                      std::span<const std::string> literals) {
  std::string text;
  std::size_t placeholders = 0;
  for (std::size_t at = 0; at < sql.size();) {
    const std::size_t end = skipped(sql, at, backslashes);
    if (end > at) {
      text.append(sql.substr(at, end - at));
      at = end;
    } else if (sql[at] == '?') {
      if (placeholders < literals.size()) text.append(literals[placeholders]);
      ++placeholders;
      ++at;
    } else {
      text.push_back(sql[at++]);
    }
  }
  if (placeholders == literals.size()) return text;
  throw MisuseError("the statement takes " + std::to_string(placeholders) +
                    " values, and was given " + std::to_string(literals.size()));
}

}  // namespace outbox::mysql
