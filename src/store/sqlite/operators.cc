#include "store/sqlite/operators.h"

#include <optional>
#include <string>

#include "store/common/operators.h"
#include "store/sqlite/operator_sql.h"
#include "store/sqlite/ownership.h"
#include "store/sqlite/rows.h"
#include "store/sqlite/sql.h"

namespace outbox::sqlite {
namespace {

std::optional<std::int64_t> bound(const std::optional<Time>& time) {
  return time ? std::optional(micros(*time)) : std::nullopt;
}

// Binds what `{filter}` takes. The filter must outlive the run.
void bind_filter(Run& run, const EventFilter& filter, StatusBits statuses) {
  run.bind(3, null_if_empty(filter.type));
  run.bind(4, null_if_empty(filter.aggregate_type));
  run.bind(5, null_if_empty(filter.aggregate_id));
  run.bind(6, null_if_empty(filter.tenant_id));
  run.bind(7, null_if_empty(filter.error_contains));
  run.bind(8, bound(filter.occurred.from));
  run.bind(9, bound(filter.occurred.until));
  run.bind(10, bound(filter.finished.from));
  run.bind(11, bound(filter.finished.until));
  run.bind(12, statuses);
}

using Step = BulkStep<Seq>;

// The rows of a run that returns their numbers.
void take(Run& run, Step& step) {
  while (run.step()) {
    const Seq seq = run.integer(0);
    if (!step.add(seq, seq)) break;
  }
}

Step find_matching(Database& database, const EventFilter& filter, StatusBits statuses, Seq after,
                   std::size_t limit) {
  Step step(after, limit);
  const bool dead_only = statuses == bit(Status::dead);
  Run run(database[dead_only ? sql::kMatchDead : sql::kMatchAny], after, one_more(limit));
  bind_filter(run, filter, statuses);
  take(run, step);
  return step;
}

// The row that the run stands on, as an operator sees it.
EventRecord decode_record(const Run& run, const StoreConfig& config) {
  EventRecord record{
      .row = decode_row(run, *config.options.codec, config.now()),
      .hold = run.optional_integer(kHoldColumn),
      .last_error = std::string(run.text(kRowColumns)),
      .locked_by = std::string(run.text(kRowColumns + 1)),
  };
  if (const auto done_at = run.optional_integer(kRowColumns + 2)) {
    record.done_at = stored_time(*done_at);
  }
  return record;
}

}  // namespace

bool Operators::has_pending() { return database_.integer(sql::kHasPending) == 1; }

Counts Operators::counts() {
  Counts counts;
  {
    Run run(database_[sql::kCountPending], hold_until(config().now()));
    run.step();
    counts.pending = run.integer(0);
    counts.retry = run.integer(1);
    counts.delayed = run.integer(2);
    counts.held = run.integer(3);
    if (const auto oldest = run.optional_integer(4)) counts.oldest_pending = stored_time(*oldest);
  }
  counts.dead = database_.integer(sql::kCountAllDead).value_or(0);
  counts.broken = count_broken_rows(database_);
  return counts;
}

std::optional<EventRecord> Operators::find(std::string_view event_id) {
  Run run(database_[sql::kFind], event_id);
  if (!run.step()) return std::nullopt;
  return decode_record(run, config());
}

std::vector<EventRecord> Operators::list(const EventFilter& filter, Seq after, std::size_t limit) {
  const StatusBits statuses = bits(filter.status);
  Run run(database_[serving(statuses, sql::kListDead, sql::kListUnfinished, sql::kListAny)], after,
          sql_limit(limit));
  bind_filter(run, filter, statuses);
  std::vector<EventRecord> records;
  while (run.step()) records.push_back(decode_record(run, config()));
  return records;
}

std::int64_t Operators::count(const EventFilter& filter) {
  const StatusBits statuses = bits(filter.status);
  Run run(database_[serving(statuses, sql::kCountDead, sql::kCountUnfinished, sql::kCountAny)],
          nullptr, nullptr);
  bind_filter(run, filter, statuses);
  return run.step() ? run.integer(0) : 0;
}

std::vector<DeadGroup> Operators::dead_groups(const EventFilter& filter, std::size_t limit) {
  Run run(database_[sql::kDeadGroups], nullptr, sql_limit(limit));
  bind_filter(run, filter, 0);
  std::vector<DeadGroup> groups;
  while (run.step()) {
    groups.push_back({.aggregate_type = std::string(run.text(0)),
                      .type = std::string(run.text(1)),
                      .error = std::string(run.text(2)),
                      .count = run.integer(3),
                      .first = stored_time(run.integer(4)),
                      .last = stored_time(run.integer(5)),
                      .example_id = std::string(run.text(6))});
  }
  return groups;
}

std::vector<HeldAggregate> Operators::held_aggregates(std::size_t limit) {
  HeldAggregates held(limit);
  LaneKey lane = kNoLane;
  while (!held.full()) {
    const auto next = database_.integer(sql::kHeldLane, lane);
    if (!next) break;
    lane = *next;
    held.begin_lane();
    Run run(database_[sql::kLaneOverview], lane, HeldAggregates::kRowsOfLane);
    while (run.step()) {
      held.add({.aggregate_type = std::string(run.text(0)),
                .aggregate_id = std::string(run.text(1)),
                .head_id = std::string(run.text(2)),
                .head_status = static_cast<Status>(run.integer(3)),
                .attempts = static_cast<int>(run.integer(4)),
                .last_error = std::string(run.text(5))});
    }
  }
  return held.take();
}

bool Operators::replay(std::string_view event_id) {
  WriteTransaction transaction(database_);
  database_.execute(sql::kNoteUnblocked, event_id);
  const bool replayed = database_.execute(sql::kReplay, event_id, micros(config().now())) == 1;
  transaction.commit();
  return replayed;
}

bool Operators::discard(std::string_view event_id) {
  WriteTransaction transaction(database_);
  database_.execute(sql::kNoteUnblocked, event_id);
  const bool discarded = database_.execute(sql::kDiscard, event_id) == 1;
  transaction.commit();
  return discarded;
}

Changed Operators::replay(const EventFilter& filter, Seq after, std::size_t limit) {
  const StatusBits statuses = replayable(filter);
  if (statuses == 0) return {.through = after};
  Step step = find_matching(database_, filter, statuses, after, limit);
  if (step.keys().empty()) return step.changed(0);
  const std::string list = seq_list(step.keys());
  WriteTransaction transaction(database_);
  if ((statuses & bit(Status::dead)) != 0) database_.execute(sql::kNoteUnblockedMany, list);
  Run run(database_[sql::kReplayMany], list, micros(config().now()));
  bind_filter(run, filter, statuses);
  const std::int64_t rows = run.finish();
  transaction.commit();
  return step.changed(rows);
}

Changed Operators::discard(const EventFilter& filter, Seq after, std::size_t limit) {
  Step step = find_matching(database_, filter, bit(Status::dead), after, limit);
  if (step.keys().empty()) return step.changed(0);
  const std::string list = seq_list(step.keys());
  WriteTransaction transaction(database_);
  database_.execute(sql::kNoteUnblockedMany, list);
  Run run(database_[sql::kDiscardMany], list, nullptr);
  bind_filter(run, filter, bit(Status::dead));
  const std::int64_t rows = run.finish();
  transaction.commit();
  return step.changed(rows);
}

Changed Operators::purge(Purgeable what, Time before, Seq after, std::size_t limit, bool archive) {
  const auto status = status_of(what);
  Step step(after, limit);
  {
    Run run(database_[what == Purgeable::dead ? sql::kOldDead : sql::kOld], after, one_more(limit),
            status, micros(before));
    take(run, step);
  }
  if (step.keys().empty()) return step.changed(0);
  const std::string list = seq_list(step.keys());
  WriteTransaction transaction(database_);
  if (archive) {
    database_.execute(sql::kArchive, list, micros(config().now()), status, micros(before));
  }
  const std::int64_t rows = database_.execute(sql::kPurge, list, status, micros(before));
  transaction.commit();
  return step.changed(rows);
}

std::int64_t Operators::count_purgeable(Purgeable what, Time before) {
  return database_
      .integer(what == Purgeable::dead ? sql::kCountOldDead : sql::kCountOld, status_of(what),
               micros(before))
      .value_or(0);
}

std::vector<Member> Operators::members() {
  std::vector<Member> members;
  Run run(database_[sql::kMember]);
  if (run.step()) {
    const bool left = run.integer(4) != 0;
    const bool alive = !left && OwnerLock::is_held_exclusively(Ownership::lock_file(config()));
    members.push_back({.name = std::string(run.text(0)),
                       .host = std::string(run.text(1)),
                       .pid = run.integer(2),
                       .registered_at = stored_time(run.integer(3)),
                       .alive = alive,
                       .epoch = run.integer(5),
                       .shards = alive ? std::vector{0} : std::vector<int>{}});
  }
  return members;
}

}  // namespace outbox::sqlite
