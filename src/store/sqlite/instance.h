// One engine's membership.
#pragma once

#include <string>

#include "outbox/spi/store.h"
#include "store/sqlite/claims.h"
#include "store/sqlite/database.h"
#include "store/sqlite/ownership.h"
#include "store/sqlite/reader.h"
#include "store/sqlite/updates.h"
#include "store/sqlite/waits.h"

namespace outbox::sqlite {

// Ownership, reading and marking on a connection each, because the three may
// run at the same time; each of them from one thread at a time. Destroying it
// without leave() counts as its death.
class SqliteInstance final : public Instance {
 public:
  SqliteInstance(StoreConfigPtr config, InstanceOptions options);

  Lease renew() override { return ownership_.renew(); }
  std::int64_t epoch() const override { return ownership_.epoch(); }
  std::optional<std::chrono::milliseconds> lease_duration() const override { return std::nullopt; }
  void release(int shard) override;
  void leave() override { ownership_.leave(); }

  Rows ready(std::span<const int> shards, std::size_t in_flight, const ReadLimit& limit) override;
  void rewind(Seq seq) override { reader_.rewind(seq); }
  DueRows due(std::span<const int> shards, const ReadLimit& limit) override;
  Rows held(int shard, LaneKey key, const ReadLimit& limit) override;
  std::vector<HeldLane> held_lanes(int shard, LaneKey after, std::size_t limit) override;
  std::vector<LaneRef> unblocked(std::span<const int> shards, std::size_t limit) override;
  Rows claim(std::chrono::milliseconds skip_recent, const ReadLimit& limit) override;
  void unclaim(std::span<const RowRef> rows) override { claims_.unclaim(rows); }

  UpdateResult apply(std::int64_t epoch, std::span<const StatusUpdate> updates) override;

  const std::string& owner() const override { return owner_; }

 private:
  // Before each read.
  void prepare_to_read();

  // Constant after construction.
  const StoreConfigPtr config_;
  const InstanceOptions options_;
  const std::string owner_;

  Ownership ownership_;

  Database reading_;
  Reader reader_;
  Claims claims_;
  Waits waits_;

  Database marking_;
  Updates updates_;
};

}  // namespace outbox::sqlite
