#include "store/sqlite/pool.h"

#include <utility>

#include "outbox/error.h"

namespace outbox::sqlite {

using std::chrono::steady_clock;

Pool::Lease::Lease(std::shared_ptr<Pool> pool, std::unique_ptr<Database> database)
    : pool_(std::move(pool)), database_(std::move(database)) {}

Pool::Lease::~Lease() {
  // In a forked child the pool's mutex may be locked for ever.
  if (getpid() != pool_->environment().pid) return;
  if (database_->began()) database_->rollback();
  pool_->give_back(std::move(database_));
}

Pool::Pool(EnvironmentPtr environment, std::size_t size, std::string hint,
           std::unique_ptr<Database> first)
    : environment_(std::move(environment)), size_(size), hint_(std::move(hint)), slots_(size) {
  MutexLock lock(mutex_);
  if (first) idle_.push_back(std::move(first));
}

std::unique_ptr<Pool::Lease> Pool::lease() {
  environment_->check_process();
  if (!slots_.take(steady_clock::now() + environment_->options.wait_timeout)) {
    throw RetryableError("no connection was free for " +
                         std::to_string(environment_->options.wait_timeout.count()) + " ms (" +
                         environment_->description + "): all " + std::to_string(size_) +
                         " are in use; " + hint_);
  }
  auto database = idle_or_null();
  try {
    if (!database) database = std::make_unique<Database>(environment_);
    auto pool = shared_from_this();
    return std::make_unique<Lease>(std::move(pool), std::move(database));
  } catch (...) {
    give_back(std::move(database));
    throw;
  }
}

std::unique_ptr<Database> Pool::idle_or_null() {
  MutexLock lock(mutex_);
  if (idle_.empty()) return nullptr;
  // The last one back: its cache is the warmest.
  auto database = std::move(idle_.back());
  idle_.pop_back();
  return database;
}

void Pool::give_back(std::unique_ptr<Database> database) {
  if (database) {
    MutexLock lock(mutex_);
    idle_.push_back(std::move(database));
  }
  slots_.give_back();
}

}  // namespace outbox::sqlite
