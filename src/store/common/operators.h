// What the questions and orders of operators come down to in every database.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "outbox/spi/store.h"

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

}  // namespace outbox
