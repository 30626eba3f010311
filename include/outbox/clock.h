// Where the library takes the time from.
#pragma once

#include <chrono>

#include "outbox/export.h"

namespace outbox {

// UTC, in the resolution that every supported database keeps.
using Time = std::chrono::sys_time<std::chrono::microseconds>;

// The two clocks of a process. Tests pass a ManualClock (testing.h).
//
// Implementations must be thread-safe.
class OUTBOX_EXPORT Clock {
 public:
  using Steady = std::chrono::steady_clock::time_point;

  virtual ~Clock() = default;

  // The time of day, for everything that is stored. It may step.
  virtual Time now() const = 0;

  // For measuring and waiting. It never goes back, and it also runs while the
  // machine is suspended, so that a lease does not outlive a suspension.
  virtual Steady steady() const = 0;
};

// The host's clocks. Lives as long as the program.
OUTBOX_EXPORT const Clock& host_clock();

}  // namespace outbox
