// What the parts of the memory store share.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <set>
#include <string_view>
#include <unordered_set>

#include "base/mutex.h"
#include "outbox/memory.h"
#include "outbox/spi/store.h"
#include "store/memory/gate.h"
#include "store/memory/members.h"
#include "store/memory/table.h"
#include "store/memory/watch.h"

namespace outbox::memory {

// What open transactions have inserted: their numbers and ids are given out, their rows not there.
struct Writers {
  std::int64_t last = 0;
  std::set<std::int64_t> open{};
  std::unordered_set<std::string_view> ids{};
};

// The "server" behind the store. Connections and instances keep it alive.
// Thread-safe.
//
// Lock order: a place at `pool`, then `turn`, then `mutex`, then `time_mutex`; no other lock of
// this library is taken under `mutex`.
struct Database {
  explicit Database(const Options& given);

  // A server of its own, with what the other one has committed.
  Database(const Database& other) OUTBOX_REQUIRES(other.mutex);

  // The clock's time of day, which never goes back: while the clock is behind what it showed
  // before, time passes as the steady clock says. So nothing waits for longer because it was set.
  Time now() const OUTBOX_EXCLUDES(time_mutex) {
    MutexLock lock(time_mutex);
    const Clock::Steady steady = clock.steady();
    const Time shown = clock.now();
    const auto passed = std::chrono::duration_cast<std::chrono::microseconds>(steady - asked_at);
    asked_at = steady;
    if (shown < last_shown) {
      behind += last_shown - shown + passed;
    } else if (shown - last_shown > passed) {
      behind -= std::min(behind, shown - last_shown - passed);  // it was set right again
    }
    last_shown = shown;
    return shown + behind;
  }

  const Options options;
  const Clock& clock;

  mutable Mutex time_mutex;
  mutable Time last_shown OUTBOX_GUARDED_BY(time_mutex){clock.now()};
  mutable std::chrono::microseconds behind OUTBOX_GUARDED_BY(time_mutex){0};
  mutable Clock::Steady asked_at OUTBOX_GUARDED_BY(time_mutex){clock.steady()};

  FairGate pool;     // for connections
  FairGate turn{1};  // for transactions, unless they are concurrent
  const std::shared_ptr<Watchers> watchers = std::make_shared<Watchers>();

  Mutex mutex;
  Table table OUTBOX_GUARDED_BY(mutex);
  Writers writers OUTBOX_GUARDED_BY(mutex);
  Members members OUTBOX_GUARDED_BY(mutex);
};

std::shared_ptr<Store> make_store(std::shared_ptr<Database> database);

// Waits for a place in the pool; throws RetryableError if none comes free.
std::unique_ptr<Connection> make_connection(std::shared_ptr<Database> database);

std::unique_ptr<Instance> make_instance(std::shared_ptr<Database> database, MemberId id,
                                        InstanceOptions options);

}  // namespace outbox::memory
