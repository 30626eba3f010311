// Following events as they are committed.
#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include "outbox/spi/store.h"

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

}  // namespace outbox::cli
