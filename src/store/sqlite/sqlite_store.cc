#include "store/sqlite/sqlite_store.h"

#include <string>
#include <utility>

#include "base/sql_text.h"
#include "model/instance_options.h"
#include "store/common/rows.h"
#include "store/sqlite/connection.h"
#include "store/sqlite/instance.h"
#include "store/sqlite/operator_sql.h"
#include "store/sqlite/operators.h"
#include "store/sqlite/watch.h"

namespace outbox::sqlite {

namespace {

// How many searches may run at once in this process.
constexpr std::size_t kScans = 4;

}  // namespace

SqliteStore::SqliteStore(StoreConfigPtr config, std::unique_ptr<Database> first)
    : config_(std::move(config)),
      connections_(make_pool(config_, config_->options.connections,
                             "end transactions sooner, or raise sqlite::Options::connections",
                             config_->options.on_open)),
      operators_(make_pool(config_, 1, "an operator's query is running", {}, std::move(first))),
      scans_(make_pool(config_, kScans, "other searches of operators or purges are running")) {}

Capabilities SqliteStore::capabilities() const {
  return {.shards = 1,
          .expiring_leases = false,
          .row_claims = true,
          .dialect = Dialect::sqlite,
          .many_processes = true,
          .one_writer = true};
}

std::string SqliteStore::side_table(std::string_view name) const {
  return quoted_name(config_->options.table + "_" + std::string(name));
}

std::unique_ptr<Connection> SqliteStore::connect() {
  return std::make_unique<PooledConnection>(connections_->take());
}

std::unique_ptr<Instance> SqliteStore::join(InstanceOptions options) {
  config_->check_process();
  return std::make_unique<SqliteInstance>(config_, checked(std::move(options)));
}

std::unique_ptr<Watch> SqliteStore::watch(std::function<void()> on_commit) {
  return watch_commits(config_, std::move(on_commit));
}

PoolHandle SqliteStore::take_to_read(Pool& pool) {
  config_->check_file();
  return pool.take();
}

bool SqliteStore::has_pending() {
  const auto database = take_to_read(*operators_);
  return database->integer(sql::kHasPending) == 1;
}

Counts SqliteStore::counts() { return Operators(*take_to_read(*scans_)).counts(); }

std::optional<EventRecord> SqliteStore::find(std::string_view event_id) {
  const auto database = take_to_read(*operators_);
  Run run((*database)[sql::kFind], event_id);
  if (!run.step()) return std::nullopt;
  return decode_record(run, *config_);
}

std::vector<EventRecord> SqliteStore::list(const EventFilter& filter, Seq after,
                                           std::size_t limit) {
  return Operators(*take_to_read(*scans_)).list(filter, after, limit);
}

std::int64_t SqliteStore::count(const EventFilter& filter) {
  return Operators(*take_to_read(*scans_)).count(filter);
}

std::vector<DeadGroup> SqliteStore::dead_groups(const EventFilter& filter, std::size_t limit) {
  return Operators(*take_to_read(*scans_)).dead_groups(filter, limit);
}

bool SqliteStore::replay(std::string_view event_id) {
  const auto database = take_to_read(*operators_);
  WriteTransaction transaction(*database);
  database->execute(sql::kNoteUnblocked, event_id);
  const bool replayed = database->execute(sql::kReplay, event_id, micros(config_->now())) == 1;
  transaction.commit();
  return replayed;
}

bool SqliteStore::discard(std::string_view event_id) {
  const auto database = take_to_read(*operators_);
  WriteTransaction transaction(*database);
  database->execute(sql::kNoteUnblocked, event_id);
  const bool discarded = database->execute(sql::kDiscard, event_id) == 1;
  transaction.commit();
  return discarded;
}

Changed SqliteStore::replay(const EventFilter& filter, Seq after, std::size_t limit) {
  return Operators(*take_to_read(*scans_)).replay(filter, after, limit);
}

Changed SqliteStore::discard(const EventFilter& filter, Seq after, std::size_t limit) {
  return Operators(*take_to_read(*scans_)).discard(filter, after, limit);
}

Changed SqliteStore::purge(Purgeable what, Time before, Seq after, std::size_t limit,
                           bool archive) {
  return Operators(*take_to_read(*scans_)).purge(what, before, after, limit, archive);
}

std::int64_t SqliteStore::count_purgeable(Purgeable what, Time before) {
  return Operators(*take_to_read(*scans_)).count_purgeable(what, before);
}

std::vector<HeldAggregate> SqliteStore::held_aggregates(std::size_t limit) {
  return Operators(*take_to_read(*scans_)).held_aggregates(limit);
}

std::vector<Member> SqliteStore::members() {
  return Operators(*take_to_read(*operators_)).members();
}

}  // namespace outbox::sqlite
