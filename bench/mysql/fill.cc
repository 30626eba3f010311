#include <string>

#include "events.h"
#include "mysql/bare.h"
#include "mysql/parts.h"
#include "outbox/mysql.h"

namespace outbox::bench {
namespace {

// There is no series of numbers in SQL that both MariaDB and MySQL know; so these are
// all of six digits. HOLD stands for an expression.
constexpr std::string_view kFill = R"sql(
INSERT INTO {table} (event_id, event_type, aggregate_type, aggregate_id, status, hold, done_at,
                     payload)
WITH digit (n) AS (SELECT 0 UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL
                   SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL
                   SELECT 8 UNION ALL SELECT 9),
number (i) AS (SELECT a.n + 10 * b.n + 100 * c.n + 1000 * d.n + 10000 * e.n + 100000 * f.n
               FROM digit AS a, digit AS b, digit AS c, digit AS d, digit AS e, digit AS f)
SELECT lpad(i + first.seq, 26, '0'), 'Placed', 'Order', concat('order-', i % ?), ?, HOLD,
       if(? = 1, utc_timestamp(6), NULL), replace(?, repeat('0', 16), lpad(i, 16, '0'))
FROM (SELECT coalesce(max(seq), 0) AS seq FROM {table}) AS first, number
WHERE i < ? ORDER BY i
)sql";

constexpr std::string_view kHold = "HOLD";

}  // namespace

void fill_mysql(const std::string& url, const LanePage& filling) {
  mysql::migrate(url);
  std::string sql(kFill);
  sql.replace(sql.find(kHold), kHold.size(), filling.hold);
  const BareMysql bare(url);
  BareMysql::run(bare.prepare(sql).get(),
                 mysql::Parameters(filling.aggregates, filling.status, filling.status, payload(0),
                                   filling.rows));
}

}  // namespace outbox::bench
