#include "core/reconnection.h"

#include <algorithm>
#include <random>

#include "outbox/error.h"

namespace outbox {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstPause{50};

// Up to a quarter more: those who lost the server together must not come back
// together.
milliseconds with_jitter(milliseconds pause) {
  thread_local std::mt19937 random{std::random_device{}()};
  return pause + milliseconds{std::uniform_int_distribution<milliseconds::rep>{
                     0, pause.count() / 4}(random)};
}

}  // namespace

void Reconnection::check(Instant now) {
  MutexLock lock(mutex_);
  if (now >= next_) return;
  const auto left = std::chrono::duration_cast<milliseconds>(next_ - now);
  throw RetryableError(why_ + "; the next attempt is made in " + std::to_string(left.count() + 1) +
                       " ms");
}

void Reconnection::failed(const std::string& why, Instant now) {
  MutexLock lock(mutex_);
  if (now < next_) return;  // one of several who tried at the same time
  pause_ = std::clamp(pause_ * 2, kFirstPause, longest_pause_);
  next_ = now + with_jitter(pause_);
  why_ = why;
}

void Reconnection::succeeded() {
  MutexLock lock(mutex_);
  pause_ = milliseconds{0};
  next_ = {};
}

}  // namespace outbox
