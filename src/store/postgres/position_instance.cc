#include "store/postgres/position_instance.h"

#include <exception>
#include <utility>

#include "base/process.h"
#include "outbox/error.h"

namespace outbox::postgres {
namespace {

using std::chrono::milliseconds;

// As those of ServerInstance and PostgresInstance.
constexpr milliseconds kCallLimit{30'000};
constexpr milliseconds kUpdatesLockLimit{2'000};

// Who gives shards back renews the lease as well, and must not wait for a read that hangs.
constexpr milliseconds kBriefly{1'000};

constexpr const char* kNoClaims =
    "row claims keep their progress in the rows: with progress by position there are none; leave "
    "row_claims out, or create the table with Progress::row";

InstanceOptions without_claims(InstanceOptions options) {
  if (options.row_claims) throw MisuseError(kNoClaims);
  return named(std::move(options));
}

}  // namespace

PositionInstance::PositionInstance(const StoreConfigPtr& config, InstanceOptions options)
    : options_(without_claims(std::move(options))),
      owner_(unique_owner(options_.name)),
      ownership_(config, options_, owner_, generations_),
      reading_(config),
      reader_(reading_, positions_, ownership_.registration(), generations_, owner_,
              options_.total_order),
      updating_(config),
      updates_(updating_, positions_, ownership_.registration(), owner_) {
  for (Database* database : {&reading_, &updating_}) {
    database->limit_calls(kCallLimit);
    database->hold_to(ownership_.registration());
    database->go_by_index_alone();
    database->limit_locks(kUpdatesLockLimit);
  }
}

// If it fails, the shard stays: its next owner would deliver again what was not stored.
void PositionInstance::release(int shard) {
  reader_.flush(positions_.epoch(), true, kBriefly);
  ownership_.release(shard);
  positions_.drop(shard);
}

// Others may take over in any case: what was not stored is delivered again.
void PositionInstance::leave() {
  try {
    reader_.flush(positions_.epoch(), true, kBriefly);
  } catch (const Error&) {
    // The server cannot be reached, which leaving says as well.
  }
  positions_.enter(0);
  ownership_.leave();
}

FlushResult PositionInstance::flush(std::int64_t epoch, bool at_once) {
  return reader_.flush(epoch, at_once, kCallLimit);
}

Rows PositionInstance::claim(milliseconds /*skip_recent*/, const ReadLimit& /*limit*/) {
  throw MisuseError(kNoClaims);
}

void PositionInstance::unclaim(std::span<const RowRef> rows) {
  if (!rows.empty()) throw MisuseError(kNoClaims);
}

}  // namespace outbox::postgres
