// What the connections of stores share.
#pragma once

#include <exception>
#include <optional>
#include <set>
#include <string>

#include "base/mutex.h"
#include "outbox/error.h"

namespace outbox {

// The first failure in a transaction, which decides what its caller is told at the end: to
// start over, or that it would fail again. Used by one thread at a time.
class FirstFailure {
 public:
  // In a catch block: remembers what is being handled if nothing was before.
  void note();

  // The transaction is a new one, or what failed was rolled back.
  void clear() { known_.reset(); }

  // Throws an error with this message and the cause. Its kind is that of the first failure if
  // that would come again; else RetryableError, "start it over".
  [[noreturn]] void throw_rolled_back(const std::string& message) const;

 private:
  enum class Kind { retryable, permanent, misuse, database };
  struct Known {
    Kind kind;
    std::string text;
    DatabaseError::Details details{};
  };
  std::optional<Known> known_;
};

// The addresses of connections of the user's own that were found to lead to the store's
// database: one that is known need not be asked again. Thread-safe.
class KnownPlaces {
 public:
  bool contains(const std::string& place) const OUTBOX_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return places_.contains(place);
  }
  void add(const std::string& place) OUTBOX_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    places_.insert(place);
  }

 private:
  mutable Mutex mutex_;
  std::set<std::string> places_ OUTBOX_GUARDED_BY(mutex_);
};

}  // namespace outbox
