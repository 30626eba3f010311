// Times, durations, payloads and headers as people type them.
#pragma once

#include <chrono>
#include <istream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "outbox/clock.h"
#include "outbox/event.h"

namespace outbox::cli {

// "250ms", "90s", "15m", "2h", "7d", "1w", or several: "1h30m". Not negative.
// None if it is no duration, or longer than 1,000 years.
std::optional<std::chrono::microseconds> parse_duration(std::string_view text);

// RFC 3339, "2026-03-01T12:00:00Z", with a fraction and an offset if wanted; a
// day, "2026-03-01", which begins at midnight UTC. None for anything else.
std::optional<Time> parse_time(std::string_view text);

// A time, or a duration before `now`. Throws UsageError that names the option.
Time past_time(std::string_view option, std::string_view text, Time now);

// Throw UsageError that names the option and says what would be understood.
std::chrono::microseconds duration_argument(std::string_view option, std::string_view text);
Time time_argument(std::string_view option, std::string_view text);

// --- The contents of an event ---

// The text itself, the contents of the file in "@file", or all of `in` for "-".
// Throws UsageError if the file cannot be read, or if there is more than an
// event may hold, of which no more is read.
std::string read_payload(const std::string& argument, std::istream& in);

// "key=value" each; a value may contain "=". Throws UsageError for one without,
// and for a key that comes twice; the values are never part of the message.
Headers parse_headers(const std::vector<std::string>& arguments);

}  // namespace outbox::cli
