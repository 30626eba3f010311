#include "base/time_text.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>

namespace outbox {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

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
    expect("Tt ");
    const int h = number(2);
    expect(":");
    const int mi = number(2);
    expect(":");
    const int s = number(2);
    time += hours{h} + minutes{mi} + seconds{s} + fraction();
    time -= offset();
    if (!good_ || !text_.empty() || h > 23 || mi > 59 || s > 60) return std::nullopt;
    if (time < kEarliestTime || kLatestTime < time) return std::nullopt;
    return time;
  }

 private:
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
  std::chrono::microseconds fraction() {
    using std::chrono::microseconds;
    if (!text_.starts_with(".")) return microseconds{0};
    text_.remove_prefix(1);
    if (text_.empty() || !is_digit(text_.front())) good_ = false;
    std::int64_t value = 0;
    std::int64_t unit = 1'000'000;
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

std::string time_text(Time time) {
  using namespace std::chrono;
  if (time < kEarliestTime || kLatestTime < time) {
    return std::to_string(time.time_since_epoch().count()) + " us since 1970";
  }
  const sys_days midnight = floor<days>(time);
  const year_month_day date{midnight};
  const hh_mm_ss clock{time - midnight};
  std::array<char, 64> text{};
  const int length = std::snprintf(
      text.data(), text.size(), "%04d-%02u-%02uT%02d:%02d:%02d.%06dZ",
      static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
      static_cast<unsigned>(date.day()), static_cast<int>(clock.hours().count()),
      static_cast<int>(clock.minutes().count()), static_cast<int>(clock.seconds().count()),
      static_cast<int>(clock.subseconds().count()));
  return {text.data(), static_cast<std::size_t>(length)};
}

std::optional<Time> parse_time(std::string_view text) { return TimeReader(text).read(); }

}  // namespace outbox
