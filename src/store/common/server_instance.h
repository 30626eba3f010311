// One engine's membership at a database server.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/process.h"
#include "outbox/error.h"
#include "outbox/spi/store.h"
#include "store/common/shards.h"

namespace outbox {

// Ownership, reading and marking on a connection each, because the three may run at
// the same time; each of them from one thread at a time. Destroying it without leave()
// counts as its death. `Parts` names the classes of a store that do the work.
template <class Parts>
class ServerInstance : public Instance {
 public:
  Lease renew() override { return ownership_.renew(); }
  std::int64_t epoch() const override { return ownership_.epoch(); }
  std::optional<std::chrono::milliseconds> lease_duration() const override {
    return options_.lease;
  }
  void release(int shard) override { ownership_.release(shard); }
  void leave() override { ownership_.leave(); }

  Rows ready(std::span<const int> shards, std::size_t in_flight, const ReadLimit& limit) override {
    return reader_.ready(shards, in_flight, limit);
  }
  void rewind(Seq seq) override { reader_.rewind(seq); }
  DueRows due(std::span<const int> shards, const ReadLimit& limit) override {
    return reader_.due(shards, limit);
  }
  Rows held(int shard, LaneKey key, const ReadLimit& limit) override {
    return reader_.held(shard, key, limit);
  }
  std::vector<HeldLane> held_lanes(int shard, LaneKey after, std::size_t limit) override {
    return reader_.held_lanes(shard, after, limit);
  }
  std::vector<LaneRef> unblocked(std::span<const int> shards, std::size_t limit) override {
    return reader_.unblocked(shards, limit);
  }

  Rows claim(std::chrono::milliseconds skip_recent, const ReadLimit& limit) override {
    if (!options_.row_claims) throw MisuseError("claim() needs InstanceOptions::row_claims");
    return claims_.claim(skip_recent, limit);
  }
  void unclaim(std::span<const RowRef> rows) override { claims_.unclaim(rows); }

  UpdateResult apply(std::int64_t epoch, std::span<const StatusUpdate> updates) override {
    return updates_.apply(updates, epoch);
  }

  const std::string& owner() const override { return owner_; }

 protected:
  ServerInstance(const typename Parts::StoreConfigPtr& config, InstanceOptions options)
      : options_(named(std::move(options))),
        owner_(unique_owner(options_.name)),
        ownership_(config, options_, owner_, generations_),
        reading_(config),
        reader_(reading_, generations_),
        claims_(reading_, owner_, options_.lock_timeout),
        marking_(config),
        updates_(marking_, owner_, options_.row_claims) {
    reading_.limit_calls(kCallLimit);
    marking_.limit_calls(kCallLimit);
  }

  // For what a store asks of its connections besides.
  const InstanceOptions& options() const { return options_; }
  typename Parts::Ownership& ownership() { return ownership_; }
  typename Parts::Database& reading() { return reading_; }
  typename Parts::Database& marking() { return marking_; }

 private:
  // A read or update that takes longer has met a server that hangs.
  static constexpr std::chrono::milliseconds kCallLimit{30'000};

  // Constant after construction.
  const InstanceOptions options_;
  const std::string owner_;

  ShardGenerations generations_;  // from ownership_ to reader_
  typename Parts::Ownership ownership_;

  typename Parts::Database reading_;
  typename Parts::Reader reader_;
  typename Parts::Claims claims_;

  typename Parts::Database marking_;
  typename Parts::Updates updates_;
};

}  // namespace outbox
