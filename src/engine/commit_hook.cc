#include "engine/commit_hook.h"

#include <string>
#include <utility>
#include <vector>

#include "base/bounded.h"

namespace outbox::internal {

CommitHook::CommitHook(std::shared_ptr<Core> core, std::shared_ptr<Driver> driver, Direct direct,
                       const Clock& clock, Logger log)
    : core_(std::move(core)),
      driver_(std::move(driver)),
      direct_(direct),
      clock_(clock),
      log_(std::move(log)) {}

// Delayed events take no hot path; neither do those on a user's own connection,
// of whose end we may never hear: a reservation would keep them for ever.
bool CommitHook::takes(const Written& written) const {
  if (direct_ == Direct::none || written.own_connection || written.row.hold != 0) return false;
  return direct_ == Direct::all || written.claimed;
}

void CommitHook::after_write(std::span<const Written> events) {
  for (const Written& written : events) {
    if (takes(written) && !core_->reserve(written.event)) refuse(written.event);
  }
}

void CommitHook::after_commit(std::span<const Written> events) {
  bool read = false;
  std::vector<Clock::Steady> rows_due;
  for (const Written& written : events) {
    if (written.row.hold < 0) {
      core_->count(Counter::hot_skipped_delayed);
      rows_due.push_back(due(written));
    } else if (!takes(written)) {
      read = true;
    } else if (was_refused(written.event)) {
      driver_->left_behind(written.row);
      read = true;
    } else if (!active_ || !core_->enqueue_reserved({.ref = written.row, .event = written.event})) {
      leave_to_reader(written);
    }
  }
  if (!active_) return;
  if (!rows_due.empty()) driver_->rows_due(rows_due);
  if (read) driver_->wake();
}

void CommitHook::after_rollback(std::span<const Written> events) {
  for (const Written& written : events) {
    if (takes(written) && !was_refused(written.event)) core_->give_up(written.event);
  }
}

void CommitHook::outcome_unknown(std::span<const Written> events) {
  for (const Written& written : events) {
    if (!takes(written)) continue;
    if (was_refused(written.event)) {
      driver_->left_behind(written.row);
    } else {
      core_->leave_to_reader(written.event, written.row);
    }
  }
  if (active_) driver_->look_everywhere();
}

void CommitHook::leave_to_reader(const Written& written) {
  if (!active_) {
    // Nobody reads here: an order to the reader would be kept for ever.
    core_->give_up(written.event);
    if (core_->closing()) core_->count(Counter::hot_dropped);
    return;
  }
  core_->leave_to_reader(written.event, written.row);
  if (!core_->direct(written.row.shard)) return;  // nobody takes events here now
  core_->count(Counter::hot_dropped);
  if (!warnings_.allow(clock_.steady())) return;
  const std::uint64_t suppressed = warnings_.take_suppressed();
  log_({LogLevel::warning,
        "hot_queue_full",
        "the hot queue is full: event " + written.event.id() + " is left to the reader, as were " +
            std::to_string(suppressed) +
            " others since the last such message; listeners are slower than writers (see "
            "hot_capacity and workers)",
        {{"event", written.event.id()}, {"suppressed", suppressed}}});
}

// An event of the same id is in flight: it was written before, delivered, and removed.
void CommitHook::refuse(const Event& event) {
  MutexLock lock(mutex_);
  refused_.insert(event.id());
  any_refused_ = true;
}

bool CommitHook::was_refused(const Event& event) {
  if (!any_refused_) return false;
  MutexLock lock(mutex_);
  const bool refused = refused_.erase(event.id()) > 0;
  any_refused_ = !refused_.empty();
  return refused;
}

// Never too early: a claim that finds nothing does not say when to look again.
Clock::Steady CommitHook::due(const Written& written) const {
  if (written.event.delay()) return written.inserted_at + bounded(*written.event.delay());
  const Time now = clock_.now();  // before the other clock: a pause between the two delays
  return clock_.steady() + bounded(written.event.available_at() - now);
}

}  // namespace outbox::internal
