#include "store/mysql/mysql_store.h"

#include <chrono>
#include <utility>

#include "store/common/shards.h"
#include "store/mysql/connection.h"

namespace outbox::mysql {
namespace {

// An update that waits for somebody's lock keeps the lock on its instance's row, for which
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

MysqlStore::MysqlStore(const StoreConfigPtr& config)
    : DatabaseStore(
          config,
          make_pool(config, Use::transactions, config->options.connections,
                    "end transactions sooner, or raise mysql::Options::connections",
                    config->options.statement_timeout, config->options.on_open),
          make_pool(config, Use::engine, 1, kQuickHint, config->options.statement_timeout),
          make_pool(config, Use::engine, kScans, kScansHint,
                    config->options.statement_timeout * kScanPatience)) {}

Capabilities MysqlStore::capabilities() const {
  return {.shards = kShards,
          .expiring_leases = true,
          .row_claims = true,
          .dialect = Dialect::mysql,
          .many_processes = true};
}

std::string MysqlStore::side_table(std::string_view name) const {
  return config()->table.qualified(name);
}

std::unique_ptr<Connection> MysqlStore::connect() {
  return std::make_unique<PooledConnection>(take_for_user());
}

std::unique_ptr<Watch> MysqlStore::watch(std::function<void()> on_commit) {
  return watch_commits(config(), std::move(on_commit));
}

}  // namespace outbox::mysql
