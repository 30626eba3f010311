// A tracker for the consumers of one process.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/mutex.h"
#include "outbox/clock.h"
#include "outbox/consumer/consumption.h"

namespace outbox::internal {

// Forgets an event when the retention has passed since it was last touched. Thread-safe.
class MemoryTracker final : public ConsumptionTracker {
 public:
  // Throws MisuseError for invalid options. The clock must outlive it.
  MemoryTracker(TrackerOptions options, const Clock& clock);

  Start start(std::string_view group, std::string_view event_id) override OUTBOX_EXCLUDES(mutex_);
  bool finish(std::string_view group, std::string_view event_id, std::int64_t fence) override
      OUTBOX_EXCLUDES(mutex_);
  bool abandon(std::string_view group, std::string_view event_id, std::int64_t fence) override
      OUTBOX_EXCLUDES(mutex_);

  // How many events it remembers.
  std::size_t size() const OUTBOX_EXCLUDES(mutex_);

 private:
  enum class Phase : std::uint8_t { idle, busy, done };
  struct Entry {
    std::string key;
    Phase phase = Phase::idle;
    std::int64_t fence = 0;
    Clock::Steady lease_end{};
    Clock::Steady forget_at{};
  };
  using Entries = std::list<Entry>;

  // The entry, as the last to be forgotten; made if there is none.
  Entry& touch(std::string_view group, std::string_view event_id, Clock::Steady now)
      OUTBOX_REQUIRES(mutex_);
  const Entry* find(std::string_view group, std::string_view event_id, Clock::Steady now)
      OUTBOX_REQUIRES(mutex_);
  void forget_old_ones(Clock::Steady now) OUTBOX_REQUIRES(mutex_);

  // Constant after construction.
  const TrackerOptions options_;
  const Clock& clock_;

  mutable Mutex mutex_;
  // In the order in which they are forgotten.
  Entries entries_ OUTBOX_GUARDED_BY(mutex_);
  // The keys are those of the entries.
  std::unordered_map<std::string_view, Entries::iterator> by_key_ OUTBOX_GUARDED_BY(mutex_);
  // One for all events, so that it grows also for one that was forgotten.
  std::int64_t last_fence_ OUTBOX_GUARDED_BY(mutex_) = 0;
};

}  // namespace outbox::internal
