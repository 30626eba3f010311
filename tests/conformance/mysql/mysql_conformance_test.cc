// The suite on the MySQL store, each test in a database of its own: with statements that
// are kept prepared, and without.
#include <future>
#include <optional>

#include "outbox/mysql.h"
#include "store_conformance.h"
#include "support/mysql.h"
#include "support/stores.h"

namespace outbox::conformance {
namespace {

class MysqlBackend : public Backend {
 public:
  explicit MysqlBackend(std::string table) : table_(std::move(table)) {
    if (missing().empty()) database_.emplace();
  }

  std::string missing() const override {
    if (test::services_required()) return {};
    return test::missing_service("OUTBOX_TEST_MYSQL").value_or("");
  }

  std::shared_ptr<Store> open(const Wishes& wishes) override {
    return mysql::open(database_->url(), options(wishes));
  }

  // Nobody can move the server's clock, so everything in the tables moves back.
  void advance(std::chrono::microseconds by) override {
    const std::string interval = "INTERVAL " + std::to_string(by.count()) + " MICROSECOND";
    test::Mysql sql(database_->url());
    sql.execute("UPDATE " + table_ + " SET available_at = available_at - " + interval +
                ", created_at = created_at - " + interval + ", done_at = done_at - " + interval +
                ", locked_at = locked_at - " + interval + ", hold = if(hold < 0, hold + " +
                std::to_string(by.count()) + ", hold)");
    sql.execute("UPDATE " + table_ + "_instance SET beat_at = beat_at - " + interval +
                ", registered_at = registered_at - " + interval);
  }

  bool moves_rows() const override { return true; }
  std::chrono::microseconds clock_error() const override { return 2s; }

  // The other one's change is open when the work begins, which waits for it when it changes the
  // same row.
  bool interrupt(Store& /*store*/, const std::string& sql,
                 const std::function<void()>& work) override {
    test::Mysql other(database_->url());
    test::Mysql onlooker(database_->url());
    other.execute("BEGIN; " + for_table(sql, table_));
    auto working = std::async(std::launch::async, work);
    EXPECT_TRUE(test::eventually([&] { return test::waiting_transactions(onlooker) == 1; }));
    other.execute("COMMIT");
    working.get();
    return true;
  }

  // On a connection of its own: a server's settings may limit those of a program.
  std::vector<std::string> archived(Store& /*store*/) override {
    std::vector<std::string> rows;
    for (const test::Row& row : test::Mysql(database_->url())
                                    .query("SELECT concat(event_id, '=', coalesce(payload, "
                                           "convert(payload_bytes USING utf8mb4)))"
                                           " FROM " +
                                           table_ + "_archive ORDER BY event_id")) {
      rows.push_back(row.at(0).value());
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

 protected:
  virtual mysql::Options options(const Wishes& wishes) const {
    return {
        .table = table_,
        .on_done = wishes.remove_done ? mysql::OnDone::remove : mysql::OnDone::keep,
        .connections = wishes.connections,
        .wait_timeout = wishes.wait_timeout,
    };
  }

 private:
  const std::string table_;
  std::optional<test::Database> database_;
};

class UnpreparedBackend final : public MysqlBackend {
 public:
  using MysqlBackend::MysqlBackend;

 protected:
  mysql::Options options(const Wishes& wishes) const override {
    mysql::Options unprepared = MysqlBackend::options(wishes);
    unprepared.prepare = false;
    return unprepared;
  }
};

}  // namespace
}  // namespace outbox::conformance

OUTBOX_STORE_CONFORMANCE(Mysql, factory<MysqlBackend>("Prepared", "outbox_event"),
                         factory<UnpreparedBackend>("Unprepared", "shop_events"));
