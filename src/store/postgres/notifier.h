// Telling other processes of commits.
#pragma once

#include <memory>
#include <thread>

#include "base/mutex.h"
#include "store/postgres/store_config.h"

namespace outbox::postgres {

class Database;

// Sends NOTIFY from a thread and a connection of its own: in the writers' transactions
// it would make their commits take turns. Commits that come while one is under way are
// told of together by the next. Thread-safe.
class Notifier {
 public:
  explicit Notifier(StoreConfigPtr config) : config_(std::move(config)) {}
  ~Notifier();
  Notifier(const Notifier&) = delete;
  Notifier& operator=(const Notifier&) = delete;

  // Events were committed.
  void committed() OUTBOX_EXCLUDES(mutex_);

 private:
  void run() OUTBOX_EXCLUDES(mutex_);
  bool wait_for_news() OUTBOX_EXCLUDES(mutex_);
  bool tell(Database& database);
  void wait_after_failure() OUTBOX_EXCLUDES(mutex_);

  const StoreConfigPtr config_;

  Mutex mutex_;
  CondVar changed_;
  bool news_ OUTBOX_GUARDED_BY(mutex_) = false;
  bool stopped_ OUTBOX_GUARDED_BY(mutex_) = false;
  std::jthread thread_ OUTBOX_GUARDED_BY(mutex_);  // from the first commit on
};

}  // namespace outbox::postgres
