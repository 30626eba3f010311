// Connections that are opened on demand and used again.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "core/mutex.h"
#include "store/sqlite/database.h"
#include "store/sqlite/environment.h"
#include "store/sqlite/fair_slots.h"

namespace outbox::sqlite {

// A limited number of connections, lent to one user each. Those who find none
// free wait in line. Thread-safe.
class Pool : public std::enable_shared_from_this<Pool> {
 public:
  // Gives the connection back, rolled back if need be. Keeps the pool alive.
  // Used by one thread at a time.
  class Lease {
   public:
    Lease(std::shared_ptr<Pool> pool, std::unique_ptr<Database> database);
    ~Lease();
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

    Database& operator*() const { return *database_; }
    Database* operator->() const { return database_.get(); }

   private:
    std::shared_ptr<Pool> pool_;
    std::unique_ptr<Database> database_;
  };

  // `hint` ends the error of those who waited in vain. `first` is an open
  // connection to begin with, or null.
  Pool(EnvironmentPtr environment, std::size_t size, std::string hint,
       std::unique_ptr<Database> first);

  // Throws RetryableError if none became free within wait_timeout.
  std::unique_ptr<Lease> lease() OUTBOX_EXCLUDES(mutex_);

  const Environment& environment() const { return *environment_; }

 private:
  void give_back(std::unique_ptr<Database> database) OUTBOX_EXCLUDES(mutex_);
  std::unique_ptr<Database> idle_or_null() OUTBOX_EXCLUDES(mutex_);

  // Constant after construction.
  const EnvironmentPtr environment_;
  const std::size_t size_;
  const std::string hint_;

  FairSlots slots_;

  Mutex mutex_;
  std::vector<std::unique_ptr<Database>> idle_ OUTBOX_GUARDED_BY(mutex_);
};

}  // namespace outbox::sqlite
