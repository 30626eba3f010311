// The parts that the events of a table fall into, in databases for many instances, and from which
// row on a poll has to look at each.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/thread.h"
#include "outbox/spi/store.h"

namespace outbox {

// As the table's column `shard` has them. Sixteen: a poll that finds nothing costs
// a step for each, and more instances than that are rarely wanted.
inline constexpr int kShards = 16;

// Whether it may be used as an index of PerShard: anybody may have edited the tables.
inline bool is_shard(std::int64_t number) { return number >= 0 && number < kShards; }

template <class T>
using PerShard = std::array<T, kShards>;

// How often each shard has been gained, so that the thread that reads learns from
// the one that renews that it must begin at the lowest row again. Thread-safe.
class ShardGenerations {
 public:
  void gained(int shard) { ++counts_[static_cast<std::size_t>(shard)]; }
  std::uint64_t of(int shard) const { return counts_[static_cast<std::size_t>(shard)]; }

 private:
  PerShard<Atomic<std::uint64_t>> counts_{};
};

// The shards that an instance owns by its last lease. Used by one thread at a time.
class OwnedShards {
 public:
  explicit OwnedShards(ShardGenerations& generations) : generations_(generations) {}

  // What was owned all the time need not be read from the beginning.
  void set(const Lease& lease);

  // Throws MisuseError unless it is one of them.
  void check(int shard) const;

  void erase(int shard) { std::erase(shards_, shard); }
  void clear() { shards_.clear(); }

 private:
  bool contains(int shard) const;

  ShardGenerations& generations_;
  std::vector<int> shards_;
};

// Finished rows leave dead entries at the beginning of the index, and to walk over
// hundreds of thousands of them costs a poll milliseconds. So a read begins at a
// floor, below which nothing can still appear.
//
// Invariant: every row of the shard with a seq up to its floor was returned, or was
// not ready, in a read that began after the row's transaction had ended.
//
// A row takes its seq when it is inserted and becomes visible when its transaction
// commits, perhaps much later. Which numbers are *settled* is found out in two steps:
// first the last number that was given out, then the transactions that hold the
// writers' lock on the table. A writer that got a number up to that one holds the
// lock, or has ended. When all of those have ended, a read that begins afterwards
// sees everything up to that number that there will ever be.
//
// Used by one thread at a time.
class Floor {
 public:
  // An open transaction that writes to the table, and whether it is a prepared one:
  // PREPARE TRANSACTION changes its name, so none may be there.
  struct Writer {
    std::string transaction{};
    bool prepared = false;
  };

  Seq of(int shard) const { return floors_[index(shard)]; }

  // Begins at the lowest row again.
  void reset(int shard) { floors_[index(shard)] = 0; }
  void rewind(Seq seq);

  // Before a read: what was given out, then who writes.
  void observe(Seq last_given_out, const std::vector<Writer>& writers);

  // After a read of the shard from its floor on: up to where it is complete; nullopt
  // if it came to its end.
  void read(int shard, std::optional<Seq> through);

 private:
  static std::size_t index(int shard) { return static_cast<std::size_t>(shard); }

  PerShard<Seq> floors_{};

  Seq settled_ = 0;

  // Becomes settled_ when all of these have ended.
  Seq candidate_ = 0;
  std::vector<std::string> awaited_;
};

}  // namespace outbox
