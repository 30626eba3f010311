#include "outbox/telemetry/tracing.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <iterator>
#include <utility>

#include "base/utf8.h"
#include "model/trace_context.h"
#include "outbox/error.h"

namespace outbox {
namespace {

constexpr std::string_view kTraceparent = "traceparent";
constexpr std::string_view kTracestate = "tracestate";

char lower(char c) { return 'A' <= c && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Null if it is not there. Programs that copy headers of HTTP may bring names
// in any case.
const std::string* find_header(const Headers& headers, std::string_view name) {
  if (const auto exact = headers.find(name); exact != headers.end()) return &exact->second;
  const auto same = [&](const auto& header) {
    return std::equal(header.first.begin(), header.first.end(), name.begin(), name.end(),
                      [](char a, char b) { return lower(a) == b; });
  };
  const auto found = std::find_if(headers.begin(), headers.end(), same);
  return found == headers.end() ? nullptr : &found->second;
}

std::optional<TraceContext> stored_trace(const Headers& headers) {
  const std::string* parent = find_header(headers, kTraceparent);
  if (parent == nullptr) return std::nullopt;
  const std::string* state = find_header(headers, kTracestate);
  return parse_trace(*parent, state == nullptr ? std::string_view() : *state);
}

void store_trace(Headers& headers, const TraceContext& context) {
  headers.emplace(kTraceparent, context.traceparent());
  if (!context.state.empty() && find_header(headers, kTracestate) == nullptr) {
    headers.emplace(kTracestate, context.state);
  }
}

// --- what is under way on a thread ---

// A span `create` whose event is being written.
struct Creation {
  const Tracing* owner;
  SpanId id;
  SpanId parent;
  Time start;
  Clock::Steady began;
};

// More than that many are left behind by writes that failed.
constexpr std::size_t kMaxCreations = 1024;

thread_local std::vector<Creation> creations;

// A delivery that this thread is in. There are several at once for a batch, and
// those end in the order in which they began.
struct Process {
  const Tracing* owner;
  Event event;
  Span span;
  Clock::Steady began;
};

thread_local std::deque<Process> processes;
thread_local std::optional<TraceScope> process_scope;

// One trace is current while this thread works for one event.
void update_process_scope() {
  process_scope.reset();
  if (processes.empty()) return;
  const auto same_event = [](const Process& process) {
    return process.event.id() == processes.front().event.id();
  };
  if (!std::all_of(processes.begin(), processes.end(), same_event)) return;
  process_scope.emplace(processes.back().span.context);
}

// --- spans ---

Span span_of(const Event& event, const char* operation, Span::Kind kind) {
  std::string destination = event.aggregate_type() + '/' + event.type();
  Span span{.name = std::string(operation) + ' ' + destination, .kind = kind};
  span.attributes.reserve(7);
  span.attributes.push_back({"messaging.system", "outbox"});
  span.attributes.push_back({"messaging.operation.name", operation});
  span.attributes.push_back({"messaging.operation.type", operation});
  span.attributes.push_back({"messaging.destination.name", std::move(destination)});
  span.attributes.push_back({"messaging.message.id", event.id()});
  return span;
}

void set_end(Span& span, Clock::Steady began, Clock::Steady now) {
  // By the clock that does not step, so that no span ends before it began.
  span.end = span.start + std::chrono::floor<std::chrono::microseconds>(now - began);
}

// The kinds of error.h tell few values; everything else is "another one", as
// the conventions have it.
void set_error(Span& span, const std::exception_ptr& error) {
  const char* type = "_OTHER";
  try {
    std::rethrow_exception(error);
  } catch (const MisuseError& e) {
    type = "outbox::MisuseError";
    span.error = e.what();
  } catch (const UnavailableError& e) {
    type = "outbox::UnavailableError";
    span.error = e.what();
  } catch (const RetryableError& e) {
    type = "outbox::RetryableError";
    span.error = e.what();
  } catch (const DatabaseError& e) {
    type = "outbox::DatabaseError";
    span.error = e.what();
  } catch (const PermanentError& e) {
    type = "outbox::PermanentError";
    span.error = e.what();
  } catch (const std::exception& e) {
    span.error = e.what();
  } catch (...) {
    span.error = "something that is not a std::exception";
  }
  span.failed = true;
  span.error = cut_error_text(span.error);
  span.attributes.push_back({"error.type", type});
}

}  // namespace

std::optional<TraceContext> trace_of(const Event& event) {
  for (auto process = processes.rbegin(); process != processes.rend(); ++process) {
    if (process->event.id() == event.id()) return process->span.context;
  }
  return stored_trace(event.headers());
}

Tracing::Tracing(std::shared_ptr<SpanSink> sink, TracingOptions options)
    : sink_(std::move(sink)),
      sample_ratio_(options.sample_ratio),
      clock_(options.clock == nullptr ? host_clock() : *options.clock) {
  // Written so that NaN fails too.
  if (!(sample_ratio_ >= 0 && sample_ratio_ <= 1)) {
    throw MisuseError("tracing: sample_ratio is " + std::to_string(sample_ratio_) +
                      ", from 0 to 1 is allowed");
  }
}

TraceContext Tracing::child_of(const TraceContext& parent) const {
  TraceContext child = parent;
  if (!parent.valid()) {
    child = {.trace_id = new_trace_id()};
    child.sampled = sampled(child.trace_id, sample_ratio_);
  }
  child.span_id = new_span_id();
  return child;
}

void Tracing::before_write(std::vector<Draft>& drafts) {
  const TraceContext parent = current_trace().value_or(TraceContext{});
  if (!sink_ && !parent.valid()) return;
  if (creations.size() > kMaxCreations) {
    creations.erase(creations.begin(),
                    creations.end() - static_cast<std::ptrdiff_t>(kMaxCreations));
  }
  const Time start = clock_.now();
  const Clock::Steady began = clock_.steady();
  for (Draft& draft : drafts) {
    if (find_header(draft.headers, kTraceparent) != nullptr) continue;
    if (!sink_) {
      store_trace(draft.headers, parent);
      continue;
    }
    const TraceContext context = child_of(parent);
    store_trace(draft.headers, context);
    if (context.sampled) {
      creations.push_back({this, context.span_id, parent.span_id, start, began});
    }
  }
}

void Tracing::after_write(std::span<const Written> events) {
  if (!sink_) return;
  const Clock::Steady now = clock_.steady();
  // Backwards through both: the newest are at the end, so each is found at once.
  for (auto written = events.rbegin(); written != events.rend() && !creations.empty(); ++written) {
    const Event& event = written->event;
    std::optional<TraceContext> context = stored_trace(event.headers());
    if (!context) continue;
    const auto ours = [&](const Creation& creation) {
      return creation.owner == this && creation.id == context->span_id;
    };
    const auto found = std::find_if(creations.rbegin(), creations.rend(), ours);
    if (found == creations.rend()) continue;
    Span span = span_of(event, "create", Span::Kind::producer);
    span.context = *std::move(context);
    span.parent = found->parent;
    span.start = found->start;
    set_end(span, found->began, now);
    creations.erase(std::next(found).base());
    sink_->record(std::move(span));
  }
}

void Tracing::before(const Event& event) { enter(event, std::nullopt); }

void Tracing::before_delivery(const Event& event, const Delivery& delivery) {
  enter(event, delivery.attempt);
}

void Tracing::enter(const Event& event, std::optional<int> attempt) {
  const TraceContext parent = stored_trace(event.headers()).value_or(TraceContext{});
  const Clock::Steady began = clock_.steady();
  Process process{.owner = this, .event = event, .span = {}, .began = began};
  process.span.context = sink_ ? child_of(parent) : parent;
  if (sink_ && process.span.context.sampled) {
    TraceContext context = std::move(process.span.context);
    process.span = span_of(event, "process", Span::Kind::consumer);
    process.span.context = std::move(context);
    process.span.parent = parent.span_id;
    process.span.start = clock_.now();
    if (attempt) {
      process.span.attributes.push_back(
          {"messaging.outbox.message.delivery_attempt", std::int64_t{*attempt}});
    }
  }
  processes.push_back(std::move(process));
  update_process_scope();
}

void Tracing::after(const Event& event, const std::exception_ptr& error) {
  const auto ours = [&](const Process& process) {
    return process.owner == this && process.event.id() == event.id();
  };
  // The last one, or the first of a batch; in between only if somebody else
  // calls us than the engine.
  auto found = processes.begin();
  if (!processes.empty() && ours(processes.back())) {
    found = std::prev(processes.end());
  } else {
    found = std::find_if(processes.begin(), processes.end(), ours);
  }
  if (found == processes.end()) return;
  Process process = std::move(*found);
  processes.erase(found);
  update_process_scope();
  if (!sink_ || !process.span.context.sampled) return;
  set_end(process.span, process.began, clock_.steady());
  if (error) set_error(process.span, error);
  sink_->record(std::move(process.span));
}

}  // namespace outbox
