#include "store/memory/gate.h"

#include "base/thread.h"

namespace outbox::memory {

bool FairGate::enter(std::chrono::milliseconds timeout) {
  const auto deadline = SteadyClock::now() + timeout;
  MutexLock lock(mutex_);
  const std::uint64_t ticket = ++last_ticket_;
  waiting_.push_back(ticket);

  bool in_time = true;
  while (!first_in_line(ticket) && in_time) in_time = changed_.wait_until(mutex_, deadline);

  const bool entered = first_in_line(ticket);
  if (entered) --free_;
  std::erase(waiting_, ticket);
  // The thread that is first now may find another place free.
  if (!waiting_.empty() && free_ > 0) changed_.notify_all();
  return entered;
}

void FairGate::leave() {
  MutexLock lock(mutex_);
  ++free_;
  if (!waiting_.empty()) changed_.notify_all();
}

}  // namespace outbox::memory
