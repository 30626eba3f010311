// Telling those who watch the store that something was committed.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "outbox/spi/store.h"

namespace outbox::memory {

class Watcher;

// Everybody who watches one store. Thread-safe.
//
// Lock order: this one's mutex, then a watcher's.
class Watchers {
 public:
  // The result keeps `watchers` alive.
  static std::unique_ptr<Watch> add(std::shared_ptr<Watchers> watchers,
                                    std::function<void()> on_commit);

  // Wakes them all. Calls that come while one is at work become one more call.
  void notify() OUTBOX_EXCLUDES(mutex_);

 private:
  friend class Watcher;

  Mutex mutex_;
  std::vector<Watcher*> watchers_ OUTBOX_GUARDED_BY(mutex_);
};

}  // namespace outbox::memory
