// Connections that are opened on demand and used again.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/fair_slots.h"
#include "core/mutex.h"
#include "store/postgres/database.h"
#include "store/postgres/environment.h"

namespace outbox::postgres {

class Pool;

// Puts a connection back into its pool.
struct GiveBack {
  std::shared_ptr<Pool> pool;
  void operator()(Database* database) const noexcept;
};

// A connection on loan; keeps its pool alive. Used by one thread at a time.
using Lease = std::unique_ptr<Database, GiveBack>;

struct PoolOptions {
  std::size_t size = 1;

  // Ends the error of those who waited in vain: what to do.
  std::string hint{};

  // Called with each new connection.
  std::function<void(PGconn*)> on_open{};
};

// A limited number of connections, lent to one user each. Those who find none free
// wait in line. A connection that was lost, or that comes back in the middle of
// something, is closed. Thread-safe.
class Pool : public std::enable_shared_from_this<Pool> {
 public:
  Pool(EnvironmentPtr environment, PoolOptions options);

  // Connected. Throws RetryableError if none became free within wait_timeout, or
  // the server is away.
  Lease lease() OUTBOX_EXCLUDES(mutex_);

 private:
  friend GiveBack;

  std::unique_ptr<Database> idle_or_new() OUTBOX_EXCLUDES(mutex_);
  std::unique_ptr<Database> take_idle() OUTBOX_EXCLUDES(mutex_);
  void give_back(std::unique_ptr<Database> database) OUTBOX_EXCLUDES(mutex_);

  // Constant after construction.
  const EnvironmentPtr environment_;
  const PoolOptions options_;

  FairSlots slots_;

  Mutex mutex_;
  std::vector<std::unique_ptr<Database>> idle_ OUTBOX_GUARDED_BY(mutex_);
};

}  // namespace outbox::postgres
