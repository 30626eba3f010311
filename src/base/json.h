// JSON: whether a text is any; written and read a token at a time. Thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace outbox {

struct JsonFault {
  std::size_t offset = 0;  // in bytes
  std::string_view what{};
};

// The first fault of the text by RFC 8259, its UTF-8 included; nullopt if it is
// one JSON value. Any depth of nesting is fine: nothing recurses. Escaped lone
// surrogates are fine too, as the grammar allows them. Thread-safe.
std::optional<JsonFault> check_json(std::string_view text);

// Appends the text in quotes, with escapes for what needs them. Takes any bytes: those that
// are not UTF-8 become U+FFFD, so who must not lose them looks first.
void append_json_string(std::string& out, std::string_view text);

// Reads a text that has passed check_json(), token by token. Commas and colons are known to be
// where they belong, so it passes over them as over blanks.
class JsonScanner {
 public:
  explicit JsonScanner(std::string_view text) : text_(text) {}

  // What the next token begins with: a bracket, a quote, a digit or minus, or the t, f or n of
  // true, false or null. '\0' at the end.
  char next();

  // Of that token, in bytes.
  std::size_t position() const { return pos_; }

  // Moves past the bracket that comes next.
  void skip_bracket() { ++pos_; }

  // Moves past the number, true, false or null that comes next.
  std::string_view read_word();

  // Appends what the string says that comes next. One fault is left: an escaped surrogate
  // without its other half, which is no character.
  std::optional<JsonFault> read_string(std::string& out);

 private:
  const std::string_view text_;
  std::size_t pos_ = 0;
};

}  // namespace outbox
