#include "base/fair_slots.h"

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

}  // namespace outbox
