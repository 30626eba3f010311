#include "store/sqlite/claims.h"

#include <algorithm>
#include <limits>
#include <set>
#include <vector>

#include "store/sqlite/rows.h"
#include "store/sqlite/sql.h"

namespace outbox::sqlite {

Rows Claims::claim(std::chrono::milliseconds skip_recent, const ReadLimit& limit) {
  Rows result;
  // An idle claimer must not stand in the writers' way.
  if (limit.rows == 0 || !any(candidates(skip_recent))) return result;

  WriteTransaction transaction(database_);
  // Asked again: the wait for the writers may have been long, and a claim that
  // begins in the past would be over before its time.
  const Candidates which = candidates(skip_recent);
  read(which, limit, result);
  std::vector<Seq> seqs;
  seqs.reserve(result.rows.size());
  for (const Row& row : result.rows) seqs.push_back(row.ref.seq);
  const std::string list = seq_list(seqs);
  std::set<Seq> locked;
  {
    Run run(database_[sql::kLocked], list);
    while (run.step()) locked.insert(run.integer(0));
  }
  database_.execute(sql::kClaim, owner_, micros(which.now), list);
  transaction.commit();

  for (Row& row : result.rows) row.reclaimed = locked.contains(row.ref.seq);
  std::sort(result.rows.begin(), result.rows.end(),
            [](const Row& a, const Row& b) { return a.ref.seq < b.ref.seq; });
  return result;
}

Claims::Candidates Claims::candidates(std::chrono::milliseconds skip_recent) const {
  const Time now = database_.config().now();
  // Of events that occurred before the clock was set back only `skip_recent` may ask when.
  return {.now = now,
          .expired = micros(now - lock_timeout_),
          .created = skip_recent.count() == 0 ? std::numeric_limits<std::int64_t>::max()
                                              : micros(now - skip_recent)};
}

bool Claims::any(const Candidates& which) {
  return Run(database_[sql::kClaimableReady], which.expired, which.created, 1).step() ||
         Run(database_[sql::kClaimableDue], which.expired, which.created, 1, hold_until(which.now))
             .step();
}

void Claims::read(const Candidates& which, const ReadLimit& limit, Rows& result) {
  const StoreConfig& config = database_.config();
  ByteBudget budget(limit);
  // First what has waited once before, so that a long backlog of fresh rows
  // cannot starve it.
  {
    Run due(database_[sql::kClaimableDue], which.expired, which.created, one_more(limit.rows),
            hold_until(which.now));
    result.more = decode_rows(due, config, limit.rows, budget, result.rows);
  }
  if (result.more) return;
  Run ready(database_[sql::kClaimableReady], which.expired, which.created,
            one_more(limit.rows - result.rows.size()));
  result.more = decode_rows(ready, config, limit.rows, budget, result.rows);
}

void Claims::unclaim(std::span<const RowRef> rows) {
  if (rows.empty()) return;
  std::vector<Seq> seqs;
  seqs.reserve(rows.size());
  for (const RowRef& row : rows) seqs.push_back(row.seq);
  const std::string list = seq_list(seqs);
  WriteTransaction transaction(database_);
  database_.execute(sql::kUnclaim, list, owner_);
  transaction.commit();
}

}  // namespace outbox::sqlite
