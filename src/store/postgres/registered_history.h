// As what an instance is registered, and which past the server had then.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "base/mutex.h"

namespace outbox::postgres {

// As the server tells it (sql::kHistory); empty if it does not, or if there is no registration.
// Thread-safe: who renews sets it, and who reads or updates is held to it.
class RegisteredHistory {
 public:
  void set(std::int64_t epoch, std::string history) OUTBOX_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    epoch_ = epoch;
    history_ = std::move(history);
  }

  // It is over. Until the next one, connections are held to the server where it was.
  void end() OUTBOX_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    epoch_ = 0;
  }

  std::int64_t epoch() const OUTBOX_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return epoch_;
  }

  // Whether it is known to be another one than this.
  bool differs_from(const std::string& history) const OUTBOX_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return !history_.empty() && !history.empty() && history_ != history;
  }

 private:
  mutable Mutex mutex_;
  std::int64_t epoch_ OUTBOX_GUARDED_BY(mutex_) = 0;
  std::string history_ OUTBOX_GUARDED_BY(mutex_);
};

}  // namespace outbox::postgres
