#include "outbox/admin/dead_events.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "base/schedule.h"
#include "base/thread.h"
#include "base/time_text.h"
#include "outbox/error.h"

namespace outbox {
namespace {

using std::chrono::duration_cast;
using std::chrono::nanoseconds;

// A rate is kept by batches so small that each is followed by a short pause,
// not by a long silence.
constexpr double kBatchesASecond = 10;

void check(const BulkOptions& options) {
  if (options.batch == 0) throw MisuseError("BulkOptions::batch must be positive, got 0");
  if (options.limit < 0) {
    throw MisuseError("BulkOptions::limit must not be negative, got " +
                      std::to_string(options.limit) + "; 0 means all");
  }
  if (!std::isfinite(options.rate) || options.rate < 0) {
    throw MisuseError("BulkOptions::rate must be a number of events a second, got " +
                      std::to_string(options.rate) + "; 0 means no limit");
  }
}

std::size_t batch_of(const BulkOptions& options) {
  if (options.rate == 0) return options.batch;
  const double steady = std::max(1.0, options.rate / kBatchesASecond);
  return steady < static_cast<double>(options.batch) ? static_cast<std::size_t>(steady)
                                                     : options.batch;
}

nanoseconds time_for(std::int64_t rows, double rate) {
  constexpr double kDay = 86'400;
  const std::chrono::duration<double> time{std::min(static_cast<double>(rows) / rate, kDay)};
  return duration_cast<nanoseconds>(time);
}

// Walks over the table by steps that `act` does; how many rows it changed.
template <class Act>
std::int64_t in_batches(const BulkOptions& options, const Clock& clock, Act act) {
  check(options);
  const std::size_t batch = batch_of(options);
  std::int64_t changed = 0;
  Seq after = 0;
  while (!options.stop.stop_requested()) {
    const auto began = clock.steady();
    std::size_t limit = batch;
    if (options.limit > 0) {
      limit = static_cast<std::size_t>(
          std::min<std::uint64_t>(limit, static_cast<std::uint64_t>(options.limit - changed)));
    }
    const Changed step = act(after, limit);
    changed += step.rows;
    after = step.through;
    if (options.progress && !options.progress(changed)) break;
    if (!step.more || (options.limit > 0 && changed >= options.limit)) break;
    if (options.rate == 0) continue;
    if (sleep_for(time_for(step.rows, options.rate) - (clock.steady() - began), options.stop))
      break;
  }
  return changed;
}

// What dies while the operation runs is not meant: it would never end where
// events die faster than the rate.
EventFilter until_now(EventFilter filter, Status status, const Clock& clock) {
  filter.status = {status};
  const Time next = clock.now() + Time::duration{1};
  filter.finished.until = std::min(filter.finished.until.value_or(next), next);
  return filter;
}

std::shared_ptr<Store> not_null(std::shared_ptr<Store> store, const char* who) {
  if (!store) throw MisuseError(std::string(who) + ": the store is null");
  return store;
}

}  // namespace

DeadEvents::DeadEvents(std::shared_ptr<Store> store)
    : store_(not_null(std::move(store), "dead events")) {}

std::vector<EventRecord> DeadEvents::query(EventFilter filter, std::size_t limit, Seq after) {
  filter.status = {Status::dead};
  return store_->admin().list(filter, after, limit);
}

std::int64_t DeadEvents::count(EventFilter filter) {
  filter.status = {Status::dead};
  return store_->admin().count(filter);
}

std::vector<DeadGroup> DeadEvents::groups(const EventFilter& filter, std::size_t limit) {
  return store_->admin().dead_groups(filter, limit);
}

bool DeadEvents::replay(std::string_view event_id) {
  // The store would replay a DONE one too, which is not what is meant here.
  const auto found = store_->admin().find(event_id);
  return found && found->row.status == Status::dead && store_->admin().replay(event_id);
}

bool DeadEvents::discard(std::string_view event_id) { return store_->admin().discard(event_id); }

std::int64_t DeadEvents::replay_all(EventFilter filter, const BulkOptions& options) {
  const EventFilter dead = until_now(std::move(filter), Status::dead, store_->clock());
  return in_batches(options, store_->clock(), [&](Seq after, std::size_t limit) {
    return store_->admin().replay(dead, after, limit);
  });
}

std::int64_t DeadEvents::discard_all(EventFilter filter, const BulkOptions& options) {
  const EventFilter dead = until_now(std::move(filter), Status::dead, store_->clock());
  return in_batches(options, store_->clock(), [&](Seq after, std::size_t limit) {
    return store_->admin().discard(dead, after, limit);
  });
}

std::int64_t DeadEvents::replay_done(EventFilter filter, const BulkOptions& options) {
  if (filter.aggregate_id.empty() && !filter.occurred.bounded() && !filter.finished.bounded()) {
    throw MisuseError(
        "replay_done() would deliver every event once more: set aggregate_id, or a bound of "
        "occurred or finished, in the filter");
  }
  const EventFilter done = until_now(std::move(filter), Status::done, store_->clock());
  return in_batches(options, store_->clock(), [&](Seq after, std::size_t limit) {
    return store_->admin().replay(done, after, limit);
  });
}

class ScheduledReplay::Impl {
 public:
  Impl(std::shared_ptr<Store> store, ReplaySchedule schedule)
      : store_(std::move(store)),
        events_(store_),
        options_(std::move(schedule)),
        schedule_({.what = "scheduled replay",
                   .thread = "outbox-replay",
                   .interval = options_.interval,
                   .log = options_.log},
                  [this](const std::stop_token& stop) { round(stop); }) {}

  std::int64_t run(const std::stop_token& stop) {
    BulkOptions bulk = options_.bulk;
    std::stop_source either;
    const auto request = [&either] { either.request_stop(); };
    const std::stop_callback by_user(bulk.stop, request);
    const std::stop_callback by_close(stop, request);
    bulk.stop = either.get_token();

    EventFilter filter = options_.filter;
    const Time now = store_->clock().now();
    const auto most = std::chrono::floor<std::chrono::milliseconds>(now - kEarliestTime);
    const Time old_enough = now - std::min(options_.min_age, most);
    const Time next = old_enough + Time::duration{1};  // an age of exactly that will do
    filter.finished.until = std::min(filter.finished.until.value_or(next), next);
    return events_.replay_all(std::move(filter), bulk);
  }

  internal::Schedule& schedule() { return schedule_; }

 private:
  void round(const std::stop_token& stop) {
    const std::int64_t replayed = run(stop);
    if (replayed > 0) {
      options_.log({LogLevel::info,
                    "replayed",
                    "scheduled replay: " + std::to_string(replayed) + " dead events are NEW again",
                    {{"events", replayed}}});
    }
  }

  // Constant after construction.
  const std::shared_ptr<Store> store_;
  DeadEvents events_;
  const ReplaySchedule options_;

  internal::Schedule schedule_;  // last: its thread uses the others
};

ScheduledReplay::ScheduledReplay(std::shared_ptr<Store> store, ReplaySchedule schedule) {
  check(schedule.bulk);
  if (schedule.min_age < std::chrono::milliseconds::zero()) {
    throw MisuseError("ReplaySchedule::min_age must not be negative, got " +
                      std::to_string(schedule.min_age.count()) + " ms");
  }
  if (!schedule.log) schedule.log = standard_error_log();
  impl_ =
      std::make_unique<Impl>(not_null(std::move(store), "scheduled replay"), std::move(schedule));
}

ScheduledReplay::~ScheduledReplay() {
  // The thread is the parent's: there is nothing here to end.
  if (!impl_->schedule().in_this_process()) static_cast<void>(impl_.release());
}

void ScheduledReplay::start() { impl_->schedule().start(); }
void ScheduledReplay::close() { impl_->schedule().close(); }
std::int64_t ScheduledReplay::run_once() { return impl_->run({}); }

}  // namespace outbox
