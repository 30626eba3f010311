#include "base/quote.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/utf8.h"

namespace outbox {
namespace {

constexpr std::size_t kQuotedLength = 60;

void append_escape(std::string& out, char c) {
  constexpr std::string_view kHex = "0123456789abcdef";
  switch (c) {
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      const auto byte = static_cast<unsigned char>(c);
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
  }
}

// Of well-formed UTF-8.
char32_t code_point(std::string_view character) {
  constexpr std::array<unsigned, 5> kLeadBits{0, 0x7f, 0x1f, 0x0f, 0x07};
  const auto byte = [&](std::size_t n) { return static_cast<unsigned char>(character[n]); };
  char32_t c = byte(0) & kLeadBits.at(character.size());
  for (std::size_t n = 1; n < character.size(); ++n) c = (c << 6) | (byte(n) & 0x3fU);
  return c;
}

// Updates, embeddings, overrides and isolates of direction, and the separators of lines and
// paragraphs.
bool changes_layout(char32_t c) {
  return c == 0x061c || c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e) ||
         (c >= 0x2066 && c <= 0x206f);
}

}  // namespace

bool needs_escape(std::string_view character) {
  return find_control(character) == 0 || changes_layout(code_point(character));
}

std::string unicode_escape(std::string_view character) {
  constexpr std::string_view kHex = "0123456789abcdef";
  const char32_t c = code_point(character);
  std::string text = "\\u";
  for (const int shift : {12, 8, 4, 0}) text += kHex[(c >> shift) & 15];
  return text;
}

std::string printable_lines(std::string_view text) {
  std::string lines;
  while (true) {
    const auto end = text.find('\n');
    lines += printable(text.substr(0, end));
    if (end == std::string_view::npos) return lines;
    lines += '\n';
    text.remove_prefix(end + 1);
  }
}

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = utf8_sequence(text);
    const std::string_view character = text.substr(0, std::max<std::size_t>(length, 1));
    if (length == 0 || find_control(character) == 0) {
      for (const char byte : character) append_escape(out, byte);
    } else if (needs_escape(character)) {
      out += unicode_escape(character);
    } else {
      out += character;
    }
    text.remove_prefix(character.size());
  }
  return out;
}

std::string quote(std::string_view text) {
  std::size_t end = 0;
  for (std::size_t n = 0; n < kQuotedLength && end < text.size(); ++n) {
    end += std::max<std::size_t>(utf8_sequence(text.substr(end)), 1);
  }
  return '"' + printable(text.substr(0, end)) + (end < text.size() ? "…\"" : "\"");
}

}  // namespace outbox
