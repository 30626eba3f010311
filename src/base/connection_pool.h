// Connections that are opened on demand and used again, the line for them, and when a server that
// is unreachable is asked again.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/process.h"
#include "base/sql_text.h"
#include "outbox/error.h"

namespace outbox {

// A counting semaphore that is fair: a place that becomes free is handed to
// the thread that has waited longest, never put up for grabs. Thread-safe.
class FairSlots {
 public:
  using Instant = std::chrono::steady_clock::time_point;

  explicit FairSlots(std::size_t slots) : free_(slots) {}

  // Waits for a place. False if the deadline passed first.
  bool take(Instant deadline) OUTBOX_EXCLUDES(mutex_);
  void give_back() OUTBOX_EXCLUDES(mutex_);

  // How many stand in line.
  std::size_t waiting() const OUTBOX_EXCLUDES(mutex_);

 private:
  struct Waiter {
    CondVar called;
    bool granted = false;
  };

  mutable Mutex mutex_;
  std::size_t free_ OUTBOX_GUARDED_BY(mutex_);
  std::list<Waiter*> line_ OUTBOX_GUARDED_BY(mutex_);
};

// How many connections there are at the most, how long to wait for one, and what to do who has
// waited in vain: the end of an error.
struct PoolLimits {
  std::size_t size = 1;
  std::chrono::milliseconds wait_timeout{0};
  std::string hint{};
};

// `Database` is the class of one connection.
template <class Database>
struct PoolOptions {
  std::size_t size = 1;
  std::chrono::milliseconds wait_timeout{0};

  // For the error of those who waited in vain: for which database, and what to do.
  std::string description{};
  std::string hint{};

  std::function<std::unique_ptr<Database>()> open{};

  // Makes a connection that comes back ready for its next user. False if it is of no
  // more use: it is closed then. Must not throw.
  std::function<bool(Database&)> make_ready{};

  // Whether one that has lain idle is still of use; absent if they all are.
  std::function<bool(Database&)> is_healthy{};
};

// A limited number of connections, lent to one user each. Those who find none free
// wait in line. Thread-safe.
template <class Database>
class ConnectionPool : public std::enable_shared_from_this<ConnectionPool<Database>> {
 public:
  // Puts a connection back into its pool.
  struct GiveBack {
    std::shared_ptr<ConnectionPool> pool;
    void operator()(Database* database) const noexcept {
      // In a forked child the pool's mutex may be locked for ever.
      if (getpid() != pool->pid_) return;
      pool->give_back(std::unique_ptr<Database>(database));
    }
  };

  // A connection on loan; keeps its pool alive. Used by one thread at a time.
  using Handle = std::unique_ptr<Database, GiveBack>;

  // `first`: a connection to begin with, or null.
  explicit ConnectionPool(PoolOptions<Database> options, std::unique_ptr<Database> first = nullptr)
      : options_(std::move(options)), slots_(options_.size) {
    MutexLock lock(mutex_);
    idle_.reserve(options_.size);  // so that giving back never fails
    if (first) idle_.push_back(std::move(first));
  }

  // Throws RetryableError if none became free within wait_timeout, or what opening one
  // throws; MisuseError in a child made by fork().
  Handle take() OUTBOX_EXCLUDES(mutex_) {
    check_not_forked(pid_, options_.description);
    if (!slots_.take(std::chrono::steady_clock::now() + options_.wait_timeout)) {
      throw RetryableError("no connection was free for " +
                           std::to_string(options_.wait_timeout.count()) + " ms (" +
                           options_.description + "): all " + std::to_string(options_.size) +
                           " are in use; " + options_.hint);
    }
    try {
      auto database = idle_or_new();
      return Handle(database.release(), GiveBack{this->shared_from_this()});
    } catch (...) {
      slots_.give_back();
      throw;
    }
  }

 private:
  std::unique_ptr<Database> idle_or_new() OUTBOX_EXCLUDES(mutex_) {
    while (auto database = take_idle()) {
      if (!options_.is_healthy || options_.is_healthy(*database)) return database;
    }
    return options_.open();
  }

  std::unique_ptr<Database> take_idle() OUTBOX_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (idle_.empty()) return nullptr;
    // The last one back: its caches are the warmest.
    auto database = std::move(idle_.back());
    idle_.pop_back();
    return database;
  }

  void give_back(std::unique_ptr<Database> database) noexcept OUTBOX_EXCLUDES(mutex_) {
    if (options_.make_ready(*database)) {
      MutexLock lock(mutex_);
      idle_.push_back(std::move(database));
    }
    database.reset();  // before another takes its place: no more than `size` at a time
    slots_.give_back();
  }

  // Constant after construction.
  const PoolOptions<Database> options_;
  const pid_t pid_ = getpid();

  FairSlots slots_;

  Mutex mutex_;
  std::vector<std::unique_ptr<Database>> idle_ OUTBOX_GUARDED_BY(mutex_);
};

// How often a server that is unreachable is asked. While it is there everybody may connect. After a
// failure one attempt begins at a time, with a pause to the next that doubles up to the
// longest, each a little different; a longer attempt (nobody answers at all) keeps no
// other from beginning. In between callers get the error of the last attempt. So a
// server that is back is noticed at most half a second after the next request.
// Thread-safe.
class Reconnection {
 public:
  using Instant = std::chrono::steady_clock::time_point;

  // An attempt begins. Throws RetryableError while it is too early.
  void check(Instant now) OUTBOX_EXCLUDES(mutex_);
  void failed(const std::string& why, Instant now) OUTBOX_EXCLUDES(mutex_);
  void succeeded() OUTBOX_EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  std::chrono::milliseconds pause_ OUTBOX_GUARDED_BY(mutex_){0};  // 0: it is there
  Instant next_ OUTBOX_GUARDED_BY(mutex_){};
  std::string why_ OUTBOX_GUARDED_BY(mutex_);
};

// What all connections to one database share, and keep alive. Constant once it is in use;
// thread-safe.
struct ConnectionContext : SqlContext {
  std::string description{};  // of the database, for messages
  pid_t pid = getpid();

  const std::string& where() const override { return description; }

  // Throws MisuseError in a child made by fork(), which cannot share connections with its parent.
  void check_process() const { check_not_forked(pid, description); }
};

// A pool of connections that `open` makes, and that say themselves whether they may be lent again.
template <class Open>
auto make_pool_of(PoolLimits limits, std::string description, Open open,
                  std::invoke_result_t<Open> first = nullptr) {
  using Database = typename std::invoke_result_t<Open>::element_type;
  return std::make_shared<ConnectionPool<Database>>(
      PoolOptions<Database>{
          .size = limits.size,
          .wait_timeout = limits.wait_timeout,
          .description = std::move(description),
          .hint = std::move(limits.hint),
          .open = std::move(open),
          .make_ready = [](Database& database) { return database.make_ready(); },
          .is_healthy = [](Database& database) { return database.may_be_lent(); }},
      std::move(first));
}

}  // namespace outbox
