// The store itself, and the membership of one engine in it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "outbox/spi/store.h"
#include "store/common/database_store.h"
#include "store/common/migrations.h"
#include "store/sqlite/admin.h"
#include "store/sqlite/ownership.h"
#include "store/sqlite/reader.h"
#include "store/sqlite/store_config.h"
#include "store/sqlite/updates.h"

namespace outbox::sqlite {

// Ownership, reading and updating on a connection each, because the three may
// run at the same time; each of them from one thread at a time. Destroying it
// without leave() counts as its death.
class SqliteInstance final : public WholeInstance {
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
  Rows held(std::span<const LaneRef> lanes, const ReadLimit& limit) override;
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

  sqlite::Ownership ownership_;

  Database reading_;
  sqlite::Reader reader_;
  sqlite::Claims claims_;
  Waits waits_;

  Database updating_;
  sqlite::Updates updates_;
};

struct Parts {
  using StoreConfigPtr = sqlite::StoreConfigPtr;
  using Database = sqlite::Database;
  using AdminStatements = sqlite::AdminStatements;
  using Subscriptions = NoSubscriptions;
  using Instance = SqliteInstance;
};

// Thread-safe.
class SqliteStore final : public DatabaseStore<Parts> {
 public:
  // Takes the connection over that the schema was checked on.
  SqliteStore(const StoreConfigPtr& config, std::unique_ptr<Database> first);

  Capabilities capabilities() const override;
  std::string side_table(std::string_view name) const override;
  std::unique_ptr<Connection> connect() override;
  std::unique_ptr<Connection> wrap(ExternalHandle handle) override;
  std::unique_ptr<Watch> watch(std::function<void()> on_commit) override;
};

// Calls `on_commit` from a thread of its own soon after any connection has
// committed, at most about once a millisecond. Null, after a line in the log,
// if the system cannot tell.
std::unique_ptr<Watch> watch_commits(StoreConfigPtr config, std::function<void()> on_commit);

const Migrations& migrations();

// Brings the tables up to date, each step in a transaction of its own; several
// processes may do so at once. Throws PermanentError if they are newer than
// this library, or out of date and `migrate` is not set.
void ensure_schema(Database& database, bool migrate);

}  // namespace outbox::sqlite
