#include "core/time_text.h"

#include <array>
#include <cstdio>

namespace outbox {

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

}  // namespace outbox
