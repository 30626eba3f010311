// What an owner reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "outbox/store.h"
#include "store/common/shards.h"
#include "store/mysql/database.h"

namespace outbox::mysql {

// Reads the rows that are ready, due or set aside. Used by one thread at a time.
//
// Every read of ready rows begins at the lowest one of each shard, because nothing
// cheap tells up to where all writers have committed. So it looks at the index alone
// first, in one snapshot, and then fetches the rows that it has not returned before.
// What is finished or waits costs nothing.
class Reader {
 public:
  Reader(Database& database, const Gains& gains) : database_(database), gains_(gains) {}

  Rows ready(std::span<const int> shards, std::size_t limit);
  void rewind(Seq seq);

  DueRows due(std::span<const int> shards, std::size_t limit);
  Rows held(int shard, LaneKey key, std::size_t limit);
  std::vector<HeldLane> held_lanes(int shard, LaneKey after, std::size_t limit);

 private:
  // What is known of a shard from the reads before.
  struct Part {
    std::unordered_set<Seq> returned;  // and ready still, when it was last looked at
    bool cut = false;                  // there was more of it
    std::uint64_t gains_seen = 0;
  };
  struct Key {
    std::int64_t hold;
    Seq seq;
  };
  // A row that waits, and the server's time, in microseconds.
  struct Next {
    std::int64_t hold;
    std::int64_t now;
  };

  Part& part(int shard) { return parts_[static_cast<std::size_t>(shard)]; }
  std::vector<int> reading_order(std::span<const int> shards) const;
  std::size_t new_rows_of(int shard, std::span<const int> shards, std::size_t limit);
  void look_for_ready(std::span<const int> order, std::size_t limit, std::vector<Seq>& fresh);
  std::vector<Key> look_for_due(std::span<const int> shards, std::int64_t now, std::size_t limit);
  std::optional<Next> next_due(std::span<const int> shards, std::int64_t moment);
  std::vector<Row> fetch(std::span<const Seq> seqs, std::string_view condition);
  const JsonCodec& codec() const { return *database_.environment().options.codec; }

  Database& database_;
  const Gains& gains_;
  PerShard<Part> parts_{};

  // Where the last read was cut: the next one begins with the shard behind, so that
  // none is kept waiting by a long one.
  int begin_with_ = 0;
};

}  // namespace outbox::mysql
