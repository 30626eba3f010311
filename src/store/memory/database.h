// What the parts of the memory store share.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/mutex.h"
#include "outbox/admin/admin.h"
#include "outbox/clock.h"
#include "outbox/memory.h"
#include "outbox/spi/store.h"
#include "store/memory/table.h"

namespace outbox::memory {

// Names an instance; never given twice. 0 is nobody.
using MemberId = std::int64_t;

// The live instances, and the shards that they lease: what a database
// server keeps in outbox_instance and outbox_shard. There is no leader: each
// renewal evicts the dead, drains shards beyond its own share and takes free
// ones up to it, and that settles within a few rounds.
//
// Not thread-safe; the store's mutex guards it.
class Members {
 public:
  explicit Members(int shards) : shards_(static_cast<std::size_t>(shards)) {}

  MemberId new_id() { return ++last_id_; }

  // Numbers from now on are above those that another server with the same history may have
  // given out.
  void begin_new_history() {
    last_id_ += kHistory;
    last_epoch_ += kHistory;
  }

  // For those who claim rows: they register, and own no shards.
  std::int64_t new_epoch() { return ++last_epoch_; }

  Lease renew(MemberId id, const InstanceOptions& options, Time now);
  void release(MemberId id, int shard);
  void leave(MemberId id);

  // Those that have joined and not left, by age; the dead until somebody
  // evicts them.
  std::vector<outbox::Member> list(Time now) const;

  // A member that was declared dead is gone until it registers again, with a
  // greater epoch; so to be here is to have a valid epoch.
  bool holds(MemberId id, std::int64_t epoch) const {
    const auto member = live_.find(id);
    return member != live_.end() && member->second.epoch == epoch;
  }

  bool owns(MemberId id, int shard) const {
    return shard >= 0 && static_cast<std::size_t>(shard) < shards_.size() &&
           shards_[static_cast<std::size_t>(shard)].owner == id;
  }

 private:
  struct Member {
    // From one counter, at registration: sorts the members by age as well.
    std::int64_t epoch = 0;
    std::string name{};
    Time registered_at{};
    Time beat{};
    std::size_t capacity = 0;
    std::chrono::milliseconds lease{};
    bool exclusive = false;

    bool expired(Time now) const { return beat + lease < now; }
  };

  struct Shard {
    MemberId owner = 0;
    bool draining = false;

    // This many events may have been in flight when the last owner died.
    std::optional<std::size_t> candidates{};
  };

  static constexpr std::int64_t kHistory = 1'000'000;

  void evict_expired(Time now);
  std::size_t quota(const Member& member) const;

  std::int64_t last_epoch_ = 0;
  MemberId last_id_ = 0;
  std::map<MemberId, Member> live_;
  std::vector<Shard> shards_;
};

// Lets in `places` at a time, in the order in which they came; one that finds a
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
