#include "store/mysql/operators.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "base/process.h"
#include "store/common/rows.h"
#include "store/common/shards.h"
#include "store/mysql/portions.h"
#include "store/mysql/retry_on_deadlock.h"
#include "store/mysql/rows.h"
#include "store/mysql/sql.h"

namespace outbox::mysql {
namespace {

static_assert(kGlobalAggregate == "__GLOBAL__", "the statements spell it out");

constexpr std::string_view kRecord = "{columns}, last_error, locked_by, done_at";

// Where to look for rows, so that millions of delivered events cost a search for others
// nothing: the index, and the condition that it serves.
constexpr std::string_view kAmongDead = "{table} FORCE INDEX (by_death) WHERE dead = 1";
constexpr std::string_view kAmongUnfinished =
    "{table} FORCE INDEX (by_hold) WHERE shard IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13,"
    " 14, 15) AND hold IS NOT NULL AND status IN (0, 2)";
static_assert(kShards == 16, "the statements spell it out");
constexpr std::string_view kAnywhere = "{table} FORCE INDEX (PRIMARY) WHERE TRUE";

std::string_view where(StatusBits statuses) {
  return serving(statuses, kAmongDead, kAmongUnfinished, kAnywhere);
}

constexpr std::string_view kNow = "timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(6))";

// What the filter asks for, each with AND before it.
void append_filter(Built& sql, const EventFilter& filter, StatusBits statuses) {
  const auto equals = [&](std::string_view column, const std::string& value) {
    if (!value.empty()) sql.sql(" AND ").sql(column).sql(" = ").value(value);
  };
  const auto within = [&](std::string_view column, const TimeRange& range) {
    if (range.from) sql.sql(" AND ").sql(column).sql(" >= ").value(*range.from);
    if (range.until) sql.sql(" AND ").sql(column).sql(" < ").value(*range.until);
  };
  equals("event_type", filter.type);
  equals("coalesce(nullif(aggregate_type, ''), '__GLOBAL__')", filter.aggregate_type);
  equals("aggregate_id", filter.aggregate_id);
  equals("tenant_id", filter.tenant_id);
  if (!filter.error_contains.empty()) {
    sql.sql(" AND locate(").value(filter.error_contains).sql(", last_error) > 0");
  }
  within("created_at", filter.occurred);
  within("done_at", filter.finished);
  if (statuses != 0) sql.sql(" AND (1 << status) & ").value(statuses).sql(" <> 0");
}

// What purge() removes.
void append_condition(Built& sql, Purgeable what, Time before) {
  if (const auto status = status_of(what)) {
    sql.sql(" AND hold IS NULL AND status = ").value(*status).sql(" AND done_at < ").value(before);
  } else {
    sql.sql(" AND created_at < ").value(before);
  }
}

std::string_view where(Purgeable what) { return what == Purgeable::dead ? kAmongDead : kAnywhere; }

void append_page(Built& sql, Seq after, std::int64_t limit) {
  sql.sql(" AND seq > ").value(after).sql(" ORDER BY seq LIMIT ").value(limit);
}

// The rows that a step of a bulk operation is to change: the first `limit` of a result
// that was told to have one more.
struct Found {
  Found(const Result& result, Seq after, std::size_t limit) {
    const auto rows = static_cast<std::size_t>(result.rows());
    step = {.through = after, .more = rows > limit};
    for (int row = 0; row < static_cast<int>(std::min(rows, limit)); ++row) {
      step.through = result.integer(row, 0);
      seqs.push_back(step.through);
    }
  }

  std::vector<Seq> seqs;
  Changed step;
};

}  // namespace

EventRecord Operators::decode_record(const Result& result, int row) const {
  return {.row = decode_row(result, row, *database_.config().options.codec),
          .hold = result.optional_integer(row, kHoldColumn),
          .last_error = std::string(result.text(row, kRowColumns)),
          .locked_by = std::string(result.text(row, kRowColumns + 1)),
          .done_at = result.optional_time(row, kRowColumns + 2)};
}

bool Operators::has_pending() {
  return database_
             .run(statement("look for pending events")
                      .sql("SELECT 1 FROM ")
                      .sql(kAmongUnfinished)
                      .sql(" LIMIT 1"))
             .rows() > 0;
}

Counts Operators::counts() {
  const Result pending = database_.run(statement("count pending events")
                                           .sql("SELECT count(*), sum(status = 2), sum(hold < -")
                                           .sql(kNow)
                                           .sql("), sum(hold > 0), min(CASE WHEN hold BETWEEN -")
                                           .sql(kNow)
                                           .sql(" AND 0 THEN created_at END) FROM ")
                                           .sql(kAmongUnfinished));
  const Result dead =
      database_.run(statement("count dead events").sql("SELECT count(*) FROM ").sql(kAmongDead));
  return {.pending = pending.integer(0, 0),
          .dead = dead.integer(0, 0),
          .retry = pending.integer(0, 1),
          .delayed = pending.integer(0, 2),
          .held = pending.integer(0, 3),
          .oldest_pending = pending.optional_time(0, 4)};
}

std::optional<EventRecord> Operators::find(std::string_view event_id) {
  const Result found = database_.run(statement("find an event")
                                         .sql("SELECT ")
                                         .sql(kRecord)
                                         .sql(" FROM {table} WHERE event_id = ")
                                         .value(event_id));
  if (found.rows() == 0) return std::nullopt;
  return decode_record(found, 0);
}

std::vector<EventRecord> Operators::list(const EventFilter& filter, Seq after, std::size_t limit) {
  const StatusBits statuses = bits(filter.status);
  Built select = statement("list events");
  select.sql("SELECT ").sql(kRecord).sql(" FROM ").sql(where(statuses));
  append_filter(select, filter, statuses);
  append_page(select, after, sql_limit(limit));
  const Result found = database_.run(select);
  std::vector<EventRecord> records;
  records.reserve(static_cast<std::size_t>(found.rows()));
  for (int row = 0; row < found.rows(); ++row) records.push_back(decode_record(found, row));
  return records;
}

std::int64_t Operators::count(const EventFilter& filter) {
  const StatusBits statuses = bits(filter.status);
  Built select = statement("count events");
  select.sql("SELECT count(*) FROM ").sql(where(statuses));
  append_filter(select, filter, statuses);
  return database_.run(select).integer(0, 0);
}

std::vector<DeadGroup> Operators::dead_groups(const EventFilter& filter, std::size_t limit) {
  Built select = statement("group dead events");
  select
      .sql(
          "SELECT coalesce(nullif(aggregate_type, ''), '__GLOBAL__') AS aggregate, event_type, "
          "left(coalesce(last_error, ''), 200) AS error, count(*) AS number, min(done_at), "
          "max(done_at), max(event_id) FROM ")
      .sql(kAmongDead);
  append_filter(select, filter, 0);
  select
      .sql(
          " GROUP BY aggregate, event_type, error ORDER BY number DESC, aggregate, event_type, "
          "error LIMIT ")
      .value(sql_limit(limit));
  const Result found = database_.run(select);
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

// Lane by lane: each search finds the next one in the index.
std::vector<HeldAggregate> Operators::held_aggregates(std::size_t limit) {
  HeldAggregates held(limit);
  for (int shard = 0; shard < kShards; ++shard) {
    LaneKey lane = kNoLane;
    while (!held.full()) {
      const Result next = database_.run(sql::kNextLane, shard, lane);
      if (next.rows() == 0) break;
      lane = next.integer(0, 0);
      add_lane(shard, lane, held);
    }
  }
  return held.take();
}

void Operators::add_lane(int shard, LaneKey lane, HeldAggregates& held) {
  const Result rows = database_.run(
      statement("read a lane")
          .sql("SELECT aggregate_type, aggregate_id, event_id, status, attempts, last_error "
               "FROM {table} FORCE INDEX (by_hold) WHERE shard = ")
          .value(shard)
          .sql(" AND hold = ")
          .value(lane)
          .sql(" ORDER BY seq LIMIT ")
          .value(HeldAggregates::kRowsOfLane));
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

std::optional<Seq> Operators::seq_of(std::string_view event_id) {
  return database_
      .run(statement("find an event")
               .sql("SELECT max(seq) FROM {table} WHERE event_id = ")
               .value(event_id))
      .optional_integer(0, 0);
}

bool Operators::replay(std::string_view event_id) {
  const auto seq = seq_of(event_id);
  return seq && replay(std::span(&*seq, 1), {}, kFinished) == 1;
}

bool Operators::discard(std::string_view event_id) {
  const auto seq = seq_of(event_id);
  return seq && discard(std::span(&*seq, 1), {}) == 1;
}

// As many statements, or transactions, as their numbers need; how many rows they changed.
template <class Change>
std::int64_t Operators::in_parts(const std::vector<Seq>& rows, const Change& change) {
  std::int64_t changed = 0;
  in_portions<Seq>(database_.session(), rows,
                   [&](std::span<const Seq> part) { changed += change(part); });
  return changed;
}

// Those of the rows that still match: somebody may have changed them since they were looked for.
// The server assigns from left to right, and what was assigned is what is read after
// that: status is the last.
std::int64_t Operators::replay(std::span<const Seq> rows, const EventFilter& filter,
                               StatusBits statuses) {
  Built replayed = statement("replay events");
  replayed.sql("UPDATE ")
      .sql(kByNumber)
      .sql(" SET progress = CASE WHEN status = 3 THEN progress END, hold = ")
      .sql("CASE WHEN hold > 0 THEN hold ELSE -")
      .sql(kNow)
      .sql(
          " END, attempts = 0, crashes = 0, available_at = utc_timestamp(6), done_at = NULL, "
          "last_error = NULL, locked_by = NULL, locked_at = NULL, status = 0 WHERE seq IN (")
      .list(rows)
      .sql(") AND status IN (1, 3)");
  append_filter(replayed, filter, statuses);
  return change_and_tell(rows, replayed);
}

// If one of these rows is dead and blocks its lane, the lane's owner is told, in the same
// transaction, to look at it again.
std::int64_t Operators::change_and_tell(std::span<const Seq> rows, const Built& change) {
  Built blocking = statement("look for lanes that are blocked");
  blocking.sql("SELECT shard, hold FROM ").sql(kByNumber);
  blocking.sql(" WHERE seq IN (").list(rows).sql(") AND status = 3 AND hold > 0 FOR UPDATE");
  return retry_on_deadlock(database_, [&] {
    Session& session = database_.session();
    return in_transaction(session, [&] {
      const Result blocked = session.run(blocking);
      std::set<std::pair<std::int64_t, LaneKey>> lanes;
      for (int row = 0; row < blocked.rows(); ++row) {
        lanes.emplace(blocked.integer(row, 0), blocked.integer(row, 1));
      }
      const std::int64_t changed = session.run(change).changed();
      if (!lanes.empty()) {
        Built tell = statement("note which lanes are free again");
        tell.sql("INSERT INTO {unblocked} (shard, lane) VALUES ");
        for (const auto& lane : lanes) {
          if (lane != *lanes.begin()) tell.sql(", ");
          tell.sql("(").value(lane.first).sql(", ").value(lane.second).sql(")");
        }
        session.run(tell);
      }
      return changed;
    });
  });
}

std::int64_t Operators::discard(std::span<const Seq> rows, const EventFilter& filter) {
  Built remove = statement("discard events");
  remove.sql("DELETE event FROM ").sql(kByNumber);
  remove.sql(" WHERE seq IN (").list(rows).sql(") AND status = 3");
  append_filter(remove, filter, 0);
  return change_and_tell(rows, remove);
}

Changed Operators::replay(const EventFilter& filter, Seq after, std::size_t limit) {
  const StatusBits statuses = replayable(filter);
  if (statuses == 0) return {.through = after};
  Built select = statement("look for finished events");
  select.sql("SELECT seq FROM ").sql(where(statuses));
  append_filter(select, filter, statuses);
  append_page(select, after, one_more(limit));
  Found found(database_.run(select), after, limit);
  found.step.rows = in_parts(found.seqs, [&](auto part) { return replay(part, filter, statuses); });
  return found.step;
}

Changed Operators::discard(const EventFilter& filter, Seq after, std::size_t limit) {
  Built select = statement("look for dead events");
  select.sql("SELECT seq FROM ").sql(kAmongDead);
  append_filter(select, filter, 0);
  append_page(select, after, one_more(limit));
  Found found(database_.run(select), after, limit);
  found.step.rows = in_parts(found.seqs, [&](auto part) { return discard(part, filter); });
  return found.step;
}

Changed Operators::purge(Purgeable what, Time before, Seq after, std::size_t limit, bool archive) {
  Built select = statement("look for old events");
  select.sql("SELECT seq FROM ").sql(where(what));
  append_condition(select, what, before);
  append_page(select, after, one_more(limit));
  Found found(database_.run(select), after, limit);
  found.step.rows =
      in_parts(found.seqs, [&](auto part) { return remove(part, what, before, archive); });
  return found.step;
}

// The same condition once more: somebody may have replayed them since they were found.
std::int64_t Operators::remove(std::span<const Seq> rows, Purgeable what, Time before,
                               bool archive) {
  const auto among = [&](Built& sql) -> Built& {
    sql.sql(" FROM ").sql(kByNumber).sql(" WHERE seq IN (").list(rows).sql(")");
    append_condition(sql, what, before);
    return sql;
  };
  Built purge = statement("purge events");
  among(purge.sql("DELETE event"));
  if (!archive) {
    return retry_on_deadlock(database_, [&] { return database_.run(purge); }).changed();
  }
  Built lock = statement("archive events");
  among(lock.sql("SELECT seq")).sql(" FOR UPDATE");
  Built copy = statement("archive events");
  constexpr std::string_view kColumns =
      "seq, event_id, event_type, aggregate_type, aggregate_id, tenant_id, status, attempts, "
      "crashes, available_at, created_at, done_at, locked_by, locked_at, content_type, progress, "
      "headers, last_error, payload, payload_bytes";
  copy.sql("INSERT INTO {archive} (").sql(kColumns).sql(") SELECT ").sql(kColumns);
  among(copy).sql(" ORDER BY seq");
  return retry_on_deadlock(database_, [&] {
    Session& session = database_.session();
    return in_transaction(session, [&] {
      session.run(lock);
      session.run(copy);
      return session.run(purge).changed();
    });
  });
}

std::int64_t Operators::count_purgeable(Purgeable what, Time before) {
  Built select = statement("count old events");
  select.sql("SELECT count(*) FROM ").sql(where(what));
  append_condition(select, what, before);
  return database_.run(select).integer(0, 0);
}

std::vector<Member> Operators::members() {
  const Result instances = database_.run(
      statement("list the instances")
          .sql("SELECT name, host, pid, registered_at, beat_at + INTERVAL lease MICROSECOND >= "
               "utc_timestamp(6), epoch, process FROM {instance} WHERE NOT claims ORDER BY epoch"));
  const Result shards = database_.run(
      statement("list the shards").sql("SELECT shard, epoch FROM {shard} ORDER BY shard"));
  std::vector<Member> members;
  for (int row = 0; row < instances.rows(); ++row) {
    const std::int64_t pid = instances.integer(row, 2);
    const std::int64_t epoch = instances.integer(row, 5);
    members.push_back({.name = std::string(instances.text(row, 0)),
                       .host = std::string(instances.text(row, 1)),
                       .pid = pid,
                       .registered_at = instances.time(row, 3),
                       .alive = instances.integer(row, 4) != 0 &&
                                !is_certainly_dead(pid, std::string(instances.text(row, 6))),
                       .epoch = epoch});
    for (int shard = 0; shard < shards.rows(); ++shard) {
      if (shards.optional_integer(shard, 1) != epoch) continue;
      members.back().shards.push_back(static_cast<int>(shards.integer(shard, 0)));
    }
  }
  return members;
}

}  // namespace outbox::mysql
