#include "store/postgres/operators.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "base/process.h"
#include "client/postgres/statement.h"
#include "store/postgres/operator_sql.h"
#include "store/postgres/rows.h"

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

// The rows that a step of a bulk operation is to change: the first `limit` of a result
// that was told to have one more. Points into the result.
struct Found {
  Found(const Result& result, Seq after, std::size_t limit) {
    const auto rows = static_cast<std::size_t>(result.rows());
    step = {.through = after, .more = rows > limit};
    for (int row = 0; row < static_cast<int>(std::min(rows, limit)); ++row) {
      step.through = result.integer(row, 0);
      ids.emplace_back(result.text(row, 1));
    }
  }

  std::vector<OptionalText> ids;
  Changed step;
};

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
  return {.row = decode_row(result, row, *database_.config().options.codec),
          .hold = result.optional_integer(row, kHoldColumn),
          .last_error = std::string(result.text(row, kRowColumns)),
          .locked_by = std::string(result.text(row, kRowColumns + 1)),
          .done_at = result.optional_time(row, kRowColumns + 2)};
}

bool Operators::has_pending() { return database_.run(sql::kHasPending).integer(0, 0) != 0; }

Counts Operators::counts() {
  const Result pending = database_.run(sql::kCountPending);
  const Result dead = database_.run(sql::kCountAllDead);
  return {.pending = pending.integer(0, 0),
          .dead = dead.integer(0, 0),
          .retry = pending.integer(0, 1),
          .delayed = pending.integer(0, 2),
          .held = pending.integer(0, 3),
          .oldest_pending = pending.optional_time(0, 4)};
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
  std::vector<DeadGroup> groups;
  groups.reserve(static_cast<std::size_t>(found.rows()));
  for (int row = 0; row < found.rows(); ++row) {
    groups.push_back({.aggregate_type = std::string(found.text(row, 0)),
                      .type = std::string(found.text(row, 1)),
                      .error = std::string(found.text(row, 2)),
                      .count = found.integer(row, 3),
                      .first = found.time(row, 4),
                      .last = found.time(row, 5),
                      .example_id = std::string(found.text(row, 6))});
  }
  return groups;
}

std::vector<HeldAggregate> Operators::held_aggregates(std::size_t limit) {
  const Result lanes = database_.run(sql::kLanes, sql_limit(limit));
  HeldAggregates held(limit);
  for (int lane = 0; lane < lanes.rows() && !held.full(); ++lane) {
    const Result rows = database_.run(sql::kLaneOverview, lanes.integer(lane, 0),
                                      lanes.integer(lane, 1), HeldAggregates::kRowsOfLane);
    held.begin_lane();
    for (int row = 0; row < rows.rows(); ++row) {
      held.add({.aggregate_type = std::string(rows.text(row, 0)),
                .aggregate_id = std::string(rows.text(row, 1)),
                .head_id = std::string(rows.text(row, 2)),
                .head_status = static_cast<Status>(rows.integer(row, 3)),
                .attempts = static_cast<int>(rows.integer(row, 4)),
                .last_error = std::string(rows.text(row, 5))});
    }
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
  Found found(result, after, limit);
  if (!found.ids.empty()) {
    found.step.rows = replay(found.ids, filter, statuses);
  }
  return found.step;
}

Changed Operators::discard(const EventFilter& filter, Seq after, std::size_t limit) {
  const Result result = database_.session().run(
      sql::kMatchDead, filtered(after, one_more(limit), filter, bit(Status::dead)));
  Found found(result, after, limit);
  if (!found.ids.empty()) {
    found.step.rows = discard(found.ids, filter);
  }
  return found.step;
}

Changed Operators::purge(Purgeable what, Time before, Seq after, std::size_t limit, bool archive) {
  const OptionalInteger status = status_of(what);
  const Result result = database_.run(search_for(what), after, one_more(limit), status, before);
  Found found(result, after, limit);
  if (!found.ids.empty()) {
    found.step.rows =
        database_.run(archive ? sql::kArchive : sql::kPurge, found.ids, status, before).changed();
  }
  return found.step;
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
