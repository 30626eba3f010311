// W3C Trace Context: ids for traces and spans, and the header `tracestate`. All functions are
// thread-safe.
#pragma once

#include <string_view>

#include "outbox/telemetry/tracing.h"

namespace outbox {

// Never all zero; a child process does not repeat its parent's after fork().
TraceId new_trace_id();
SpanId new_span_id();

// Whether a trace is among the recorded ones; says the same of it everywhere
// that the ratio is the same.
bool sampled(const TraceId& id, double ratio) noexcept;

// Whether the text is a list that may be passed on: at most 32 members with a
// well-formed key and value each, no key twice. An empty one is none.
bool is_trace_state(std::string_view text);

}  // namespace outbox
