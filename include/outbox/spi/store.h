// The contract between the engine and a database.
//
// A store keeps one table of events and hands out two things: connections, on
// which users run their transactions and events are inserted, and instances,
// through which an engine owns, reads and updates events. To write a store
// for another database, implement Store, Connection and the parts of an Instance below, and run
// the conformance suite (tests/conformance) on it; docs/architecture.md argues why
// these promises are enough. That is all it takes to deliver events; the operators'
// calls are a class of their own, and can come later: see admin/admin.h.
//
// A row's life, and the column `hold`
//
//   status  NEW -> DONE | RETRY | DEAD;  RETRY -> DONE | RETRY | DEAD;
//           DONE and DEAD are left only by an operator's replay.
//   hold    0     ready
//           > 0   held in the lane of that key, behind what blocks it
//           < 0   minus the microseconds since 1970 at which it is due
//           NULL  finished
//
// Rows that other programs insert by plain SQL get hold 0 and are delivered like
// any other. `seq` is assigned by the database and grows with every insert; if
// a transaction committed before another one took its seq, the first one's seq
// is lower, and every read that sees the second sees the first.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "outbox/event.h"
#include "outbox/export.h"
#include "outbox/options.h"
#include "outbox/row.h"

struct pg_conn;   // libpq's PGconn
struct st_mysql;  // libmariadb's MYSQL
struct sqlite3;

namespace outbox {

class Admin;
class ExecutorDialect;

enum class Status : std::uint8_t { pending = 0, done = 1, retry = 2, dead = 3 };

// "NEW", "DONE", "RETRY", "DEAD".
OUTBOX_EXPORT std::string_view to_string(Status status);

using Seq = std::int64_t;

// Names a lane: events with the same key are delivered one after the other.
// Positive, or kNoLane for an event that waits for nobody.
using LaneKey = std::int64_t;
inline constexpr LaneKey kNoLane = 0;

// The address of a row. `hold` is the value it was read with, so that an update
// can use the index that served the read.
struct RowRef {
  Seq seq = 0;
  int shard = 0;

  // The row's own shard, for an engine that reads all shards as one, its shard 0. Stores
  // do not use it.
  int stored_in = 0;

  std::int64_t hold = 0;
};

// A row as an engine reads it.
struct Row {
  RowRef ref{};
  Event event;
  Status status = Status::pending;
  int attempts = 0;  // failed ones
  int crashes = 0;   // deaths of a process while this event was a poison candidate

  // Which handlers of a fan-out have succeeded: their names, joined by commas.
  std::string progress{};

  // How long until the event is available, by the database's clock; not positive: now.
  // At most a year, so that it can be added to the time of any clock.
  std::chrono::microseconds available_in{0};

  // Claimed from an owner whose lock had expired: this event may have killed it.
  bool reclaimed = false;

  // Not empty: the row cannot be decoded, and why. `event` then holds the parts that
  // could be read; its id and the address are right.
  std::string defect{};

  // The event's payload was not read, because the engine has it; see ReadLimit::taken.
  bool without_payload = false;
};

// How much a read may return.
struct ReadLimit {
  ReadLimit(std::size_t most_rows)  // NOLINT(google-explicit-constructor): mostly all that counts
      : rows(most_rows) {}
  ReadLimit(std::size_t most_rows, std::size_t most_bytes,
            std::function<bool(std::string_view event_id)> is_taken)
      : rows(most_rows), bytes(most_bytes), taken(std::move(is_taken)) {}

  std::size_t rows = 0;

  // Bytes of payloads. The row that reaches the limit is the last: at least one is returned,
  // however large it is. Rows beyond it are not fetched from the database.
  std::size_t bytes = std::numeric_limits<std::size_t>::max();

  // Whether the engine has this event already. If so, its bytes do not count, and the
  // store may leave its payload out. Empty: not known.
  std::function<bool(std::string_view event_id)> taken{};
};

// Rows in the order of their seq within each shard, or over all of them; see
// InstanceOptions::total_order. `more` is set when the limit cut the result.
struct Rows {
  std::vector<Row> rows{};
  bool more = false;
};

// Rows whose time has come, earliest first, those due at the same moment in
// the order of their seq; and how long until the next one is due, at most a year.
struct DueRows {
  std::vector<Row> rows{};
  bool more = false;
  std::optional<std::chrono::microseconds> next_in{};
};

// A lane with held rows, and its first row.
struct HeldLane {
  LaneKey key = kNoLane;
  int shard = 0;
  Seq first = 0;
  Status status = Status::pending;
  std::chrono::microseconds available_in{0};
};

// The address of a lane.
struct LaneRef {
  int shard = 0;
  LaneKey key = kNoLane;
  friend bool operator==(const LaneRef&, const LaneRef&) = default;
};

// A change of an event's row. All values are absolute, so that repeating an update
// whose outcome is unknown does no harm.
struct StatusUpdate {
  enum class Kind : std::uint8_t {
    done,     // status DONE, finished (or the row deleted, if the store does so)
    retry,    // status RETRY, error, crashes 0; waits `delay`
    defer,    // waits `delay`, with `crashes`; status and attempts stay; error if there is one
    dead,     // status DEAD, error; finished, or kept first in its lane
    hold,     // held in `lane`, or until it is available if kNoLane
    crashes,  // only `crashes` changes
    unblock,  // a DEAD row that was kept in its lane: finished, nothing else changes
  };

  RowRef row{};
  std::string event_id{};
  Kind kind = Kind::done;

  // retry, defer: the lane that waits with the event, or kNoLane if it waits alone.
  // dead: the lane that it blocks, or kNoLane. hold: see there.
  LaneKey lane = kNoLane;

  int attempts = 0;
  int crashes = 0;
  std::chrono::microseconds delay{0};
  std::string error{};     // already truncated to 4,000 characters of valid UTF-8
  std::string progress{};  // retry, defer, dead
};

struct UpdateResult {
  // This instance no longer owns the rows, and nothing was changed.
  bool fenced = false;

  // Indexes of updates that changed nothing because the row is no longer NEW or
  // RETRY (`unblock`: DEAD), or belongs to somebody else. A repeat, whose change was made
  // before, is not stale.
  std::vector<std::size_t> stale{};
};

// What Instance::flush() has come to.
struct FlushResult {
  // As UpdateResult::fenced: nothing was stored, and nothing will be in this epoch.
  bool fenced = false;

  // In how long to call it again; nullopt: nothing waits to be stored.
  std::optional<std::chrono::milliseconds> next_in{};
};

// What an instance owns, as of one renewal.
struct Lease {
  // Grows with every take-over; 0 while the instance is a standby and owns nothing. If
  // the epoch has changed, everything owned before is lost.
  std::int64_t epoch = 0;

  std::vector<int> shards{};    // to read from
  std::vector<int> draining{};  // to drain, then to give back with release()

  // Shards gained since the last renewal from an owner that died, and how many
  // events it may have had in flight.
  struct Inherited {
    int shard = 0;
    std::size_t candidates = 0;
  };
  std::vector<Inherited> inherited{};
};

struct InstanceOptions {
  // Shown to operators. Empty: host name and process id.
  std::string name{};

  // How many events this instance may have in flight, for the one that takes
  // over after its death.
  std::size_t capacity = 1000;

  // Without a renewal for this long, others may take over. Stores that detect
  // death in another way ignore it.
  std::chrono::milliseconds lease = LeaseOptions{}.duration;

  // Own all shards or none: of the exclusive instances the oldest gets
  // everything, and all others are standbys until it has left or died. It may own only some
  // shards for a while, until instances that are not exclusive have drained theirs.
  bool exclusive = false;

  // ready() returns rows in one order of seq over all its shards: a row only together with all
  // earlier ready rows that this read sees, except those returned before. See Capabilities.
  bool total_order = false;

  // Own rows by claiming each (locked_by, locked_at) instead of whole shards.
  bool row_claims = false;
  std::chrono::milliseconds lock_timeout = LeaseOptions{}.claim;
};

// One engine's membership: what it owns, reads and updates. Each of these three is a part of its
// own; they may be used at the same time, but each by one thread at a time. All calls throw
// RetryableError while the database is unreachable, and PermanentError when it can't be used.
class OUTBOX_EXPORT Instance {
 public:
  class OUTBOX_EXPORT Ownership {
   public:
    virtual ~Ownership() = default;

    // Joins, renews the lease, takes over from dead instances, and balances. Call it
    // well within the lease. With row claims it only registers.
    virtual Lease renew() = 0;

    // The epoch of its registration, even if renew() has made a new one and not returned yet, or
    // failed afterwards; 0 if there is none. Rows belong to the registration that exists when
    // the read ends, so do not deliver them if the read began in another epoch.
    // Thread-safe.
    virtual std::int64_t epoch() const = 0;

    // How long a lease lasts from the moment renew() was called; nullopt if it
    // cannot expire while the process lives.
    virtual std::optional<std::chrono::milliseconds> lease_duration() const = 0;

    // Gives back a draining shard that has been drained.
    virtual void release(int shard) = 0;

    // Gives everything back, so that no event becomes a poison candidate. Idempotent.
    virtual void leave() = 0;

    // The name under which this instance claims rows.
    virtual const std::string& owner() const = 0;
  };

  // Each call sees everything that was committed before it.
  class OUTBOX_EXPORT Reader {
   public:
    virtual ~Reader() = default;

    // Rows that are ready, from the lowest seq on. Rows returned before may be
    // missing until rewind() is called for them; the store may also return
    // them again: the engine knows which ones it has. `in_flight` says how many
    // it has, so that a store that starts at the lowest row each time can read
    // past them. Sets `more` if there may be further rows.
    virtual Rows ready(std::span<const int> shards, std::size_t in_flight,
                       const ReadLimit& limit) = 0;

    // The next ready() starts no later than at this row. 0 means at the lowest.
    virtual void rewind(Seq seq) = 0;

    virtual DueRows due(std::span<const int> shards, const ReadLimit& limit) = 0;

    // The rows held in these lanes, of one shard each, in one order of seq, from the lowest on,
    // including those due only later and DEAD ones that block the lane. Several lanes only if
    // the store supports total_order.
    virtual Rows held(std::span<const LaneRef> lanes, const ReadLimit& limit) = 0;

    // The lanes that have rows held, by ascending key, starting after
    // `after`.
    virtual std::vector<HeldLane> held_lanes(int shard, LaneKey after, std::size_t limit) = 0;

    // The lanes of these shards in which an operator has replayed or discarded a DEAD
    // event that was kept in them: by Admin::replay() or Admin::discard(), committed before
    // this call. At most `limit`; a lane may be returned more than once. The next call
    // forgets the lanes that this one returned. It costs next to nothing, however many lanes
    // are blocked. A store that keeps no such notes returns none: the engine then checks
    // blocked lanes in turn.
    virtual std::vector<LaneRef> unblocked(std::span<const int> /*shards*/, std::size_t /*limit*/) {
      return {};
    }
  };

  // With row claims, in place of most of Reader, and used by the same thread.
  class OUTBOX_EXPORT Claims {
   public:
    virtual ~Claims() = default;

    // Claims ready and due rows for this instance: free ones, and those whose
    // lock has expired (`reclaimed`); none that occurred less than `skip_recent` ago. Two
    // claimers never get the same row and never wait for each other.
    virtual Rows claim(std::chrono::milliseconds skip_recent, const ReadLimit& limit) = 0;

    // Gives claimed rows back; those no longer claimed by this instance are left
    // alone.
    virtual void unclaim(std::span<const RowRef> rows) = 0;
  };

  class OUTBOX_EXPORT Updates {
   public:
    virtual ~Updates() = default;

    // Applies the updates in one transaction if this instance still owns the rows:
    // the epoch, that of the lease in which they were read, is compared under a
    // lock in the same transaction (with row claims: locked_by of each row).
    //
    // A store that keeps progress by position may take `done` of an event that it has returned in
    // this epoch, and has no row of its own for, in memory alone. Others see it with the next
    // flush(), which may be fenced; what was not flushed when the instance dies is delivered again.
    virtual UpdateResult apply(std::int64_t epoch, std::span<const StatusUpdate> updates) = 0;

    // Stores what apply() has taken in memory: `at_once`, or when the store finds it worth while,
    // which it says. Not later than that it is called again by the thread that calls apply(). What
    // was taken before a release() or leave() is stored by that, as far as the store can be
    // reached.
    virtual FlushResult flush(std::int64_t /*epoch*/, bool /*at_once*/) { return {}; }

    // Whether updates may be of events that ready() has not returned: where not, no event is
    // delivered before it has been read.
    virtual bool takes_unread() const { return true; }
  };

  virtual ~Instance() = default;
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  Lease renew() { return ownership_->renew(); }
  std::int64_t epoch() const { return ownership_->epoch(); }
  std::optional<std::chrono::milliseconds> lease_duration() const {
    return ownership_->lease_duration();
  }
  void release(int shard) { ownership_->release(shard); }
  void leave() { ownership_->leave(); }
  const std::string& owner() const { return ownership_->owner(); }

  Rows ready(std::span<const int> shards, std::size_t in_flight, const ReadLimit& limit) {
    return reader_->ready(shards, in_flight, limit);
  }
  void rewind(Seq seq) { reader_->rewind(seq); }
  DueRows due(std::span<const int> shards, const ReadLimit& limit) {
    return reader_->due(shards, limit);
  }
  Rows held(std::span<const LaneRef> lanes, const ReadLimit& limit) {
    return reader_->held(lanes, limit);
  }
  Rows held(const LaneRef& lane, const ReadLimit& limit) {
    return held(std::span(&lane, 1), limit);
  }
  std::vector<HeldLane> held_lanes(int shard, LaneKey after, std::size_t limit) {
    return reader_->held_lanes(shard, after, limit);
  }
  std::vector<LaneRef> unblocked(std::span<const int> shards, std::size_t limit) {
    return reader_->unblocked(shards, limit);
  }
  Rows claim(std::chrono::milliseconds skip_recent, const ReadLimit& limit) {
    return claims_->claim(skip_recent, limit);
  }
  void unclaim(std::span<const RowRef> rows) { claims_->unclaim(rows); }

  UpdateResult apply(std::int64_t epoch, std::span<const StatusUpdate> updates) {
    return updates_->apply(epoch, updates);
  }
  FlushResult flush(std::int64_t epoch, bool at_once) { return updates_->flush(epoch, at_once); }
  bool takes_unread() const { return updates_->takes_unread(); }

 protected:
  Instance() = default;

  // To be called once, by the constructor of what owns the parts.
  void be_made_of(Ownership& ownership, Reader& reader, Claims& claims, Updates& updates) {
    ownership_ = &ownership;
    reader_ = &reader;
    claims_ = &claims;
    updates_ = &updates;
  }

 private:
  Ownership* ownership_ = nullptr;
  Reader* reader_ = nullptr;
  Claims* claims_ = nullptr;
  Updates* updates_ = nullptr;
};

// An instance in one piece, which is all of its parts by itself: for what wraps another one, and
// for stores whose parts share everything.
class OUTBOX_EXPORT WholeInstance : public Instance,
                                    public Instance::Ownership,
                                    public Instance::Reader,
                                    public Instance::Claims,
                                    public Instance::Updates {
 protected:
  WholeInstance() { be_made_of(*this, *this, *this, *this); }
};

class Watch;

struct InsertOptions {
  // Not empty: the rows are inserted as claimed by this owner, except those not yet
  // available, which it would not deliver.
  std::string owner{};

  // The watch of an engine that hears of the commit from the writer: the store need not call it. It
  // is compared, not used, so it may have ended.
  const Watch* told = nullptr;
};

// A connection to the store's database, used by one thread at a time. It comes
// from the store's pool and goes back to it when destroyed, rolled back if
// necessary; or it wraps one of the user's own.
class OUTBOX_EXPORT Connection {
 public:
  virtual ~Connection() = default;

  virtual void begin() = 0;

  // Throws OutcomeUnknownError if the answer was lost, any other Error if the
  // transaction certainly did not commit; it is over either way.
  virtual void commit() = 0;

  virtual void rollback() = 0;
  virtual bool in_transaction() const = 0;

  virtual void savepoint(const std::string& name) = 0;
  virtual void release(const std::string& name) = 0;
  virtual void rollback_to(const std::string& name) = 0;

  // Runs one statement with `?` (or the database's own) placeholders. Returns the
  // number of rows it changed, or the rows of its result.
  virtual std::int64_t execute(std::string_view sql, std::span<const Parameter> values) = 0;
  virtual std::vector<ResultRow> query(std::string_view sql, std::span<const Parameter> values) = 0;

  // Inserts the events in the open transaction with as few statements as the
  // database allows. Returns their addresses, in order. An event that is not yet
  // available by the store's clock gets a negative hold. A store may be opened to
  // defer the insert to the commit: seq and shard are 0 until then.
  virtual std::vector<RowRef> insert(std::span<const Event> events,
                                     const InsertOptions& options) = 0;

  // After commit(): the addresses of delayed rows, in order, without what was
  // rolled back to a savepoint. Empty if none is delayed.
  virtual std::vector<RowRef> deferred_rows() const { return {}; }
};

// How many rows are in which state. Metrics show `pending`, `dead` and `oldest_pending`; operators
// see them all.
struct Counts {
  std::int64_t pending = 0;  // NEW and RETRY
  std::int64_t dead = 0;

  // Rows that contradict themselves: an unknown status, or a hold that contradicts it.
  // They are not delivered. Counted where the store can do so cheaply.
  std::int64_t broken = 0;

  // Of the pending ones; a row may be in several of these.
  std::int64_t retry = 0;    // failed before
  std::int64_t delayed = 0;  // wait alone until they are due
  std::int64_t held = 0;     // wait in their lane

  // Of the payloads of pending events. Counted where the table can have subscriptions, for which
  // it keeps them.
  std::int64_t pending_bytes = 0;

  // When the oldest event that could be delivered now (neither delayed nor held)
  // occurred; nullopt if there is none.
  std::optional<Time> oldest_pending{};
};

// The SQL dialect of a store, for execute() and query().
enum class Dialect : std::uint8_t { none, sqlite, postgres, mysql };

// What a store can do; the conformance suite tests the capabilities that are set, and the
// engine refuses options that need others.
struct Capabilities {
  int shards = 1;
  bool expiring_leases = false;  // a lease expires by time
  bool row_claims = false;
  Dialect dialect = Dialect::none;  // none: execute() and query() throw
  bool many_processes = false;
  bool one_writer = false;  // a transaction waits until the one before it has ended

  // InstanceOptions::total_order, and several lanes at once. Trivial with a single shard.
  bool total_order = false;

  // Several receivers of one table; see Store::subscription().
  bool subscriptions = false;

  // By position, nobody notes when an event became DONE: for operators as for the purge that is
  // when it was available. And a late `done` is not stale but repeated by the next owner; see
  // Instance::flush().
  Progress progress = Progress::row;
};

// Stops watching when destroyed.
class OUTBOX_EXPORT Watch {
 public:
  virtual ~Watch() = default;
};

// A connection of the user's own.
using ExternalHandle = std::variant<pg_conn*, st_mysql*, sqlite3*>;

// One table of events in one database. Thread-safe.
class OUTBOX_EXPORT Store {
 public:
  virtual ~Store() = default;

  // For messages: the kind of database, where it is, and the table; never a
  // password.
  virtual std::string description() const = 0;
  virtual Capabilities capabilities() const = 0;
  virtual const Clock& clock() const = 0;

  // The quoted name of the side table `<table>_<name>`, for SQL. Throws MisuseError if the
  // store has no SQL.
  virtual std::string side_table(std::string_view name) const = 0;

  // A connection from the pool. Waits while all are in use, up to a deadline;
  // then throws a RetryableError that says which limit was hit.
  virtual std::unique_ptr<Connection> connect() = 0;

  // Wraps the user's own connection, to write events in its transactions; see
  // outbox::wrap() in postgres.h and the like. Throws MisuseError if it is not open, or leads to
  // another database than this store's.
  virtual std::unique_ptr<Connection> wrap(ExternalHandle handle);

  // Makes statements for client libraries that are used through an executor; null if the store
  // supports none. See external.h.
  virtual std::shared_ptr<const ExecutorDialect> executor_dialect() const { return nullptr; }

  virtual std::unique_ptr<Instance> join(InstanceOptions options) = 0;

  // The same table as that subscription sees it: instances, counts and operators' calls of the
  // returned store are its own; events that it writes are everybody's. It may outlive this one.
  // Throws MisuseError if the table has no subscription of that name (Admin::create_subscription()
  // makes one), or can have none.
  virtual std::shared_ptr<Store> subscription(std::string_view name);

  // Calls `on_commit` (from another thread, with no lock held) soon after
  // any process, including this one, may have committed events. Null if the
  // database cannot tell: the engine then relies on polling.
  virtual std::unique_ptr<Watch> watch(std::function<void()> on_commit) = 0;

  // --- Queries about the whole table ---

  // Whether any event is NEW or RETRY, whenever it is due. Outbox::wait_idle() calls it
  // repeatedly: it must be cheap.
  virtual bool has_pending() = 0;

  // For the gauges of Metrics, and for operators. Costs a scan of the unfinished and the dead
  // events.
  virtual Counts counts() = 0;

  // --- Operators' calls ---

  // Belongs to the store, lives as long as it does, and is thread-safe, too. Delivering needs none
  // of it: a store that does not support operators yet returns a plain Admin, which refuses every
  // call. A store that wraps another one may return that one's.
  virtual Admin& admin() = 0;
};

}  // namespace outbox
