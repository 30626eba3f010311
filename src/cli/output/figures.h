// Numbers and columns as people read them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

}  // namespace outbox::cli
