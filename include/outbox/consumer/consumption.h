// Idempotent consumers whose effect is outside any database: a mail, a payment by HTTP,
// a search index.
//
//   auto tracker = outbox::database_tracker(store);  // or redis::tracker(url), see redis.h
//   on.add("Order", "OrderPlaced", outbox::idempotent(tracker, "billing", bill));
//
// Effect and record cannot be one transaction here. A tracker ensures that while one consumer
// is processing an event no other one begins it, and that a recorded event is not processed
// again. But if a process dies after the effect and before the record, the effect is repeated
// after the lease. Where that must not happen, use an inbox (inbox.h), or pass the event's id on
// to a receiver that recognises it.
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
  // A consumer that has not ended by then is declared dead, and the next one begins.
  // Make it longer than the slowest effect, or that effect happens twice.
  std::chrono::milliseconds lease{std::chrono::minutes{5}};

  // How long the record of a processed event is kept; not shorter than the lease. A
  // repeat that comes later has its effect again: make it longer than any sender retries.
  std::chrono::seconds retention{std::chrono::hours{14 * 24}};
};

// Remembers which group of consumers is processing, or has processed, which event. Give each
// handler of a fan-out a group of its own. The limits of groups and ids are those of an inbox
// (inbox.h).
//
// Implementations are thread-safe.
class OUTBOX_EXPORT ConsumptionTracker {
 public:
  virtual ~ConsumptionTracker() = default;

  enum class State : std::uint8_t {
    started,      // this caller processes it now
    in_progress,  // another one is processing it
    done,         // it has been processed
  };
  struct Start {
    State state = State::started;

    // started: grows each time the event is begun again, though not by one, so that a
    // receiver that remembers the highest can refuse a consumer that was declared dead.
    std::int64_t fence = 0;

    // in_progress: until the other one is declared dead.
    std::chrono::milliseconds expires_in{0};
  };

  // All three throw UnavailableError while the tracker's server is unreachable, PermanentError if
  // it cannot be used as it is (a wrong password), and MisuseError for an invalid group or
  // id. A call that throws may still have taken effect: finish() and abandon() may be
  // repeated.
  virtual Start start(std::string_view group, std::string_view event_id) = 0;

  // finish(): the event is done. abandon(): it is not, and may be begun again at once. False,
  // and nothing changes, if another consumer has begun since: the caller was declared dead.
  // Until then both work even if the lease has expired.
  virtual bool finish(std::string_view group, std::string_view event_id, std::int64_t fence) = 0;
  virtual bool abandon(std::string_view group, std::string_view event_id, std::int64_t fence) = 0;
};

// For tests, and for consumers in one process: its records end with the process. Keeps a few
// hundred bytes for each event within the retention: make that short.
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
// clock, on a connection of the store's pool: as safe as its commits, and not part of the
// caller's transaction. On SQLite, which has one writer at a time, a thread with an open
// transaction cannot call it.
//
// From its first start() on, a thread removes the records whose retention is over.
//
// Throws MisuseError if the store is null or has no SQL, or for invalid options.
// Thread-safe. After fork() the child must not use it.
OUTBOX_EXPORT std::shared_ptr<ConsumptionTracker> database_tracker(
    std::shared_ptr<Store> store, TrackerOptions tracking = {},
    DatabaseTrackerOptions options = {});

struct IdempotentOptions {
  // An event that another consumer is processing is tried again after this long, or sooner if
  // that consumer is declared dead sooner.
  std::chrono::milliseconds ask_again{1'000};

  // How long to retry while the tracker is unreachable and an effect has yet to be recorded. The
  // worker waits meanwhile.
  std::chrono::milliseconds finish_within{5'000};

  Logger log{};  // empty: standard_error_log()
};

// Wraps a listener: skips events that the group has processed, and defers those that another
// consumer is processing, without spending an attempt. An event is done when the inner listener
// returns done; when it throws or returns anything else, the event may be begun again at once.
//
// While the tracker is unreachable, the listener is not called and no attempt is spent. If it
// becomes unreachable between an effect and its record, the call is retried for a while
// (finish_within); then the inner listener's outcome counts nevertheless, and an error is logged.
// The outbox makes the event DONE in its own table, so that it does not come again unless that
// fails as well; failing it would make sure that it does.
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
