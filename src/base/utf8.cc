#include "base/utf8.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>

#include "base/quote.h"
#include "outbox/error.h"

namespace outbox {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

constexpr bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) >> 6) == 2; }

// Nearly all text is ASCII, so it is skipped a word at a time.
std::size_t ascii_prefix(std::string_view text) noexcept {
  constexpr std::uint64_t kHighBits = 0x8080'8080'8080'8080;
  std::size_t pos = 0;
  for (std::uint64_t word = 0; pos + sizeof word <= text.size(); pos += sizeof word) {
    std::memcpy(&word, text.data() + pos, sizeof word);
    if ((word & kHighBits) != 0) break;
  }
  while (pos < text.size() && static_cast<unsigned char>(text[pos]) < 0x80) ++pos;
  return pos;
}

[[noreturn]] void refuse(std::string_view field, const std::string& fault, std::string_view value) {
  throw MisuseError(std::string(field) + ' ' + fault + ": " + quote(value));
}

}  // namespace

std::size_t utf8_sequence(std::string_view text) noexcept {
  // Past the end a NUL is read, which continues nothing.
  const auto byte = [text](std::size_t i) -> unsigned {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const auto between = [&](std::size_t i, unsigned low, unsigned high) {
    return low <= byte(i) && byte(i) <= high;
  };
  const auto continues = [&](std::size_t i) { return between(i, 0x80, 0xBF); };

  // The bounds of the second byte shut out overlong forms (E0, F0), surrogates
  // (ED) and what lies beyond U+10FFFF (F4).
  if (text.empty()) return 0;
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead < 0xC2) return 0;
  if (lead < 0xE0) return continues(1) ? 2 : 0;
  if (lead < 0xF0) {
    const bool second = between(1, lead == 0xE0 ? 0xA0 : 0x80, lead == 0xED ? 0x9F : 0xBF);
    return second && continues(2) ? 3 : 0;
  }
  if (lead < 0xF5) {
    const bool second = between(1, lead == 0xF0 ? 0x90 : 0x80, lead == 0xF4 ? 0x8F : 0xBF);
    return second && continues(2) && continues(3) ? 4 : 0;
  }
  return 0;
}

std::size_t valid_utf8_prefix(std::string_view text) noexcept {
  std::size_t pos = 0;
  while ((pos += ascii_prefix(text.substr(pos))) < text.size()) {
    const std::size_t length = utf8_sequence(text.substr(pos));
    if (length == 0) break;
    pos += length;
  }
  return pos;
}

std::size_t count_code_points(std::string_view text) noexcept {
  return text.size() -
         static_cast<std::size_t>(std::count_if(text.begin(), text.end(), is_continuation));
}

char32_t code_point(std::string_view character) noexcept {
  constexpr std::array<unsigned, 5> kLeadBits{0, 0x7f, 0x1f, 0x0f, 0x07};
  const auto byte = [&](std::size_t n) { return static_cast<unsigned char>(character[n]); };
  char32_t c = byte(0) & kLeadBits[character.size()];
  for (std::size_t n = 1; n < character.size(); ++n) c = (c << 6) | (byte(n) & 0x3fU);
  return c;
}

std::size_t find_control(std::string_view text) noexcept {
  for (std::size_t pos = 0; pos < text.size(); ++pos) {
    const auto byte = static_cast<unsigned char>(text[pos]);
    if (byte < 0x20 || byte == 0x7F) return pos;
    const bool c1 =
        byte == 0xC2 && pos + 1 < text.size() && static_cast<unsigned char>(text[pos + 1]) < 0xA0;
    if (c1) return pos;
  }
  return text.size();
}

void append_utf8(std::string& out, char32_t code_point) {
  const auto append = [&out](char32_t byte) { out += static_cast<char>(byte); };
  const auto continuation = [&](unsigned shift) { append(0x80 | ((code_point >> shift) & 0x3F)); };
  if (code_point < 0x80) {
    append(code_point);
  } else if (code_point < 0x800) {
    append(0xC0 | (code_point >> 6));
    continuation(0);
  } else if (code_point < 0x10000) {
    append(0xE0 | (code_point >> 12));
    continuation(6);
    continuation(0);
  } else {
    append(0xF0 | (code_point >> 18));
    continuation(12);
    continuation(6);
    continuation(0);
  }
}

std::string cut_error_text(std::string_view text) {
  const std::string_view head = text.substr(0, kMaxErrorTextLength);
  if (ascii_prefix(head) == head.size() && head.find('\0') == head.npos) return std::string(head);

  std::string out;
  out.reserve(head.size());
  std::size_t pos = 0;
  for (std::size_t n = 0; n < kMaxErrorTextLength && pos < text.size(); ++n) {
    const std::size_t length = utf8_sequence(text.substr(pos));
    if (length == 0 || text[pos] == '\0') {
      out += kReplacement;
      ++pos;
    } else {
      out += text.substr(pos, length);
      pos += length;
    }
  }
  return out;
}

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
