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
#include <vector>

#include "outbox/memory.h"
#include "outbox/spi/store.h"
#include "store/memory/index.h"

namespace outbox::memory {

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
  Rows held(int shard, LaneKey key, const ReadLimit& limit, Time now) const;
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
