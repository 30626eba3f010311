#include "events.h"
#include "outbox/postgres.h"
#include "postgres/bare.h"
#include "postgres/parts.h"

namespace outbox::bench {
namespace {

// As payload(), in SQL.
constexpr const char* kFill = R"sql(
INSERT INTO outbox_event (event_id, event_type, aggregate_type, aggregate_id, status, hold, done_at,
                          payload)
SELECT lpad((i + first.seq)::text, 26, '0'), 'Placed', 'Order', 'order-' || i % $1, $2, HOLD,
       CASE WHEN $2 = 1 THEN now() END, '{"n":"' || lpad(i::text, 16, '0') || '","x":"' || $3 || '"}'
FROM (SELECT coalesce(max(seq), 0) AS seq FROM outbox_event) AS first,
     generate_series(0, $4 - 1) AS i
ORDER BY i
)sql";

std::string with(std::string text, const std::string& name, const std::string& value) {
  for (auto at = text.find(name); at != std::string::npos; at = text.find(name)) {
    text.replace(at, name.size(), value);
  }
  return text;
}

}  // namespace

void fill_postgres(const std::string& url, const LanePage& filling) {
  postgres::migrate(url);
  std::string text = with(kFill, "HOLD", filling.hold);
  text = with(text, "$1", std::to_string(filling.aggregates));
  text = with(text, "$2", std::to_string(filling.status));
  text = with(text, "$3", "'" + padding() + "'");
  text = with(text, "$4", std::to_string(filling.rows));
  BarePostgres(url).exec(text);
}

}  // namespace outbox::bench
