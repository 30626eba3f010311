// Spans of time that can be added to any time without running over.
#pragma once

#include <algorithm>
#include <chrono>

namespace outbox::internal {

// A year is as good as for ever; what users write for "never" may be the
// greatest value there is.
template <class Rep, class Period>
constexpr std::chrono::duration<Rep, Period> bounded(std::chrono::duration<Rep, Period> time) {
  constexpr auto kForEver =
      std::chrono::duration_cast<decltype(time)>(std::chrono::hours{24 * 365});
  return std::min(time, kForEver);
}

}  // namespace outbox::internal
