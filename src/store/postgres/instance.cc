#include "store/postgres/instance.h"

#include <utility>

#include "core/process.h"
#include "outbox/error.h"

namespace outbox::postgres {
namespace {

// A read or mark that takes longer has met a server that hangs.
constexpr std::chrono::milliseconds kCallLimit{30'000};

}  // namespace

PostgresInstance::PostgresInstance(EnvironmentPtr environment, InstanceOptions options)
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
    database->go_by_index_alone();
  }
}

std::optional<std::chrono::milliseconds> PostgresInstance::lease() const { return options_.lease; }

Rows PostgresInstance::ready(std::span<const int> shards, std::size_t in_flight,
                             std::size_t limit) {
  return reader_.ready(shards, in_flight, limit);
}

DueRows PostgresInstance::due(std::span<const int> shards, std::size_t limit) {
  return reader_.due(shards, limit);
}

Rows PostgresInstance::held(int shard, LaneKey key, std::size_t limit) {
  return reader_.held(shard, key, limit);
}

std::vector<HeldLane> PostgresInstance::held_lanes(int shard, LaneKey after, std::size_t limit) {
  return reader_.held_lanes(shard, after, limit);
}

Rows PostgresInstance::claim(std::chrono::milliseconds skip_recent, std::size_t limit) {
  if (!options_.row_claims) {
    throw MisuseError("claim() needs InstanceOptions::row_claims");
  }
  return claims_.claim(skip_recent, limit);
}

MarkResult PostgresInstance::mark(std::int64_t epoch, std::span<const Mark> marks) {
  return marks_.apply(marks, epoch);
}

}  // namespace outbox::postgres
