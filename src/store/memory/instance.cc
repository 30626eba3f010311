#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/process.h"
#include "model/instance_options.h"
#include "model/shards.h"
#include "store/memory/database.h"

namespace outbox::memory {
namespace {

// Destroyed without leave(), it is dead: its lease runs out, as that of a
// process that crashed. Ownership calls, reads and updates may run at the same
// time; the store's mutex guards all.
class MemoryInstance final : public WholeInstance {
 public:
  MemoryInstance(std::shared_ptr<Database> database, MemberId id, InstanceOptions options)
      : keep_(std::move(database)),
        db_(*keep_),
        id_(id),
        options_(named(std::move(options))),
        // Two of the same name must not pass for each other.
        owner_(options_.name + "/" + std::to_string(id)),
        floors_(static_cast<std::size_t>(db_.options.shards), 0) {}

  Lease renew() override {
    MutexLock lock(db_.mutex);
    if (options_.row_claims) {
      if (epoch_ == 0) epoch_ = db_.members.new_epoch();
      return {.epoch = epoch_};
    }
    Lease lease = db_.members.renew(id_, options_, db_.now());
    forget_what_others_may_have_read(lease);
    epoch_ = lease.epoch;
    return lease;
  }

  std::int64_t epoch() const override {
    MutexLock lock(db_.mutex);
    return epoch_;
  }

  std::optional<std::chrono::milliseconds> lease_duration() const override {
    if (options_.row_claims) return std::nullopt;
    return options_.lease;
  }

  void release(int shard) override {
    MutexLock lock(db_.mutex);
    db_.members.release(id_, shard);
  }

  void leave() override {
    MutexLock lock(db_.mutex);
    db_.members.leave(id_);
    if (options_.row_claims) db_.table.unclaim_all(owner_);
  }

  Rows ready(std::span<const int> shards, std::size_t in_flight, const ReadLimit& limit) override {
    if (db_.options.concurrent_transactions) return ready_from_floor(shards, in_flight, limit);
    MutexLock lock(db_.mutex);
    return db_.table.ready(shards, limit, floors_, db_.now());
  }

  void rewind(Seq seq) override {
    floor_.rewind(seq);
    MutexLock lock(db_.mutex);
    for (Seq& floor : floors_) floor = std::min(floor, seq);
  }

  DueRows due(std::span<const int> shards, const ReadLimit& limit) override {
    MutexLock lock(db_.mutex);
    return db_.table.due(shards, limit, db_.now());
  }

  Rows held(std::span<const LaneRef> lanes, const ReadLimit& limit) override {
    MutexLock lock(db_.mutex);
    return db_.table.held(lanes, limit, db_.now());
  }

  std::vector<HeldLane> held_lanes(int shard, LaneKey after, std::size_t limit) override {
    MutexLock lock(db_.mutex);
    return db_.table.held_lanes(shard, after, limit, db_.now());
  }

  std::vector<LaneRef> unblocked(std::span<const int> shards, std::size_t limit) override {
    MutexLock lock(db_.mutex);
    db_.table.forget_unblocked(returned_);
    returned_ = db_.table.unblocked(shards, limit);
    std::vector<LaneRef> lanes;
    for (const auto& [number, lane] : returned_) lanes.push_back(lane);
    return lanes;
  }

  Rows claim(std::chrono::milliseconds skip_recent, const ReadLimit& limit) override {
    require_row_claims(options_.row_claims);
    MutexLock lock(db_.mutex);
    const Time now = db_.now();
    // When they occurred was told by the writer's clock, which may be ahead of this one.
    const bool all = skip_recent.count() == 0;
    return db_.table.claim({.owner = owner_,
                            .limit = limit,
                            .occurred_until = all ? Time::max() : now - skip_recent,
                            .locked_before = now - options_.lock_timeout},
                           now);
  }

  void unclaim(std::span<const RowRef> rows) override {
    MutexLock lock(db_.mutex);
    db_.table.unclaim(rows, owner_);
  }

  UpdateResult apply(std::int64_t epoch, std::span<const StatusUpdate> updates) override {
    MutexLock lock(db_.mutex);
    if (!options_.row_claims && !db_.members.holds(id_, epoch)) return {.fenced = true};
    const Time now = db_.now();
    UpdateResult result;
    for (std::size_t i = 0; i < updates.size(); ++i) {
      if (!apply(updates[i], now)) result.stale.push_back(i);
    }
    return result;
  }

  const std::string& owner() const override { return owner_; }

 private:
  // False if the update is stale.
  bool apply(const StatusUpdate& update, Time now) OUTBOX_REQUIRES(db_.mutex) {
    if (!options_.row_claims) {
      // The shard as the row has it: an update's word is not enough for a fence.
      const StoredRow* row = db_.table.find(update.row.seq);
      const int shard = row != nullptr ? row->shard : update.row.shard;
      return db_.members.owns(id_, shard) && db_.table.apply(update, now);
    }
    switch (db_.table.claimer_may(update, owner_)) {
      case Table::Right::yes:
        return db_.table.apply(update, now);
      case Table::Right::already_done:
        return true;
      case Table::Right::no:
        return false;
    }
    return false;
  }

  // The statements of a database store, one after the other: others write and commit in between.
  Rows ready_from_floor(std::span<const int> shards, std::size_t in_flight, ReadLimit limit)
      OUTBOX_EXCLUDES(db_.mutex) {
    for (const int shard : shards) {
      auto& seen = generations_seen_[static_cast<std::size_t>(shard)];
      const std::uint64_t gained = generations_.of(shard);
      if (std::exchange(seen, gained) != gained) floor_.reset(shard);
    }
    const Seq last = [&] {
      MutexLock lock(db_.mutex);
      return db_.table.last_seq();
    }();
    std::vector<Floor::Writer> writers;
    {
      MutexLock lock(db_.mutex);
      for (const std::int64_t writer : db_.writers.open) {
        writers.push_back({.transaction = std::to_string(writer)});
      }
    }
    floor_.observe(last, writers);

    // What is in flight above the floor stands before the first new row.
    limit.rows += std::min(in_flight, std::numeric_limits<std::size_t>::max() - limit.rows);
    std::vector<Seq> from(static_cast<std::size_t>(db_.options.shards), 0);
    for (const int shard : shards) from[static_cast<std::size_t>(shard)] = floor_.of(shard) + 1;
    MutexLock lock(db_.mutex);
    Rows rows = db_.table.ready(shards, limit, from, db_.now());
    if (rows.more && rows.rows.empty()) return rows;
    for (const int shard : shards) {
      floor_.read(shard, rows.more ? std::optional(rows.rows.back().ref.seq) : std::nullopt);
    }
    return rows;
  }

  // Whatever was read in an earlier lease, or before a shard was drained, is
  // to be read again.
  void forget_what_others_may_have_read(const Lease& lease) OUTBOX_REQUIRES(db_.mutex) {
    for (const int shard : lease.shards) {
      const bool kept =
          lease.epoch == lease_.epoch &&
          std::find(lease_.shards.begin(), lease_.shards.end(), shard) != lease_.shards.end();
      if (kept) continue;
      floors_[static_cast<std::size_t>(shard)] = 0;
      if (db_.options.concurrent_transactions) generations_.gained(shard);
    }
    lease_ = lease;
  }

  const std::shared_ptr<Database> keep_;
  Database& db_;
  const MemberId id_;
  const InstanceOptions options_;
  const std::string owner_;

  std::int64_t epoch_ OUTBOX_GUARDED_BY(db_.mutex) = 0;
  Lease lease_ OUTBOX_GUARDED_BY(db_.mutex);
  std::vector<Seq> floors_ OUTBOX_GUARDED_BY(db_.mutex);  // by shard

  // Instead, with concurrent transactions; of the thread that reads, but for generations_.
  Floor floor_;
  ShardGenerations generations_;
  PerShard<std::uint64_t> generations_seen_{};

  Table::Notes returned_ OUTBOX_GUARDED_BY(db_.mutex);  // by unblocked()
};

}  // namespace

std::unique_ptr<Instance> make_instance(std::shared_ptr<Database> database, MemberId id,
                                        InstanceOptions options) {
  return std::make_unique<MemoryInstance>(std::move(database), id, std::move(options));
}

}  // namespace outbox::memory
