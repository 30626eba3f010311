#include <sqlite3.h>

#include <cstdint>
#include <stdexcept>
#include <vector>

#include "harness.h"
#include "sqlite/bare.h"
#include "sqlite/parts.h"

namespace outbox::bench {
namespace {

constexpr int kClaimed = 100;

constexpr const char* kClaim = R"sql(
UPDATE {table} SET locked_by = 'naive', locked_at = 1
WHERE seq IN (SELECT seq FROM {table}
              WHERE hold = 0 AND status IN (0, 2) AND locked_by IS NULL ORDER BY seq LIMIT ?1)
RETURNING {columns}
)sql";

constexpr const char* kDone = R"sql(
UPDATE {table} SET status = 1, done_at = 1, hold = NULL WHERE seq = ?1 AND status IN (0, 2)
)sql";

}  // namespace

double sqlite_naive(const std::string& database, std::size_t events) {
  const BareSqlite bare(database);
  const auto claim = bare.prepare(kClaim);
  const auto done = bare.prepare(kDone);
  std::size_t delivered = 0;
  return seconds_of([&] {
    while (delivered < events) {
      std::vector<std::int64_t> seqs;
      sqlite3_bind_int(claim.get(), 1, kClaimed);
      while (sqlite3_step(claim.get()) == SQLITE_ROW) {
        seqs.push_back(sqlite3_column_int64(claim.get(), 0));
      }
      expect(claim.get(), sqlite3_reset(claim.get()), SQLITE_OK);
      if (seqs.empty()) throw std::runtime_error("naive: nothing left to claim");
      for (const std::int64_t seq : seqs) {
        sqlite3_bind_int64(done.get(), 1, seq);
        run(done.get());
      }
      delivered += seqs.size();
    }
  });
}

}  // namespace outbox::bench
