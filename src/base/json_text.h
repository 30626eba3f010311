// The strings of JSON, written and read. Thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/json_check.h"

namespace outbox {

// Appends the text in quotes, with escapes for what needs them. Takes any bytes: those that
// are not UTF-8 become U+FFFD, so who must not lose them looks first.
void append_json_string(std::string& out, std::string_view text);

// Appends what the string says that begins at `pos`, and moves `pos` past it. The text
// has passed check_json(), so that one fault is left: an escaped surrogate without its
// other half, which is no character.
std::optional<JsonFault> read_json_string(std::string_view text, std::size_t& pos,
                                          std::string& out);

}  // namespace outbox
