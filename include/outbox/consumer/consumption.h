// Consumers that do a thing once where its effect is outside any database: a mail, a
// payment by HTTP, a search index.
//
//   auto tracker = outbox::database_tracker(store);  // or redis::tracker(url), see redis.h
//   on.add("Order", "OrderPlaced", outbox::idempotent(tracker, "billing", bill));
//
// Effect and record cannot be made one here. What a tracker gives: while one consumer
// is at an event no other one begins, and once it is done nobody does it again. What it
// cannot: a process that dies after the effect and before the record is repeated after
// the lease. Where that must not be, use the inbox (inbox.h), or pass the event's id on to a
// receiver that knows it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "outbox/clock.h"
#include "outbox/export.h"
#include "outbox/listener.h"
#include "outbox/log.h"

namespace outbox {

class Store;

struct TrackerOptions {
  // A consumer that has not ended by then is considered dead, and the next one
  // begins. Longer than the slowest effect, or that comes twice.
  std::chrono::milliseconds lease{std::chrono::minutes{5}};

  // How long it is remembered that an event is done; not shorter than the lease. A
  // repetition that comes later has its effect again: longer than any sender retries.
  std::chrono::seconds retention{std::chrono::hours{14 * 24}};
};

// Remembers which group of consumers is at, or has had, which event. Give each handler of
// a fan-out a group of its own. Groups and ids are as long as in an inbox (inbox.h).
//
// Implementations are thread-safe.
class OUTBOX_EXPORT ConsumptionTracker {
 public:
  virtual ~ConsumptionTracker() = default;

  enum class State : std::uint8_t {
    started,      // this caller is at it now
    in_progress,  // somebody else is
    done,         // somebody was
  };
  struct Start {
    State state = State::started;

    // started: grows each time the event is begun again, though not by one, so that a
    // receiver that remembers the highest can refuse a consumer that was considered dead.
    std::int64_t fence = 0;

    // in progress: until the other one is considered dead.
    std::chrono::milliseconds expires_in{0};
  };

  // All three throw UnavailableError while the tracker's server is unreachable, PermanentError if
  // it cannot be used as it is (a wrong password), and MisuseError for a group or an id
  // that is invalid. The call may have had its effect nevertheless: finish() and
  // abandon() may be repeated.
  virtual Start start(std::string_view group, std::string_view event_id) = 0;

  // The event is done, or was not and may be begun again at once. False, and nothing
  // changes, if another one has begun since: the caller was considered dead. That its
  // lease is over matters to neither as long as nobody has.
  virtual bool finish(std::string_view group, std::string_view event_id, std::int64_t fence) = 0;
  virtual bool abandon(std::string_view group, std::string_view event_id, std::int64_t fence) = 0;
};

// For tests, and for consumers in one process: forgets everything with it. Keeps some
// hundred bytes for each event of the retention: make that short.
OUTBOX_EXPORT std::shared_ptr<ConsumptionTracker> memory_tracker(TrackerOptions options = {},
                                                                 const Clock& clock = host_clock());

struct DatabaseTrackerOptions {
  // From the end of one purge to the beginning of the next, and how many records one
  // transaction removes.
  std::chrono::milliseconds purge_interval{std::chrono::hours{1}};
  std::size_t purge_batch = 500;

  Logger log{};  // empty: standard_error_log()
};

// Records for consumers in any number of processes, in the table `<table>_consumption`, which
// comes with the store's schema. Every call is a transaction of its own, by the database's
// clock, on a connection of the store's pool: as safe as its commits, and no part of the
// caller's transaction. On SQLite, which has one writer at a time, a thread with a transaction
// open cannot call it.
//
// From its first start() on, a thread removes the records whose retention is over.
//
// Throws MisuseError if the store is null or speaks no SQL, or for invalid options.
// Thread-safe. After fork() the child must not use it.
OUTBOX_EXPORT std::shared_ptr<ConsumptionTracker> database_tracker(
    std::shared_ptr<Store> store, TrackerOptions tracking = {},
    DatabaseTrackerOptions options = {});

struct IdempotentOptions {
  // An event that another one is at is asked about again after so long, or sooner if
  // that one is considered dead sooner.
  std::chrono::milliseconds ask_again{1'000};

  // How long a tracker that is unreachable is asked to record an effect that has happened. The
  // worker waits meanwhile.
  std::chrono::milliseconds finish_within{5'000};

  Logger log{};  // empty: standard_error_log()
};

// Wraps a listener: skips events that the group has had, and comes back later, without
// spending an attempt, for those that another one is at. An event is done when the inner
// listener says so; when it throws or says anything else, it may be begun again at once.
//
// While the tracker cannot be asked nothing is done and no attempt spent. If it goes away
// between an effect and its record, it is asked for a while (finish_within); then the
// answer is that of the inner listener nevertheless, and an error is logged. The outbox
// updates the event as done in its own table, so that it does not come again unless that
// fails as well: to refuse it would make sure that it does.
//
// Throws MisuseError if an argument is null or invalid.
OUTBOX_EXPORT std::shared_ptr<Listener> idempotent_listener(
    std::shared_ptr<ConsumptionTracker> tracker, std::string group, std::shared_ptr<Listener> inner,
    IdempotentOptions options = {});

// The same for anything that listener() takes.
template <class F>
std::shared_ptr<Listener> idempotent(std::shared_ptr<ConsumptionTracker> tracker, std::string group,
                                     F function, IdempotentOptions options = {}) {
  return idempotent_listener(std::move(tracker), std::move(group), listener(std::move(function)),
                             std::move(options));
}

}  // namespace outbox
