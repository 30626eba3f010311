#include "store/postgres/postgres_store.h"

#include <chrono>
#include <utility>

#include "store/common/shards.h"
#include "store/postgres/connection.h"

namespace outbox::postgres {
namespace {

// An update that waits for somebody's lock keeps the lock on its instance's row, for
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

PostgresStore::PostgresStore(const StoreConfigPtr& config)
    : DatabaseStore(
          config,
          make_pool(config, Use::users, config->options.connections,
                    "end transactions sooner, or raise postgres::Options::connections",
                    config->options.statement_timeout, config->options.on_open),
          make_pool(config, Use::operators, 1, kQuickHint, config->options.statement_timeout),
          make_pool(config, Use::operators, kScans, kScansHint,
                    config->options.statement_timeout * kScanPatience)),
      notifier_(config->options.notify ? std::make_shared<Notifier>(config) : nullptr) {}

Capabilities PostgresStore::capabilities() const {
  return {.shards = kShards,
          .expiring_leases = true,
          .row_claims = true,
          .dialect = Dialect::postgres,
          .many_processes = true};
}

std::string PostgresStore::side_table(std::string_view name) const {
  return config()->table.qualified(name);
}

std::unique_ptr<Connection> PostgresStore::connect() {
  return std::make_unique<PooledConnection>(take_for_user(), notifier_);
}

std::unique_ptr<Watch> PostgresStore::watch(std::function<void()> on_commit) {
  if (!config()->options.notify) return nullptr;
  return watch_commits(config(), std::move(on_commit));
}

}  // namespace outbox::postgres
