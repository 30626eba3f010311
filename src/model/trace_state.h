// The header `tracestate` of W3C Trace Context.
#pragma once

#include <string_view>

namespace outbox {

// Whether the text is a list that may be passed on: at most 32 members with a
// well-formed key and value each, no key twice. An empty one is none.
bool is_trace_state(std::string_view text);

}  // namespace outbox
