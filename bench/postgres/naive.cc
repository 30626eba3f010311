#include <cstdint>
#include <stdexcept>

#include "harness.h"
#include "postgres/bare.h"
#include "postgres/parts.h"

namespace outbox::bench {
namespace {

constexpr std::int64_t kClaimed = 100;

// It reads in the order of seq over all shards, for which the library has no index.
constexpr const char* kIndex =
    "CREATE INDEX naive ON outbox_event (seq) WHERE status IN (0, 2);"
    "ANALYZE outbox_event; CHECKPOINT";

constexpr const char* kClaim = R"sql(
UPDATE {table} SET locked_by = 'naive', locked_at = now()
WHERE seq IN (SELECT seq FROM {table}
              WHERE status IN (0, 2) AND hold = 0 AND locked_by IS NULL
              ORDER BY seq LIMIT $1 FOR UPDATE SKIP LOCKED)
  AND status IN (0, 2)
RETURNING {columns}
)sql";

constexpr const char* kDone = R"sql(
UPDATE {table} SET status = 1, done_at = now(), hold = NULL WHERE seq = $1 AND status IN (0, 2)
)sql";

}  // namespace

double postgres_naive(const std::string& url, std::size_t events) {
  const BarePostgres bare(url);
  bare.exec(kIndex);
  const postgres::Parameters one(std::int64_t{1});
  bare.prepare("claim", kClaim, one);
  bare.prepare("done", kDone, one);
  std::size_t delivered = 0;
  return seconds_of([&] {
    while (delivered < events) {
      const postgres::Result rows = bare.run("claim", postgres::Parameters(kClaimed));
      if (rows.rows() == 0) throw std::runtime_error("naive: nothing left to claim");
      for (int row = 0; row < rows.rows(); ++row) {
        bare.run("done", postgres::Parameters(rows.integer(row, 0)));
      }
      delivered += static_cast<std::size_t>(rows.rows());
    }
  });
}

}  // namespace outbox::bench
