#include "base/json.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/hex.h"
#include "base/utf8.h"

namespace outbox {
namespace {

constexpr bool is_digit(char c) { return '0' <= c && c <= '9'; }
constexpr bool is_hex(char c) {
  return is_digit(c) || ('a' <= c && c <= 'f') || ('A' <= c && c <= 'F');
}

// Bytes that a string may hold as they are.
constexpr std::array<bool, 256> kPlain = [] {
  std::array<bool, 256> plain{};
  for (std::size_t c = 0x20; c < plain.size(); ++c) plain[c] = c != '"' && c != '\\';
  return plain;
}();

// The brackets that are open: a bit each, so that a payload made of nothing
// but brackets stays small, and no allocation up to a depth of 64.
class OpenBrackets {
 public:
  bool empty() const { return depth_ == 0; }
  bool in_object() const { return (newest_ & 1) != 0; }

  void push(bool object) {
    if (depth_ != 0 && depth_ % 64 == 0) older_.push_back(newest_);
    newest_ = (newest_ << 1) | (object ? 1U : 0U);
    ++depth_;
  }

  void pop() {
    --depth_;
    newest_ >>= 1;
    if (depth_ != 0 && depth_ % 64 == 0) {
      newest_ = older_.back();
      older_.pop_back();
    }
  }

 private:
  std::size_t depth_ = 0;
  std::uint64_t newest_ = 0;
  std::vector<std::uint64_t> older_{};
};

// Every function either moves past what it is named for and returns true, or
// notes the fault where it stands and returns false.
class Checker {
 public:
  explicit Checker(std::string_view text) : text_(text) {}

  std::optional<JsonFault> run() {
    if (document()) return std::nullopt;
    return JsonFault{pos_, what_};
  }

 private:
  enum class Next { value, first_item, first_key, key, after_value };

  bool document() {
    for (;;) {
      skip_space();
      switch (next_) {
        case Next::value:
          if (!value()) return false;
          break;
        case Next::first_item:
          if (!close(']')) next_ = Next::value;
          break;
        case Next::first_key:
          if (!close('}')) next_ = Next::key;
          break;
        case Next::key:
          if (!key()) return false;
          break;
        case Next::after_value:
          if (open_.empty()) return pos_ == text_.size() || fail("text after the end of the value");
          if (!separator()) return false;
          break;
      }
    }
  }

  // A value without parts, or the beginning of one that has them.
  bool value() {
    next_ = Next::after_value;
    switch (peek()) {
      case '{':
        return open(true);
      case '[':
        return open(false);
      case '"':
        return string();
      case 't':
        return literal("true");
      case 'f':
        return literal("false");
      case 'n':
        return literal("null");
      default:
        return number();
    }
  }

  bool open(bool object) {
    ++pos_;
    open_.push(object);
    next_ = object ? Next::first_key : Next::first_item;
    return true;
  }

  bool close(char bracket) {
    if (!take(bracket)) return false;
    open_.pop();
    next_ = Next::after_value;
    return true;
  }

  bool separator() {
    const bool object = open_.in_object();
    if (take(',')) {
      next_ = object ? Next::key : Next::value;
      return true;
    }
    return object ? close('}') || fail("expected ',' or '}'")
                  : close(']') || fail("expected ',' or ']'");
  }

  bool key() {
    if (peek() != '"') return fail("expected a key in quotes");
    if (!string()) return false;
    skip_space();
    next_ = Next::value;
    return take(':') || fail("expected ':'");
  }

  bool string() {
    ++pos_;
    for (;;) {
      while (pos_ < text_.size() && kPlain[static_cast<unsigned char>(text_[pos_])]) ++pos_;
      if (take('"')) return true;
      if (pos_ == text_.size()) return fail("string without an end");
      if (!take('\\')) return fail("control character in a string");
      if (!escape()) return false;
    }
  }

  bool escape() {
    constexpr std::string_view kSimple = "\"\\/bfnrt";
    if (take('u')) {
      for (int digit = 0; digit < 4; ++digit, ++pos_) {
        if (!is_hex(peek())) return fail("expected four hexadecimal digits");
      }
      return true;
    }
    if (pos_ == text_.size() || kSimple.find(text_[pos_]) == kSimple.npos) {
      return fail("unknown escape");
    }
    ++pos_;
    return true;
  }

  bool number() {
    const bool negative = take('-');
    if (!is_digit(peek())) return fail(negative ? "expected a digit" : "expected a value");
    if (take('0')) {
      if (is_digit(peek())) return fail("number with a leading zero");
    } else {
      skip_digits();
    }
    if (take('.') && !digits()) return false;
    if (take('e') || take('E')) {
      if (!take('+')) take('-');
      return digits();
    }
    return true;
  }

  bool digits() {
    if (!is_digit(peek())) return fail("expected a digit");
    skip_digits();
    return true;
  }

  bool literal(std::string_view word) {
    if (text_.substr(pos_, word.size()) != word) return fail("expected a value");
    pos_ += word.size();
    return true;
  }

  void skip_digits() {
    while (is_digit(peek())) ++pos_;
  }

  void skip_space() {
    while (pos_ < text_.size() && (text_[pos_] == ' ' || text_[pos_] == '\n' ||
                                   text_[pos_] == '\r' || text_[pos_] == '\t')) {
      ++pos_;
    }
  }

  bool take(char c) {
    if (pos_ == text_.size() || text_[pos_] != c) return false;
    ++pos_;
    return true;
  }

  // NUL at the end, which the grammar has no place for.
  char peek() const { return pos_ < text_.size() ? text_[pos_] : '\0'; }

  bool fail(std::string_view what) {
    what_ = what;
    return false;
  }

  const std::string_view text_;
  std::size_t pos_ = 0;
  Next next_ = Next::value;
  OpenBrackets open_{};
  std::string_view what_{};
};

void append_escaped(std::string& out, char c) {
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
      append_hex(out += "\\u", byte, 4);
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

std::optional<JsonFault> check_json(std::string_view text) {
  if (const std::size_t bad = valid_utf8_prefix(text); bad < text.size()) {
    return JsonFault{bad, "invalid UTF-8"};
  }
  return Checker(text).run();
}

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
