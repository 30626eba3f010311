#include "base/connection_pool.h"

#include <algorithm>
#include <random>

#include "base/thread.h"
#include "outbox/error.h"

namespace outbox {

bool FairSlots::take(Instant deadline) {
  MutexLock lock(mutex_);
  if (free_ > 0) {
    --free_;
    return true;
  }
  Waiter self;
  line_.push_back(&self);
  while (!self.granted) {
    if (self.called.wait_until(mutex_, deadline) || self.granted) continue;
    line_.remove(&self);
    return false;
  }
  return true;
}

void FairSlots::give_back() {
  MutexLock lock(mutex_);
  if (line_.empty()) {
    ++free_;
    return;
  }
  Waiter& next = *line_.front();
  line_.pop_front();
  next.granted = true;
  next.called.notify_one();  // under the lock: once it is seen, `next` is gone
}

std::size_t FairSlots::waiting() const {
  MutexLock lock(mutex_);
  return line_.size();
}

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstPause{50};
constexpr milliseconds kLongestPause{400};  // half a second with what is added to it

// Up to a quarter more: those who lost the server together must not come back
// together.
milliseconds with_jitter(milliseconds pause) {
  thread_local std::mt19937 random{random_seed()};
  return pause + milliseconds{std::uniform_int_distribution<milliseconds::rep>{
                     0, pause.count() / 4}(random)};
}

}  // namespace

void Reconnection::check(Instant now) {
  MutexLock lock(mutex_);
  if (now < next_) {
    const auto left = std::chrono::duration_cast<milliseconds>(next_ - now);
    throw RetryableError(why_ + "; the next attempt is made in " +
                         std::to_string(left.count() + 1) + " ms");
  }
  if (pause_.count() == 0) return;
  pause_ = std::min(pause_ * 2, kLongestPause);
  next_ = now + with_jitter(pause_);
}

void Reconnection::failed(const std::string& why, Instant now) {
  MutexLock lock(mutex_);
  why_ = why;
  if (pause_.count() > 0) return;  // its pause began with it, or with another's failure
  pause_ = kFirstPause;
  next_ = now + with_jitter(pause_);
}

void Reconnection::succeeded() {
  MutexLock lock(mutex_);
  pause_ = milliseconds{0};
  next_ = {};
}

}  // namespace outbox
