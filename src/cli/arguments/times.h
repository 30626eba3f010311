// Times and durations as people type them.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "outbox/clock.h"

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

// "3 s", "14 min", "5 h", "12 d": how long something has lasted, in one unit.
std::string age_text(std::chrono::microseconds age);

// "2026-03-01 12:00:00", for tables; times are UTC.
std::string short_time_text(Time time);

}  // namespace outbox::cli
