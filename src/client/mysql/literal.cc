#include "client/mysql/literal.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/time_text.h"
#include "outbox/error.h"

namespace outbox::mysql {
namespace {

void append_hex(std::string& sql, std::string_view bytes) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  sql.reserve(sql.size() + 2 * bytes.size() + 3);
  sql += "x'";
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    sql += kDigits[byte >> 4];
    sql += kDigits[byte & 15];
  }
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
  if (!is_plain) return append_hex(sql, text);
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
  if (!is_harmless) return append_hex(sql, text);
  sql.append("'").append(text).append("'");
}

void append_literal(std::string& sql, Bytes bytes) { append_hex(sql, bytes.data); }

void append_literal(std::string& sql, Time time) {
  sql.append("TIMESTAMP'").append(datetime_text(time)).append("'");
}

std::string datetime_text(Time time) {
  std::string text = time_text(std::clamp(time, kEarliestTime, kLatestTime));
  text.pop_back();  // the Z
  text[text.find('T')] = ' ';
  return text;
}

}  // namespace outbox::mysql
