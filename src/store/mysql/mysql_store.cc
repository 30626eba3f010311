#include "store/mysql/mysql_store.h"

#include <utility>

#include "model/instance_options.h"
#include "store/common/shards.h"
#include "store/mysql/connection.h"
#include "store/mysql/instance.h"
#include "store/mysql/operators.h"
#include "store/mysql/watch.h"

namespace outbox::mysql {

namespace {

// How many searches may run at once in this process.
constexpr std::size_t kScans = 4;

// They may read all of a large table.
constexpr int kScanPatience = 10;

}  // namespace

MysqlStore::MysqlStore(StoreConfigPtr config)
    : config_(std::move(config)),
      connections_(make_pool(config_, Use::transactions, config_->options.connections,
                             "end transactions sooner, or raise mysql::Options::connections",
                             config_->options.statement_timeout, config_->options.on_open)),
      operators_(make_pool(config_, Use::engine, 1, "an operator's query is running",
                           config_->options.statement_timeout)),
      scans_(make_pool(config_, Use::engine, kScans,
                       "other searches of operators or purges are running",
                       config_->options.statement_timeout * kScanPatience)) {}

Capabilities MysqlStore::capabilities() const {
  return {.shards = kShards,
          .expiring_leases = true,
          .row_claims = true,
          .dialect = Dialect::mysql,
          .many_processes = true};
}

std::string MysqlStore::side_table(std::string_view name) const {
  return config_->table.qualified(name);
}

std::unique_ptr<Connection> MysqlStore::connect() {
  return std::make_unique<PooledConnection>(connections_->take());
}

std::unique_ptr<Instance> MysqlStore::join(InstanceOptions options) {
  config_->check_process();
  return std::make_unique<MysqlInstance>(config_, checked(std::move(options)));
}

std::unique_ptr<Watch> MysqlStore::watch(std::function<void()> on_commit) {
  return watch_commits(config_, std::move(on_commit));
}

bool MysqlStore::has_pending() { return Operators(*operators_->take()).has_pending(); }

std::optional<EventRecord> MysqlStore::find(std::string_view event_id) {
  return Operators(*operators_->take()).find(event_id);
}

bool MysqlStore::replay(std::string_view event_id) {
  return Operators(*operators_->take()).replay(event_id);
}

bool MysqlStore::discard(std::string_view event_id) {
  return Operators(*operators_->take()).discard(event_id);
}

std::vector<Member> MysqlStore::members() { return Operators(*operators_->take()).members(); }

Counts MysqlStore::counts() { return Operators(*scans_->take()).counts(); }

std::vector<EventRecord> MysqlStore::list(const EventFilter& filter, Seq after, std::size_t limit) {
  return Operators(*scans_->take()).list(filter, after, limit);
}

std::int64_t MysqlStore::count(const EventFilter& filter) {
  return Operators(*scans_->take()).count(filter);
}

std::vector<DeadGroup> MysqlStore::dead_groups(const EventFilter& filter, std::size_t limit) {
  return Operators(*scans_->take()).dead_groups(filter, limit);
}

Changed MysqlStore::replay(const EventFilter& filter, Seq after, std::size_t limit) {
  return Operators(*scans_->take()).replay(filter, after, limit);
}

Changed MysqlStore::discard(const EventFilter& filter, Seq after, std::size_t limit) {
  return Operators(*scans_->take()).discard(filter, after, limit);
}

Changed MysqlStore::purge(Purgeable what, Time before, Seq after, std::size_t limit, bool archive) {
  return Operators(*scans_->take()).purge(what, before, after, limit, archive);
}

std::int64_t MysqlStore::count_purgeable(Purgeable what, Time before) {
  return Operators(*scans_->take()).count_purgeable(what, before);
}

std::vector<HeldAggregate> MysqlStore::held_aggregates(std::size_t limit) {
  return Operators(*scans_->take()).held_aggregates(limit);
}

}  // namespace outbox::mysql
