// Foreign text in messages.
#pragma once

#include <string>
#include <string_view>

namespace outbox {

// The text on one line: control characters and bytes that are not UTF-8 become
// escapes such as \n and \x1b, so that they cannot forge a line of a log.
std::string printable(std::string_view text);

// The same in quotes, cut to 60 characters: "like this…".
std::string quote(std::string_view text);

}  // namespace outbox
