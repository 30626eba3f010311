// Foreign text in messages.
#pragma once

#include <string>
#include <string_view>

namespace outbox {

// The text on one line: control characters, bytes that are not UTF-8, and characters that
// turn the direction of others or end lines become escapes such as \n, \x1b and \u202e, so
// that they can neither forge a line of a log, nor command a terminal, nor look like
// something else.
std::string printable(std::string_view text);

// The same, but lines stay lines.
std::string printable_lines(std::string_view text);

// Whether the character, one of UTF-8, has to become an escape.
bool needs_escape(std::string_view character);

// Of a character of UTF-8 with at most four hexadecimal digits: \u202e.
std::string unicode_escape(std::string_view character);

// The same in quotes, cut to 60 characters: "like this…".
std::string quote(std::string_view text);

}  // namespace outbox
