// The table of events.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "outbox/admin/admin.h"
#include "outbox/memory.h"
#include "outbox/spi/store.h"

namespace outbox::memory {

// A row of the table, all columns.
struct StoredRow {
  Event event;
  Seq seq = 0;
  int shard = 0;
  std::optional<std::int64_t> hold{0};
  Status status = Status::pending;
  int attempts = 0;
  int crashes = 0;
  std::string progress{};
  std::string last_error{};
  std::string locked_by{};  // stays when the row is finished: who did it
  Time locked_at{};
  Time available_at{};
  std::optional<Time> done_at{};

  bool pending() const { return status == Status::pending || status == Status::retry; }
};

// Rows in the order of a key; their nodes are big enough without a lookup of
// each row by its seq, hence the pointers.
template <class Key>
using Ordered = std::map<Key, StoredRow*>;

using DueKey = std::pair<std::int64_t, Seq>;    // microseconds since 1970
using LockKey = std::pair<Time, Seq>;           // locked at
using Lanes = std::map<LaneKey, Ordered<Seq>>;  // no lane is empty

// What an index of the database over (shard, hold, seq) gives, and one over
// the locks. Rows that somebody claimed stand apart from the free ones, so that
// a claim does not wade through what others hold.
//
// A row must be taken out before, and put back after, any change of its hold,
// lock or status; it must not move. Not thread-safe.
class Index {
 public:
  explicit Index(int shards) : shards_(static_cast<std::size_t>(shards)) {}

  int shards() const { return static_cast<int>(shards_.size()); }

  void put(StoredRow& row);
  void take(StoredRow& row);

  // The unfinished rows' positions, by shard and by whether they are claimed.
  struct Queue {
    Ordered<Seq> ready;
    Ordered<DueKey> due;
  };
  struct Shard {
    Queue free;
    Queue claimed;
    Lanes lanes;
  };
  const Shard& shard(int shard) const { return shards_.at(static_cast<std::size_t>(shard)); }

  // Those in the `claimed` queues, by the age of their lock.
  const Ordered<LockKey>& locks() const { return locks_; }

 private:
  std::vector<Shard> shards_;
  Ordered<LockKey> locks_;
};

// Reads several ordered ranges as one.
template <class Key>
class Merge {
 public:
  // From `from` on.
  void add(const Ordered<Key>& rows, const Key& from) {
    add_range(rows.lower_bound(from), rows.end());
  }
  void add(const Ordered<Key>& rows) { add_range(rows.begin(), rows.end()); }

  // The first row that is left, or null; step() goes to the next one.
  StoredRow* row() const { return ranges_.empty() ? nullptr : ranges_.front().at->second; }
  const Key& key() const { return ranges_.front().at->first; }

  void step() {
    std::pop_heap(ranges_.begin(), ranges_.end(), Later{});
    if (++ranges_.back().at == ranges_.back().end) {
      ranges_.pop_back();
    } else {
      std::push_heap(ranges_.begin(), ranges_.end(), Later{});
    }
  }

 private:
  using Iterator = typename Ordered<Key>::const_iterator;
  struct Range {
    Iterator at;
    Iterator end;
  };
  struct Later {
    bool operator()(const Range& a, const Range& b) const { return b.at->first < a.at->first; }
  };

  void add_range(Iterator begin, Iterator end) {
    if (begin == end) return;
    ranges_.push_back({begin, end});
    std::push_heap(ranges_.begin(), ranges_.end(), Later{});
  }

  std::vector<Range> ranges_;
};

// The rows, and what may be done with them: the statements that a database
// store would send. The time is passed in, so that one call sees one time.
//
// Not thread-safe; the store's mutex guards it.
class Table {
 public:
  Table(int shards, OnDone on_done) : index_(shards), on_done_(on_done) {}
  Table(const Table& other);
  Table& operator=(const Table&) = delete;

  // --- Writing ---

  // A row with the next seq, not yet in the table. Seqs of rows that never get
  // there are lost, as with any database.
  StoredRow make_row(const Event& event, const std::string& owner, Time now);
  void insert(StoredRow row);
  Seq last_seq() const { return last_seq_; }
  bool contains(std::string_view event_id) const { return ids_.contains(event_id); }

  // --- Reading ---

  // `floors` holds, for each shard, the seq to start at, and is moved past what
  // is returned. That misses nothing if transactions commit in the order of their
  // seqs: no row becomes ready again once it was not.
  Rows ready(std::span<const int> shards, const ReadLimit& limit, std::vector<Seq>& floors,
             Time now) const;
  DueRows due(std::span<const int> shards, const ReadLimit& limit, Time now) const;
  Rows held(std::span<const LaneRef> lanes, const ReadLimit& limit, Time now) const;
  std::vector<HeldLane> held_lanes(int shard, LaneKey after, std::size_t limit, Time now) const;

  // Notes of lanes in which a DEAD row was replayed or discarded, by number.
  using Notes = std::map<std::int64_t, LaneRef>;
  Notes unblocked(std::span<const int> shards, std::size_t limit) const;
  void forget_unblocked(const Notes& notes);

  // --- Claiming ---

  struct Claim {
    const std::string& owner;
    const ReadLimit& limit;
    Time occurred_until{};  // leaves alone what is younger
    Time locked_before{};   // locks older than this have expired
  };
  Rows claim(const Claim& claim, Time now);
  void unclaim(std::span<const RowRef> rows, const std::string& owner);
  void unclaim_all(const std::string& owner);

  // --- Updating ---

  // Null if there is none.
  const StoredRow* find(Seq seq) const;
  const StoredRow* find(std::string_view event_id) const;

  // Whether the update was applied, or was before. The caller has checked that
  // the row is its own to update.
  bool apply(const StatusUpdate& update, Time now);

  // With row claims: whether `owner` may apply the update, or has done so.
  enum class Right { yes, no, already_done };
  Right claimer_may(const StatusUpdate& update, const std::string& owner) const;

  // --- Operators ---

  // As the calls of the same names of Store.
  std::int64_t pending() const { return pending_; }
  std::int64_t dead() const { return static_cast<std::int64_t>(dead_.size()); }
  Counts counts(Time now) const;
  std::vector<EventRecord> list(const EventFilter& filter, Seq after, std::size_t limit,
                                Time now) const;
  std::int64_t count(const EventFilter& filter) const;
  std::vector<DeadGroup> dead_groups(const EventFilter& filter, std::size_t limit) const;
  bool replay(std::string_view event_id, Time now);
  bool discard(std::string_view event_id);
  Changed replay(const EventFilter& filter, Seq after, std::size_t limit, Time now);
  Changed discard(const EventFilter& filter, Seq after, std::size_t limit);
  Changed purge(Purgeable what, Time before, Seq after, std::size_t limit, bool archive);
  std::int64_t count_purgeable(Purgeable what, Time before) const;
  std::vector<HeldAggregate> held_aggregates(std::size_t limit) const;

  // In the order in which they were purged.
  const std::vector<StoredRow>& archived() const { return archived_; }

 private:
  // Takes the row out of the indexes and the counters, lets `change` change it,
  // and puts it back.
  template <class Change>
  void modify(StoredRow& row, Change change) {
    index_.take(row);
    count(row, -1);
    change(row);
    count(row, 1);
    index_.put(row);
  }

  void note_if_blocking(const StoredRow& row);
  void count(const StoredRow& row, std::int64_t by);
  void erase(Seq seq);

  // The rows beyond `after` that match, by seq.
  template <class Wanted>
  std::vector<Seq> select(bool dead_only, Seq after, Wanted wanted) const;
  std::vector<Seq> select(const EventFilter& filter, Seq after) const;

  Seq last_seq_ = 0;

  // Nodes of an unordered_map stay where they are: ids_ and index_ point at
  // them.
  std::unordered_map<Seq, StoredRow> rows_;
  std::unordered_map<std::string_view, Seq> ids_;
  Index index_;
  std::int64_t pending_ = 0;
  std::int64_t retrying_ = 0;
  std::set<Seq> dead_;
  std::vector<StoredRow> archived_;
  Notes unblocked_;
  std::int64_t last_note_ = 0;
  const OnDone on_done_;
};

// A row as an engine sees it at that time.
Row to_row(const StoredRow& stored, Time now);

// A row as an operator sees it.
EventRecord to_record(const StoredRow& stored, Time now);

}  // namespace outbox::memory
