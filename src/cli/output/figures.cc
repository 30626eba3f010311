#include "cli/output/figures.h"

#include <algorithm>
#include <cstdio>

namespace outbox::cli {
namespace {

std::string with_unit(double value, const char* unit) {
  char text[32];
  std::snprintf(text, sizeof text, value < 9.95 ? "%.1f %s" : "%.0f %s", value, unit);
  return text;
}

}  // namespace

std::string grouped(std::int64_t number) {
  std::string text = std::to_string(number);
  const std::size_t first = number < 0 ? 1 : 0;
  for (std::size_t at = text.size(); at > first + 3;) {
    at -= 3;
    text.insert(at, 1, ',');
  }
  return text;
}

std::string short_time(std::chrono::microseconds time) {
  const auto us = static_cast<double>(time.count());
  if (us < 1'000) return std::to_string(time.count()) + " us";
  if (us < 999'500) return with_unit(us / 1'000, "ms");
  return with_unit(us / 1'000'000, "s");
}

std::string pad(std::string_view text, std::size_t width) {
  std::string result(text);
  if (result.size() < width) result.append(width - result.size(), ' ');
  return result;
}

std::string pad_left(std::string_view text, std::size_t width) {
  std::string result(text);
  if (result.size() < width) result.insert(0, width - result.size(), ' ');
  return result;
}

std::optional<std::chrono::microseconds> percentile(std::vector<std::chrono::microseconds> values,
                                                    int percent) {
  if (values.empty()) return std::nullopt;
  const std::size_t rank = (values.size() * static_cast<std::size_t>(percent) + 99) / 100;
  const auto nth = values.begin() + static_cast<std::ptrdiff_t>(std::max<std::size_t>(rank, 1) - 1);
  std::nth_element(values.begin(), nth, values.end());
  return *nth;
}

}  // namespace outbox::cli
