#include "store/mysql/claims.h"

#include <algorithm>
#include <iterator>

#include "store/common/shards.h"
#include "store/mysql/portions.h"
#include "store/mysql/retry_on_deadlock.h"
#include "store/mysql/rows.h"
#include "store/mysql/sql.h"

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
  Built look(sql::kClaimPlace.purpose, database_.config());
  for (const Place& place : all) {
    if (&place != &all.front()) look.sql(" UNION ALL ");
    look.fill(sql::kClaimPlace.text, &place - all.data(), claimable(place, skip_recent));
  }
  const Result found = database_.run(look);
  std::vector<Place> places;
  places.reserve(static_cast<std::size_t>(found.rows()));
  for (int row = 0; row < found.rows(); ++row) {
    places.push_back(all[static_cast<std::size_t>(found.integer(row, 0))]);
  }
  return places;
}

Built Claims::claimable(const Place& place, std::chrono::milliseconds skip_recent) const {
  const StoreConfig& config = database_.config();
  const auto micros = [](std::chrono::milliseconds duration) { return duration.count() * 1'000; };
  Built older(sql::kClaimable.purpose, config);
  if (skip_recent.count() > 0) older.fill(sql::kOlder.text, micros(skip_recent));
  return {sql::kClaimable,       config, place.shard, place.due ? sql::kDueNow : sql::kReadyNow,
          micros(lock_timeout_), older};
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
      const Result found = session.run(
          Built(sql::kToClaim, database_.config(), claimable(place, skip_recent),
                SqlPart{place.due ? "hold DESC, seq DESC" : "seq"}, limit.rows - rows.size()));
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
      session.run(Built(sql::kClaim, database_.config(), owner_, part));
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
  in_portions<Seq>(database_.session(), seqs, [&](std::span<const Seq> part) {
    const Built statement(sql::kUnclaim, database_.config(), part, owner_);
    retry_on_deadlock(database_, [&] { return database_.run(statement); });
  });
}

}  // namespace outbox::mysql
