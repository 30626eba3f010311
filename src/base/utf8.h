// UTF-8 as the databases want it: shortest form, no surrogates, at most
// U+10FFFF. All functions are thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace outbox {

// The length of the well-formed sequence that `text` begins with, 1 to 4; 0 if
// it begins with none.
std::size_t utf8_sequence(std::string_view text) noexcept;

// The offset of the first byte that is not UTF-8; the size if all is well.
std::size_t valid_utf8_prefix(std::string_view text) noexcept;

inline bool is_valid_utf8(std::string_view text) noexcept {
  return valid_utf8_prefix(text) == text.size();
}

// Of valid UTF-8.
std::size_t count_code_points(std::string_view text) noexcept;

// Of one character of valid UTF-8.
char32_t code_point(std::string_view character) noexcept;

// The offset of the first control character (C0, DEL or C1) of valid UTF-8; the
// size if there is none.
std::size_t find_control(std::string_view text) noexcept;

// Appends one code point, which is no surrogate.
void append_utf8(std::string& out, char32_t code_point);

inline constexpr std::size_t kMaxErrorTextLength = 4'000;

// An error as it may be stored: the first 4,000 code points, with U+FFFD for
// every NUL and for every byte that is not UTF-8. Takes any bytes.
std::string cut_error_text(std::string_view text);

// Throws MisuseError that names the field and the value unless the value is
// UTF-8 without NUL of at most `max_length` code points.
void check_text(std::string_view field, std::string_view value, std::size_t max_length);

// The same, and not empty.
void check_name(std::string_view field, std::string_view value, std::size_t max_length);

}  // namespace outbox
