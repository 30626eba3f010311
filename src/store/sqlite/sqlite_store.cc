#include "store/sqlite/sqlite_store.h"

#include <algorithm>
#include <string>
#include <utility>

#include "outbox/error.h"
#include "store/sqlite/connection.h"
#include "store/sqlite/instance.h"
#include "store/sqlite/rows.h"
#include "store/sqlite/sql.h"
#include "store/sqlite/watch.h"

namespace outbox::sqlite {
namespace {

constexpr std::int64_t kMostCounted = 1'000;

// Adds the aggregates of one lane. There is one as a rule; more if their keys
// collide.
void add_aggregates(Database& database, LaneKey lane, std::size_t limit,
                    std::vector<HeldAggregate>& all) {
  const auto first = static_cast<std::ptrdiff_t>(all.size());
  Run run(database[sql::kLaneOverview], lane, kMostCounted + 1);
  while (run.step()) {
    const std::string_view type = run.text(0);
    const std::string_view id = run.text(1);
    const auto known = std::find_if(all.begin() + first, all.end(), [&](const auto& aggregate) {
      return aggregate.aggregate_type == type && aggregate.aggregate_id == id;
    });
    if (known != all.end()) {
      ++known->waiting;
    } else if (all.size() < limit) {
      all.push_back({.aggregate_type = std::string(type),
                     .aggregate_id = std::string(id),
                     .head_id = std::string(run.text(2)),
                     .head_status = static_cast<Status>(run.integer(3)),
                     .attempts = static_cast<int>(run.integer(4)),
                     .last_error = std::string(run.text(5))});
    }
  }
}

}  // namespace

SqliteStore::SqliteStore(EnvironmentPtr environment, std::unique_ptr<Database> first)
    : environment_(std::move(environment)),
      connections_(std::make_shared<Pool>(
          environment_,
          PoolOptions{.size = environment_->options.connections,
                      .hint = "end transactions sooner, or raise sqlite::Options::connections",
                      .on_open = environment_->options.on_open})),
      operators_(std::make_shared<Pool>(
          environment_, PoolOptions{.size = 1, .hint = "an operator's query is running"},
          std::move(first))) {}

Capabilities SqliteStore::capabilities() const {
  return {.shards = 1,
          .expiring_leases = false,
          .row_claims = true,
          .sql = true,
          .many_processes = true};
}

std::unique_ptr<Connection> SqliteStore::connect() {
  return std::make_unique<PooledConnection>(connections_->lease());
}

std::unique_ptr<Instance> SqliteStore::join(InstanceOptions options) {
  environment_->check_process();
  return std::make_unique<SqliteInstance>(environment_, std::move(options));
}

std::unique_ptr<Watch> SqliteStore::watch(std::function<void()> on_commit) {
  return watch_commits(environment_, std::move(on_commit));
}

bool SqliteStore::has_pending() {
  const auto database = operators_->lease();
  return database->integer(sql::kHasPending) == 1;
}

Counts SqliteStore::counts() {
  const auto database = operators_->lease();
  Run run((*database)[sql::kCounts]);
  run.step();
  return {.pending = run.integer(0), .dead = run.integer(1)};
}

std::optional<EventRecord> SqliteStore::find(std::string_view event_id) {
  const auto database = operators_->lease();
  Run run((*database)[sql::kFind], event_id);
  if (!run.step()) return std::nullopt;
  EventRecord record{
      .row = decode_row(run, *environment_->options.codec, environment_->now()),
      .hold = run.optional_integer(kHoldColumn),
      .last_error = std::string(run.text(kRowColumns)),
      .locked_by = std::string(run.text(kRowColumns + 1)),
  };
  if (const auto done_at = run.optional_integer(kRowColumns + 2)) {
    record.done_at = time_of(*done_at);
  }
  return record;
}

bool SqliteStore::replay(std::string_view event_id) {
  const auto database = operators_->lease();
  WriteTransaction transaction(*database);
  const bool replayed = database->execute(sql::kReplay, event_id, micros(environment_->now())) == 1;
  transaction.commit();
  return replayed;
}

bool SqliteStore::discard(std::string_view event_id) {
  const auto database = operators_->lease();
  WriteTransaction transaction(*database);
  const bool discarded = database->execute(sql::kDiscard, event_id) == 1;
  transaction.commit();
  return discarded;
}

std::vector<HeldAggregate> SqliteStore::held_aggregates(std::size_t limit) {
  const auto database = operators_->lease();
  std::vector<HeldAggregate> aggregates;
  LaneKey lane = kNoLane;
  while (aggregates.size() < limit) {
    const auto next = database->integer(sql::kHeldLane, lane);
    if (!next) break;
    lane = *next;
    add_aggregates(*database, lane, limit, aggregates);
  }
  return aggregates;
}

}  // namespace outbox::sqlite
