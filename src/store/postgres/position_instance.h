// The membership of one engine in a table that keeps progress by position.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/shards.h"
#include "outbox/spi/store.h"
#include "store/postgres/ownership.h"
#include "store/postgres/position.h"
#include "store/postgres/position_reader.h"
#include "store/postgres/position_updates.h"
#include "store/postgres/store_config.h"

namespace outbox::postgres {

// Owns, reads and updates on a connection each; the position is stored on that of the reads. What
// is in memory of it is shared by all three (Positions). Destroying it without leave() counts as
// its death: what was finished since the last flush() is delivered again.
class PositionInstance final : public WholeInstance {
 public:
  PositionInstance(const StoreConfigPtr& config, InstanceOptions options);

  Lease renew() override { return ownership_.renew(); }
  std::int64_t epoch() const override { return ownership_.epoch(); }
  std::optional<std::chrono::milliseconds> lease_duration() const override {
    return options_.lease;
  }
  void release(int shard) override;
  void leave() override;

  Rows ready(std::span<const int> shards, std::size_t in_flight, const ReadLimit& limit) override {
    return reader_.ready(shards, in_flight, limit);
  }
  void rewind(Seq seq) override { reader_.rewind(seq); }
  DueRows due(std::span<const int> shards, const ReadLimit& limit) override {
    return reader_.due(shards, limit);
  }
  Rows held(std::span<const LaneRef> lanes, const ReadLimit& limit) override {
    return reader_.held(lanes, limit);
  }
  std::vector<HeldLane> held_lanes(int shard, LaneKey after, std::size_t limit) override {
    return reader_.held_lanes(shard, after, limit);
  }
  std::vector<LaneRef> unblocked(std::span<const int> shards, std::size_t limit) override {
    return reader_.unblocked(shards, limit);
  }

  Rows claim(std::chrono::milliseconds skip_recent, const ReadLimit& limit) override;
  void unclaim(std::span<const RowRef> rows) override;

  UpdateResult apply(std::int64_t epoch, std::span<const StatusUpdate> updates) override {
    return updates_.apply(epoch, updates);
  }
  FlushResult flush(std::int64_t epoch, bool at_once) override;
  bool takes_unread() const override { return false; }

  const std::string& owner() const override { return owner_; }

 private:
  // Constant after construction.
  const InstanceOptions options_;
  const std::string owner_;

  ShardGenerations generations_;  // from ownership_ to reader_
  postgres::Ownership ownership_;
  Positions positions_;

  Database reading_;
  PositionReader reader_;

  Database updating_;
  PositionUpdates updates_;
};

}  // namespace outbox::postgres
