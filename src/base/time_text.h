// Times as text.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "outbox/clock.h"

namespace outbox {

// What every supported database can store.
inline constexpr Time kEarliestTime = std::chrono::sys_days{std::chrono::year{1000} / 1 / 1};
inline constexpr Time kLatestTime =
    std::chrono::sys_days{std::chrono::year{10000} / 1 / 1} - std::chrono::microseconds{1};

// "2026-03-01T12:00:00.000000Z", or the count of microseconds since 1970 if the
// time is outside the bounds above.
std::string time_text(Time time);

// RFC 3339: what time_text() makes, and what other programs do, with a fraction and an
// offset if wanted; digits beyond microseconds are dropped. None for anything else.
std::optional<Time> parse_time(std::string_view text);

}  // namespace outbox
