#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "harness.h"
#include "postgres/bare.h"
#include "postgres/parts.h"
#include "store/common/shards.h"
#include "store/postgres/sql.h"

namespace outbox::bench {
namespace {

using Numbers = std::vector<std::int64_t>;

constexpr std::int64_t kBatch = 500;

constexpr const char* kUpdate = R"sql(
UPDATE {table} AS event SET status = 1, done_at = now(), hold = NULL
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS item (shard, hold, seq)
WHERE event.shard = item.shard AND event.hold = item.hold AND event.seq = item.seq
  AND event.status IN (0, 2)
)sql";

constexpr const char* kDelete = R"sql(
DELETE FROM {table} AS event
USING unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS item (shard, hold, seq)
WHERE event.shard = item.shard AND event.hold = item.hold AND event.seq = item.seq
  AND event.status IN (0, 2)
)sql";

}  // namespace

double postgres_limit(const std::string& url, std::size_t events, Finish finish) {
  const BarePostgres bare(url);
  bare.go_by_index_alone();
  Numbers shards(kShards);
  std::iota(shards.begin(), shards.end(), 0);
  Numbers floors(kShards);
  bare.prepare("select", postgres::sql::kReady.text, postgres::Parameters(shards, floors, kBatch));
  bare.prepare("update", finish == Finish::update ? kUpdate : kDelete,
               postgres::Parameters(shards, shards, shards));
  std::size_t delivered = 0;
  std::size_t bytes = 0;
  const double seconds = seconds_of([&] {
    for (;;) {
      const postgres::Result rows =
          bare.run("select", postgres::Parameters(shards, floors, kBatch));
      if (rows.rows() == 0) break;
      Numbers of_shard, holds, seqs;
      for (int row = 0; row < rows.rows(); ++row) {
        seqs.push_back(rows.integer(row, 0));
        of_shard.push_back(rows.integer(row, 1));
        holds.push_back(rows.integer(row, 2));
        floors[static_cast<std::size_t>(of_shard.back())] = seqs.back();
        for (int column = 0; column < PQnfields(rows.handle()); ++column) {
          bytes += rows.text(row, column).size();
        }
      }
      bare.run("update", postgres::Parameters(of_shard, holds, seqs));
      delivered += seqs.size();
    }
  });
  if (delivered != events || bytes == 0) throw std::runtime_error("limit: not all was delivered");
  return seconds;
}

}  // namespace outbox::bench
