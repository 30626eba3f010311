// Judges a run by what was committed and what arrived, and by nothing else.
//
// The oracle knows neither the engine nor its table: what was committed is read
// from the application's own rows, what arrived from the receiver's own ledger, and what
// the database had acknowledged from the writers' own books. An event is lost by us if its
// business row is there; if that is gone, the database has lost its transaction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "harness/receiver.h"

namespace outbox::harness {

// A business row, written in the same transaction as its event.
struct Committed {
  std::string id{};
  std::string aggregate{};
  std::int64_t number = 0;  // grows with every event of the aggregate

  // Delayed events and those without an aggregate may overtake others.
  bool ordered = true;

  // In microseconds since 1970: it must not arrive before. 0: at any time.
  std::int64_t not_before = 0;
};

// What the writer of a transaction was told of its COMMIT. It did not hear: unknown.
enum class Told { committed, failed, unknown };
struct Attempt {
  std::vector<std::string> ids{};  // of its events
  Told told = Told::unknown;
};

// What a run allows.
struct Expected {
  bool ordered = true;              // whether the order is judged at all
  std::size_t duplicate_bound = 0;  // how many arrivals may be repeats

  // Whether the database may lose commits that it has acknowledged.
  bool may_lose_commits = false;

  // Whether an epoch is one process's. Not with row claims, which own rows, and no shards.
  bool epochs = true;

  // Ids of events that may still arrive: pending instead of lost.
  std::unordered_set<std::string> pending{};
};

struct Verdict {
  std::size_t committed = 0;
  std::size_t delivered = 0;  // committed events that arrived at least once
  std::size_t pending = 0;    // committed, and may still arrive: see Expected; or says the table
  std::size_t lost = 0;       // committed, and never arrived
  std::size_t ghosts = 0;     // arrived, and were never committed

  // Transactions that were acknowledged and are not in the database, and the events that
  // arrived of those and of others that nobody was told of. Allowed if the database may lose
  // commits; else the latter are ghosts.
  std::size_t commits_lost = 0;
  std::size_t ghosts_of_lost_commits = 0;

  std::size_t misreported = 0;  // transactions said to have failed that are there, or in part
  std::size_t duplicates = 0;
  std::size_t duplicate_bound = 0;
  std::size_t order_breaks = 0;      // first arrivals behind a later one of their aggregate
  std::size_t double_owners = 0;     // epochs in which more than one process delivered
  std::size_t garbled = 0;           // arrived with another aggregate or number
  std::size_t early = 0;             // arrived before their time
  std::size_t longest_pause_ms = 0;  // between two arrivals

  std::size_t dead = 0;  // says the table at the end; judge() does not fill it in

  bool may_lose_commits = false;

  // The first few violations, in words.
  std::vector<std::string> examples{};

  bool clean() const;

  // The figure of that name ("lost", "order breaks" as "order_breaks", ...).
  // Throws std::invalid_argument for any other.
  std::size_t figure(std::string_view name) const;
};

Verdict judge(std::span<const Committed> committed, std::span<const Message> arrivals,
              const Expected& expected, std::span<const Attempt> attempts = {});

// A line for each figure, then the examples.
std::ostream& operator<<(std::ostream& out, const Verdict& verdict);

}  // namespace outbox::harness
