#include "store/mysql/operators.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "base/process.h"
#include "client/mysql/database.h"
#include "model/event_row.h"
#include "model/shards.h"
#include "store/mysql/connection.h"
#include "store/mysql/operator_sql.h"
#include "store/mysql/sql.h"

namespace outbox::mysql {
namespace {

SqlPart among(StatusBits statuses) {
  return serving(statuses, sql::kAmongDead, sql::kAmongUnfinished, sql::kAmongAll);
}

SqlPart among(Purgeable what) { return what == Purgeable::dead ? sql::kAmongDead : sql::kAmongAll; }

// In their first column.
BulkStep<Seq> step_of(const Result& found, Seq after, std::size_t limit) {
  BulkStep<Seq> step(after, limit);
  for (int row = 0; row < found.rows(); ++row) {
    const Seq seq = found.integer(row, 0);
    if (!step.add(seq, seq)) break;
  }
  return step;
}

}  // namespace

EventRecord Operators::decode_record(const Result& result, int row) const {
  return record_in(result, row, decode_row(result, row, *config_of(database_).options.codec),
                   kHoldColumn, kRowColumns);
}

// What the filter asks for.
Built Operators::matching(const EventFilter& filter, StatusBits statuses) const {
  Built conditions("", config_of(database_));
  const auto equals = [&](std::string_view condition, const std::string& value) {
    if (!value.empty()) conditions.fill(condition, value);
  };
  const auto compare = [&](std::string_view condition, const std::optional<Time>& time) {
    if (time) conditions.fill(condition, *time);
  };
  equals(sql::kOfType, filter.type);
  equals(sql::kOfAggregateType, filter.aggregate_type);
  equals(sql::kOfAggregate, filter.aggregate_id);
  equals(sql::kOfTenant, filter.tenant_id);
  equals(sql::kWithError, filter.error_contains);
  compare(sql::kOccurredFrom, filter.occurred.from);
  compare(sql::kOccurredUntil, filter.occurred.until);
  compare(sql::kFinishedFrom, filter.finished.from);
  compare(sql::kFinishedUntil, filter.finished.until);
  if (statuses != 0) conditions.fill(sql::kOfStatus, statuses);
  return conditions;
}

// What a purge removes.
Built Operators::old(Purgeable what, Time before) const {
  Built conditions("", config_of(database_));
  if (const auto status = status_of(what)) {
    conditions.fill(sql::kFinishedBefore, *status, before);
  } else {
    conditions.fill(sql::kOccurredBefore, before);
  }
  return conditions;
}

bool Operators::has_pending() { return run(sql::kHasPending).rows() > 0; }

Counts Operators::counts() {
  const Result pending = run(sql::kCountPending);
  const Result dead = run(sql::kCountAllDead);
  return counts_in(pending, dead);
}

std::optional<EventRecord> Operators::find(std::string_view event_id) {
  const Result found = run(sql::kFind, event_id);
  if (found.rows() == 0) return std::nullopt;
  return decode_record(found, 0);
}

std::vector<EventRecord> Operators::list(const EventFilter& filter, Seq after, std::size_t limit) {
  const StatusBits statuses = bits(filter.status);
  const Result found =
      run(sql::kList, among(statuses), matching(filter, statuses), after, sql_limit(limit));
  std::vector<EventRecord> records;
  records.reserve(static_cast<std::size_t>(found.rows()));
  for (int row = 0; row < found.rows(); ++row) records.push_back(decode_record(found, row));
  return records;
}

std::int64_t Operators::count(const EventFilter& filter) {
  const StatusBits statuses = bits(filter.status);
  return run(sql::kCount, among(statuses), matching(filter, statuses)).integer(0, 0);
}

std::vector<DeadGroup> Operators::dead_groups(const EventFilter& filter, std::size_t limit) {
  const Result found = run(sql::kDeadGroups, matching(filter, 0), sql_limit(limit));
  return dead_groups_in(found);
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
      add_lane(held, run(sql::kLaneOverview, shard, lane, HeldAggregates::kRowsOfLane));
    }
  }
  return held.take();
}

std::optional<Seq> Operators::seq_of(std::string_view event_id) {
  return run(sql::kSeqOf, event_id).optional_integer(0, 0);
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
std::int64_t Operators::replay(std::span<const Seq> rows, const EventFilter& filter,
                               StatusBits statuses) {
  return change_and_tell(rows, built(sql::kReplay, rows, matching(filter, statuses)));
}

std::int64_t Operators::discard(std::span<const Seq> rows, const EventFilter& filter) {
  return change_and_tell(rows, built(sql::kDiscard, rows, matching(filter, 0)));
}

// If one of these rows is dead and blocks its lane, the lane's owner is told, in the same
// transaction, to look at it again.
std::int64_t Operators::change_and_tell(std::span<const Seq> rows, const Built& change) {
  const Built blocking = built(sql::kBlocked, rows);
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
        Built notes("", config_of(database_));
        for (const auto& [shard, lane] : lanes) {
          if (!notes.text().empty()) notes.sql(", ");
          notes.row(shard, lane);
        }
        session.run(built(sql::kNoteUnblocked, notes));
      }
      return changed;
    });
  });
}

Changed Operators::replay(const EventFilter& filter, Seq after, std::size_t limit) {
  const StatusBits statuses = replayable(filter);
  if (statuses == 0) return {.through = after};
  auto step = step_of(
      run(sql::kMatchFinished, among(statuses), matching(filter, statuses), after, one_more(limit)),
      after, limit);
  return step.changed(
      in_parts(step.keys(), [&](auto part) { return replay(part, filter, statuses); }));
}

Changed Operators::discard(const EventFilter& filter, Seq after, std::size_t limit) {
  auto step =
      step_of(run(sql::kMatchDead, matching(filter, 0), after, one_more(limit)), after, limit);
  return step.changed(in_parts(step.keys(), [&](auto part) { return discard(part, filter); }));
}

Changed Operators::purge(Purgeable what, Time before, Seq after, std::size_t limit, bool archive) {
  auto step =
      step_of(run(sql::kOld, among(what), old(what, before), after, one_more(limit)), after, limit);
  return step.changed(
      in_parts(step.keys(), [&](auto part) { return remove(part, what, before, archive); }));
}

// The same condition once more: somebody may have replayed them since they were found.
std::int64_t Operators::remove(std::span<const Seq> rows, Purgeable what, Time before,
                               bool archive) {
  const Built still_old = old(what, before);
  const Built purge = built(sql::kPurge, rows, still_old);
  if (!archive) {
    return retry_on_deadlock(database_, [&] { return database_.run(purge); }).changed();
  }
  const Built lock = built(sql::kLockOld, rows, still_old);
  const Built copy = built(sql::kArchive, rows, still_old);
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
  return run(sql::kCountOld, among(what), old(what, before)).integer(0, 0);
}

std::vector<Member> Operators::members() {
  const Result instances = run(sql::kMembers);
  const Result shards = run(sql::kOwners);
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
