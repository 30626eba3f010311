// Numbers, times and columns as people read them, in color where it is wanted.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "outbox/clock.h"

namespace outbox::cli {

// 1234567 as "1,234,567".
std::string grouped(std::int64_t number);

// "850 us", "1.4 ms", "23 ms", "1.3 s".
std::string short_time(std::chrono::microseconds time);

// Spaces behind or before the text, up to the width.
std::string pad(std::string_view text, std::size_t width);
std::string pad_left(std::string_view text, std::size_t width);

// The least value that `percent` of all values do not exceed; none of none.
std::optional<std::chrono::microseconds> percentile(std::vector<std::chrono::microseconds> values,
                                                    int percent);

// "3 s", "14 min", "5 h", "12 d": how long something has lasted, in one unit.
std::string age_text(std::chrono::microseconds age);

// "2026-03-01 12:00:00", for tables; times are UTC.
std::string short_time_text(Time time);

enum class Style : std::uint8_t { plain, bold, faint, good, warning, bad };

// The text in the style, or as it is if color is not wanted.
std::string styled(std::string_view text, Style style, bool color);

// Columns that printable UTF-8 takes: two for a wide character (most of East
// Asia, emoji), none for a mark that combines with the one before it.
std::size_t display_width(std::string_view text);

// The text if it fits, or as much of its beginning as fits with "…" behind it.
std::string cut_to_width(std::string_view text, std::size_t width);

}  // namespace outbox::cli
