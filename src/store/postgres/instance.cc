#include "store/postgres/instance.h"

#include <chrono>
#include <utility>

namespace outbox::postgres {
namespace {

// A update that waits for somebody's lock keeps the lock on its instance's row, for
// which the next renewal would wait in turn.
constexpr std::chrono::milliseconds kMarkWaits{2'000};

}  // namespace

PostgresInstance::PostgresInstance(const StoreConfigPtr& config, InstanceOptions options)
    : ServerInstance(config, std::move(options)) {
  reading().hold_to(ownership().history());
  marking().hold_to(ownership().history());
  reading().go_by_index_alone();
  marking().go_by_index_alone();
  marking().limit_locks(kMarkWaits);
}

}  // namespace outbox::postgres
