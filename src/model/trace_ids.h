// Random ids for traces and spans. All functions are thread-safe.
#pragma once

#include "outbox/telemetry/tracing.h"

namespace outbox {

// Never all zero; a child process does not repeat its parent's after fork().
TraceId new_trace_id();
SpanId new_span_id();

// Whether a trace is among the recorded ones; says the same of it everywhere
// that the ratio is the same.
bool sampled(const TraceId& id, double ratio) noexcept;

}  // namespace outbox
