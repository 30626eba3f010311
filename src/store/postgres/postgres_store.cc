#include "store/postgres/postgres_store.h"

#include <utility>

#include "model/instance_options.h"
#include "store/common/shards.h"
#include "store/postgres/connection.h"
#include "store/postgres/instance.h"
#include "store/postgres/operators.h"
#include "store/postgres/watch.h"

namespace outbox::postgres {

namespace {

// How many searches may run at once in this process.
constexpr std::size_t kScans = 4;

// They may read all of a large table.
constexpr int kScanPatience = 10;

}  // namespace

PostgresStore::PostgresStore(StoreConfigPtr config)
    : config_(std::move(config)),
      notifier_(config_->options.notify ? std::make_shared<Notifier>(config_) : nullptr),
      connections_(make_pool(config_, Use::users, config_->options.connections,
                             "end transactions sooner, or raise postgres::Options::connections",
                             config_->options.statement_timeout, config_->options.on_open)),
      operators_(make_pool(config_, Use::operators, 1, "an operator's query is running",
                           config_->options.statement_timeout)),
      scans_(make_pool(config_, Use::operators, kScans,
                       "other searches of operators or purges are running",
                       config_->options.statement_timeout * kScanPatience)) {}

Capabilities PostgresStore::capabilities() const {
  return {.shards = kShards,
          .expiring_leases = true,
          .row_claims = true,
          .dialect = Dialect::postgres,
          .many_processes = true};
}

std::string PostgresStore::side_table(std::string_view name) const {
  return config_->table.qualified(name);
}

std::unique_ptr<Connection> PostgresStore::connect() {
  return std::make_unique<PooledConnection>(connections_->take(), notifier_);
}

std::unique_ptr<Instance> PostgresStore::join(InstanceOptions options) {
  config_->check_process();
  return std::make_unique<PostgresInstance>(config_, checked(std::move(options)));
}

std::unique_ptr<Watch> PostgresStore::watch(std::function<void()> on_commit) {
  if (!config_->options.notify) return nullptr;
  return watch_commits(config_, std::move(on_commit));
}

bool PostgresStore::has_pending() { return Operators(*operators_->take()).has_pending(); }

std::optional<EventRecord> PostgresStore::find(std::string_view event_id) {
  return Operators(*operators_->take()).find(event_id);
}

bool PostgresStore::replay(std::string_view event_id) {
  return Operators(*operators_->take()).replay(event_id);
}

bool PostgresStore::discard(std::string_view event_id) {
  return Operators(*operators_->take()).discard(event_id);
}

std::vector<Member> PostgresStore::members() { return Operators(*operators_->take()).members(); }

Counts PostgresStore::counts() { return Operators(*scans_->take()).counts(); }

std::vector<EventRecord> PostgresStore::list(const EventFilter& filter, Seq after,
                                             std::size_t limit) {
  return Operators(*scans_->take()).list(filter, after, limit);
}

std::int64_t PostgresStore::count(const EventFilter& filter) {
  return Operators(*scans_->take()).count(filter);
}

std::vector<DeadGroup> PostgresStore::dead_groups(const EventFilter& filter, std::size_t limit) {
  return Operators(*scans_->take()).dead_groups(filter, limit);
}

Changed PostgresStore::replay(const EventFilter& filter, Seq after, std::size_t limit) {
  return Operators(*scans_->take()).replay(filter, after, limit);
}

Changed PostgresStore::discard(const EventFilter& filter, Seq after, std::size_t limit) {
  return Operators(*scans_->take()).discard(filter, after, limit);
}

Changed PostgresStore::purge(Purgeable what, Time before, Seq after, std::size_t limit,
                             bool archive) {
  return Operators(*scans_->take()).purge(what, before, after, limit, archive);
}

std::int64_t PostgresStore::count_purgeable(Purgeable what, Time before) {
  return Operators(*scans_->take()).count_purgeable(what, before);
}

std::vector<HeldAggregate> PostgresStore::held_aggregates(std::size_t limit) {
  return Operators(*scans_->take()).held_aggregates(limit);
}

}  // namespace outbox::postgres
