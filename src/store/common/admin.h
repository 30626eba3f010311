// What the calls of operators come down to in every database.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "outbox/admin/admin.h"
#include "outbox/clock.h"

namespace outbox {

// A choice of statuses as a statement takes it: a bit for each. None is any.
using StatusBits = std::int64_t;

constexpr StatusBits bit(Status status) { return StatusBits{1} << static_cast<int>(status); }
inline constexpr StatusBits kUnfinished = bit(Status::pending) | bit(Status::retry);
inline constexpr StatusBits kFinished = bit(Status::done) | bit(Status::dead);

StatusBits bits(const std::vector<Status>& statuses);

// What a replay by that filter takes: the dead unless it names others. None is none here,
// because what is not finished cannot be replayed.
StatusBits replayable(const EventFilter& filter);

// The status that a purge looks for, absent if for any.
std::optional<std::int64_t> status_of(Purgeable what);

// One statement for each index that can serve the statuses.
template <class Sql>
const Sql& serving(StatusBits statuses, const Sql& dead, const Sql& unfinished, const Sql& any) {
  if (statuses == bit(Status::dead)) return dead;
  if (statuses != 0 && (statuses & ~kUnfinished) == 0) return unfinished;
  return any;
}

// The rows that a step of a bulk operation is to change, by what the store calls them: the first
// `limit` of those that a search for one more found. Used by one thread at a time.
template <class Key>
class BulkStep {
 public:
  BulkStep(Seq after, std::size_t limit) : limit_(limit) { changed_.through = after; }

  // By seq. False if this one is too many: it is left for the next step, and so are those behind.
  bool add(Seq seq, Key key) {
    if (keys_.size() == limit_) {
      changed_.more = true;
      return false;
    }
    changed_.through = seq;
    keys_.push_back(std::move(key));
    return true;
  }

  const std::vector<Key>& keys() const { return keys_; }

  // What the step comes to if it changed this many of them.
  Changed changed(std::int64_t rows) {
    changed_.rows = rows;
    return changed_;
  }

 private:
  const std::size_t limit_;
  std::vector<Key> keys_;
  Changed changed_{};
};

// The aggregates that wait, gathered from the rows of their lanes. Used by one thread at
// a time.
class HeldAggregates {
 public:
  // How many rows of a lane are worth reading: a head, and as many behind it as are
  // counted.
  static constexpr std::int64_t kRowsOfLane = 1'001;

  explicit HeldAggregates(std::size_t limit) : limit_(limit) {}

  bool full() const { return all_.size() >= limit_; }

  // The rows of each lane follow its begin, in order. There is one aggregate in it as a
  // rule; more if their keys collide.
  void begin_lane() { lane_ = all_.size(); }
  void add(HeldAggregate row);

  std::vector<HeldAggregate> take() { return std::move(all_); }

 private:
  const std::size_t limit_;
  std::vector<HeldAggregate> all_;
  std::size_t lane_ = 0;  // where the aggregates of the present one begin
};

// The rows of a server's answer, one after the other, as a run of SQLite's gives them. Columns
// count from 0; views last as long as this.
template <class Result>
class ResultRows {
 public:
  explicit ResultRows(Result result) : result_(std::move(result)) {}

  // To the next row; false at the end.
  bool step() { return ++row_ < result_.rows(); }

  std::int64_t integer(int column) const { return result_.integer(row_, column); }
  std::optional<std::int64_t> optional_integer(int column) const {
    return result_.optional_integer(row_, column);
  }
  std::string_view text(int column) const { return result_.text(row_, column); }
  Time time(int column) const { return result_.time(row_, column); }
  std::optional<Time> optional_time(int column) const {
    return result_.optional_time(row_, column);
  }

  const Result& result() const { return result_; }
  int row() const { return row_; }

 private:
  Result result_;
  int row_ = -1;
};

// What the rows stand on, as an operator sees it: `row` is what decode_row() makes of the first
// columns of a {record}.
template <class Found>
EventRecord record_of(const Found& found, Row row, int hold_column, int row_columns) {
  return {.row = std::move(row),
          .hold = found.optional_integer(hold_column),
          .last_error = std::string(found.text(row_columns)),
          .locked_by = std::string(found.text(row_columns + 1)),
          .done_at = found.optional_time(row_columns + 2)};
}

}  // namespace outbox
