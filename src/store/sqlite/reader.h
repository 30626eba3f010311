// What an owner reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "outbox/spi/store.h"
#include "store/sqlite/store_config.h"

namespace outbox::sqlite {

// Reads the rows that are ready, due or held, each through the index on
// `hold`: what is finished or waits costs nothing. Used by one thread at a time.
class Reader {
 public:
  explicit Reader(Database& database) : database_(database) {}

  // Another epoch than last time starts again at the lowest row.
  Rows ready(std::int64_t epoch, std::size_t in_flight, const ReadLimit& limit);
  void rewind(Seq seq);

  DueRows due(const ReadLimit& limit);
  Rows held(LaneKey key, const ReadLimit& limit);
  std::vector<HeldLane> held_lanes(LaneKey after, std::size_t limit);
  std::vector<LaneRef> unblocked(std::size_t limit);

 private:
  Database& database_;

  // The highest seq returned. SQLite has one writer at a time, and a row takes
  // its number under that writer's lock: once a number is visible, no lower one
  // can still be committed. So nothing below the floor is ever missed, and a
  // read need not walk over what is in flight.
  Seq floor_ = 0;
  std::int64_t floor_epoch_ = 0;

  // The floor was lowered: rows above it may be in flight.
  bool rewound_ = true;

  std::vector<std::int64_t> notes_;  // that unblocked() has returned
};

}  // namespace outbox::sqlite
