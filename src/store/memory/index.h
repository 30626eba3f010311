// The indexes that let every read cost what it returns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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

}  // namespace outbox::memory
