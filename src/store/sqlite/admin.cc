#include "store/sqlite/admin.h"

#include <optional>
#include <string>

#include "model/event_row.h"
#include "store/sqlite/ownership.h"
#include "store/sqlite/sql.h"

namespace outbox::sqlite {
namespace {

std::optional<std::int64_t> bound(const std::optional<Time>& time) {
  return time ? std::optional(micros(*time)) : std::nullopt;
}

// A run of a statement with `{filter}`, behind the statement's own two. The filter must outlive it.
template <class First, class Second>
Found filtered(Statement& statement, const First& first, const Second& second,
               const EventFilter& filter, StatusBits statuses) {
  return Found(statement, first, second, null_if_empty(filter.type),
               null_if_empty(filter.aggregate_type), null_if_empty(filter.aggregate_id),
               null_if_empty(filter.tenant_id), null_if_empty(filter.error_contains),
               bound(filter.occurred.from), bound(filter.occurred.until),
               bound(filter.finished.from), bound(filter.finished.until), statuses);
}

}  // namespace

EventRecord AdminStatements::record(const Found& found) const {
  return record_of(found, decode_row(found, *config().options.codec, config().now()), kHoldColumn,
                   kRowColumns);
}

Found AdminStatements::count_pending() {
  return run(sql::kCountPending, hold_until(config().now()));
}

Found AdminStatements::list(const EventFilter& filter, StatusBits statuses, Seq after,
                            std::int64_t limit) {
  return filtered(database_[serving(statuses, sql::kListDead, sql::kListUnfinished, sql::kListAny)],
                  after, limit, filter, statuses);
}

Found AdminStatements::count(const EventFilter& filter, StatusBits statuses) {
  return filtered(
      database_[serving(statuses, sql::kCountDead, sql::kCountUnfinished, sql::kCountAny)], nullptr,
      nullptr, filter, statuses);
}

Found AdminStatements::dead_groups(const EventFilter& filter, std::int64_t limit) {
  return filtered(database_[sql::kDeadGroups], nullptr, limit, filter, 0);
}

std::optional<LaneKey> AdminStatements::next_lane(LaneKey after) {
  return database_.integer(sql::kHeldLane, after);
}

Found AdminStatements::match(const EventFilter& filter, StatusBits statuses, Seq after,
                             std::int64_t limit) {
  const bool dead_only = statuses == bit(Status::dead);
  return filtered(database_[dead_only ? sql::kMatchDead : sql::kMatchAny], after, limit, filter,
                  statuses);
}

Found AdminStatements::old(Purgeable what, Time before, Seq after, std::int64_t limit) {
  return run(what == Purgeable::dead ? sql::kOldDead : sql::kOld, after, limit, status_of(what),
             micros(before));
}

Found AdminStatements::count_old(Purgeable what, Time before) {
  return run(what == Purgeable::dead ? sql::kCountOldDead : sql::kCountOld, status_of(what),
             micros(before));
}

bool AdminStatements::replay(std::string_view event_id) {
  WriteTransaction transaction(database_);
  database_.execute(sql::kNoteUnblocked, event_id);
  const bool replayed = database_.execute(sql::kReplay, event_id, micros(config().now())) == 1;
  transaction.commit();
  return replayed;
}

bool AdminStatements::discard(std::string_view event_id) {
  WriteTransaction transaction(database_);
  database_.execute(sql::kNoteUnblocked, event_id);
  const bool discarded = database_.execute(sql::kDiscard, event_id) == 1;
  transaction.commit();
  return discarded;
}

std::int64_t AdminStatements::replay(const std::vector<Key>& rows, const EventFilter& filter,
                                     StatusBits statuses) {
  const std::string list = seq_list(rows);
  WriteTransaction transaction(database_);
  if ((statuses & bit(Status::dead)) != 0) database_.execute(sql::kNoteUnblockedMany, list);
  const std::int64_t replayed =
      filtered(database_[sql::kReplayMany], list, micros(config().now()), filter, statuses)
          .finish();
  transaction.commit();
  return replayed;
}

std::int64_t AdminStatements::discard(const std::vector<Key>& rows, const EventFilter& filter) {
  const std::string list = seq_list(rows);
  WriteTransaction transaction(database_);
  database_.execute(sql::kNoteUnblockedMany, list);
  const std::int64_t discarded =
      filtered(database_[sql::kDiscardMany], list, nullptr, filter, bit(Status::dead)).finish();
  transaction.commit();
  return discarded;
}

std::int64_t AdminStatements::remove(const std::vector<Key>& rows, Purgeable what, Time before,
                                     bool archive) {
  const std::string list = seq_list(rows);
  const auto status = status_of(what);
  WriteTransaction transaction(database_);
  if (archive) {
    database_.execute(sql::kArchive, list, micros(config().now()), status, micros(before));
  }
  const std::int64_t removed = database_.execute(sql::kPurge, list, status, micros(before));
  transaction.commit();
  return removed;
}

std::vector<Member> AdminStatements::members() {
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
