#include "store/postgres/admin.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "base/process.h"
#include "client/postgres/statement.h"
#include "store/postgres/connection.h"

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
  return run(serving(statuses, sql::kListDead, sql::kListUnfinished, sql::kListAny),
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
  return run(statuses == bit(Status::dead) ? sql::kMatchDead : sql::kMatchFinished,
             filtered(after, limit, filter, statuses));
}

Found AdminStatements::old(Purgeable what, Time before, Seq after, std::int64_t limit) {
  return run(search_for(what), after, limit, status_of(what), before);
}

Found AdminStatements::count_old(Purgeable what, Time before) {
  return run(what == Purgeable::dead ? sql::kCountOldDead : sql::kCountOld, status_of(what),
             before);
}

bool AdminStatements::replay(std::string_view event_id) {
  return replay({std::string(event_id)}, {}, kFinished) == 1;
}

bool AdminStatements::discard(std::string_view event_id) {
  return discard({std::string(event_id)}, {}) == 1;
}

std::int64_t AdminStatements::replay(const std::vector<Key>& ids, const EventFilter& filter,
                                     StatusBits statuses) {
  return database_.run(sql::kReplay, filtered(texts(ids), std::nullopt, filter, statuses))
      .integer(0, 0);
}

std::int64_t AdminStatements::discard(const std::vector<Key>& ids, const EventFilter& filter) {
  return database_.run(sql::kDiscard, filtered(texts(ids), std::nullopt, filter, bit(Status::dead)))
      .integer(0, 0);
}

std::int64_t AdminStatements::remove(const std::vector<Key>& ids, Purgeable what, Time before,
                                     bool archive) {
  return database_.run(archive ? sql::kArchive : sql::kPurge, texts(ids), status_of(what), before)
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
