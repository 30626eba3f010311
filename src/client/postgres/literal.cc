#include "client/postgres/literal.h"

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <variant>

#include "base/sql_text.h"
#include "base/utf8.h"
#include "outbox/error.h"

namespace outbox::postgres {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";

void append_hex(std::string& sql, std::uint32_t value, int digits) {
  for (int digit = digits - 1; digit >= 0; --digit)
    sql.push_back(kHexDigits[(value >> 4 * digit) & 15]);
}

// What means nothing to a scanner of SQL, wherever it stands, nor to a client library.
bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view(" _-+.,/=@").find(c) != std::string_view::npos;
}

std::uint32_t code_point(std::string_view sequence) {
  static constexpr std::array<unsigned, 5> kBitsOfFirst{0, 0x7f, 0x1f, 0x0f, 0x07};
  std::uint32_t value = static_cast<unsigned char>(sequence[0]) & kBitsOfFirst[sequence.size()];
  for (const char c : sequence.substr(1))
    value = value << 6 | (static_cast<unsigned char>(c) & 0x3f);
  return value;
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
    const std::uint32_t character = code_point(text.substr(0, size));
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
    for (const char byte : as_text(bytes)) append_hex(sql, static_cast<unsigned char>(byte), 2);
    return sql + "', 'hex')";
  }
};

}  // namespace

std::string literal(const Parameter& value) { return std::visit(Literal{}, value.held()); }

}  // namespace outbox::postgres
