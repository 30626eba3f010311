// Which past the server had at which an instance is registered.
#pragma once

#include <string>
#include <utility>

#include "threads/mutex.h"

namespace outbox::postgres {

// As the server tells it (sql::kHistory); empty if it does not, or if there is no registration.
// Thread-safe: who renews sets it, and who reads or marks is held to it.
class RegisteredHistory {
 public:
  void set(std::string history) OUTBOX_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    history_ = std::move(history);
  }

  // Whether it is known to be another one than this.
  bool differs_from(const std::string& history) const OUTBOX_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return !history_.empty() && !history.empty() && history_ != history;
  }

 private:
  mutable Mutex mutex_;
  std::string history_ OUTBOX_GUARDED_BY(mutex_);
};

}  // namespace outbox::postgres
