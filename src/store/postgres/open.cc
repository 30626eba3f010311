#include "outbox/open.h"

#include <optional>
#include <string>
#include <utility>

#include "outbox/error.h"
#include "outbox/postgres.h"
#include "store/common/options.h"
#include "store/postgres/database.h"
#include "store/postgres/names.h"
#include "store/postgres/postgres_store.h"
#include "store/postgres/schema.h"
#include "store/postgres/sql.h"

namespace outbox::postgres {
namespace {

// What the server takes as the name of a channel. Two tables whose names are cut to
// the same hear of each other's commits, which does no harm.
constexpr std::size_t kLongestChannel = 63;

std::shared_ptr<StoreConfig> config_for(const std::string& url, Options options) {
  const TableName table = TableName::parse(options.table);
  auto config = std::make_shared<StoreConfig>(url);
  config->table = table;
  config->description = "PostgreSQL database " + config->target.place() + ", table " + table.text();
  config->options = resolved(std::move(options), "postgres");
  return config;
}

// Servers that only resemble PostgreSQL may not know, and administrators may forbid it: then
// connections of the user's own are taken as they are.
std::optional<DatabaseId> id_of(Database& database) {
  try {
    const Result id = database.run(sql::kDatabaseId);
    return DatabaseId{.server = id.integer(0, 0), .database = id.integer(0, 1)};
  } catch (const RetryableError&) {
    throw;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

std::shared_ptr<Store> open(const std::string& url, Options options) {
  const bool migrate = options.migrate;
  const auto config = config_for(url, std::move(options));
  {
    Database first(config, Use::operators);
    ensure_schema(first, migrate);
    config->table.schema = schema_of_table(first);
    config->id = id_of(first);
    config->places.add(place_of(first.handle()));
  }
  config->channel = ("outbox:" + config->table.text()).substr(0, kLongestChannel);
  return std::make_shared<PostgresStore>(config);
}

Scheme scheme(Options options) {
  return {.names = {"postgresql", "postgres"},
          .open = [options = std::move(options)](const std::string& url) {
            return postgres::open(url, options);
          }};
}

// These make a few calls only, which must also work behind a pooler: nothing is
// kept prepared.
SchemaStatus schema_status(const std::string& url, const std::string& table) {
  Database database(config_for(url, {.table = table, .prepare = false}), Use::operators);
  return read_schema_status(database);
}

SchemaStatus migrate(const std::string& url, const std::string& table) {
  Database database(config_for(url, {.table = table, .prepare = false}), Use::operators);
  ensure_schema(database, true);
  return read_schema_status(database);
}

}  // namespace outbox::postgres
