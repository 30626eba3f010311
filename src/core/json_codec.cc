#include "outbox/json_codec.h"

#include <cstddef>
#include <optional>

#include "core/json_check.h"
#include "core/quote.h"
#include "core/utf8.h"
#include "outbox/error.h"

namespace outbox {
namespace {

// --- Encoding ---

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

void append_string(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) append_escaped(out, c);
  out += '"';
}

// What is written here must be readable again, also when the headers did not
// come from an event, which has been checked.
void check_encodable(const std::string& key, const std::string& value) {
  if (!is_valid_utf8(key)) throw MisuseError("header key must be UTF-8: " + quote(key));
  if (!is_valid_utf8(value)) {
    throw MisuseError("value of header " + quote(key) + " must be UTF-8");
  }
}

// --- Decoding ---

[[noreturn]] void refuse(const std::string& what, std::size_t offset) {
  throw PermanentError("headers are not a JSON object of strings: " + what + " at byte " +
                       std::to_string(offset));
}

// Reads a text that has passed check_json(), so that only what is allowed in
// JSON but not in headers is left to be refused.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Headers read() {
    Headers headers;
    if (next() == 'n') return headers;  // null
    if (next() != '{') refuse("expected '{'", pos_);
    ++pos_;
    while (next() != '}') {
      const std::size_t start = pos_;
      std::string key = string();
      if (next() != '"') refuse("expected a string", pos_);
      const auto [place, is_new] = headers.try_emplace(std::move(key), string());
      if (!is_new) refuse("duplicate key " + quote(place->first), start);
    }
    return headers;
  }

 private:
  // The commas and colons are known to be where they belong.
  char next() {
    pos_ = text_.find_first_not_of(" \t\r\n,:", pos_);
    return text_[pos_];
  }

  std::string string() {
    std::string out;
    for (++pos_;;) {
      const std::size_t end = text_.find_first_of("\"\\", pos_);
      out += text_.substr(pos_, end - pos_);
      pos_ = end + 1;
      if (text_[end] == '"') return out;
      append_unescaped(out);
    }
  }

  void append_unescaped(std::string& out) {
    switch (const char c = text_[pos_++]; c) {
      case 'b':
        out += '\b';
        return;
      case 'f':
        out += '\f';
        return;
      case 'n':
        out += '\n';
        return;
      case 'r':
        out += '\r';
        return;
      case 't':
        out += '\t';
        return;
      case 'u':
        append_utf8(out, code_point());
        return;
      default:  // a quote, a slash or a backslash
        out += c;
    }
  }

  char32_t code_point() {
    const std::size_t start = pos_ - 2;
    const char32_t first = four_digits();
    if (first < 0xD800 || 0xDFFF < first) return first;
    if (first >= 0xDC00 || text_.substr(pos_, 2) != "\\u") refuse("lone surrogate", start);
    pos_ += 2;
    const char32_t second = four_digits();
    if (second < 0xDC00 || 0xDFFF < second) refuse("lone surrogate", start);
    return 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
  }

  char32_t four_digits() {
    char32_t value = 0;
    for (int i = 0; i < 4; ++i) {
      const auto c = static_cast<char32_t>(text_[pos_++]);
      value = value * 16 + (c <= U'9' ? c - U'0' : (c | 0x20) - U'a' + 10);
    }
    return value;
  }

  const std::string_view text_;
  std::size_t pos_ = 0;
};

class DefaultJsonCodec final : public JsonCodec {
 public:
  std::string encode(const Headers& headers) const override {
    std::string out;
    for (const auto& [key, value] : headers) {
      check_encodable(key, value);
      out += out.empty() ? '{' : ',';
      append_string(out, key);
      out += ':';
      append_string(out, value);
    }
    if (!out.empty()) out += '}';
    return out;
  }

  Headers decode(std::string_view text) const override {
    if (text.find_first_not_of(" \t\r\n") == text.npos) return {};
    if (const std::optional<JsonFault> fault = check_json(text)) {
      refuse(std::string(fault->what), fault->offset);
    }
    return Reader(text).read();
  }
};

}  // namespace

std::shared_ptr<const JsonCodec> default_json_codec() {
  static const auto codec = std::make_shared<const DefaultJsonCodec>();
  return codec;
}

}  // namespace outbox
