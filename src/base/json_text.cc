#include "base/json_text.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"

namespace outbox {
namespace {

void append_escaped(std::string& out, char c) {
  constexpr std::string_view kHex = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  switch (c) {
    case '"':
    case '\\':
      out += '\\';
      out += c;
      return;
    case '\b':
      out += "\\b";
      return;
    case '\f':
      out += "\\f";
      return;
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
      if (byte >= 0x20) {
        out += c;
        return;
      }
      out += "\\u00";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
  }
}

char32_t four_digits(std::string_view text, std::size_t& pos) {
  char32_t value = 0;
  for (int i = 0; i < 4; ++i) {
    const auto c = static_cast<char32_t>(text[pos++]);
    value = value * 16 + (c <= U'9' ? c - U'0' : (c | 0x20) - U'a' + 10);
  }
  return value;
}

// Nothing if it is a lone surrogate; `pos` is behind the `u`.
std::optional<char32_t> code_point(std::string_view text, std::size_t& pos) {
  const char32_t first = four_digits(text, pos);
  if (first < 0xD800 || 0xDFFF < first) return first;
  if (first >= 0xDC00 || text.substr(pos, 2) != "\\u") return std::nullopt;
  pos += 2;
  const char32_t second = four_digits(text, pos);
  if (second < 0xDC00 || 0xDFFF < second) return std::nullopt;
  return 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
}

// Whether it is a character; `pos` is behind the backslash.
bool append_unescaped(std::string_view text, std::size_t& pos, std::string& out) {
  switch (const char c = text[pos++]; c) {
    case 'b':
      out += '\b';
      return true;
    case 'f':
      out += '\f';
      return true;
    case 'n':
      out += '\n';
      return true;
    case 'r':
      out += '\r';
      return true;
    case 't':
      out += '\t';
      return true;
    case 'u': {
      const std::optional<char32_t> character = code_point(text, pos);
      if (character) append_utf8(out, *character);
      return character.has_value();
    }
    default:  // a quote, a slash or a backslash
      out += c;
      return true;
  }
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  for (std::size_t pos = 0; pos < text.size();) {
    if (static_cast<unsigned char>(text[pos]) < 0x80) {
      append_escaped(out, text[pos++]);
      continue;
    }
    const std::size_t length = utf8_sequence(text.substr(pos));
    if (length == 0) {
      append_utf8(out, U'\uFFFD');
      ++pos;
    } else {
      out += text.substr(pos, length);
      pos += length;
    }
  }
  out += '"';
}

char JsonScanner::next() {
  pos_ = std::min(text_.find_first_not_of(" \t\r\n,:", pos_), text_.size());
  return pos_ < text_.size() ? text_[pos_] : '\0';
}

std::string_view JsonScanner::read_word() {
  const std::size_t end = std::min(text_.find_first_of(" \t\r\n,]}", pos_), text_.size());
  const std::size_t start = std::exchange(pos_, end);
  return text_.substr(start, end - start);
}

std::optional<JsonFault> JsonScanner::read_string(std::string& out) {
  for (++pos_;;) {
    const std::size_t end = text_.find_first_of("\"\\", pos_);
    out += text_.substr(pos_, end - pos_);
    pos_ = end + 1;
    if (text_[end] == '"') return std::nullopt;
    if (!append_unescaped(text_, pos_, out)) return JsonFault{end, "lone surrogate"};
  }
}

}  // namespace outbox
