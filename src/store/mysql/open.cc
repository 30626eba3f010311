#include "outbox/open.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "outbox/mysql.h"
#include "store/common/options.h"
#include "store/mysql/database.h"
#include "store/mysql/mysql_store.h"
#include "store/mysql/names.h"
#include "store/mysql/schema.h"

namespace outbox::mysql {
namespace {

std::shared_ptr<StoreConfig> config_for(const std::string& url, Options options) {
  const TableName table = TableName::parse(options.table);
  auto config = std::make_shared<StoreConfig>(url);
  config->table = table;
  config->description = "MySQL database " + config->target.place() + ", table " + table.text();
  config->options = resolved(std::move(options), "mysql");
  return config;
}

// From here on the table is that of the URL's database, whatever the default database of a
// connection is, and who may change it.
void settle(StoreConfig& config, Database& first) {
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
  const auto config = config_for(url, std::move(options));
  {
    Database first(config);
    ensure_schema(first, migrate);
    settle(*config, first);
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
  Database database(config_for(url, {.table = table, .prepare = false}));
  return read_schema_status(database);
}

SchemaStatus migrate(const std::string& url, const std::string& table) {
  Database database(config_for(url, {.table = table, .prepare = false}));
  ensure_schema(database, true);
  return read_schema_status(database);
}

}  // namespace outbox::mysql
