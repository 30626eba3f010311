// The suite on the SQLite store, each test on a database file of its own.
#include "outbox/sqlite.h"
#include "store_conformance.h"
#include "support/sqlite_writes.h"
#include "support/temporary_directory.h"

namespace outbox::conformance {
namespace {

class SqliteBackend final : public Backend {
 public:
  explicit SqliteBackend(std::string table) : table_(std::move(table)) {}

  std::shared_ptr<Store> open(const Wishes& wishes) override {
    return sqlite::open(
        directory_.file("outbox.db"),
        {
            .table = table_,
            .on_done = wishes.remove_done ? sqlite::OnDone::remove : sqlite::OnDone::keep,
            .durability = sqlite::Durability::normal,
            .connections = wishes.connections,
            .wait_timeout = wishes.wait_timeout,
            .clock = &clock_,
        });
  }

  void advance(std::chrono::microseconds by) override { clock_.advance(by); }

  // One transaction writes at a time, so the other one's is over when that of the work begins.
  bool interrupt(Store& /*store*/, const std::string& sql,
                 const std::function<void()>& work) override {
    writes_.before_next([&] {
      sqlite3* other = nullptr;
      EXPECT_EQ(sqlite3_open(directory_.file("outbox.db").c_str(), &other), SQLITE_OK);
      EXPECT_EQ(sqlite3_exec(other, for_table(sql, table_).c_str(), nullptr, nullptr, nullptr),
                SQLITE_OK)
          << sqlite3_errmsg(other);
      sqlite3_close(other);
    });
    work();
    EXPECT_TRUE(writes_.came());
    return true;
  }

  std::vector<std::string> archived(Store& store) override {
    std::vector<std::string> rows;
    for (const ResultRow& row : store.connect()->query(
             "SELECT event_id || '=' || payload FROM " + table_ + "_archive ORDER BY 1", {})) {
      rows.push_back(row.get<std::string>(0));
    }
    return rows;
  }

  std::optional<SqlWords> sql_words() const override {
    return SqlWords{.table = table_,
                    .micros_of_created_at = "created_at",
                    .json_x = "json_extract(payload, '$.x')",
                    .json_n_deep_1 = "json_extract(payload, '$.n.deep[1]')"};
  }

  bool insert_raw(Store& store, const RawRow& row) override {
    const auto connection = store.connect();
    connection->begin();
    connection->execute(
        "INSERT INTO " + table_ +
            " (event_id, event_type, headers, payload) VALUES (?, 'Raw', ?, '{}')",
        std::vector<Parameter>{row.id, row.headers ? Value{*row.headers} : nullptr});
    connection->commit();
    return true;
  }

 private:
  test::SqliteWrites writes_;
  const test::TemporaryDirectory directory_;
  const std::string table_;
  testing::ManualClock clock_;
};

}  // namespace
}  // namespace outbox::conformance

OUTBOX_STORE_CONFORMANCE(Sqlite, factory<SqliteBackend>("DefaultTable", "outbox_event"),
                         factory<SqliteBackend>("OtherTable", "shop_events"));
