#include "store/sqlite/sqlite_store.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/process.h"
#include "base/sql_text.h"
#include "client/sqlite/database.h"
#include "client/sqlite/statement.h"
#include "model/event_row.h"
#include "model/instance_options.h"
#include "outbox/error.h"
#include "outbox/open.h"
#include "outbox/sqlite.h"
#include "store/common/store_config.h"
#include "store/sqlite/connection.h"
#include "store/sqlite/sql.h"
#include "store/sqlite/store_config.h"

namespace outbox::sqlite {
namespace {

constexpr int kBusyTimeoutMs = 5'000;

// Null if there is no file.
DatabaseHandle open_to_read(const std::string& path, const std::string& where) {
  constexpr int kFlags = SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_EXRESCODE;
  sqlite3* db = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &db, kFlags, nullptr);
  DatabaseHandle handle(db);  // SQLite makes one even if it fails
  if (code == SQLITE_OK) {
    sqlite3_busy_timeout(db, kBusyTimeoutMs);
    return handle;
  }
  const bool missing = (code & 0xff) == SQLITE_CANTOPEN && sqlite3_system_errno(db) == ENOENT;
  if (!missing) throw_failure(db, code, "open the database", where);
  return nullptr;
}

std::vector<SchemaStep> applied_steps(sqlite3* db, const std::string& table,
                                      const std::string& where) {
  const std::string migration_table = table + "_migration";
  Statement look(db, sql::kHasMigrations.text, std::string(sql::kHasMigrations.purpose), where);
  if (!Run(look, std::string_view(migration_table)).step()) return {};
  Statement read(db, expand(sql::kMigrations.text, table), std::string(sql::kMigrations.purpose),
                 where);
  std::vector<SchemaStep> steps;
  Run run(read);
  while (run.step()) {
    steps.push_back({.version = static_cast<int>(run.integer(0)),
                     .name = std::string(run.text(1)),
                     .applied_at = time_of(run.integer(2))});
  }
  return steps;
}

}  // namespace

std::shared_ptr<Store> open(const std::string& path, Options options) {
  const auto config = StoreConfig::of(path, std::move(options));
  const bool migrate = config->options.migrate;

  // Without migration a new file would be of no use: don't leave one behind.
  auto first = std::make_unique<Database>(config, migrate);
  config->file = sqlite3_db_filename(first->handle(), "main");
  config->identity = FileIdentity::of(config->file);
  config->description = describe_database(config->file, config->options.table);
  ensure_schema(*first, migrate);
  return std::make_shared<SqliteStore>(config, std::move(first));
}

Scheme scheme(Options options) {
  return {.names = {std::string(kUrlScheme), "file"},  // the latter is SQLite's own
          .open = [options = std::move(options)](const std::string& url) {
            return sqlite::open(path_of_url(url), options);
          }};
}

// Without touching the database: open() would switch it to WAL and insist on being allowed to
// write.
SchemaStatus schema_status(const std::string& path, const std::string& table) {
  check_database_path(path);
  check_table_name(table);
  const std::string where = describe_database(path, table);
  const DatabaseHandle db = open_to_read(path, where);
  return migrations().status(db ? applied_steps(db.get(), table, where)
                                : std::vector<SchemaStep>{});
}

SchemaStatus migrate(const std::string& path, const std::string& table) {
  open(path, {.table = table});
  return schema_status(path, table);
}

SqliteStore::SqliteStore(const StoreConfigPtr& config, std::unique_ptr<Database> first)
    : DatabaseStore(config,
                    make_pool(config, users_limits(config, "sqlite"), config->options.on_open),
                    make_pool(config, quick_limits(config), {}, std::move(first)),
                    make_pool(config, scan_limits(config))) {}

Capabilities SqliteStore::capabilities() const {
  return {.shards = 1,
          .expiring_leases = false,
          .row_claims = true,
          .dialect = Dialect::sqlite,
          .many_processes = true,
          .one_writer = true,
          .total_order = true};
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

namespace {

bool has_shard(std::span<const int> shards) {
  return std::find(shards.begin(), shards.end(), 0) != shards.end();
}

}  // namespace

SqliteInstance::SqliteInstance(StoreConfigPtr config, InstanceOptions options)
    : config_(std::move(config)),
      options_(named(std::move(options))),
      owner_(unique_owner(options_.name)),
      ownership_(config_, options_, owner_),
      reading_(config_),
      reader_(reading_),
      claims_(reading_, owner_, options_.lock_timeout),
      waits_(reading_, !options_.row_claims),
      updating_(config_),
      updates_(updating_, options_.row_claims ? std::optional(owner_) : std::nullopt) {}

void SqliteInstance::release(int shard) {
  throw MisuseError("shard " + std::to_string(shard) +
                    " is not draining: an SQLite store has one shard, owned until leave()");
}

void SqliteInstance::prepare_to_read() {
  config_->check_process();
  if (ownership_.epoch() != 0) waits_.keep(ownership_.epoch());
}

Rows SqliteInstance::ready(std::span<const int> shards, std::size_t in_flight,
                           const ReadLimit& limit) {
  prepare_to_read();
  return has_shard(shards) ? reader_.ready(ownership_.epoch(), in_flight, limit) : Rows{};
}

DueRows SqliteInstance::due(std::span<const int> shards, const ReadLimit& limit) {
  prepare_to_read();
  return has_shard(shards) ? reader_.due(limit) : DueRows{};
}

Rows SqliteInstance::held(std::span<const LaneRef> lanes, const ReadLimit& limit) {
  prepare_to_read();
  const auto lane =
      std::find_if(lanes.begin(), lanes.end(), [](const LaneRef& each) { return each.shard == 0; });
  return lane != lanes.end() ? reader_.held(lane->key, limit) : Rows{};
}

std::vector<HeldLane> SqliteInstance::held_lanes(int shard, LaneKey after, std::size_t limit) {
  prepare_to_read();
  return shard == 0 ? reader_.held_lanes(after, limit) : std::vector<HeldLane>{};
}

std::vector<LaneRef> SqliteInstance::unblocked(std::span<const int> shards, std::size_t limit) {
  prepare_to_read();
  return has_shard(shards) ? reader_.unblocked(limit) : std::vector<LaneRef>{};
}

Rows SqliteInstance::claim(std::chrono::milliseconds skip_recent, const ReadLimit& limit) {
  prepare_to_read();
  require_row_claims(options_.row_claims);
  return claims_.claim(skip_recent, limit);
}

UpdateResult SqliteInstance::apply(std::int64_t epoch, std::span<const StatusUpdate> updates) {
  // After leave() the row still shows the epoch that it had.
  if (!options_.row_claims && epoch != ownership_.epoch()) return {.fenced = true};
  return updates_.apply(updates, epoch);
}

}  // namespace outbox::sqlite
