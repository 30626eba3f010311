// What all trackers share.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "base/mutex.h"
#include "base/process.h"
#include "outbox/consumer/consumption.h"

namespace outbox::internal {

// Throw MisuseError that names the invalid value.
void check_tracker_options(const TrackerOptions& options);
void check_group(std::string_view group);
void check_consumed_event(std::string_view group, std::string_view event_id);

// On a server: the calls of start() whose answers were lost: they may have begun an event, at which
// nobody is then. The next call for that event goes on as the same owner, so that it need
// not wait for the lease. Thread-safe.
class LostStarts {
 public:
  // The owner of such a call for the key, which is nobody else's from now on; or a new one.
  std::string take(const std::string& key) OUTBOX_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    const auto found = owners_.find(key);
    if (found == owners_.end()) return process_ + '/' + std::to_string(++last_);
    std::string owner = std::move(found->second);
    owners_.erase(found);
    return owner;
  }

  void put(const std::string& key, std::string owner) OUTBOX_EXCLUDES(mutex_) {
    constexpr std::size_t kMost = 10'000;
    MutexLock lock(mutex_);
    // Others may have had the events meanwhile. A forgotten owner waits for a lease.
    if (owners_.size() >= kMost) owners_.clear();
    owners_.insert_or_assign(key, std::move(owner));
  }

 private:
  const std::string process_ = unique_owner(host_name());

  Mutex mutex_;
  std::uint64_t last_ OUTBOX_GUARDED_BY(mutex_) = 0;
  std::map<std::string, std::string> owners_ OUTBOX_GUARDED_BY(mutex_);
};

}  // namespace outbox::internal
