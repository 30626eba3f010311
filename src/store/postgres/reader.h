// What an owner reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/shards.h"
#include "outbox/spi/store.h"
#include "store/postgres/store_config.h"

namespace outbox::postgres {

// Reads the rows that are ready, due or held, each through the index on
// `hold`: what is finished or waits costs nothing. Used by one thread at a time.
class Reader final : public Instance::Reader {
 public:
  // `total_order`: see InstanceOptions.
  Reader(Database& database, const ShardGenerations& gains, bool total_order)
      : database_(database), generations_(gains), total_order_(total_order) {}

  Rows ready(std::span<const int> shards, std::size_t in_flight, const ReadLimit& limit) override;
  void rewind(Seq seq) override;

  DueRows due(std::span<const int> shards, const ReadLimit& limit) override;
  Rows held(std::span<const LaneRef> lanes, const ReadLimit& limit) override;
  std::vector<HeldLane> held_lanes(int shard, LaneKey after, std::size_t limit) override;
  std::vector<LaneRef> unblocked(std::span<const int> shards, std::size_t limit) override;

 private:
  std::optional<Rows> read(Session& session, std::span<const int> shards, std::size_t in_flight,
                           const ReadLimit& limit);
  void reset_gained(std::span<const int> shards);
  void forget_if_new_connection();
  void forget();
  bool asks_for_history() const;
  bool is_same_history(const Result& answer);
  std::vector<std::int64_t> reading_order(std::span<const int> shards) const;
  Call reading(std::span<const std::int64_t> order, std::size_t most) const;
  bool worth_a_look() const;
  void observe(const Result& last, const Result& writers);
  void take(std::span<const std::int64_t> order, const Rows& result);
  bool decode(const Result& light, const ReadLimit& limit, std::size_t most,
              std::vector<Row>& rows);
  const JsonCodec& codec() const { return *config_of(database_).options.codec; }

  Database& database_;
  const ShardGenerations& generations_;
  const bool total_order_;
  PerShard<std::uint64_t> generations_seen_{};

  // Learnt on this connection; another one may lead to a server with another history.
  Floor floor_;
  std::uint64_t connection_ = 0;  // Database::connections()
  std::string history_;           // the server's timeline, if it has to be asked for

  // Rows that the last read returned from above the floor: the next one returns
  // those of them that are in flight once more.
  std::size_t above_floor_ = 0;

  // Rows returned since the floor was last looked after.
  std::size_t since_look_ = 0;
  bool rewound_ = true;

  // Where the last read was cut: the next one begins with the shard behind, so that
  // none is kept waiting by a long one.
  int begin_with_ = 0;

  std::vector<std::int64_t> notes_;  // that unblocked() has returned
};

}  // namespace outbox::postgres
