#include "store/mysql/claims.h"

#include <algorithm>
#include <iterator>

#include "store/common/shards.h"
#include "store/mysql/portions.h"
#include "store/mysql/retry_on_deadlock.h"
#include "store/mysql/rows.h"

namespace outbox::mysql {

Rows Claims::claim(std::chrono::milliseconds skip_recent, const ReadLimit& limit) {
  if (limit.rows == 0) return {};
  const std::vector<Place> places = look_around(skip_recent);
  if (places.empty()) return {};
  return retry_on_deadlock(database_, [&] { return take(places, skip_recent, limit); });
}

// What has waited once before comes first, so that a long backlog of fresh rows cannot
// starve it. Each time another shard comes first, or a long one would starve the others.
std::vector<Claims::Place> Claims::look_around(std::chrono::milliseconds skip_recent) {
  std::vector<Place> all;
  for (const bool due : {true, false}) {
    for (int i = 0; i < kShards; ++i) all.push_back({(begin_with_ + i) % kShards, due});
  }
  begin_with_ = (begin_with_ + 1) % kShards;
  Built look("look for events to claim", database_.config());
  for (const Place& place : all) {
    if (&place != &all.front()) look.sql(" UNION ALL ");
    look.sql("(SELECT ").value(&place - all.data()).sql(" FROM {table} FORCE INDEX (by_hold)");
    append_condition(look, place, skip_recent);
    look.sql(" LIMIT 1)");
  }
  const Result found = database_.run(look);
  std::vector<Place> places;
  places.reserve(static_cast<std::size_t>(found.rows()));
  for (int row = 0; row < found.rows(); ++row) {
    places.push_back(all[static_cast<std::size_t>(found.integer(row, 0))]);
  }
  return places;
}

// When an event occurred is what the writer's clock said, which may be ahead: only
// `skip_recent` asks for it.
void Claims::append_condition(Built& select, const Place& place,
                              std::chrono::milliseconds skip_recent) const {
  select.sql(" WHERE shard = ").value(place.shard);
  select.sql(place.due ? " AND hold < 0 AND hold >= -timestampdiff(MICROSECOND, '1970-01-01', "
                         "utc_timestamp(6))"
                       : " AND hold = 0");
  select.sql(" AND status IN (0, 2) AND (locked_by IS NULL OR locked_at <= utc_timestamp(6) - ")
      .sql("INTERVAL ")
      .value(lock_timeout_.count() * 1'000)
      .sql(" MICROSECOND)");
  if (skip_recent.count() > 0) {
    select.sql(" AND created_at <= utc_timestamp(6) - INTERVAL ")
        .value(skip_recent.count() * 1'000)
        .sql(" MICROSECOND");
  }
}

Rows Claims::take(std::span<const Place> places, std::chrono::milliseconds skip_recent,
                  const ReadLimit& limit) {
  Session& session = database_.session();
  return in_transaction(session, [&] {
    Rows result;
    std::vector<Row>& rows = result.rows;
    ByteBudget budget(limit);
    for (const Place& place : places) {
      result.more = result.more || rows.size() == limit.rows || budget.spent();
      if (result.more) break;
      Built select("claim events", database_.config());
      select.sql("SELECT {light}, locked_by IS NOT NULL FROM {table} FORCE INDEX (by_hold)");
      append_condition(select, place, skip_recent);
      select.sql(place.due ? " ORDER BY hold DESC, seq DESC LIMIT " : " ORDER BY seq LIMIT ")
          .value(limit.rows - rows.size())
          .sql(" FOR UPDATE SKIP LOCKED");
      const Result found = session.run(select);
      // Locked as they are, none of them can be gone when its payload is read.
      const std::size_t before = rows.size();
      result.more = decode_light_rows(session, found, all_of(found), budget, rows);
      for (std::size_t i = before; i < rows.size(); ++i) {
        rows[i].reclaimed = found.integer(static_cast<int>(i - before), kLightColumns) != 0;
      }
    }
    result.more = result.more || rows.size() == limit.rows;
    if (rows.empty()) return result;
    std::vector<Seq> seqs;
    seqs.reserve(rows.size());
    for (const Row& row : rows) seqs.push_back(row.ref.seq);
    in_portions<Seq>(session, seqs, [&](std::span<const Seq> part) {
      Built statement("claim events", database_.config());
      statement.sql("UPDATE ").sql(kByNumber).sql(" SET locked_by = ").value(owner_);
      statement.sql(", locked_at = utc_timestamp(6) WHERE seq IN (").list(part).sql(")");
      session.run(statement);
    });
    std::sort(rows.begin(), rows.end(),
              [](const Row& a, const Row& b) { return a.ref.seq < b.ref.seq; });
    return result;
  });
}

void Claims::unclaim(std::span<const RowRef> rows) {
  if (rows.empty()) return;
  std::vector<Seq> seqs;
  seqs.reserve(rows.size());
  for (const RowRef& row : rows) seqs.push_back(row.seq);
  // By number alone: after a failover that lost commits this may be another event, claimed
  // anew; then somebody else may get it too, which is a repeat.
  in_portions<Seq>(database_.session(), seqs, [&](std::span<const Seq> part) {
    Built statement("give claimed events back", database_.config());
    statement.sql("UPDATE ").sql(kByNumber).sql(
        " SET locked_by = NULL, locked_at = NULL WHERE seq IN (");
    statement.list(part);
    statement.sql(") AND locked_by = ").value(owner_).sql(" AND status IN (0, 2)");
    retry_on_deadlock(database_, [&] { return database_.run(statement); });
  });
}

}  // namespace outbox::mysql
