#include "store/mysql/instance.h"

#include <utility>

namespace outbox::mysql {
namespace {

// A update that waits for somebody's lock keeps the lock on its instance's row, for which
// the next renewal waits in turn.
constexpr std::chrono::seconds kUpdatesLockLimit{1};

}  // namespace

MysqlInstance::MysqlInstance(const StoreConfigPtr& config, InstanceOptions options)
    : ServerInstance(config, std::move(options)) {
  reading().belong_to(ownership().registration());
  marking().belong_to(ownership().registration());
  reading().limit_idle(this->options().lease);
  marking().limit_idle(this->options().lease);
  marking().limit_locks(kUpdatesLockLimit);
}

}  // namespace outbox::mysql
