#include "cli/arguments/times.h"

#include <array>
#include <charconv>
#include <cstdint>

#include "cli/errors.h"
#include "core/quote.h"
#include "core/time_text.h"

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

// Reads "2026-03-01T12:00:00.5+02:00" from left to right.
class TimeReader {
 public:
  explicit TimeReader(std::string_view text) : text_(text) {}

  std::optional<Time> read() {
    using namespace std::chrono;
    const int y = number(4);
    expect("-");
    const int mo = number(2);
    expect("-");
    const int d = number(2);
    const year_month_day date{year{y}, month{static_cast<unsigned>(mo)},
                              day{static_cast<unsigned>(d)}};
    if (!good_ || !date.ok()) return std::nullopt;
    Time time = sys_days{date};
    if (text_.empty()) return in_bounds(time);
    expect("Tt ");
    const int h = number(2);
    expect(":");
    const int mi = number(2);
    expect(":");
    const int s = number(2);
    time += hours{h} + minutes{mi} + seconds{s} + fraction();
    time -= offset();
    if (!good_ || !text_.empty() || h > 23 || mi > 59 || s > 60) return std::nullopt;
    return in_bounds(time);
  }

 private:
  static std::optional<Time> in_bounds(Time time) {
    if (time < kEarliestTime || kLatestTime < time) return std::nullopt;
    return time;
  }

  int number(std::size_t digits) {
    int value = 0;
    for (std::size_t n = 0; n < digits; ++n) {
      if (text_.empty() || !is_digit(text_.front())) {
        good_ = false;
        return 0;
      }
      value = value * 10 + (text_.front() - '0');
      text_.remove_prefix(1);
    }
    return value;
  }

  // One of these characters; which.
  char expect(std::string_view any_of) {
    if (text_.empty() || any_of.find(text_.front()) == std::string_view::npos) {
      good_ = false;
      return '\0';
    }
    const char found = text_.front();
    text_.remove_prefix(1);
    return found;
  }

  // Digits beyond microseconds are dropped.
  microseconds fraction() {
    if (!text_.starts_with(".")) return microseconds{0};
    text_.remove_prefix(1);
    if (text_.empty() || !is_digit(text_.front())) good_ = false;
    std::int64_t value = 0;
    std::int64_t unit = kSecond;
    while (!text_.empty() && is_digit(text_.front())) {
      unit /= 10;
      value += (text_.front() - '0') * unit;
      text_.remove_prefix(1);
    }
    return microseconds{value};
  }

  std::chrono::minutes offset() {
    const char sign = expect("Zz+-");
    if (sign != '+' && sign != '-') return std::chrono::minutes{0};
    const int h = number(2);
    expect(":");
    const int m = number(2);
    if (h > 23 || m > 59) good_ = false;
    return std::chrono::minutes{(h * 60 + m) * (sign == '-' ? -1 : 1)};
  }

  std::string_view text_;
  bool good_ = true;
};

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

std::optional<Time> parse_time(std::string_view text) { return TimeReader(text).read(); }

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

std::string age_text(microseconds age) {
  const std::int64_t seconds = age.count() / kSecond;
  if (age.count() < kSecond) return std::to_string(age.count() / 1'000) + " ms";
  if (seconds < 120) return std::to_string(seconds) + " s";
  if (seconds < 2 * kHour) return std::to_string(seconds / 60) + " min";
  if (seconds < 2 * kDay) return std::to_string(seconds / kHour) + " h";
  return std::to_string(seconds / kDay) + " d";
}

std::string short_time_text(Time time) {
  std::string text = time_text(time);
  constexpr std::size_t kToSeconds = 19;
  if (text.size() < kToSeconds || text[10] != 'T') return text;
  text.resize(kToSeconds);
  text[10] = ' ';
  return text;
}

}  // namespace outbox::cli
