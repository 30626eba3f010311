#include "outbox/open.h"

#include <string>
#include <utility>

#include "core/bounded.h"
#include "outbox/error.h"
#include "outbox/postgres.h"
#include "store/postgres/database.h"
#include "store/postgres/names.h"
#include "store/postgres/postgres_store.h"
#include "store/postgres/schema.h"

namespace outbox::postgres {
namespace {

constexpr std::size_t kMostConnections = 10'000;

// What the server takes as the name of a channel. Two tables whose names are cut to
// the same hear of each other's commits, which does no harm.
constexpr std::size_t kLongestChannel = 63;

Options resolved(Options options) {
  if (options.connections == 0) {
    throw MisuseError("postgres::Options::connections is 0: it needs at least 1");
  }
  if (options.connections > kMostConnections) {
    throw MisuseError("postgres::Options::connections is " + std::to_string(options.connections) +
                      ": at most " + std::to_string(kMostConnections) + " are allowed");
  }
  if (options.wait_timeout < std::chrono::milliseconds::zero()) {
    throw MisuseError("postgres::Options::wait_timeout is negative: " +
                      std::to_string(options.wait_timeout.count()) + " ms");
  }
  options.wait_timeout = internal::bounded(options.wait_timeout);
  if (!options.codec) options.codec = default_json_codec();
  if (!options.log) options.log = standard_error_log();
  if (options.clock == nullptr) options.clock = &host_clock();
  return options;
}

std::shared_ptr<Environment> environment_for(const std::string& url, Options options) {
  const TableName table = TableName::parse(options.table);
  auto environment = std::make_shared<Environment>(url);
  environment->table = table;
  environment->description =
      "PostgreSQL database " + environment->target.place() + ", table " + table.text();
  environment->options = resolved(std::move(options));
  return environment;
}

}  // namespace

std::shared_ptr<Store> open(const std::string& url, Options options) {
  const bool migrate = options.migrate;
  const auto environment = environment_for(url, std::move(options));
  {
    Database first(environment);
    ensure_schema(first, migrate);
    environment->table.schema = schema_of_table(first);
  }
  environment->channel = ("outbox:" + environment->table.text()).substr(0, kLongestChannel);
  return std::make_shared<PostgresStore>(environment);
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
  Database database(environment_for(url, {.table = table, .prepare = false}));
  return read_schema_status(database);
}

SchemaStatus migrate(const std::string& url, const std::string& table) {
  Database database(environment_for(url, {.table = table, .prepare = false}));
  ensure_schema(database, true);
  return read_schema_status(database);
}

}  // namespace outbox::postgres
