#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness.h"
#include "mysql/bare.h"
#include "mysql/parts.h"

namespace outbox::bench {
namespace {

constexpr const char* kClaim = R"sql(
UPDATE {table} SET locked_by = 'naive', locked_at = utc_timestamp(6)
WHERE status IN (0, 2) AND hold = 0 AND locked_by IS NULL ORDER BY seq LIMIT 100
)sql";

// An UPDATE returns no rows.
constexpr const char* kClaimed = R"sql(
SELECT {columns} FROM {table}
WHERE status IN (0, 2) AND locked_by = 'naive' ORDER BY seq LIMIT 100
)sql";

constexpr const char* kDone = R"sql(
UPDATE {table} SET status = 1, done_at = utc_timestamp(6), hold = NULL
WHERE seq = ? AND status IN (0, 2)
)sql";

}  // namespace

double mysql_naive(const std::string& url, std::size_t events) {
  const BareMysql bare(url);
  const std::string claim = expanded(kClaim);
  const std::string claimed = expanded(kClaimed);
  const auto done = bare.prepare(kDone);
  std::size_t delivered = 0;
  return seconds_of([&] {
    while (delivered < events) {
      bare.query(claim);
      const auto rows = bare.query(claimed);
      if (mysql_num_rows(rows.get()) == 0) throw std::runtime_error("naive: nothing left to claim");
      while (const char* const* row = mysql_fetch_row(rows.get())) {
        BareMysql::run(done.get(), mysql::Parameters(std::stoll(row[0])));
        ++delivered;
      }
    }
  });
}

}  // namespace outbox::bench
