#include "store/postgres/pool.h"

#include <utility>

#include "outbox/error.h"

namespace outbox::postgres {

using std::chrono::steady_clock;

void GiveBack::operator()(Database* database) const noexcept {
  // In a forked child the pool's mutex may be locked for ever.
  if (getpid() != database->environment().pid) return;
  pool->give_back(std::unique_ptr<Database>(database));
}

Pool::Pool(EnvironmentPtr environment, PoolOptions options)
    : environment_(std::move(environment)), options_(std::move(options)), slots_(options_.size) {
  MutexLock lock(mutex_);
  idle_.reserve(options_.size);  // so that giving back never fails
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
  while (auto database = take_idle()) {
    if (database->healthy()) return database;
  }
  auto database = std::make_unique<Database>(environment_);
  PGconn* handle = database->session().handle();
  if (options_.on_open) options_.on_open(handle);
  return database;
}

std::unique_ptr<Database> Pool::take_idle() {
  MutexLock lock(mutex_);
  if (idle_.empty()) return nullptr;
  // The last one back: its server process is the warmest.
  auto database = std::move(idle_.back());
  idle_.pop_back();
  return database;
}

void Pool::give_back(std::unique_ptr<Database> database) {
  const bool usable = !database->lost() && PQtransactionStatus(database->handle()) == PQTRANS_IDLE;
  if (usable) {
    MutexLock lock(mutex_);
    idle_.push_back(std::move(database));
  }
  database.reset();
  slots_.give_back();
}

}  // namespace outbox::postgres
