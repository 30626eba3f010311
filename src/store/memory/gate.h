// Who may go in, when there is not room for everybody.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>

#include "base/mutex.h"

namespace outbox::memory {

// Lets so many in at a time, in the order in which they came; one that finds a
// place free still waits behind those who came before. Thread-safe.
class FairGate {
 public:
  explicit FairGate(std::size_t places) : free_(places) {}

  // False if no place came free in time. The host's monotonic clock decides: a
  // test's clock that stands still must not make anybody wait for ever.
  bool enter(std::chrono::milliseconds timeout);

  void leave();

 private:
  bool first_in_line(std::uint64_t ticket) const OUTBOX_REQUIRES(mutex_) {
    return free_ > 0 && waiting_.front() == ticket;
  }

  Mutex mutex_;
  CondVar changed_;
  std::size_t free_ OUTBOX_GUARDED_BY(mutex_);
  std::uint64_t last_ticket_ OUTBOX_GUARDED_BY(mutex_) = 0;
  std::deque<std::uint64_t> waiting_ OUTBOX_GUARDED_BY(mutex_);
};

}  // namespace outbox::memory
