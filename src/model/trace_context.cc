#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/thread.h"
#include "model/trace_state.h"
#include "outbox/telemetry/tracing.h"

namespace outbox {
namespace {

constexpr std::size_t kTraceparentLength = 55;  // 00-<32>-<16>-<2>

struct Current {
  std::optional<TraceContext> context{};
};

// Lower case only, as the recommendation has it; -1 for anything else.
int digit(char c) {
  if ('0' <= c && c <= '9') return c - '0';
  if ('a' <= c && c <= 'f') return c - 'a' + 10;
  return -1;
}

template <std::size_t size>
bool read_hex(std::string_view text, std::array<std::uint8_t, size>& out) {
  for (std::size_t i = 0; i < size; ++i) {
    const int high = digit(text[2 * i]);
    const int low = digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    out[i] = static_cast<std::uint8_t>(high * 16 + low);
  }
  return true;
}

template <std::size_t size>
void append_hex(std::string& out, const std::array<std::uint8_t, size>& bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  for (const std::uint8_t byte : bytes) {
    out += kDigits[byte >> 4U];
    out += kDigits[byte & 15U];
  }
}

template <class Id>
std::string hex(const Id& id) {
  std::string text;
  text.reserve(2 * id.size());
  append_hex(text, id);
  return text;
}

}  // namespace

std::string to_string(const TraceId& id) { return hex(id); }
std::string to_string(const SpanId& id) { return hex(id); }

std::string TraceContext::traceparent() const {
  std::string text;
  text.reserve(kTraceparentLength);
  text += "00-";
  append_hex(text, trace_id);
  text += '-';
  append_hex(text, span_id);
  text += sampled ? "-01" : "-00";
  return text;
}

std::optional<TraceContext> parse_trace(std::string_view traceparent, std::string_view tracestate) {
  if (traceparent.size() < kTraceparentLength) return std::nullopt;
  const auto dash_at = [&](std::size_t i) { return traceparent[i] == '-'; };
  if (!dash_at(2) || !dash_at(35) || !dash_at(52)) return std::nullopt;

  std::array<std::uint8_t, 1> version{};
  std::array<std::uint8_t, 1> flags{};
  TraceContext context;
  if (!read_hex(traceparent.substr(0, 2), version) ||
      !read_hex(traceparent.substr(3, 32), context.trace_id) ||
      !read_hex(traceparent.substr(36, 16), context.span_id) ||
      !read_hex(traceparent.substr(53, 2), flags)) {
    return std::nullopt;
  }
  // Later versions may only append, after a dash; ff is forbidden for ever.
  const bool longer = traceparent.size() > kTraceparentLength;
  if (version[0] == 0xff || (version[0] == 0 && longer)) return std::nullopt;
  if (longer && !dash_at(kTraceparentLength)) return std::nullopt;
  if (!context.valid()) return std::nullopt;

  context.sampled = (flags[0] & 1U) != 0;
  if (is_trace_state(tracestate)) context.state = tracestate;
  return context;
}

std::optional<TraceContext> current_trace() { return per_thread<Current>().context; }

TraceScope::TraceScope(std::optional<TraceContext> context)
    : outer_(std::move(per_thread<Current>().context)) {
  per_thread<Current>().context = context && context->valid() ? std::move(context) : std::nullopt;
}

TraceScope::~TraceScope() { per_thread<Current>().context = std::move(outer_); }

}  // namespace outbox
