// What the questions and orders of operators come down to in every database.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "outbox/admin/admin.h"

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

// --- What the statements of operators return, in a Result with rows and columns ---

// Row `at` of a {record}: `row` is what decode_row() makes of its first columns.
template <class Result>
EventRecord record_in(const Result& result, int at, Row row, int hold_column, int row_columns) {
  return {.row = std::move(row),
          .hold = result.optional_integer(at, hold_column),
          .last_error = std::string(result.text(at, row_columns)),
          .locked_by = std::string(result.text(at, row_columns + 1)),
          .done_at = result.optional_time(at, row_columns + 2)};
}

template <class Result>
Counts counts_in(const Result& pending, const Result& dead) {
  return {.pending = pending.integer(0, 0),
          .dead = dead.integer(0, 0),
          .retry = pending.integer(0, 1),
          .delayed = pending.integer(0, 2),
          .held = pending.integer(0, 3),
          .oldest_pending = pending.optional_time(0, 4)};
}

template <class Result>
std::vector<DeadGroup> dead_groups_in(const Result& result) {
  std::vector<DeadGroup> groups;
  groups.reserve(static_cast<std::size_t>(result.rows()));
  for (int row = 0; row < result.rows(); ++row) {
    groups.push_back({.aggregate_type = std::string(result.text(row, 0)),
                      .type = std::string(result.text(row, 1)),
                      .error = std::string(result.text(row, 2)),
                      .count = result.integer(row, 3),
                      .first = result.time(row, 4),
                      .last = result.time(row, 5),
                      .example_id = std::string(result.text(row, 6))});
  }
  return groups;
}

// The rows of one lane.
template <class Result>
void add_lane(HeldAggregates& held, const Result& result) {
  held.begin_lane();
  for (int row = 0; row < result.rows(); ++row) {
    held.add({.aggregate_type = std::string(result.text(row, 0)),
              .aggregate_id = std::string(result.text(row, 1)),
              .head_id = std::string(result.text(row, 2)),
              .head_status = static_cast<Status>(result.integer(row, 3)),
              .attempts = static_cast<int>(result.integer(row, 4)),
              .last_error = std::string(result.text(row, 5))});
  }
}

}  // namespace outbox
