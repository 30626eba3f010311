#include "cli/arguments/values.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <fstream>

#include "base/quote.h"
#include "base/time_text.h"
#include "cli/errors.h"

namespace outbox::cli {
namespace {

using std::chrono::microseconds;

constexpr std::int64_t kSecond = 1'000'000;
constexpr std::int64_t kHour = 3'600;  // in seconds
constexpr std::int64_t kDay = 86'400;
constexpr std::int64_t kLongest = std::int64_t{1'000} * 366 * kDay * kSecond;

struct Unit {
  std::string_view name;
  std::int64_t micros;
};
constexpr std::array kUnits{Unit{"ms", 1'000},        Unit{"s", kSecond},
                            Unit{"m", 60 * kSecond},  Unit{"h", kHour* kSecond},
                            Unit{"d", kDay* kSecond}, Unit{"w", 7 * kDay* kSecond}};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Cuts the letters off the text.
std::string_view take_letters(std::string_view& text) {
  std::size_t end = 0;
  while (end < text.size() && !is_digit(text[end])) ++end;
  const std::string_view letters = text.substr(0, end);
  text.remove_prefix(end);
  return letters;
}

std::string read_all(std::istream& in, const std::string& name) {
  // One byte more than allowed tells that there is more.
  std::string data(kMaxPayloadBytes + 1, '\0');
  in.read(data.data(), static_cast<std::streamsize>(data.size()));
  data.resize(static_cast<std::size_t>(in.gcount()));
  if (in.bad()) throw UsageError("--payload: cannot read " + name);
  if (data.size() > kMaxPayloadBytes) {
    throw UsageError("--payload: " + name + " holds more than " + std::to_string(kMaxPayloadBytes) +
                     " bytes, the most that an event may carry");
  }
  return data;
}

}  // namespace

std::optional<microseconds> parse_duration(std::string_view text) {
  if (text.empty()) return std::nullopt;
  std::int64_t total = 0;
  while (!text.empty()) {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || !is_digit(text.front())) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    const std::string_view name = take_letters(text);
    std::int64_t unit = 0;
    for (const Unit& known : kUnits) {
      if (known.name == name) unit = known.micros;
    }
    if (unit == 0 || number > (kLongest - total) / unit) return std::nullopt;
    total += number * unit;
  }
  return microseconds{total};
}

std::optional<Time> parse_time(std::string_view text) {
  constexpr std::size_t kDayLength = 10;
  if (text.size() == kDayLength) return outbox::parse_time(std::string(text) + "T00:00:00Z");
  return outbox::parse_time(text);
}

microseconds duration_argument(std::string_view option, std::string_view text) {
  if (const auto duration = parse_duration(text)) return *duration;
  throw UsageError(std::string(option) + ": " + quote(text) +
                   " is no duration; write 90s, 15m, 2h, 7d or 1h30m");
}

Time time_argument(std::string_view option, std::string_view text) {
  if (const auto time = parse_time(text)) return *time;
  throw UsageError(std::string(option) + ": " + quote(text) +
                   " is no time; write 2026-03-01T12:00:00Z or 2026-03-01");
}

Time past_time(std::string_view option, std::string_view text, Time now) {
  if (const auto duration = parse_duration(text)) {
    if (*duration < now - kEarliestTime) return now - *duration;
  }
  if (const auto time = parse_time(text)) return *time;
  throw UsageError(std::string(option) + ": " + quote(text) +
                   " is neither a time nor a duration; write 2026-03-01T12:00:00Z, 2026-03-01, or "
                   "2h for two hours ago");
}

std::string read_payload(const std::string& argument, std::istream& in) {
  if (argument == "-") return read_all(in, "standard input");
  if (!argument.starts_with("@")) return argument;
  const std::string path = argument.substr(1);
  std::ifstream file(path, std::ios::binary);
  // Opening a folder succeeds; reading it does not.
  if (!file || file.peek() == std::ifstream::traits_type::eof()) {
    if (!file.is_open() || file.bad()) {
      throw UsageError("--payload: cannot read " + quote(path) + ": " + std::strerror(errno));
    }
    file.clear();
  }
  return read_all(file, quote(path));
}

Headers parse_headers(const std::vector<std::string>& arguments) {
  Headers headers;
  for (const std::string& argument : arguments) {
    const auto equals = argument.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw UsageError("--header: write KEY=VALUE, with a key" +
                       (equals == 0 ? std::string() : "; there is no = in " + quote(argument)));
    }
    const std::string key = argument.substr(0, equals);
    if (!headers.emplace(key, argument.substr(equals + 1)).second) {
      throw UsageError("--header: the key " + quote(key) + " comes twice");
    }
  }
  return headers;
}

}  // namespace outbox::cli
