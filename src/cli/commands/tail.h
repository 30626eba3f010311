// Following events as they are committed.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>

#include "outbox/admin/admin.h"

namespace outbox::cli {

struct TailOptions {
  EventFilter filter{};
  std::optional<Seq> after{};                           // absent: from the present end on
  std::optional<std::chrono::milliseconds> duration{};  // absent: for ever
};

// Calls `show` for every event that matches, in the order of the rows, until
// the time is over or `show` returns false.
//
// On a server a transaction may commit after another whose rows have greater
// numbers: its events are shown when they are there, if that is within a minute.
// It watches; it is no way to process events.
void tail_events(Store& store, const TailOptions& options,
                 const std::function<bool(const EventRecord&)>& show);

// The number of the last row; `from` if there is none beyond it. Costs a few
// reads of one row, a few dozen if there is much beyond.
Seq last_seq(Store& store, Seq from);

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
