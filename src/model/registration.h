// As what an instance is registered, and where.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "outbox/spi/store.h"

namespace outbox {

// Under which epoch and name an instance is registered, and at which server or in which past of
// it, as the store tells those apart. A primary that has lost commits gives their numbers out
// again, epochs among them; the name of a registration is random, and never used again.
// Thread-safe: who renews sets it, and who reads or updates is held to it.
class Registration {
 public:
  // `place`: empty if it is not known.
  void set(std::int64_t epoch, std::string name, std::string place) OUTBOX_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    epoch_ = epoch;
    name_ = std::move(name);
    place_ = std::move(place);
  }

  // It is over. Until the next one, connections are held to where it was.
  void end() OUTBOX_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    epoch_ = 0;
  }

  // The same, but they may lead anywhere.
  void clear() OUTBOX_EXCLUDES(mutex_) { set(0, {}, {}); }

  // 0 if there is none.
  std::int64_t epoch() const OUTBOX_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return epoch_;
  }

  // Absent if that epoch is over.
  std::optional<std::string> name_of(std::int64_t epoch) const OUTBOX_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return epoch_ != 0 && epoch_ == epoch ? std::optional(name_) : std::nullopt;
  }

  // Whether it is known to be elsewhere than here.
  bool is_elsewhere(const std::string& place) const OUTBOX_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return !place_.empty() && place_ != place;
  }

 private:
  mutable Mutex mutex_;
  std::int64_t epoch_ OUTBOX_GUARDED_BY(mutex_) = 0;
  std::string name_ OUTBOX_GUARDED_BY(mutex_);
  std::string place_ OUTBOX_GUARDED_BY(mutex_);
};

// What is the same wherever an instance owns by being registered on a server: its epoch is that of
// its registration.
class RegisteredOwnership : public Instance::Ownership {
 public:
  std::int64_t epoch() const final { return registration_.epoch(); }

  // Thread-safe, for connections that are held to it.
  const Registration& registration() const { return registration_; }

 protected:
  Registration registration_;
};

}  // namespace outbox
