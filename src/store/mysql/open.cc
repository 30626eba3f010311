#include "outbox/open.h"

#include <string>
#include <utility>

#include "outbox/mysql.h"
#include "store/common/options.h"
#include "store/mysql/database.h"
#include "store/mysql/mysql_store.h"
#include "store/mysql/names.h"
#include "store/mysql/schema.h"

namespace outbox::mysql {
namespace {

std::shared_ptr<Environment> environment_for(const std::string& url, Options options) {
  const TableName table = TableName::parse(options.table);
  auto environment = std::make_shared<Environment>(url);
  environment->table = table;
  environment->description =
      "MySQL database " + environment->target.place() + ", table " + table.text();
  environment->options = resolved(std::move(options), "mysql");
  return environment;
}

}  // namespace

std::shared_ptr<Store> open(const std::string& url, Options options) {
  const bool migrate = options.migrate;
  const auto environment = environment_for(url, std::move(options));
  {
    Database first(environment);
    ensure_schema(first, migrate);
  }
  return std::make_shared<MysqlStore>(environment);
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
  Database database(environment_for(url, {.table = table, .prepare = false}));
  return read_schema_status(database);
}

SchemaStatus migrate(const std::string& url, const std::string& table) {
  Database database(environment_for(url, {.table = table, .prepare = false}));
  ensure_schema(database, true);
  return read_schema_status(database);
}

}  // namespace outbox::mysql
