// Delivers by themselves the events that may have killed the process.
#pragma once

#include <cstddef>
#include <set>
#include <vector>

#include "base/thread.h"
#include "engine/intake.h"
#include "outbox/spi/store.h"

namespace outbox::internal {

// After a take-over from an owner that died: the events that it may have been delivering, the
// poison candidates, are delivered in groups that shrink with every crash (see
// docs/architecture.md).
//
// Invariants:
//   1. A group begins only while nothing else is in flight, and nothing else begins beside it. So
//      if the process dies again, one of the group did it.
//   2. A group holds events that have seen equally many crashes, as classes of group_size().
//   3. From add() on the intake isolates, until end().
//
// Reads nothing itself: the Reader finds the candidates, and hands them to it.
//
// Used by a round of the Reader; under_way() by any thread.
class Recovery {
 public:
  Recovery(Intake& intake, int max_solo_crashes)
      : intake_(intake), max_solo_crashes_(max_solo_crashes) {}

  // How many candidates are tried together at most, by the crashes that they have seen.
  static std::size_t group_size(int crashes);

  // With row claims: the last claimer of such a row may have died of it. Until its listener has
  // answered, it is isolated at every claim.
  static bool is_candidate(const Row& claimed) { return claimed.reclaimed || claimed.crashes > 0; }

  // An event that has killed the process too often is not tried again: with its defect it is DEAD.
  Row checked_for_poison(Row row) const;

  // This many more events may have killed it.
  void add(std::size_t candidates);
  void add_claimed(std::vector<Row> candidates);
  void end();
  bool under_way() const { return under_way_; }

  std::size_t left() const { return left_; }

  // Starts the first group of these; false if there is none. One that is in flight, because its
  // call hangs, is no group: it has been tried.
  bool try_group(std::vector<Row> rows);

  // Of a lane only the head can have been under way. True if it has not been tried yet: it counts
  // as tried from now on.
  bool probe(LaneKey lane);

  // The first group of the claimed ones, to be delivered now; the others are to be given back:
  // their count, if they have one, is in the store.
  struct Group {
    std::vector<Row> rows{};
    std::vector<RowRef> others{};
  };
  bool any_claimed() const { return !claimed_.empty(); }
  Group take_claimed();

 private:
  // Constant after construction.
  Intake& intake_;
  const int max_solo_crashes_;

  std::size_t left_ = 0;      // not yet tried
  std::vector<Row> claimed_;  // with row claims: to be tried next
  std::set<LaneKey> probed_;  // lanes whose head has been tried
  Atomic<bool> under_way_{false};
};

}  // namespace outbox::internal
