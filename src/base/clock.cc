#include "outbox/clock.h"

#include <ctime>

namespace outbox {
namespace {

class HostClock final : public Clock {
 public:
  Time now() const override {
    return std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now());
  }

  // Not std::chrono::steady_clock: on Linux it stands still while the machine
  // is suspended, and others would take over a lease that looks alive here. The
  // values must therefore not be handed to what waits by steady_clock itself.
  Steady steady() const override {
#if defined(CLOCK_BOOTTIME)
    timespec time{};
    clock_gettime(CLOCK_BOOTTIME, &time);
    return Steady{std::chrono::seconds{time.tv_sec} + std::chrono::nanoseconds { time.tv_nsec }};
#else
    return std::chrono::steady_clock::now();
#endif
  }
};

}  // namespace

const Clock& host_clock() {
  static const HostClock clock;
  return clock;
}

}  // namespace outbox
