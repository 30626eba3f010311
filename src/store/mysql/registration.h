// What the connections of an instance know of its registration.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/mutex.h"

namespace outbox::mysql {

// Under which epoch and name an instance is registered, and where. A primary that has lost
// commits gives their numbers out again, epochs among them; the name of a registration is
// random, and never used again. Thread-safe.
class Registration {
 public:
  void set(std::int64_t epoch, std::string name, std::string server) OUTBOX_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    epoch_ = epoch;
    name_ = std::move(name);
    server_ = std::move(server);
  }
  void clear() OUTBOX_EXCLUDES(mutex_) { set(0, {}, {}); }

  std::int64_t epoch() const OUTBOX_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return epoch_;
  }

  // Absent if that epoch is over.
  std::optional<std::string> name_of(std::int64_t epoch) const OUTBOX_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return epoch_ != 0 && epoch_ == epoch ? std::optional(name_) : std::nullopt;
  }

  // Whether it is known to be at another server than this one.
  bool is_elsewhere(const std::string& server) const OUTBOX_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return !server_.empty() && server_ != server;
  }

 private:
  mutable Mutex mutex_;
  std::int64_t epoch_ OUTBOX_GUARDED_BY(mutex_) = 0;
  std::string name_ OUTBOX_GUARDED_BY(mutex_);
  std::string server_ OUTBOX_GUARDED_BY(mutex_);
};

}  // namespace outbox::mysql
