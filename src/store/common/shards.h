// The parts that the events of a table fall into, in databases for many instances.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/thread.h"

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

}  // namespace outbox
