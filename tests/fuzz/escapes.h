// Any bytes as one line of text, for seeds and tables that people read.
#pragma once

#include <string>
#include <string_view>

namespace outbox::fuzz {

// Most bytes that one text stands for; what goes beyond is cut.
inline constexpr std::size_t kMaxUnescaped = 1'100'000;

// Undoes the escapes: \n \r \t \0 \\, \xHH for a byte, \u{1F600} for a code
// point, and \{1000}x for a thousand times the next character, which may be an
// escape. Anything else stands for itself.
std::string unescape(std::string_view text);

}  // namespace outbox::fuzz
