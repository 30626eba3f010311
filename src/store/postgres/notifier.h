// Telling other processes of commits.
#pragma once

#include <memory>
#include <thread>

#include "core/mutex.h"
#include "store/postgres/environment.h"

namespace outbox::postgres {

// Sends NOTIFY from a thread and a connection of its own: in the writers' transactions
// it would make their commits take turns. Commits that come in a burst are told of
// together. Thread-safe.
class Notifier {
 public:
  explicit Notifier(EnvironmentPtr environment) : environment_(std::move(environment)) {}
  ~Notifier();
  Notifier(const Notifier&) = delete;
  Notifier& operator=(const Notifier&) = delete;

  // Events were committed.
  void committed() OUTBOX_EXCLUDES(mutex_);

 private:
  void run() OUTBOX_EXCLUDES(mutex_);

  const EnvironmentPtr environment_;

  Mutex mutex_;
  CondVar changed_;
  bool news_ OUTBOX_GUARDED_BY(mutex_) = false;
  bool stopped_ OUTBOX_GUARDED_BY(mutex_) = false;
  std::jthread thread_ OUTBOX_GUARDED_BY(mutex_);  // from the first commit on
};

}  // namespace outbox::postgres
