#include "engine/one_shard.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/job.h"

namespace outbox::internal {
namespace {

RowRef as_engine_sees(const RowRef& row) {
  return {.seq = row.seq,
          .shard = 0,
          .stored_in = row.shard,
          .hold = row.hold == only_lane(row.shard) ? kOnlyLane : row.hold};
}

RowRef as_stored(const RowRef& row) {
  return {.seq = row.seq,
          .shard = row.stored_in,
          .hold = row.hold == kOnlyLane ? only_lane(row.stored_in) : row.hold};
}

template <class Read>
Read as_engine_sees(Read read) {
  for (Row& row : read.rows) row.ref = as_engine_sees(row.ref);
  return read;
}

class OneShard final : public WholeInstance {
 public:
  OneShard(std::shared_ptr<Instance> instance, int shards)
      : instance_(std::move(instance)), shards_(static_cast<std::size_t>(shards)) {
    std::iota(shards_.begin(), shards_.end(), 0);
  }

  // --- Ownership ---

  Lease renew() override {
    Lease all = instance_->renew();
    if (std::exchange(epoch_, all.epoch) != all.epoch) forget();
    // Told once, perhaps while other shards are still missing.
    for (const Lease::Inherited& each : all.inherited) {
      inherited_.push_back({.shard = 0, .candidates = each.candidates});
    }
    draining_ = std::move(all.draining);
    if (all.shards.size() == shards_.size()) {
      whole_ = true;
      return {.epoch = epoch_, .shards = {0}, .inherited = std::exchange(inherited_, {})};
    }
    if (whole_) return {.epoch = epoch_, .draining = {0}};
    release_draining();  // nothing of them was read
    return {};
  }

  std::int64_t epoch() const override { return instance_->epoch(); }
  std::optional<std::chrono::milliseconds> lease_duration() const override {
    return instance_->lease_duration();
  }

  void release(int /*shard*/) override {
    release_draining();
    whole_ = false;
  }

  void leave() override {
    instance_->leave();
    forget();
  }

  // --- Reading ---

  Rows ready(std::span<const int> shards, std::size_t in_flight, const ReadLimit& limit) override {
    return as_engine_sees(instance_->ready(all_if(shards), in_flight, limit));
  }

  void rewind(Seq seq) override { instance_->rewind(seq); }

  DueRows due(std::span<const int> shards, const ReadLimit& limit) override {
    return as_engine_sees(instance_->due(all_if(shards), limit));
  }

  Rows held(std::span<const LaneRef> lanes, const ReadLimit& limit) override {
    std::vector<LaneRef> stored;
    stored.reserve(lanes.size() * shards_.size());
    for (const LaneRef& lane : lanes) {
      for (const int shard : shards_) {
        const bool only = lane.key == kOnlyLane;
        stored.push_back({.shard = shard, .key = only ? only_lane(shard) : lane.key});
      }
    }
    return as_engine_sees(instance_->held(stored, limit));
  }

  // The first `limit` of each shard: the first `limit` of all are among those.
  std::vector<HeldLane> held_lanes(int /*shard*/, LaneKey after, std::size_t limit) override {
    std::map<LaneKey, HeldLane> lanes;
    for (const int shard : shards_) {
      const LaneKey after_there = after >= kOnlyLane ? std::max(after, only_lane(shard)) : after;
      for (HeldLane& lane : instance_->held_lanes(shard, after_there, limit)) {
        if (lane.key == only_lane(shard)) lane.key = kOnlyLane;
        lane.shard = 0;
        const auto [known, added] = lanes.try_emplace(lane.key, lane);
        if (!added && lane.first < known->second.first) known->second = lane;
      }
    }
    std::vector<HeldLane> first;
    for (auto& [key, lane] : lanes) {
      if (first.size() == limit) break;
      first.push_back(lane);
    }
    return first;
  }

  std::vector<LaneRef> unblocked(std::span<const int> shards, std::size_t limit) override {
    std::vector<LaneRef> lanes = instance_->unblocked(all_if(shards), limit);
    for (LaneRef& lane : lanes) {
      if (lane.key == only_lane(lane.shard)) lane.key = kOnlyLane;
      lane.shard = 0;
    }
    return lanes;
  }

  Rows claim(std::chrono::milliseconds skip_recent, const ReadLimit& limit) override {
    return as_engine_sees(instance_->claim(skip_recent, limit));
  }

  void unclaim(std::span<const RowRef> rows) override {
    std::vector<RowRef> stored;
    stored.reserve(rows.size());
    for (const RowRef& row : rows) stored.push_back(as_stored(row));
    instance_->unclaim(stored);
  }

  // --- Updating ---

  UpdateResult apply(std::int64_t epoch, std::span<const StatusUpdate> updates) override {
    std::vector<StatusUpdate> stored(updates.begin(), updates.end());
    for (StatusUpdate& update : stored) {
      update.row = as_stored(update.row);
      if (update.lane == kOnlyLane) update.lane = only_lane(update.row.shard);
    }
    return instance_->apply(epoch, stored);
  }
  FlushResult flush(std::int64_t epoch, bool at_once) override {
    return instance_->flush(epoch, at_once);
  }
  bool takes_unread() const override { return instance_->takes_unread(); }

  const std::string& owner() const override { return instance_->owner(); }

 private:
  std::span<const int> all_if(std::span<const int> shards) const {
    return shards.empty() ? shards : std::span<const int>(shards_);
  }

  void release_draining() {
    for (const int shard : std::exchange(draining_, {})) instance_->release(shard);
  }

  void forget() {
    whole_ = false;
    inherited_.clear();
    draining_.clear();
  }

  // Constant after construction.
  const std::shared_ptr<Instance> instance_;
  std::vector<int> shards_;

  // Of the thread that renews the lease.
  std::int64_t epoch_ = 0;
  bool whole_ = false;  // the engine has the shard, and has not given it back since
  std::vector<int> draining_;
  std::vector<Lease::Inherited> inherited_;
};

}  // namespace

std::shared_ptr<Instance> as_one_shard(std::shared_ptr<Instance> instance, int shards) {
  return std::make_shared<OneShard>(std::move(instance), shards);
}

}  // namespace outbox::internal
