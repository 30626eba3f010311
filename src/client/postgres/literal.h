// Values of the user's statements as SQL text.
#pragma once

#include <string>

#include "outbox/row.h"

namespace outbox::postgres {

// The value as a literal: plain ASCII, and the same whatever the session's settings are. But for
// bytes it has no type, as a parameter has none: the server infers it from where it stands. Throws
// MisuseError for a text that PostgreSQL cannot store.
std::string literal(const Parameter& value);

}  // namespace outbox::postgres
