// Statements whose values are written into them.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "outbox/row.h"

namespace outbox::mysql {

// The value as a literal in plain ASCII, the same whatever the session's settings are.
std::string literal(const Parameter& value);

// The statement with a literal in the place of each `?` that is a placeholder: not of those in
// quotes and comments. Throws MisuseError unless there are as many.
//
// `backslashes`: in quotes a backslash escapes what follows (the SQL mode has no
// NO_BACKSLASH_ESCAPES).
std::string filled_in(std::string_view sql, bool backslashes,
                      std::span<const std::string> literals);

}  // namespace outbox::mysql
