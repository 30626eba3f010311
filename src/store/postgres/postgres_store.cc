#include "store/postgres/postgres_store.h"

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "model/instance_options.h"
#include "outbox/error.h"
#include "outbox/open.h"
#include "outbox/postgres.h"
#include "store/common/store_config.h"
#include "store/postgres/connection.h"
#include "store/postgres/position_instance.h"
#include "store/postgres/sql.h"
#include "store/postgres/store_config.h"

namespace outbox::postgres {
namespace {

// What the server takes as the name of a channel. Two tables whose names are cut to
// the same hear of each other's commits, which does no harm.
constexpr std::size_t kLongestChannel = 63;

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

void check_on_done(const StoreConfig& config, std::optional<Progress> progress) {
  if (progress != Progress::position || config.options.on_done != OnDone::remove) return;
  throw MisuseError(
      "postgres::Options::on_done = OnDone::remove conflicts with progress by position (" +
      config.description + "), where a delivery touches no row: purge the events instead");
}

}  // namespace

std::shared_ptr<Store> open(const std::string& url, Options options) {
  const bool migrate = options.migrate;
  const auto config = StoreConfig::of(url, std::move(options));
  {
    Database first(config, Use::operators);
    ensure_schema(first, migrate);
    check_on_done(*config, config->options.progress);
    config->naming = {.progress = ensure_progress(first, config->options.progress, migrate),
                      .subscription = std::string(kDefaultSubscription)};
    check_on_done(*config, config->naming.progress);
    config->table.schema = schema_of_table(first);
    config->id = id_of(first);
    config->places->add(place_of(first.handle()));
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
  Database database(StoreConfig::of(url, {.table = table, .prepare = false}), Use::operators);
  return read_schema_status(database);
}

SchemaStatus migrate(const std::string& url, const std::string& table,
                     std::optional<Progress> progress) {
  Database database(StoreConfig::of(url, {.table = table, .prepare = false}), Use::operators);
  ensure_schema(database, true);
  ensure_progress(database, progress, true);
  return read_schema_status(database);
}

namespace {

// An update that waits for somebody's lock keeps the lock on its instance's row, for
// which the next renewal would wait in turn.
constexpr std::chrono::milliseconds kUpdatesLockLimit{2'000};

}  // namespace

PostgresInstance::PostgresInstance(const StoreConfigPtr& config, InstanceOptions options)
    : ServerInstance(config, std::move(options)) {
  reading().hold_to(ownership().registration());
  updating().hold_to(ownership().registration());
  reading().go_by_index_alone();
  updating().go_by_index_alone();
  updating().limit_locks(kUpdatesLockLimit);
}

PostgresStore::PostgresStore(const StoreConfigPtr& config)
    : ServerStore(config,
                  make_pool(config, Use::users, users_limits(config, "postgres"),
                            config->options.statement_timeout, config->options.on_open),
                  make_pool(config, Use::operators, quick_limits(config),
                            config->options.statement_timeout),
                  make_pool(config, Use::operators, scan_limits(config),
                            config->options.statement_timeout * kScanPatience)),
      notifier_(config->options.notify ? std::make_shared<Notifier>(config, config->channel)
                                       : nullptr) {}

PostgresStore::PostgresStore(const StoreConfigPtr& config, const PostgresStore& other)
    : ServerStore(config, other.users(),
                  make_pool(config, Use::operators, quick_limits(config),
                            config->options.statement_timeout),
                  make_pool(config, Use::operators, scan_limits(config),
                            config->options.statement_timeout * kScanPatience)),
      notifier_(other.notifier_) {}

std::shared_ptr<Store> PostgresStore::subscription(std::string_view name) {
  if (!capabilities().subscriptions) return ServerStore::subscription(name);  // refuses
  config()->check_process();
  const auto its = std::make_shared<StoreConfig>(*config());
  its->naming.subscription = name;
  Database database(config(), Use::operators);
  Subscriptions(database).require(name);
  return std::make_shared<PostgresStore>(its, *this);
}

Capabilities PostgresStore::capabilities() const {
  Capabilities known = ServerStore::capabilities();
  if (config()->naming.progress == Progress::position) {
    known.row_claims = false;
    known.progress = Progress::position;
    known.subscriptions = true;
  }
  return known;
}

std::unique_ptr<Instance> PostgresStore::join(InstanceOptions options) {
  if (config()->naming.progress == Progress::row) return ServerStore::join(std::move(options));
  config()->check_process();
  return std::make_unique<PositionInstance>(config(), checked(std::move(options)));
}

std::unique_ptr<Connection> PostgresStore::connect() {
  return std::make_unique<PooledConnection>(take_for_user(), notifier_);
}

std::unique_ptr<Watch> PostgresStore::watch(std::function<void()> on_commit) {
  if (!config()->options.notify) return nullptr;
  return watch_channel(notifier_, std::move(on_commit), config()->options.log,
                       "events of other processes are found by polling; set "
                       "postgres::Options::notify to false, or connect to the server itself");
}

}  // namespace outbox::postgres
