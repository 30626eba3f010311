#include <chrono>
#include <cstdint>

#include "events.h"
#include "mysql/bare.h"
#include "mysql/parts.h"
#include "outbox/mysql.h"
#include "store/mysql/sql.h"

namespace outbox::bench {
namespace {

mysql::Parameters values(std::uint64_t number) {
  const Time now = std::chrono::time_point_cast<Time::duration>(std::chrono::system_clock::now());
  constexpr std::int64_t kReady = 0;
  constexpr bool kClaimed = false;
  return mysql::Parameters(event_id(number), "Placed", "Order", aggregate_id(number), nullptr,
                           nullptr, nullptr, payload(number), nullptr, now, now, nullptr, kReady,
                           nullptr, kClaimed);
}

class MysqlWriter final : public BareWriter {
 public:
  explicit MysqlWriter(const std::string& url)
      : bare_(url, mysql::Use::transactions), insert_(bare_.prepare(mysql::sql::kInsert<1>.text)) {}

  void write(std::uint64_t number) override {
    bare_.exec("BEGIN");
    BareMysql::run(insert_.get(), values(number));
    bare_.exec("COMMIT");
  }

 private:
  const BareMysql bare_;
  const mysql::StatementHandle insert_;
};

}  // namespace

std::unique_ptr<BareWriter> mysql_writer(const std::string& url) {
  mysql::migrate(url);
  return std::make_unique<MysqlWriter>(url);
}

}  // namespace outbox::bench
