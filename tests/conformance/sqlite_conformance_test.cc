// The suite on the SQLite store, each test on a database file of its own.
#include "outbox/sqlite.h"
#include "store_conformance.h"
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

  std::vector<std::string> archived(Store& store) override {
    std::vector<std::string> rows;
    for (const ResultRow& row : store.connect()->query(
             "SELECT event_id || '=' || payload FROM " + table_ + "_archive ORDER BY 1", {})) {
      rows.push_back(std::get<std::string>(row.at(0)));
    }
    return rows;
  }

  bool insert_raw(Store& store, const RawRow& row) override {
    const auto connection = store.connect();
    connection->begin();
    connection->execute("INSERT INTO " + table_ +
                            " (event_id, event_type, headers, payload) VALUES (?, 'Raw', ?, '{}')",
                        std::vector<Value>{row.id, row.headers ? Value{*row.headers} : nullptr});
    connection->commit();
    return true;
  }

 private:
  const test::TemporaryDirectory directory_;
  const std::string table_;
  testing::ManualClock clock_;
};

}  // namespace
}  // namespace outbox::conformance

OUTBOX_STORE_CONFORMANCE(Sqlite, factory<SqliteBackend>("DefaultTable", "outbox_event"),
                         factory<SqliteBackend>("OtherTable", "shop_events"));
