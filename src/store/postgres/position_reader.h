// What an owner reads by position, and where the position is stored.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/thread.h"
#include "model/shards.h"
#include "outbox/spi/store.h"
#include "store/postgres/position.h"
#include "store/postgres/position_round.h"
#include "store/postgres/reader.h"
#include "store/postgres/store_config.h"

namespace outbox::postgres {

// Who may use a connection that several threads need: one at a time. Thread-safe.
class Turns {
 public:
  // While it lives, it is this one's turn. Throws RetryableError if it cannot be had in time.
  class Turn {
   public:
    Turn(Turns& turns, std::chrono::milliseconds patience, const char* why_not);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    Turns& turns_;
  };

 private:
  bool take(std::chrono::milliseconds patience) OUTBOX_EXCLUDES(mutex_);
  void give_back() OUTBOX_EXCLUDES(mutex_);

  Mutex mutex_;
  CondVar free_;
  bool taken_ OUTBOX_GUARDED_BY(mutex_) = false;
};

// Looks for events, and stores the position: both on one connection, because what is in memory of a
// snapshot counts for the server process that has told it. When that is another one, positions are
// read from the table again. What waits is read as by Reader, on the same connection.
//
// flush() may be called by any thread; all else is called by one thread at a time.
class PositionReader {
 public:
  // `owner`: of the registration under which positions are stored.
  PositionReader(Database& database, Positions& positions, const Registration& registration,
                 const ShardGenerations& gains, std::string owner, bool total_order)
      : database_(database),
        positions_(positions),
        registration_(registration),
        generations_(gains),
        owner_(std::move(owner)),
        total_order_(total_order),
        waiting_(database, gains, total_order) {}

  Rows ready(std::span<const int> shards, std::size_t in_flight, const ReadLimit& limit);
  void rewind(Seq seq);

  DueRows due(std::span<const int> shards, const ReadLimit& limit);
  Rows held(std::span<const LaneRef> lanes, const ReadLimit& limit);
  std::vector<HeldLane> held_lanes(int shard, LaneKey after, std::size_t limit);
  std::vector<LaneRef> unblocked(std::span<const int> shards, std::size_t limit);

  // See Instance::flush(). `patience`: how long it waits for a read that is under way; throws
  // RetryableError then.
  FlushResult flush(std::int64_t epoch, bool at_once, std::chrono::milliseconds patience);

 private:
  Turns::Turn turn_to_read();
  void prepare(std::span<const int> shards);
  void load(std::span<const int> shards);
  std::optional<Rows> read(std::span<const int> shards, std::size_t in_flight,
                           const ReadLimit& limit);
  bool look(std::span<const int> shards, std::size_t most);
  void begin_late(std::span<const Positions::Part> parts, const std::string& snapshot);
  std::vector<int> reading_order(std::span<const int> shards) const;
  bool store(std::int64_t epoch);

  // Constant after construction.
  Database& database_;
  Positions& positions_;
  const Registration& registration_;
  const ShardGenerations& generations_;
  const std::string owner_;
  const bool total_order_;

  Turns turns_;  // guards database_ and what follows

  Reader waiting_;
  PerShard<std::uint64_t> generations_seen_{};
  std::uint64_t connection_ = 0;  // Database::connections()
  std::int64_t process_ = 0;      // of the server, behind it
  bool rewound_ = true;           // delivery rows that are ready have to be read again
  int begin_with_ = 0;            // where the last read was cut

  // What a look has found beyond a limit, as long as nothing was learnt in another way.
  std::optional<PositionRound> ahead_;
  std::vector<int> ahead_of_;  // its shards
  Atomic<std::chrono::steady_clock::time_point> stored_at_{};
};

}  // namespace outbox::postgres
