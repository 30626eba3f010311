// Which addresses lead to the store's own database.
#pragma once

#include <set>
#include <string>

#include "base/mutex.h"

namespace outbox {

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
