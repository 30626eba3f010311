#include "store/sqlite/pool.h"

#include <utility>

#include "outbox/error.h"

namespace outbox::sqlite {

using std::chrono::steady_clock;

void GiveBack::operator()(Database* database) const noexcept {
  // In a forked child the pool's mutex may be locked for ever.
  if (getpid() != database->environment().pid) return;
  if (database->began()) database->rollback();
  pool->give_back(std::unique_ptr<Database>(database));
}

Pool::Pool(EnvironmentPtr environment, PoolOptions options, std::unique_ptr<Database> first)
    : environment_(std::move(environment)), options_(std::move(options)), slots_(options_.size) {
  MutexLock lock(mutex_);
  idle_.reserve(options_.size);  // so that giving back never fails
  if (first) idle_.push_back(std::move(first));
}

Lease Pool::lease() {
  environment_->check_process();
  if (!slots_.take(steady_clock::now() + environment_->options.wait_timeout)) {
    throw RetryableError("no connection was free for " +
                         std::to_string(environment_->options.wait_timeout.count()) + " ms (" +
                         environment_->description + "): all " + std::to_string(options_.size) +
                         " are in use; " + options_.hint);
  }
  try {
    auto database = idle_or_new();
    return Lease(database.release(), GiveBack{shared_from_this()});
  } catch (...) {
    slots_.give_back();
    throw;
  }
}

std::unique_ptr<Database> Pool::idle_or_new() {
  {
    MutexLock lock(mutex_);
    if (!idle_.empty()) {
      // The last one back: its cache is the warmest.
      auto database = std::move(idle_.back());
      idle_.pop_back();
      return database;
    }
  }
  auto database = std::make_unique<Database>(environment_);
  if (options_.on_open) options_.on_open(database->handle());
  return database;
}

void Pool::give_back(std::unique_ptr<Database> database) {
  {
    MutexLock lock(mutex_);
    idle_.push_back(std::move(database));
  }
  slots_.give_back();
}

}  // namespace outbox::sqlite
