#include "store/mysql/instance.h"

#include <utility>

#include "core/process.h"
#include "outbox/error.h"

namespace outbox::mysql {
namespace {

// A read or mark that takes longer has met a server that hangs.
constexpr std::chrono::milliseconds kCallLimit{30'000};

// A mark that waits for somebody's lock keeps the lock on its instance's row, for which
// the next renewal waits in turn.
constexpr std::chrono::seconds kMarksLockLimit{1};

}  // namespace

MysqlInstance::MysqlInstance(EnvironmentPtr environment, InstanceOptions options)
    : options_(named(std::move(options))),
      owner_(unique_owner(options_.name)),
      ownership_(environment, options_, owner_, gains_),
      reading_(environment),
      reader_(reading_, gains_),
      claims_(reading_, owner_, options_.lock_timeout),
      marking_(environment),
      marks_(marking_, owner_, options_.row_claims) {
  for (Database* database : {&reading_, &marking_}) {
    database->limit_calls(kCallLimit);
    database->limit_idle(options_.lease);
  }
  marking_.limit_locks(kMarksLockLimit);
}

std::optional<std::chrono::milliseconds> MysqlInstance::lease() const { return options_.lease; }

// The reader knows what it has returned: what is in flight is among that.
Rows MysqlInstance::ready(std::span<const int> shards, std::size_t /*in_flight*/,
                          std::size_t limit) {
  return reader_.ready(shards, limit);
}

DueRows MysqlInstance::due(std::span<const int> shards, std::size_t limit) {
  return reader_.due(shards, limit);
}

Rows MysqlInstance::held(int shard, LaneKey key, std::size_t limit) {
  return reader_.held(shard, key, limit);
}

std::vector<HeldLane> MysqlInstance::held_lanes(int shard, LaneKey after, std::size_t limit) {
  return reader_.held_lanes(shard, after, limit);
}

Rows MysqlInstance::claim(std::chrono::milliseconds skip_recent, std::size_t limit) {
  if (!options_.row_claims) {
    throw MisuseError("claim() needs InstanceOptions::row_claims");
  }
  return claims_.claim(skip_recent, limit);
}

MarkResult MysqlInstance::mark(std::int64_t epoch, std::span<const Mark> marks) {
  return marks_.apply(marks, epoch);
}

}  // namespace outbox::mysql
