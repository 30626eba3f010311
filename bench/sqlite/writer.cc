#include <chrono>

#include "events.h"
#include "outbox/sqlite.h"
#include "sqlite/bare.h"
#include "sqlite/parts.h"
#include "store/sqlite/sql.h"

namespace outbox::bench {
namespace {

std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

class SqliteWriter final : public BareWriter {
 public:
  explicit SqliteWriter(const std::string& path)
      : bare_(path),
        begin_(bare_.prepare("BEGIN IMMEDIATE")),
        insert_(bare_.prepare(sqlite::sql::kInsert<1>.text)),
        commit_(bare_.prepare("COMMIT")) {}

  void write(std::uint64_t number) override {
    const std::string text = payload(number);
    const std::string id = event_id(number);
    const std::string aggregate = aggregate_id(number);
    const auto bind_text = [&](int index, const std::string& value) {
      sqlite3_bind_text(insert_.get(), index, value.data(), static_cast<int>(value.size()),
                        SQLITE_STATIC);
    };
    static const std::string kType = "Placed";
    static const std::string kAggregateType = "Order";
    bind_text(1, id);
    bind_text(2, kType);
    bind_text(3, kAggregateType);
    bind_text(4, aggregate);
    bind_text(8, text);
    sqlite3_bind_int64(insert_.get(), 9, now());
    sqlite3_bind_int64(insert_.get(), 10, now());
    sqlite3_bind_int64(insert_.get(), 11, 0);
    run(begin_.get());
    run(insert_.get());
    run(commit_.get());
  }

 private:
  BareSqlite bare_;
  sqlite::StatementHandle begin_;
  sqlite::StatementHandle insert_;
  sqlite::StatementHandle commit_;
};

}  // namespace

std::unique_ptr<BareWriter> sqlite_writer(const std::string& path) {
  sqlite::open(path);
  return std::make_unique<SqliteWriter>(path);
}

}  // namespace outbox::bench
