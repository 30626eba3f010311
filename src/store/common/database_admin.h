// What operators ask of a store on an SQL database, and do to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/connection_pool.h"
#include "model/event_row.h"
#include "outbox/admin/admin.h"
#include "store/common/admin.h"

namespace outbox {

// The calls of Admin, and those of Store for the whole table, on one connection. `Statements` are
// the SQL of one database: what it calls `Found` is gone through by step(), and `Key` is how it
// names the rows of a bulk operation. Each search is a read of its own, which keeps nobody waiting;
// what changes rows compares them again. Used by one thread at a time.
template <class Statements>
class TableAdmin {
 public:
  template <class Database>
  explicit TableAdmin(Database& database) : sql_(database) {}

  bool has_pending() { return number(sql_.has_pending()) != 0; }

  Counts counts() {
    Counts counts = pending(sql_.count_pending());
    counts.dead = number(sql_.count_dead());
    // Servers have a constraint against broken rows, and no index of them.
    if constexpr (requires { sql_.count_broken(); }) counts.broken = sql_.count_broken();
    return counts;
  }

  std::optional<EventRecord> find(std::string_view event_id) {
    auto found = sql_.find(event_id);
    if (!found.step()) return std::nullopt;
    return sql_.record(found);
  }

  std::vector<EventRecord> list(const EventFilter& filter, Seq after, std::size_t limit) {
    auto found = sql_.list(filter, bits(filter.status), after, sql_limit(limit));
    std::vector<EventRecord> records;
    while (found.step()) records.push_back(sql_.record(found));
    return records;
  }

  std::int64_t count(const EventFilter& filter) {
    return number(sql_.count(filter, bits(filter.status)));
  }

  std::vector<DeadGroup> dead_groups(const EventFilter& filter, std::size_t limit) {
    auto found = sql_.dead_groups(filter, sql_limit(limit));
    std::vector<DeadGroup> groups;
    while (found.step()) {
      groups.push_back({.aggregate_type = std::string(found.text(0)),
                        .type = std::string(found.text(1)),
                        .error = std::string(found.text(2)),
                        .count = found.integer(3),
                        .first = found.time(4),
                        .last = found.time(5),
                        .example_id = std::string(found.text(6))});
    }
    return groups;
  }

  std::vector<HeldAggregate> held_aggregates(std::size_t limit) {
    HeldAggregates held(limit);
    sql_.each_lane(sql_limit(limit), [&](int shard, LaneKey lane) {
      held.begin_lane();
      auto found = sql_.lane(shard, lane, HeldAggregates::kRowsOfLane);
      while (found.step()) {
        held.add({.aggregate_type = std::string(found.text(0)),
                  .aggregate_id = std::string(found.text(1)),
                  .head_id = std::string(found.text(2)),
                  .head_status = static_cast<Status>(found.integer(3)),
                  .attempts = static_cast<int>(found.integer(4)),
                  .last_error = std::string(found.text(5))});
      }
      return !held.full();
    });
    return held.take();
  }

  std::vector<Member> members() { return sql_.members(); }

  bool replay(std::string_view event_id) { return sql_.replay(event_id); }
  bool discard(std::string_view event_id) { return sql_.discard(event_id); }

  Changed replay(const EventFilter& filter, Seq after, std::size_t limit) {
    const StatusBits statuses = replayable(filter);
    if (statuses == 0) return {.through = after};
    Step step =
        step_of(after, limit, [&] { return sql_.match(filter, statuses, after, one_more(limit)); });
    return step.changed(step.keys().empty() ? 0 : sql_.replay(step.keys(), filter, statuses));
  }

  Changed discard(const EventFilter& filter, Seq after, std::size_t limit) {
    Step step = step_of(after, limit, [&] {
      return sql_.match(filter, bit(Status::dead), after, one_more(limit));
    });
    return step.changed(step.keys().empty() ? 0 : sql_.discard(step.keys(), filter));
  }

  Changed purge(Purgeable what, Time before, Seq after, std::size_t limit, bool archive) {
    Step step =
        step_of(after, limit, [&] { return sql_.old(what, before, after, one_more(limit)); });
    return step.changed(step.keys().empty() ? 0 : sql_.remove(step.keys(), what, before, archive));
  }

  std::int64_t count_purgeable(Purgeable what, Time before) {
    return number(sql_.count_old(what, before));
  }

 private:
  using Found = typename Statements::Found;
  using Step = BulkStep<typename Statements::Key>;

  static std::int64_t number(Found found) { return found.step() ? found.integer(0) : 0; }

  static Counts pending(Found found) {
    found.step();
    return {.pending = found.integer(0),
            .retry = found.integer(1),
            .delayed = found.integer(2),
            .held = found.integer(3),
            .pending_bytes = found.integer(5),
            .oldest_pending = found.optional_time(4)};
  }

  // The search has ended when this returns: in SQLite it would be in the way of the change.
  template <class Search>
  static Step step_of(Seq after, std::size_t limit, const Search& search) {
    Step step(after, limit);
    Found found = search();
    while (found.step() && step.add(found.integer(0), Statements::key(found))) {
    }
    return step;
  }

  Statements sql_;
};

// For a database whose tables have one receiver each: refuses.
class NoSubscriptions {
 public:
  template <class Database>
  explicit NoSubscriptions(Database& /*database*/) {}

  static std::vector<Subscription> list() { return Admin().subscriptions(); }
  static bool create(std::string_view name, std::optional<Begin> begin) {
    return Admin().create_subscription(name, begin);
  }
  static void restart(std::string_view name, Begin begin) {
    Admin().restart_subscription(name, begin);
  }
  static void rename(std::string_view from, std::string_view to) {
    Admin().rename_subscription(from, to);
  }
  static void drop(std::string_view name) { Admin().drop_subscription(name); }
  static std::vector<std::string> stop_lagging(Time before) {
    return Admin().stop_lagging_subscriptions(before);
  }
};

// The same on connections from two pools. Thread-safe.
template <class Parts>
class DatabaseAdmin final : public Admin {
 public:
  using Pool = ConnectionPool<typename Parts::Database>;

  // The pools must outlive it. `scans` is for what may read all of a large table: it must not keep
  // the quick questions waiting.
  DatabaseAdmin(Pool& quick, Pool& scans) : quick_(quick), scans_(scans) {}

  bool has_pending() { return Table(*quick_.take()).has_pending(); }
  Counts counts() { return Table(*scans_.take()).counts(); }

  std::optional<EventRecord> find(std::string_view event_id) override {
    return Table(*quick_.take()).find(event_id);
  }
  bool replay(std::string_view event_id) override { return Table(*quick_.take()).replay(event_id); }
  bool discard(std::string_view event_id) override {
    return Table(*quick_.take()).discard(event_id);
  }
  std::vector<Member> members() override { return Table(*quick_.take()).members(); }

  std::vector<EventRecord> list(const EventFilter& filter, Seq after, std::size_t limit) override {
    return Table(*scans_.take()).list(filter, after, limit);
  }
  std::int64_t count(const EventFilter& filter) override {
    return Table(*scans_.take()).count(filter);
  }
  std::vector<DeadGroup> dead_groups(const EventFilter& filter, std::size_t limit) override {
    return Table(*scans_.take()).dead_groups(filter, limit);
  }
  std::vector<HeldAggregate> held_aggregates(std::size_t limit) override {
    return Table(*scans_.take()).held_aggregates(limit);
  }
  Changed replay(const EventFilter& filter, Seq after, std::size_t limit) override {
    return Table(*scans_.take()).replay(filter, after, limit);
  }
  Changed discard(const EventFilter& filter, Seq after, std::size_t limit) override {
    return Table(*scans_.take()).discard(filter, after, limit);
  }
  Changed purge(Purgeable what, Time before, Seq after, std::size_t limit, bool archive) override {
    return Table(*scans_.take()).purge(what, before, after, limit, archive);
  }
  std::int64_t count_purgeable(Purgeable what, Time before) override {
    return Table(*scans_.take()).count_purgeable(what, before);
  }

  std::vector<Subscription> subscriptions() override {
    return Subscriptions(*scans_.take()).list();
  }
  bool create_subscription(std::string_view name, std::optional<Begin> begin) override {
    return Subscriptions(*scans_.take()).create(name, begin);
  }
  void restart_subscription(std::string_view name, Begin begin) override {
    Subscriptions(*scans_.take()).restart(name, begin);
  }
  void rename_subscription(std::string_view from, std::string_view to) override {
    Subscriptions(*scans_.take()).rename(from, to);
  }
  void drop_subscription(std::string_view name) override {
    Subscriptions(*scans_.take()).drop(name);
  }
  std::vector<std::string> stop_lagging_subscriptions(Time before) override {
    return Subscriptions(*scans_.take()).stop_lagging(before);
  }

 private:
  using Table = TableAdmin<typename Parts::AdminStatements>;
  using Subscriptions = typename Parts::Subscriptions;

  Pool& quick_;
  Pool& scans_;
};

}  // namespace outbox
