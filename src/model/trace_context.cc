#include "model/trace_context.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <new>
#include <random>
#include <utility>

#include "base/hex.h"
#include "base/thread.h"
#include "base/ulid.h"
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

template <class Id>
std::string hex(const Id& id) {
  std::string text;
  text.reserve(2 * id.size());
  append_hex(text, id);
  return text;
}

// How many forks lie between this process and the first one that made an id. A
// handler counts them, because asking for the process id is a system call.
std::atomic<unsigned> forks{0};

void count_forks() {
  static const int registered = pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1); });
  if (registered != 0) throw std::bad_alloc();
}

// One per thread, so that nobody waits for anybody.
struct Generator {
  unsigned seeded_at;
  std::mt19937_64 random;
};

std::uint64_t random_word() {
  thread_local Generator generator = [] {
    count_forks();
    return Generator{forks.load(), seeded_generator()};
  }();
  if (generator.seeded_at != forks.load(std::memory_order_relaxed)) {
    generator = {forks.load(), seeded_generator()};
  }
  return generator.random();
}

template <std::size_t size>
std::array<std::uint8_t, size> random_id() {
  static_assert(size % sizeof(std::uint64_t) == 0);
  std::array<std::uint8_t, size> id{};
  while (id == std::array<std::uint8_t, size>{}) {
    for (std::size_t i = 0; i < size; i += sizeof(std::uint64_t)) {
      const std::uint64_t word = random_word();
      std::memcpy(id.data() + i, &word, sizeof word);
    }
  }
  return id;
}

constexpr std::size_t kMaxMembers = 32;
constexpr std::size_t kMaxLength = 256;  // of a key, of a value
constexpr std::size_t kMaxTenant = 241;
constexpr std::size_t kMaxSystem = 14;

bool is_lower(char c) { return 'a' <= c && c <= 'z'; }
bool is_digit(char c) { return '0' <= c && c <= '9'; }

bool is_key_char(char c) {
  return is_lower(c) || is_digit(c) || c == '_' || c == '-' || c == '*' || c == '/';
}

bool is_value_char(char c) { return ' ' <= c && c <= '~' && c != ',' && c != '='; }

bool is_name(std::string_view text, std::size_t max, bool digit_first) {
  return !text.empty() && text.size() <= max &&
         (is_lower(text.front()) || (digit_first && is_digit(text.front()))) &&
         std::all_of(text.begin(), text.end(), is_key_char);
}

bool is_key(std::string_view key) {
  const std::size_t at = key.find('@');
  if (at == key.npos) return is_name(key, kMaxLength, false);
  return is_name(key.substr(0, at), kMaxTenant, true) &&
         is_name(key.substr(at + 1), kMaxSystem, false);
}

bool is_value(std::string_view value) {
  return !value.empty() && value.size() <= kMaxLength && value.back() != ' ' &&
         std::all_of(value.begin(), value.end(), is_value_char);
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
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

TraceId new_trace_id() { return random_id<16>(); }

SpanId new_span_id() { return random_id<8>(); }

bool sampled(const TraceId& id, double ratio) noexcept {
  // The last 56 bits: those that the recommendation wants to be random.
  std::uint64_t tail = 0;
  for (std::size_t i = 9; i < id.size(); ++i) tail = tail << 8U | id[i];
  constexpr double kTails = 72'057'594'037'927'936.0;  // 2^56
  return static_cast<double>(tail) < ratio * kTails;
}

bool is_trace_state(std::string_view text) {
  std::array<std::string_view, kMaxMembers> keys;
  std::size_t members = 0;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::string_view member = trimmed(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
    if (member.empty()) continue;  // allowed, and counted by nobody

    const std::size_t equals = member.find('=');
    if (equals == member.npos || members == kMaxMembers) return false;
    const std::string_view key = member.substr(0, equals);
    if (!is_key(key) || !is_value(member.substr(equals + 1))) return false;
    const auto end = keys.begin() + static_cast<std::ptrdiff_t>(members);
    if (std::find(keys.begin(), end, key) != end) return false;
    keys[members++] = key;
  }
  return members > 0;
}

}  // namespace outbox
