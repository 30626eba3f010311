#include "core/quote.h"

#include <algorithm>
#include <cstddef>

#include "core/utf8.h"

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

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = utf8_sequence(text);
    const std::string_view character = text.substr(0, std::max<std::size_t>(length, 1));
    if (length == 0 || find_control(character) == 0) {
      for (const char byte : character) append_escape(out, byte);
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
