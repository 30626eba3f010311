#include "store/postgres/claims.h"

#include <algorithm>
#include <vector>

#include "store/common/shards.h"
#include "store/postgres/rows.h"
#include "store/postgres/sql.h"

namespace outbox::postgres {

Rows Claims::claim(std::chrono::milliseconds skip_recent, const ReadLimit& limit) {
  Rows result;
  if (limit.rows == 0) return result;
  // Each time another shard comes first, or a long one would starve the others.
  std::vector<std::int64_t> shards;
  shards.reserve(kShards);
  for (int i = 0; i < kShards; ++i) shards.push_back((begin_with_ + i) % kShards);
  begin_with_ = (begin_with_ + 1) % kShards;
  const Result claimed =
      database_.run(sql::kClaim, shards, owner_, lock_timeout_.count(), skip_recent.count(),
                    sql_limit(limit.rows), sql_limit(std::max<std::size_t>(limit.bytes, 1)));
  result.rows = decode_rows(claimed, *database_.config().options.codec);
  int number = 0;
  for (Row& row : result.rows) row.reclaimed = claimed.integer(number++, kRowColumns) != 0;
  std::size_t bytes = 0;
  for (const Row& row : result.rows) bytes += row.event.payload().size();
  result.more = result.rows.size() >= limit.rows || bytes >= limit.bytes;
  return result;
}

void Claims::unclaim(std::span<const RowRef> rows) {
  if (rows.empty()) return;
  std::vector<std::int64_t> shards, holds, seqs;
  for (const RowRef& row : rows) {
    shards.push_back(row.shard);
    holds.push_back(row.hold);
    seqs.push_back(row.seq);
  }
  database_.session().run_at_once(sql::kUnclaim, shards, holds, seqs, owner_);
}

}  // namespace outbox::postgres
