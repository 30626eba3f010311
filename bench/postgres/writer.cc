#include <chrono>
#include <optional>
#include <string_view>

#include "events.h"
#include "outbox/postgres.h"
#include "postgres/bare.h"
#include "postgres/parts.h"
#include "store/postgres/sql.h"

namespace outbox::bench {
namespace {

using Text = std::optional<std::string_view>;
using Data = std::optional<postgres::Bytes>;

postgres::Parameters values(std::uint64_t number) {
  const Time now = std::chrono::time_point_cast<Time::duration>(std::chrono::system_clock::now());
  constexpr std::int64_t kReady = 0;
  return postgres::Parameters(event_id(number), "Placed", "Order", aggregate_id(number), Text(),
                              Text(), Text(), payload(number), Data(), now, now, kReady, Text());
}

class PostgresWriter final : public BareWriter {
 public:
  explicit PostgresWriter(const std::string& url) : bare_(url) {
    bare_.prepare("insert", postgres::sql::kInsert.text, values(0));
  }

  void write(std::uint64_t number) override {
    bare_.exec("BEGIN");
    bare_.run("insert", values(number));
    bare_.exec("COMMIT");
  }

 private:
  BarePostgres bare_;
};

}  // namespace

std::unique_ptr<BareWriter> postgres_writer(const std::string& url) {
  postgres::migrate(url);
  return std::make_unique<PostgresWriter>(url);
}

}  // namespace outbox::bench
