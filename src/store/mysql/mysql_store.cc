#include "store/mysql/mysql_store.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <utility>

#include "outbox/mysql.h"
#include "outbox/open.h"
#include "store/common/store_config.h"
#include "store/mysql/connection.h"
#include "store/mysql/store_config.h"

namespace outbox::mysql {
namespace {

// From here on the table is that of the URL's database, whatever the default database of a
// connection is, and who may change it.
void fix_table(StoreConfig& config, Database& first) {
  if (config.table.schema.empty()) {
    const Result name = first.session().run_text("SELECT DATABASE()", "read the database's name");
    // A connection with another character set would take more than ASCII for another name.
    const std::string_view database = name.text(0, 0);
    const bool ascii = std::all_of(database.begin(), database.end(),
                                   [](char c) { return static_cast<unsigned char>(c) < 0x80; });
    if (ascii) config.table.schema = database;
  }
  config.born = born_at(first.session());
  config.places.add(place_of(first.handle()));
}

}  // namespace

std::shared_ptr<Store> open(const std::string& url, Options options) {
  const bool migrate = options.migrate;
  const auto config = StoreConfig::of(url, std::move(options));
  {
    Database first(config);
    ensure_schema(first, migrate);
    fix_table(*config, first);
  }
  return std::make_shared<MysqlStore>(config);
}

Scheme scheme(Options options) {
  return {.names = {"mysql", "mariadb"},
          .open = [options = std::move(options)](const std::string& url) {
            return mysql::open(url, options);
          }};
}

// These make a few calls only, which must also work behind a proxy: nothing is kept
// prepared.
SchemaStatus schema_status(const std::string& url, const std::string& table) {
  Database database(StoreConfig::of(url, {.table = table, .prepare = false}));
  return read_schema_status(database);
}

SchemaStatus migrate(const std::string& url, const std::string& table) {
  Database database(StoreConfig::of(url, {.table = table, .prepare = false}));
  ensure_schema(database, true);
  return read_schema_status(database);
}

namespace {

// An update that waits for somebody's lock keeps the lock on its instance's row, for which
// the next renewal waits in turn.
constexpr std::chrono::seconds kUpdatesLockLimit{1};

}  // namespace

MysqlInstance::MysqlInstance(const StoreConfigPtr& config, InstanceOptions options)
    : ServerInstance(config, std::move(options)) {
  reading().belong_to(ownership().registration());
  updating().belong_to(ownership().registration());
  reading().limit_idle(this->options().lease);
  updating().limit_idle(this->options().lease);
  updating().limit_locks(kUpdatesLockLimit);
}

MysqlStore::MysqlStore(const StoreConfigPtr& config)
    : ServerStore(
          config,
          make_pool(config, Use::transactions, users_limits(config, "mysql"),
                    config->options.statement_timeout, config->options.on_open),
          make_pool(config, Use::engine, quick_limits(config), config->options.statement_timeout),
          make_pool(config, Use::engine, scan_limits(config),
                    config->options.statement_timeout * kScanPatience)) {}

std::unique_ptr<Connection> MysqlStore::connect() {
  return std::make_unique<PooledConnection>(take_for_user());
}

std::unique_ptr<Watch> MysqlStore::watch(std::function<void()> on_commit) {
  return watch_commits(config(), std::move(on_commit));
}

}  // namespace outbox::mysql
