// Numbers of rows that were not there when one behind them was.
#pragma once

#include <chrono>
#include <map>
#include <optional>

#include "outbox/spi/store.h"

namespace outbox::cli {

// On a server a row takes its number when it is inserted, and is seen when its
// transaction commits: perhaps after rows with greater numbers. Numbers that were
// passed over are remembered for a while; most will never be used, because their
// transactions were rolled back. Not thread-safe.
class MissingRows {
 public:
  using Instant = std::chrono::steady_clock::time_point;

  // None of these was there; they are beyond all that were added before.
  void add(Seq first, Seq last, Instant now);

  // Forgets those added at or before this moment.
  void forget(Instant added);

  // The first from `seq` on.
  std::optional<Seq> next(Seq seq) const;

  // True if the row was missing; it no longer is.
  bool take(Seq seq);

 private:
  struct Range {
    Seq last;
    Instant added;
  };
  std::map<Seq, Range> ranges_;  // by their first number; disjoint
};

}  // namespace outbox::cli
