#include "base/quote.h"

#include <algorithm>
#include <cstddef>

#include "base/hex.h"
#include "base/utf8.h"

namespace outbox {
namespace {

constexpr std::size_t kQuotedLength = 60;

void append_escape(std::string& out, char c) {
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
      append_hex(out += "\\x", static_cast<unsigned char>(c), 2);
  }
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
  std::string text = "\\u";
  append_hex(text, code_point(character), 4);
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
