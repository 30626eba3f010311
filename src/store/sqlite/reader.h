// What an owner reads.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "outbox/clock.h"
#include "outbox/spi/store.h"
#include "store/sqlite/store_config.h"

namespace outbox::sqlite {

// Keeps delays (a retry, a deferral, deliver_after) from lasting longer because the time of
// day was set back; rows that wait for a time of day are left alone.
//
// While it runs it notices the step, by the steady clock, and moves such rows back by as much.
// Delays that it finds at the start, and that began in the future, start over, because nobody
// knows how long they have lasted; so do the claims of instances that may have died. Used by
// one thread at a time.
class Waits {
 public:
  // `alone`: nobody else reads the table, and so nobody else moves rows.
  Waits(Database& database, bool alone) : database_(database), alone_(alone) {}

  // Before each look at what waits. Another epoch than last time: others may have moved rows.
  void keep(std::int64_t epoch);

  // From now until it is due. `since`: when it began to wait; absent if it does not.
  static std::chrono::microseconds left(Time available_at, std::optional<Time> since, Time now);

 private:
  struct Reading {
    Time wall;
    Clock::Steady steady;

    // Changes only if the time of day is set.
    std::chrono::microseconds offset() const {
      return wall.time_since_epoch() -
             std::chrono::duration_cast<std::chrono::microseconds>(steady.time_since_epoch());
    }
  };

  Reading read() const;
  void note_step(std::chrono::microseconds back, const Reading& now);
  void shift();
  void start_over(Time now);

  Database& database_;
  const bool alone_;

  std::int64_t epoch_ = 0;
  std::optional<Reading> last_;          // look
  std::chrono::microseconds offset_{0};  // the greatest since the last step back
  bool start_over_ = true;               // rows may have begun in the future

  // What is still to be moved, and by how much.
  std::vector<Seq> left_;
  std::chrono::microseconds by_{0};
  Time written_since_{};  // from here on it may have been written after the step
};

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
