#include "store/postgres/admin.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "base/process.h"
#include "client/postgres/statement.h"
#include "store/postgres/connection.h"
#include "store/postgres/position_admin_sql.h"

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

// The statements that depend on how the table keeps progress.
struct Statements {
  const Sql& list_any;
  const Sql& match_finished;
  const Sql& replay;
  const Sql& discard;
  const Sql& old_done;
  const Sql& old_any;
  const Sql& count_old;
  const Sql& purge;
  const Sql& archive;
};
constexpr Statements kByRow{sql::kListAny,  sql::kMatchFinished, sql::kReplay,
                            sql::kDiscard,  sql::kOldDone,       sql::kOldAny,
                            sql::kCountOld, sql::kPurge,         sql::kArchive};
constexpr Statements kByPosition{
    sql::by_position::kListAny,  sql::by_position::kMatchFinished, sql::by_position::kReplay,
    sql::by_position::kDiscard,  sql::by_position::kOldDone,       sql::by_position::kOldAny,
    sql::by_position::kCountOld, sql::by_position::kPurge,         sql::by_position::kArchive};

const Statements& statements_for(const Database& database) {
  return config_of(database).naming.progress == Progress::position ? kByPosition : kByRow;
}

const Sql& search_for(const Statements& statements, Purgeable what) {
  switch (what) {
    case Purgeable::done:
      return statements.old_done;
    case Purgeable::dead:
      return sql::kOldDead;
    case Purgeable::any_age:
      break;
  }
  return statements.old_any;
}

std::vector<int> numbers_in(std::string_view list) {
  std::vector<int> numbers;
  const char* const end = list.data() + list.size();
  for (const char* at = list.data(); at != end; at += at != end) {
    at = std::from_chars(at, end, numbers.emplace_back()).ptr;
  }
  return numbers;
}

// As a parameter, which points into them.
std::vector<OptionalText> texts(const std::vector<std::string>& ids) {
  return {ids.begin(), ids.end()};
}

}  // namespace

EventRecord AdminStatements::record(const Found& found) const {
  const JsonCodec& codec = *config_of(database_).options.codec;
  return record_of(found, decode_row(found.result(), found.row(), codec), kHoldColumn, kRowColumns);
}

Found AdminStatements::list(const EventFilter& filter, StatusBits statuses, Seq after,
                            std::int64_t limit) {
  return run(
      serving(statuses, sql::kListDead, sql::kListUnfinished, statements_for(database_).list_any),
      filtered(after, limit, filter, statuses));
}

Found AdminStatements::count(const EventFilter& filter, StatusBits statuses) {
  return run(serving(statuses, sql::kCountDead, sql::kCountUnfinished, sql::kCountAny),
             filtered(OptionalInteger(), std::nullopt, filter, statuses));
}

Found AdminStatements::dead_groups(const EventFilter& filter, std::int64_t limit) {
  return run(sql::kDeadGroups, filtered(OptionalInteger(), limit, filter, 0));
}

Found AdminStatements::match(const EventFilter& filter, StatusBits statuses, Seq after,
                             std::int64_t limit) {
  return run(
      statuses == bit(Status::dead) ? sql::kMatchDead : statements_for(database_).match_finished,
      filtered(after, limit, filter, statuses));
}

Found AdminStatements::old(Purgeable what, Time before, Seq after, std::int64_t limit) {
  return run(search_for(statements_for(database_), what), after, limit, status_of(what), before);
}

Found AdminStatements::count_old(Purgeable what, Time before) {
  return run(what == Purgeable::dead ? sql::kCountOldDead : statements_for(database_).count_old,
             status_of(what), before);
}

bool AdminStatements::replay(std::string_view event_id) {
  return replay({std::string(event_id)}, {}, kFinished) == 1;
}

bool AdminStatements::discard(std::string_view event_id) {
  return discard({std::string(event_id)}, {}) == 1;
}

std::int64_t AdminStatements::replay(const std::vector<Key>& ids, const EventFilter& filter,
                                     StatusBits statuses) {
  return database_
      .run(statements_for(database_).replay, filtered(texts(ids), std::nullopt, filter, statuses))
      .integer(0, 0);
}

std::int64_t AdminStatements::discard(const std::vector<Key>& ids, const EventFilter& filter) {
  return database_
      .run(statements_for(database_).discard,
           filtered(texts(ids), std::nullopt, filter, bit(Status::dead)))
      .integer(0, 0);
}

std::int64_t AdminStatements::remove(const std::vector<Key>& ids, Purgeable what, Time before,
                                     bool archive) {
  const Statements& statements = statements_for(database_);
  return database_
      .run(archive ? statements.archive : statements.purge, texts(ids), status_of(what), before)
      .changed();
}

std::vector<Member> AdminStatements::members() {
  Found found = run(sql::kMembers);
  std::vector<Member> members;
  while (found.step()) {
    const std::int64_t pid = found.integer(2);
    members.push_back(
        {.name = std::string(found.text(0)),
         .host = std::string(found.text(1)),
         .pid = pid,
         .registered_at = found.time(3),
         .alive = found.integer(4) != 0 && !is_certainly_dead(pid, std::string(found.text(6))),
         .epoch = found.integer(5),
         .shards = numbers_in(found.text(7))});
  }
  return members;
}

}  // namespace outbox::postgres
