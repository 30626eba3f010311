#include "store/postgres/operators.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "base/process.h"
#include "client/postgres/statement.h"
#include "store/postgres/connection.h"
#include "store/postgres/operator_sql.h"

namespace outbox::postgres {
namespace {

using OptionalInteger = std::optional<std::int64_t>;

// What `{filter}` takes, behind the statement's own two.
template <class First>
Parameters filtered(const First& first, OptionalInteger second, const EventFilter& filter,
                    StatusBits statuses) {
  return Parameters(first, second, null_if_empty(filter.type), null_if_empty(filter.aggregate_type),
                    null_if_empty(filter.aggregate_id), null_if_empty(filter.tenant_id),
                    null_if_empty(filter.error_contains), filter.occurred.from,
                    filter.occurred.until, filter.finished.from, filter.finished.until, statuses);
}

// By their ids, which point into the result.
BulkStep<OptionalText> step_of(const Result& found, Seq after, std::size_t limit) {
  BulkStep<OptionalText> step(after, limit);
  for (int row = 0; row < found.rows(); ++row) {
    if (!step.add(found.integer(row, 0), found.text(row, 1))) break;
  }
  return step;
}

const Sql& search_for(Purgeable what) {
  switch (what) {
    case Purgeable::done:
      return sql::kOldDone;
    case Purgeable::dead:
      return sql::kOldDead;
    case Purgeable::any_age:
      break;
  }
  return sql::kOldAny;
}

std::vector<int> numbers_in(std::string_view list) {
  std::vector<int> numbers;
  const char* const end = list.data() + list.size();
  for (const char* at = list.data(); at != end; at += at != end) {
    at = std::from_chars(at, end, numbers.emplace_back()).ptr;
  }
  return numbers;
}

}  // namespace

EventRecord Operators::decode_record(const Result& result, int row) const {
  return record_in(result, row, decode_row(result, row, *config_of(database_).options.codec),
                   kHoldColumn, kRowColumns);
}

bool Operators::has_pending() { return database_.run(sql::kHasPending).integer(0, 0) != 0; }

Counts Operators::counts() {
  const Result pending = database_.run(sql::kCountPending);
  const Result dead = database_.run(sql::kCountAllDead);
  return counts_in(pending, dead);
}

std::optional<EventRecord> Operators::find(std::string_view event_id) {
  const Result found = database_.run(sql::kFind, event_id);
  if (found.rows() == 0) return std::nullopt;
  return decode_record(found, 0);
}

std::vector<EventRecord> Operators::list(const EventFilter& filter, Seq after, std::size_t limit) {
  const StatusBits statuses = bits(filter.status);
  const Result found = database_.session().run(
      serving(statuses, sql::kListDead, sql::kListUnfinished, sql::kListAny),
      filtered(after, sql_limit(limit), filter, statuses));
  std::vector<EventRecord> records;
  records.reserve(static_cast<std::size_t>(found.rows()));
  for (int row = 0; row < found.rows(); ++row) records.push_back(decode_record(found, row));
  return records;
}

std::int64_t Operators::count(const EventFilter& filter) {
  const StatusBits statuses = bits(filter.status);
  return database_.session()
      .run(serving(statuses, sql::kCountDead, sql::kCountUnfinished, sql::kCountAny),
           filtered(OptionalInteger(), std::nullopt, filter, statuses))
      .integer(0, 0);
}

std::vector<DeadGroup> Operators::dead_groups(const EventFilter& filter, std::size_t limit) {
  const Result found = database_.session().run(
      sql::kDeadGroups, filtered(OptionalInteger(), sql_limit(limit), filter, 0));
  return dead_groups_in(found);
}

std::vector<HeldAggregate> Operators::held_aggregates(std::size_t limit) {
  const Result lanes = database_.run(sql::kLanes, sql_limit(limit));
  HeldAggregates held(limit);
  for (int lane = 0; lane < lanes.rows() && !held.full(); ++lane) {
    const Result rows = database_.run(sql::kLaneOverview, lanes.integer(lane, 0),
                                      lanes.integer(lane, 1), HeldAggregates::kRowsOfLane);
    add_lane(held, rows);
  }
  return held.take();
}

bool Operators::replay(std::string_view event_id) {
  const std::vector<OptionalText> ids{event_id};
  return replay(ids, {}, kFinished) == 1;
}

bool Operators::discard(std::string_view event_id) {
  const std::vector<OptionalText> ids{event_id};
  return discard(ids, {}) == 1;
}

std::int64_t Operators::replay(const std::vector<OptionalText>& ids, const EventFilter& filter,
                               StatusBits statuses) {
  return database_.session()
      .run(sql::kReplay, filtered(ids, std::nullopt, filter, statuses))
      .integer(0, 0);
}

std::int64_t Operators::discard(const std::vector<OptionalText>& ids, const EventFilter& filter) {
  return database_.session()
      .run(sql::kDiscard, filtered(ids, std::nullopt, filter, bit(Status::dead)))
      .integer(0, 0);
}

Changed Operators::replay(const EventFilter& filter, Seq after, std::size_t limit) {
  const StatusBits statuses = replayable(filter);
  if (statuses == 0) return {.through = after};
  const bool dead_only = statuses == bit(Status::dead);
  const Result result = database_.session().run(dead_only ? sql::kMatchDead : sql::kMatchFinished,
                                                filtered(after, one_more(limit), filter, statuses));
  auto step = step_of(result, after, limit);
  return step.changed(step.keys().empty() ? 0 : replay(step.keys(), filter, statuses));
}

Changed Operators::discard(const EventFilter& filter, Seq after, std::size_t limit) {
  const Result result = database_.session().run(
      sql::kMatchDead, filtered(after, one_more(limit), filter, bit(Status::dead)));
  auto step = step_of(result, after, limit);
  return step.changed(step.keys().empty() ? 0 : discard(step.keys(), filter));
}

Changed Operators::purge(Purgeable what, Time before, Seq after, std::size_t limit, bool archive) {
  const OptionalInteger status = status_of(what);
  const Result result = database_.run(search_for(what), after, one_more(limit), status, before);
  auto step = step_of(result, after, limit);
  if (step.keys().empty()) return step.changed(0);
  return step.changed(
      database_.run(archive ? sql::kArchive : sql::kPurge, step.keys(), status, before).changed());
}

std::int64_t Operators::count_purgeable(Purgeable what, Time before) {
  return database_
      .run(what == Purgeable::dead ? sql::kCountOldDead : sql::kCountOld, status_of(what), before)
      .integer(0, 0);
}

std::vector<Member> Operators::members() {
  const Result found = database_.run(sql::kMembers);
  std::vector<Member> members;
  for (int row = 0; row < found.rows(); ++row) {
    const std::int64_t pid = found.integer(row, 2);
    const bool alive =
        found.integer(row, 4) != 0 && !is_certainly_dead(pid, std::string(found.text(row, 6)));
    members.push_back({.name = std::string(found.text(row, 0)),
                       .host = std::string(found.text(row, 1)),
                       .pid = pid,
                       .registered_at = found.time(row, 3),
                       .alive = alive,
                       .epoch = found.integer(row, 5),
                       .shards = numbers_in(found.text(row, 7))});
  }
  return members;
}

}  // namespace outbox::postgres
