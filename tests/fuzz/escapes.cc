#include "escapes.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>

#include "base/utf8.h"

namespace outbox::fuzz {
namespace {

class Unescaper {
 public:
  explicit Unescaper(std::string_view text) : rest_(text) {}

  std::string run() {
    std::string out;
    while (!rest_.empty() && out.size() < kMaxUnescaped) {
      const std::size_t times = repetitions();
      const std::string unit = next();
      const std::size_t room = (kMaxUnescaped - out.size()) / std::max<std::size_t>(unit.size(), 1);
      for (std::size_t n = std::min(times, room); n > 0; --n) out += unit;
    }
    return out;
  }

 private:
  std::size_t repetitions() {
    std::string_view ahead = rest_;
    if (!ahead.starts_with("\\{")) return 1;
    ahead.remove_prefix(2);
    const auto times = number(ahead, 10);
    if (!times || !ahead.starts_with("}")) return 1;
    rest_ = ahead.substr(1);
    return *times;
  }

  std::string next() {
    if (rest_.empty()) return {};
    const char first = take();
    if (first != '\\' || rest_.empty()) return {first};
    const char second = take();
    switch (second) {
      case 'n':
        return "\n";
      case 'r':
        return "\r";
      case 't':
        return "\t";
      case '0':
        return {'\0'};
      case '\\':
        return "\\";
      case 'x':
        if (const auto byte = hex_byte()) return {*byte};
        break;
      case 'u':
        if (const auto character = code_point()) return *character;
        break;
      default:
        break;
    }
    return {first, second};
  }

  std::optional<char> hex_byte() {
    std::string_view digits = rest_.substr(0, 2);
    const std::size_t length = digits.size();
    const auto value = number(digits, 16);
    if (!value || length != 2 || !digits.empty()) return std::nullopt;
    rest_.remove_prefix(2);
    return static_cast<char>(*value);
  }

  std::optional<std::string> code_point() {
    std::string_view ahead = rest_;
    if (!ahead.starts_with("{")) return std::nullopt;
    ahead.remove_prefix(1);
    const auto value = number(ahead, 16);
    const bool exists = value && *value <= 0x10FFFF && (*value < 0xD800 || 0xDFFF < *value);
    if (!exists || !ahead.starts_with("}")) return std::nullopt;
    rest_ = ahead.substr(1);
    std::string out;
    append_utf8(out, static_cast<char32_t>(*value));
    return out;
  }

  // Cuts a number off the text.
  static std::optional<std::size_t> number(std::string_view& text, int base) {
    std::uint32_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    if (error != std::errc{}) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return value;
  }

  char take() {
    const char c = rest_.front();
    rest_.remove_prefix(1);
    return c;
  }

  std::string_view rest_;
};

}  // namespace

std::string unescape(std::string_view text) { return Unescaper(text).run(); }

}  // namespace outbox::fuzz
