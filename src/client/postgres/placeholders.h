// Statements with `?`, as other databases have them, for a server that knows $1, $2, ...
#pragma once

#include <string>
#include <string_view>

namespace outbox::postgres {

// The statement with $1, $2, ... in the place of each `?` that is a placeholder. Not those in
// quotes, identifiers, dollar quotes and comments, nor the operators `?|`, `?&` and `@?`; `??` is
// an operator's `?`. One that has a $1 of its own is left as it is, with all its `?`.
//
// `backslashes`: in every quote a backslash escapes what follows (standard_conforming_strings is
// off), not in E'...' alone.
std::string numbered(std::string_view sql, bool backslashes);

}  // namespace outbox::postgres
