// The facade for applications: writes, reads and delivers events.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "outbox/admin/dead_events.h"
#include "outbox/admin/purge.h"
#include "outbox/error.h"
#include "outbox/event.h"
#include "outbox/export.h"
#include "outbox/listener.h"
#include "outbox/options.h"
#include "outbox/spi/dispatcher.h"
#include "outbox/spi/store.h"
#include "outbox/transaction.h"
#include "outbox/writer.h"

namespace outbox {

// Who delivers the events of a table.
enum class Mode {
  // One instance delivers everything; others are standbys and take over when it
  // shuts down or dies.
  single_node,

  // Instances share the work: by shards, or row by row with `row_claims`. (On a
  // store with a single shard, such as SQLite, shards cannot be shared: there
  // the others are standbys.)
  multi_node,

  // As single_node, but all events are delivered one after the other, whatever their aggregate: if
  // a transaction committed before another one wrote its first event, its events come first.
  // (For overlapping transactions, and instances in another mode beside this one, see
  // docs/architecture.md, "One order of all events".)
  ordered,

  // Nothing is delivered here: another program does it, such as a relay or CDC.
  writer_only,
};

struct Options {
  Mode mode = Mode::single_node;

  // Of a subscription that is new to the table: where it begins. See Outbox::subscribe().
  std::optional<Begin> begin{};
  int workers = kDefaultWorkers;

  // Per aggregate: an event waits for the older ones of its aggregate. None: a
  // commit hands its events to the workers directly. (Total: see Mode::ordered.)
  Ordering ordering = Ordering::per_aggregate;

  // Unset: OnUnroutable::dead or, for a subscription, OnUnroutable::ignore.
  std::optional<OnUnroutable> on_unroutable{};

  // How long to wait after a read that found nothing, unless woken by a commit.
  OptionSpan<option::poll_interval> poll_interval = kDefaultPollInterval;

  // Own rows one by one instead of whole shards, so that instances share the
  // work without any order: needs Mode::multi_node and Ordering::none. End
  // transactions before close(): a row that is committed after it stays claimed
  // until `lease.claim` has passed. `skip_recent`: do not claim events younger than this.
  bool row_claims = false;
  OptionSpan<option::skip_recent> skip_recent{std::chrono::milliseconds{0}};

  // See options.h for their members.
  QueueOptions queue{};       // capacities and batch
  RetryOptions retry{};       // policy and max_attempts
  DeadOptions dead{};         // what follows a dead event; dead letters
  BreakerOptions breaker{};   // how long the breaker of an unavailable listener stays open
  LeaseOptions lease{};       // how long this instance owns what it delivers
  TimeoutOptions timeouts{};  // draining, calls that hang, an engine that stalls

  std::vector<std::shared_ptr<Interceptor>> interceptors{};  // the first wraps all others
  std::vector<std::shared_ptr<WriterHook>> hooks{};

  // Housekeeping while it runs; see purge.h and dead_events.h. An empty `log` in
  // them means the one below.
  std::optional<PurgeOptions> purge{};
  std::optional<ReplaySchedule> replay_dead{};

  // A poison candidate (an event that may have killed the process) becomes DEAD after
  // this many crashes while it was delivered alone.
  int max_solo_crashes = kDefaultMaxSoloCrashes;

  std::string name{};  // of this instance, for operators
  Logger log{};        // empty: standard_error_log()
  std::shared_ptr<Metrics> metrics{};
};

// The health of an outbox, for probes and for people.
struct Health {
  // False: only a restart of the process helps, because every worker is
  // inside a call that does not return.
  bool live = true;

  // False: it cannot deliver, or cannot store status updates: not started,
  // closed, or the database is unreachable.
  bool ready = true;

  // Why, and what else is unusual (paused, a standby, a listener that is
  // unavailable, hangs or is missing), one sentence each.
  std::vector<std::string> reasons{};
};

// A whole outbox on one store.
//
//   auto db = outbox::sqlite::open("shop.db");
//   outbox::Listeners on;
//   on.add("Order", "OrderPlaced", [](const outbox::Event& e) { bill(e); });
//   outbox::Outbox box{db, on};
//   box.start();
//
//   auto tx = box.begin();
//   tx.execute("INSERT INTO orders(id) VALUES (?)", 42);
//   tx.write({.type = "OrderPlaced", .aggregate_type = "Order", .aggregate_id = "42",
//             .payload = outbox::json("{}")});
//   tx.commit();  // delivered microseconds later
//
// Thread-safe. After fork() the child must not use it. Transactions must be over
// before it is destroyed. Its listeners and other callbacks must not destroy it, which
// ends the program, nor close it or wait for it: close() and
// wait_idle() throw MisuseError there, and change nothing.
class OUTBOX_EXPORT Outbox {
 public:
  // Throws MisuseError for invalid options, or options that the store does not
  // support, and without any listener, because every event would then be DEAD: to write
  // only, set Mode::writer_only.
  Outbox(std::shared_ptr<Store> store, Listeners listeners, Options options = {});

  // An outbox whose events are delivered to subscriptions: call subscribe() before start(). Of the
  // options `hooks`, `purge`, `name`, `log` and `metrics` are used.
  explicit Outbox(std::shared_ptr<Store> store, Options options = {});

  ~Outbox();  // closes
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;

  // One more receiver of the events, with its own progress, leases, retries, dead events and pace:
  // one that fails, or is down for a day, costs the others nothing.
  //
  //   box.subscribe("billing", billing, {.begin = outbox::Begin::now});
  //   box.subscribe("search", search, {.begin = outbox::Begin::beginning, .workers = 8});
  //
  // Its name is its identity: the table remembers it, and keeps what it has not received, until
  // Admin::drop_subscription(). One that is new needs `begin`, unless it is the first of a table
  // that has delivered nothing yet. Events for which it has no listener are for others.
  // An empty `name`, `log` or `metrics` means the outbox's; there are no `hooks` and no `purge`.
  //
  // Before start() or while it runs. Throws MisuseError for invalid options, a name that is
  // taken here, a store without subscriptions (Capabilities), and in any callback; RetryableError
  // while the database is unreachable.
  void subscribe(const std::string& name, Listeners listeners, Options options = {});

  // Starts delivery. Writing works without it. Throws MisuseError after
  // close(), and if there is nobody to deliver to.
  void start();

  Transaction begin() { return writer().begin(); }
  Writer& writer();

  // The calls below speak for all subscriptions of this outbox together. wait_idle(), wake(),
  // pause() and resume() throw MisuseError with Mode::writer_only.

  // Waits until no event is pending, not even a delayed or retrying one; false
  // on timeout. Throws RetryableError while the database is unreachable.
  bool wait_idle(std::chrono::milliseconds timeout);

  // Polls for events now, e.g. because another program wrote some.
  void wake();

  // Whether this instance owns (part of) the table, or is the standby of another.
  bool owner() const;

  Health health() const;

  // Deliver nothing, or nothing to one listener, until resume(). Calls that are
  // running, or about to, end as usual; other events of the same aggregates
  // wait. Queued events stay owned by this instance. Pausing is idempotent.
  // Throws MisuseError if nobody listens to the pair.
  void pause();
  void resume();
  void pause(const Name& aggregate_type, const Name& type);
  void resume(const Name& aggregate_type, const Name& type);

  // How many events are taken from the store and not yet acknowledged.
  std::size_t in_flight() const;

  // Graceful shutdown: takes no more events, delivers queued ones within timeouts.drain,
  // stores their outcomes, and releases its lease. Events that were not begun stay
  // pending. Running calls are waited for in any case. Idempotent.
  void close();

  // The same, with another limit for queued events, such as the time between
  // SIGTERM and SIGKILL; zero: nothing more is begun. Throws MisuseError if it is negative.
  void close(std::chrono::milliseconds drain);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace outbox
