#include "consumer/memory_tracker.h"

#include <memory>
#include <utility>

#include "consumer/tracker_rules.h"

namespace outbox::internal {
namespace {

using std::chrono::milliseconds;

// No two pairs have the same.
std::string key_of(std::string_view group, std::string_view event_id) {
  return std::to_string(group.size()) + ':' + std::string(group) + std::string(event_id);
}

}  // namespace

MemoryTracker::MemoryTracker(TrackerOptions options, const Clock& clock)
    : options_(options), clock_(clock) {
  check_tracker_options(options_);
}

ConsumptionTracker::Start MemoryTracker::start(std::string_view group, std::string_view event_id) {
  check_consumed_event(group, event_id);
  const Clock::Steady now = clock_.steady();
  MutexLock lock(mutex_);
  if (const Entry* entry = find(group, event_id, now)) {
    if (entry->phase == Phase::done) return {.state = State::done};
    if (entry->phase == Phase::busy && entry->lease_end > now) {
      return {.state = State::in_progress,
              .expires_in = std::chrono::ceil<milliseconds>(entry->lease_end - now)};
    }
  }
  Entry& entry = touch(group, event_id, now);
  entry.phase = Phase::busy;
  entry.fence = ++last_fence_;
  entry.lease_end = now + options_.lease;
  return {.state = State::started, .fence = entry.fence};
}

bool MemoryTracker::finish(std::string_view group, std::string_view event_id, std::int64_t fence) {
  check_consumed_event(group, event_id);
  const Clock::Steady now = clock_.steady();
  MutexLock lock(mutex_);
  const Entry* known = find(group, event_id, now);
  if (known != nullptr && known->fence != fence) return false;
  // Also of one that was forgotten: the effect has happened.
  Entry& entry = touch(group, event_id, now);
  entry.phase = Phase::done;
  entry.fence = fence;
  return true;
}

bool MemoryTracker::abandon(std::string_view group, std::string_view event_id, std::int64_t fence) {
  check_consumed_event(group, event_id);
  const Clock::Steady now = clock_.steady();
  MutexLock lock(mutex_);
  const Entry* known = find(group, event_id, now);
  if (known == nullptr) return true;
  if (known->fence != fence || known->phase == Phase::done) return false;
  touch(group, event_id, now).phase = Phase::idle;
  return true;
}

std::size_t MemoryTracker::size() const {
  MutexLock lock(mutex_);
  return entries_.size();
}

MemoryTracker::Entry& MemoryTracker::touch(std::string_view group, std::string_view event_id,
                                           Clock::Steady now) {
  std::string key = key_of(group, event_id);
  const auto found = by_key_.find(key);
  if (found != by_key_.end()) {
    entries_.splice(entries_.end(), entries_, found->second);
  } else {
    entries_.push_back({.key = std::move(key)});
    by_key_.emplace(entries_.back().key, std::prev(entries_.end()));
  }
  entries_.back().forget_at = now + options_.retention;
  return entries_.back();
}

const MemoryTracker::Entry* MemoryTracker::find(std::string_view group, std::string_view event_id,
                                                Clock::Steady now) {
  forget_old_ones(now);
  const auto found = by_key_.find(key_of(group, event_id));
  return found == by_key_.end() ? nullptr : &*found->second;
}

void MemoryTracker::forget_old_ones(Clock::Steady now) {
  while (!entries_.empty() && entries_.front().forget_at <= now) {
    by_key_.erase(entries_.front().key);
    entries_.pop_front();
  }
}

}  // namespace outbox::internal

namespace outbox {

std::shared_ptr<ConsumptionTracker> memory_tracker(TrackerOptions options, const Clock& clock) {
  return std::make_shared<internal::MemoryTracker>(options, clock);
}

}  // namespace outbox
