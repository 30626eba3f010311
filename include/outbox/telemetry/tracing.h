// Traces that go through the outbox: from the code that wrote an event to the
// listener that received it, in another thread, process or week.
//
//   auto tracing = std::make_shared<outbox::Tracing>(sink);  // e.g. of otlp.h
//   outbox::Outbox box{db, on, {.interceptors = {tracing}, .hooks = {tracing}}};
//
// Events carry their trace in the headers `traceparent` and `tracestate` of the
// W3C Trace Context recommendation, level 1.
#pragma once

#include <array>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "outbox/clock.h"
#include "outbox/event.h"
#include "outbox/export.h"
#include "outbox/listener.h"
#include "outbox/writer.h"

namespace outbox {

using TraceId = std::array<std::uint8_t, 16>;
using SpanId = std::array<std::uint8_t, 8>;

// Lower-case hexadecimal digits.
OUTBOX_EXPORT std::string to_string(const TraceId& id);
OUTBOX_EXPORT std::string to_string(const SpanId& id);

// A place in a trace. All zero, the default: in no trace.
struct OUTBOX_EXPORT TraceContext {
  TraceId trace_id{};
  SpanId span_id{};
  bool sampled = false;
  std::string state{};  // the value of `tracestate`; empty: none

  // Whether both ids are set.
  bool valid() const noexcept { return trace_id != TraceId{} && span_id != SpanId{}; }

  // The value of the header `traceparent`.
  std::string traceparent() const;

  friend bool operator==(const TraceContext&, const TraceContext&) = default;
};

// Parses the two headers, strictly. Returns nullopt if `traceparent` is not valid; in a
// later version, the fields of level 1 are read. An invalid `tracestate` is dropped
// without affecting the rest.
OUTBOX_EXPORT std::optional<TraceContext> parse_trace(std::string_view traceparent,
                                                      std::string_view tracestate = {});

// The trace that the calling thread works for; nullopt if there is none.
OUTBOX_EXPORT std::optional<TraceContext> current_trace();

// Makes a context the current one of this thread until the end of the scope,
// which restores the previous one. Use it where your program takes part in a trace
// of its own, so that the events it writes continue that trace:
//
//   outbox::TraceScope scope{outbox::parse_trace(request.header("traceparent"))};
//
// Scopes of a thread end in reverse order. One object belongs to one thread.
class OUTBOX_EXPORT TraceScope {
 public:
  // With nullopt, or an invalid context, no trace is current.
  explicit TraceScope(std::optional<TraceContext> context);
  ~TraceScope();
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 private:
  std::optional<TraceContext> outer_;
};

// The trace of an event: while this thread delivers it, the span of that
// delivery; otherwise the trace in its headers.
OUTBOX_EXPORT std::optional<TraceContext> trace_of(const Event& event);

// A finished piece of work, named and described by OpenTelemetry's messaging
// conventions.
struct Span {
  enum class Kind : std::uint8_t { producer, consumer };

  struct Attribute {
    std::string_view key;  // a literal
    std::variant<std::string, std::int64_t> value;
  };

  std::string name{};
  Kind kind = Kind::producer;
  TraceContext context{};
  SpanId parent{};  // all zero: the first of its trace
  Time start{};
  Time end{};
  std::vector<Attribute> attributes{};
  bool failed = false;
  std::string error{};  // why it failed
};

// Where spans go.
class OUTBOX_EXPORT SpanSink {
 public:
  virtual ~SpanSink() = default;

  // Called on the threads that write and deliver: must be thread-safe and
  // quick, and must not throw.
  virtual void record(Span span) noexcept = 0;
};

struct TracingOptions {
  // The share of traces beginning here that are recorded, 0 to 1. A trace that
  // began elsewhere brings its sampling decision along.
  double sample_ratio = 1.0;

  const Clock* clock = nullptr;  // null: host_clock()
};

// Give it to an outbox twice, as a hook and as an interceptor.
//
// As a hook: every event written becomes a span `create`, a child of the current
// context or the first of a new trace, and that span goes into the event's
// headers. An event whose trace headers the user has set is left alone.
//
// As an interceptor: every delivery becomes a span `process`, a child of the span in
// the headers, and is the current context while the listener runs, so that events
// written by the listener continue the trace. Register it first: it then wraps all
// others, and their errors are in its span. A batch listener that gets several events
// at once has no current context, because it works for several traces; it calls
// trace_of(event).
//
// Without a sink nothing is recorded, and contexts are passed on as they are.
//
// Thread-safe; may be shared by several outboxes.
class OUTBOX_EXPORT Tracing final : public WriterHook, public Interceptor {
 public:
  // Throws MisuseError if the ratio is invalid.
  explicit Tracing(std::shared_ptr<SpanSink> sink, TracingOptions options = {});

  void before_write(std::vector<Draft>& drafts) override;
  void after_write(std::span<const Written> events) override;

  void before(const Event& event) override;
  void before_delivery(const Event& event, const Delivery& delivery) override;
  void after(const Event& event, const std::exception_ptr& error) override;

 private:
  TraceContext child_of(const TraceContext& parent) const;
  void enter(const Event& event, std::optional<int> attempt);

  // Constant after construction.
  const std::shared_ptr<SpanSink> sink_;
  const double sample_ratio_;
  const Clock& clock_;
};

}  // namespace outbox
