#include "store/sqlite/sqlite_store.h"

#include <string>
#include <utility>

#include "base/sql_text.h"
#include "store/sqlite/connection.h"

namespace outbox::sqlite {

SqliteStore::SqliteStore(const StoreConfigPtr& config, std::unique_ptr<Database> first)
    : DatabaseStore(config,
                    make_pool(config, config->options.connections,
                              "end transactions sooner, or raise sqlite::Options::connections",
                              config->options.on_open),
                    make_pool(config, 1, kQuickHint, {}, std::move(first)),
                    make_pool(config, kScans, kScansHint)) {}

Capabilities SqliteStore::capabilities() const {
  return {.shards = 1,
          .expiring_leases = false,
          .row_claims = true,
          .dialect = Dialect::sqlite,
          .many_processes = true,
          .one_writer = true};
}

std::string SqliteStore::side_table(std::string_view name) const {
  return quoted_name(config()->options.table + "_" + std::string(name));
}

std::unique_ptr<Connection> SqliteStore::connect() {
  return std::make_unique<PooledConnection>(take_for_user());
}

std::unique_ptr<Watch> SqliteStore::watch(std::function<void()> on_commit) {
  return watch_commits(config(), std::move(on_commit));
}

}  // namespace outbox::sqlite
