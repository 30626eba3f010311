#include "store/mysql/admin.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "base/process.h"
#include "client/mysql/database.h"
#include "model/event_row.h"
#include "model/shards.h"
#include "store/mysql/connection.h"
#include "store/mysql/sql.h"

namespace outbox::mysql {
namespace {

SqlPart among(StatusBits statuses) {
  return serving(statuses, sql::kAmongDead, sql::kAmongUnfinished, sql::kAmongAll);
}

SqlPart among(Purgeable what) { return what == Purgeable::dead ? sql::kAmongDead : sql::kAmongAll; }

}  // namespace

EventRecord AdminStatements::record(const Found& found) const {
  const JsonCodec& codec = *config_of(database_).options.codec;
  return record_of(found, decode_row(found.result(), found.row(), codec), kHoldColumn, kRowColumns);
}

// What the filter asks for.
Built AdminStatements::matching(const EventFilter& filter, StatusBits statuses) const {
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
Built AdminStatements::purgeable(Purgeable what, Time before) const {
  Built conditions("", config_of(database_));
  if (const auto status = status_of(what)) {
    conditions.fill(sql::kFinishedBefore, *status, before);
  } else {
    conditions.fill(sql::kOccurredBefore, before);
  }
  return conditions;
}

Found AdminStatements::list(const EventFilter& filter, StatusBits statuses, Seq after,
                            std::int64_t limit) {
  return run(sql::kList, among(statuses), matching(filter, statuses), after, limit);
}

Found AdminStatements::count(const EventFilter& filter, StatusBits statuses) {
  return run(sql::kCount, among(statuses), matching(filter, statuses));
}

Found AdminStatements::dead_groups(const EventFilter& filter, std::int64_t limit) {
  return run(sql::kDeadGroups, matching(filter, 0), limit);
}

std::optional<LaneKey> AdminStatements::next_lane(int shard, LaneKey after) {
  const Result next = database_.run(sql::kNextLane, shard, after);
  return next.rows() == 0 ? std::nullopt : std::optional(next.integer(0, 0));
}

Found AdminStatements::match(const EventFilter& filter, StatusBits statuses, Seq after,
                             std::int64_t limit) {
  if (statuses == bit(Status::dead)) {
    return run(sql::kMatchDead, matching(filter, 0), after, limit);
  }
  return run(sql::kMatchFinished, matching(filter, statuses), after, limit);
}

Found AdminStatements::old(Purgeable what, Time before, Seq after, std::int64_t limit) {
  return run(sql::kOld, among(what), purgeable(what, before), after, limit);
}

Found AdminStatements::count_old(Purgeable what, Time before) {
  return run(sql::kCountOld, among(what), purgeable(what, before));
}

std::optional<Seq> AdminStatements::seq_of(std::string_view event_id) {
  return database_.run(built(sql::kSeqOf, event_id)).optional_integer(0, 0);
}

bool AdminStatements::replay(std::string_view event_id) {
  const auto seq = seq_of(event_id);
  return seq && replay(std::vector{*seq}, {}, kFinished) == 1;
}

bool AdminStatements::discard(std::string_view event_id) {
  const auto seq = seq_of(event_id);
  return seq && discard(std::vector{*seq}, {}) == 1;
}

// As many statements, or transactions, as their numbers need; how many rows they changed.
template <class Change>
std::int64_t AdminStatements::in_parts(const std::vector<Seq>& rows, const Change& change) {
  std::int64_t changed = 0;
  in_portions<Seq>(database_.session(), rows,
                   [&](std::span<const Seq> part) { changed += change(part); });
  return changed;
}

// Those of the rows that still match: somebody may have changed them since they were looked for.
std::int64_t AdminStatements::replay(const std::vector<Key>& rows, const EventFilter& filter,
                                     StatusBits statuses) {
  return in_parts(rows, [&](std::span<const Seq> part) {
    return change_and_tell(part, built(sql::kReplay, part, matching(filter, statuses)));
  });
}

std::int64_t AdminStatements::discard(const std::vector<Key>& rows, const EventFilter& filter) {
  return in_parts(rows, [&](std::span<const Seq> part) {
    return change_and_tell(part, built(sql::kDiscard, part, matching(filter, 0)));
  });
}

// If one of these rows is dead and blocks its lane, the lane's owner is told, in the same
// transaction, to look at it again.
std::int64_t AdminStatements::change_and_tell(std::span<const Seq> rows, const Built& change) {
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

// The same condition once more: somebody may have replayed them since they were found.
std::int64_t AdminStatements::remove(const std::vector<Key>& rows, Purgeable what, Time before,
                                     bool archive) {
  const Built still_old = purgeable(what, before);
  return in_parts(rows,
                  [&](std::span<const Seq> part) { return remove_part(part, still_old, archive); });
}

std::int64_t AdminStatements::remove_part(std::span<const Seq> rows, const Built& still_old,
                                          bool archive) {
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

std::vector<Member> AdminStatements::members() {
  const Result instances = database_.run(built(sql::kMembers));
  const Result shards = database_.run(built(sql::kOwners));
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
