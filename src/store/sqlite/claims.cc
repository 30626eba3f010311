#include "store/sqlite/claims.h"

#include <algorithm>
#include <vector>

#include "store/sqlite/rows.h"
#include "store/sqlite/sql.h"

namespace outbox::sqlite {

Rows Claims::claim(std::chrono::milliseconds skip_recent, std::size_t limit) {
  const Time now = database_.environment().now();
  const Candidates which{
      .now = now, .expired = micros(now - lock_timeout_), .created = micros(now - skip_recent)};
  Rows result;
  // An idle claimer must not stand in the writers' way.
  if (limit == 0 || !any(which)) return result;

  WriteTransaction transaction(database_);
  read(which, limit, result);
  std::vector<Seq> seqs;
  seqs.reserve(result.rows.size());
  for (const Row& row : result.rows) seqs.push_back(row.ref.seq);
  const std::string list = seq_list(seqs);
  database_.execute(sql::kClaim, owner_, micros(now), list);
  transaction.commit();

  std::sort(result.rows.begin(), result.rows.end(),
            [](const Row& a, const Row& b) { return a.ref.seq < b.ref.seq; });
  return result;
}

bool Claims::any(const Candidates& which) {
  return Run(database_[sql::kClaimableReady], which.expired, which.created, 1).step() ||
         Run(database_[sql::kClaimableDue], which.expired, which.created, 1,
             hold_until(micros(which.now)))
             .step();
}

void Claims::read(const Candidates& which, std::size_t limit, Rows& result) {
  const JsonCodec& codec = *database_.environment().options.codec;
  // First what has waited once before, so that a long backlog of fresh rows
  // cannot starve it.
  {
    Run due(database_[sql::kClaimableDue], which.expired, which.created, one_more(limit),
            hold_until(micros(which.now)));
    result.more = decode_rows(due, codec, which.now, limit, result.rows);
  }
  if (result.more) return;
  Run ready(database_[sql::kClaimableReady], which.expired, which.created,
            one_more(limit - result.rows.size()));
  result.more = decode_rows(ready, codec, which.now, limit, result.rows);
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
