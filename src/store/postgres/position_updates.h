// What became of events, with progress by position.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "outbox/spi/store.h"
#include "store/postgres/position.h"
#include "store/postgres/store_config.h"
#include "store/postgres/updates.h"

namespace outbox::postgres {

// Takes `done` of what is open in memory; it is stored with the position. All else is an update of
// the event's delivery row, which is made of the event in the same transaction if there is none
// yet. Used by one thread at a time.
class PositionUpdates {
 public:
  PositionUpdates(Database& database, Positions& positions, const Registration& registration,
                  std::string owner)
      : database_(database),
        positions_(positions),
        registration_(registration),
        owner_(owner),
        delivery_rows_(database, std::move(owner), false) {}

  UpdateResult apply(std::int64_t epoch, std::span<const StatusUpdate> updates);

 private:
  // Those that are not taken in memory.
  struct Rest {
    std::vector<StatusUpdate> updates{};
    std::vector<std::size_t> index_of{};
    std::vector<std::size_t>
        copied{};  // indexes of `updates` whose events get a delivery row first
  };

  Rest take(std::span<const StatusUpdate> updates, std::int64_t epoch);
  Call copy(const Rest& rest, std::int64_t epoch) const;
  void leave_out_repeats(const Rest& rest, std::int64_t epoch, std::vector<std::size_t>& stale);

  // Constant after construction.
  Database& database_;
  Positions& positions_;
  const Registration& registration_;
  const std::string owner_;

  Updates delivery_rows_;
};

}  // namespace outbox::postgres
