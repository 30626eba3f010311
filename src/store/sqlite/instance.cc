#include "store/sqlite/instance.h"

#include <algorithm>
#include <utility>

#include "base/process.h"
#include "outbox/error.h"

namespace outbox::sqlite {
namespace {

bool has_shard(std::span<const int> shards) {
  return std::find(shards.begin(), shards.end(), 0) != shards.end();
}

}  // namespace

SqliteInstance::SqliteInstance(StoreConfigPtr config, InstanceOptions options)
    : config_(std::move(config)),
      options_(named(std::move(options))),
      owner_(unique_owner(options_.name)),
      ownership_(config_, options_, owner_),
      reading_(config_),
      reader_(reading_),
      claims_(reading_, owner_, options_.lock_timeout),
      waits_(reading_, !options_.row_claims),
      marking_(config_),
      updates_(marking_, options_.row_claims ? std::optional(owner_) : std::nullopt) {}

void SqliteInstance::release(int shard) {
  throw MisuseError("shard " + std::to_string(shard) +
                    " is not draining: an SQLite store has one shard, owned until leave()");
}

void SqliteInstance::prepare_to_read() {
  config_->check_process();
  if (ownership_.epoch() != 0) waits_.keep(ownership_.epoch());
}

Rows SqliteInstance::ready(std::span<const int> shards, std::size_t in_flight,
                           const ReadLimit& limit) {
  prepare_to_read();
  return has_shard(shards) ? reader_.ready(ownership_.epoch(), in_flight, limit) : Rows{};
}

DueRows SqliteInstance::due(std::span<const int> shards, const ReadLimit& limit) {
  prepare_to_read();
  return has_shard(shards) ? reader_.due(limit) : DueRows{};
}

Rows SqliteInstance::held(int shard, LaneKey key, const ReadLimit& limit) {
  prepare_to_read();
  return shard == 0 ? reader_.held(key, limit) : Rows{};
}

std::vector<HeldLane> SqliteInstance::held_lanes(int shard, LaneKey after, std::size_t limit) {
  prepare_to_read();
  return shard == 0 ? reader_.held_lanes(after, limit) : std::vector<HeldLane>{};
}

std::vector<LaneRef> SqliteInstance::unblocked(std::span<const int> shards, std::size_t limit) {
  prepare_to_read();
  return has_shard(shards) ? reader_.unblocked(limit) : std::vector<LaneRef>{};
}

Rows SqliteInstance::claim(std::chrono::milliseconds skip_recent, const ReadLimit& limit) {
  prepare_to_read();
  if (!options_.row_claims) {
    throw MisuseError("claim() needs InstanceOptions::row_claims");
  }
  return claims_.claim(skip_recent, limit);
}

UpdateResult SqliteInstance::apply(std::int64_t epoch, std::span<const StatusUpdate> updates) {
  // After leave() the row still shows the epoch that it had.
  if (!options_.row_claims && epoch != ownership_.epoch()) return {.fenced = true};
  return updates_.apply(updates, epoch);
}

}  // namespace outbox::sqlite
