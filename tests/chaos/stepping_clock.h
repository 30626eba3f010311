// A host whose time of day is set now and then, and mostly wrongly.
#pragma once

#include <array>
#include <cstddef>

#include "outbox/clock.h"

namespace outbox::chaos {

// Steps every second, by up to a day either way. Thread-safe.
class SteppingClock final : public Clock {
 public:
  Time now() const override {
    using std::chrono::hours;
    using std::chrono::seconds;
    constexpr std::array<seconds, 6> kErrors{seconds{0}, hours{1},    seconds{-5},
                                             hours{-24}, seconds{20}, hours{24}};
    const auto second = std::chrono::floor<seconds>(steady().time_since_epoch()).count();
    return host_clock().now() + kErrors[static_cast<std::size_t>(second) % kErrors.size()];
  }
  Steady steady() const override { return host_clock().steady(); }
};

}  // namespace outbox::chaos
