// The operators' view of a table of events: searching, replaying, discarding, purging.
//
//   outbox::Admin& admin = store->admin();
//   if (const auto event = admin.find(id); event && event->row.status == outbox::Status::dead) {
//     std::cerr << event->last_error << '\n';
//     admin.replay(id);
//   }
//
// Most programs use the classes on top of it: DeadEvents and ScheduledReplay (dead_events.h), which
// find, list, count, replay and discard, and Purger (purge.h). The `outbox` binary uses all of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "outbox/clock.h"
#include "outbox/export.h"
#include "outbox/spi/store.h"

namespace outbox {

// A range of time: `from` is inclusive, `until` exclusive. An absent end is open.
struct TimeRange {
  std::optional<Time> from{};
  std::optional<Time> until{};

  bool bounded() const { return from.has_value() || until.has_value(); }
};

// Which events an operator means. Fields that are not set match everything:
//
//   admin.list({.status = {Status::dead}, .type = "OrderPlaced"}, 0, 100);
struct EventFilter {
  std::vector<Status> status{};
  std::string type{};
  std::string aggregate_type{};
  std::string aggregate_id{};
  std::string tenant_id{};

  // Somewhere in the last error, byte by byte: no character is special.
  std::string error_contains{};

  TimeRange occurred{};
  TimeRange finished{};  // when they became DONE or DEAD
};

// What one step of a bulk operation did. The next step begins after `through`,
// so that a walk over all rows ends even if changed rows change back.
struct Changed {
  std::int64_t rows = 0;  // how many were changed
  Seq through = 0;        // the last row that was examined
  bool more = false;      // there may be rows beyond it
};

// DEAD events with the same cause.
struct DeadGroup {
  std::string aggregate_type{};
  std::string type{};
  std::string error{};  // its first 200 characters
  std::int64_t count = 0;
  Time first{};  // when the first and the last of them died
  Time last{};
  std::string example_id{};  // of one of them
};

// An instance that owns events, or owned them last. Instances that claim single
// rows need not be listed.
struct Member {
  std::string name{};
  std::string host{};
  std::int64_t pid = 0;
  Time registered_at{};
  bool alive = false;  // as far as the store can tell
  std::int64_t epoch = 0;
  std::vector<int> shards{};
};

// What purge() removes.
enum class Purgeable : std::uint8_t {
  done,  // events that became DONE before the given time
  dead,  // events that became DEAD before the given time and block no lane

  // Events that occurred before the given time, in whatever state, delivered or not:
  // for append-only tables that nobody updates. If an engine has such an event in
  // flight after all, its update will be stale.
  any_age,
};

// A row as an operator sees it.
struct EventRecord {
  Row row;
  std::optional<std::int64_t> hold{};  // nullopt: finished
  std::string last_error{};
  std::string locked_by{};
  std::optional<Time> done_at{};
};

// An aggregate that waits behind its failing or dead head.
struct HeldAggregate {
  std::string aggregate_type{};
  std::string aggregate_id{};
  std::string head_id{};
  Status head_status = Status::pending;
  int attempts = 0;
  std::string last_error{};
  std::int64_t waiting = 0;  // rows behind the head, counted up to 1,000
};

// A receiver of the table's events; see Store::subscription().
struct Subscription {
  std::string name{};
  bool stopped = false;  // it is not served, and keeps no event from being purged
  Time since{};          // when it began, or was stopped
  std::string why{};     // it was stopped
};

// The table of one store, as one subscription sees it. Belongs to the store, and must not be used
// after it. Thread-safe.
//
// Delivering events needs none of this, so a store may implement it call by call, or
// not at all: a call that is not implemented throws MisuseError, and says which one is missing. The
// implemented ones keep the promises below, which the conformance suite checks.
//
// All throw RetryableError while the database is unreachable, and PermanentError when it can't be
// used.
class OUTBOX_EXPORT Admin {
 public:
  virtual ~Admin() = default;

  // --- Searching ---

  virtual std::optional<EventRecord> find(std::string_view event_id);

  // The first `limit` matching events, in the order of their rows, beginning
  // after `after`. A filter for DEAD alone costs a scan of the dead events, one for
  // NEW and RETRY a scan of the unfinished ones, anything else a scan of the table.
  virtual std::vector<EventRecord> list(const EventFilter& filter, Seq after, std::size_t limit);
  virtual std::int64_t count(const EventFilter& filter);

  // Matching DEAD events (whatever filter.status says), grouped by the reason they
  // died, the largest groups first.
  virtual std::vector<DeadGroup> dead_groups(const EventFilter& filter, std::size_t limit);

  virtual std::vector<HeldAggregate> held_aggregates(std::size_t limit);
  virtual std::vector<Member> members();

  // --- Replaying and discarding ---

  // Makes a DONE or DEAD event NEW again: attempts and crashes are 0, it is available and
  // due now; error, lock and done-at are cleared, and the progress of a DONE one, too. An event
  // that blocks its lane keeps its place in it, and the lane's owner is told, see
  // Instance::unblocked(). False if the event is not finished.
  virtual bool replay(std::string_view event_id);

  // Deletes a DEAD event; if it blocked its lane, the owner is told, too. False if
  // it is not DEAD.
  virtual bool discard(std::string_view event_id);

  // As replay(event_id), for the first `limit` matching events, in the order
  // of their rows, beginning after `after`. Without filter.status the DEAD ones;
  // DONE ones only if it names them; never any others. Searches for the rows first,
  // then changes them in one statement, so that writers wait only briefly.
  virtual Changed replay(const EventFilter& filter, Seq after, std::size_t limit);

  // Deletes DEAD events (whatever filter.status says) likewise.
  virtual Changed discard(const EventFilter& filter, Seq after, std::size_t limit);

  // --- Purging ---

  // Removes the first `limit` such rows beyond `after`, with `archive` into the
  // archive table, in one transaction. NEW and RETRY are removed only with `any_age`.
  // Like replay(): first a search that keeps nobody waiting, then, if it found
  // something, one short transaction.
  virtual Changed purge(Purgeable what, Time before, Seq after, std::size_t limit, bool archive);

  // How many rows purge() would remove in all. Costs a scan of the table, or of
  // the dead.
  virtual std::int64_t count_purgeable(Purgeable what, Time before);

  // --- Subscriptions: see Store::subscription() ---

  // All of the table, by name. How far one is, its store's counts() tell.
  virtual std::vector<Subscription> subscriptions();

  // Adds one; false if it is there already. The first one of a table that has delivered nothing yet
  // takes the place of the default one; to keep that, create it, too. Any other needs `begin`:
  // throws MisuseError. A name has 1 to 100 letters, digits, `_`, `-` and `.`. Throws
  // PermanentError if it was stopped.
  virtual bool create_subscription(std::string_view name, std::optional<Begin> begin = {});

  // Lets one that was stopped begin again. Throws MisuseError if it is not stopped, or an instance
  // may still serve it.
  virtual void restart_subscription(std::string_view name, Begin begin);

  // Its progress, leases and dead events go on under the other name. Throws MisuseError while an
  // instance may serve it, and if there is no such subscription, or one of the new name.
  virtual void rename_subscription(std::string_view from, std::string_view to);

  // Forgets its progress and deletes what waits for it and its dead events; those who serve it
  // notice with their next renewal. Throws MisuseError if there is no such subscription or no other
  // one.
  virtual void drop_subscription(std::string_view name);

  // Stops the subscriptions that have an event pending which occurred before that time, and returns
  // their names: they are not served any more, and keep nothing from being purged. Their dead and
  // waiting events stay.
  virtual std::vector<std::string> stop_lagging_subscriptions(Time before);
};

}  // namespace outbox
