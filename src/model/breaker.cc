#include "model/breaker.h"

#include <algorithm>

namespace outbox::internal {

void Breaker::answered() {
  --running_;
  if (!limit_) return;
  pauses_ = 0;
  // A call that began before the pause may succeed during it: probe at once.
  limit_ = std::max(1, *limit_ * 2);
  if (*limit_ >= workers_) limit_.reset();
}

void Breaker::unavailable(Clock::Steady now) {
  --running_;
  if (limit_ == 0) return;  // the calls that were under way say the same
  if (!limit_ && !held_) since_ = now;
  std::chrono::milliseconds pause = options_.pause;
  for (int n = 0; n < pauses_ && pause < options_.max_pause; ++n) pause *= 2;
  ++pauses_;
  limit_ = 0;
  until_ = now + std::min<std::chrono::milliseconds>(pause, options_.max_pause);
}

void Breaker::hold(Clock::Steady now) {
  if (!limit_ && !held_) since_ = now;
  held_ = true;
}

std::chrono::nanoseconds Breaker::open_for(Clock::Steady now) const {
  if (!limit_ && !held_) return std::chrono::nanoseconds::zero();
  return now - since_;
}

std::optional<Clock::Steady> Breaker::paused_until() const {
  if (limit_ == 0) return until_;
  return std::nullopt;
}

void Breaker::tick(Clock::Steady now) {
  if (limit_ == 0 && now >= until_) limit_ = 1;
}

}  // namespace outbox::internal
