// The suite on the MySQL store, each test in a database of its own: with statements that
// are kept prepared, and without.
#include <mysql.h>

#include <future>
#include <optional>

#include "network.h"
#include "outbox/mysql.h"
#include "support/mysql.h"
#include "support/stores.h"

namespace outbox::conformance {
namespace {

class MysqlRemote final : public Remote {
 public:
  MysqlRemote(std::string url, std::string table)
      : url_(std::move(url)), table_(std::move(table)) {}

  int port() const override { return test::port_of(url_); }

  std::shared_ptr<Store> open_at(int port, Logger log, bool marked) override {
    mysql::Options options{.table = table_, .log = std::move(log)};
    if (marked) options.on_open = [](st_mysql* handle) { mysql_query(handle, "SET @mine = 1"); };
    return mysql::open(test::with_port(url_, port) + "?ssl_mode=disabled", std::move(options));
  }
  bool is_marked(Connection& connection) override {
    return connection.query("SELECT @mine", {}).at(0).at(0) == Value{std::int64_t{1}};
  }

  std::int64_t rows() override {
    test::Mysql sql(url_);
    sql.execute("SET lock_wait_timeout = 20; LOCK TABLES " + table_ + " WRITE; UNLOCK TABLES");
    return std::stoll(sql.value("SELECT count(*) FROM " + table_));
  }

  std::string session_of(Connection& connection) override {
    return std::to_string(
        connection.query("SELECT connection_id()", {}).at(0).get<std::int64_t>(0));
  }
  void end_session(const std::string& session) override {
    test::Mysql sql(url_);
    sql.execute("KILL CONNECTION " + session);
    ASSERT_TRUE(test::eventually([&] {
      return sql.value("SELECT count(*) FROM information_schema.processlist WHERE id = " +
                       session) == "0";
    }));
  }

  bool engine_commits() const override { return true; }

 private:
  const std::string url_;
  const std::string table_;
};

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
    const auto [events, instances] = test::Mysql::made_earlier(table_, by);
    test::Mysql sql(database_->url());
    sql.execute(events);
    sql.execute(instances);
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

  std::optional<SqlWords> sql_words() const override {
    return SqlWords{.table = table_,
                    .set_time_zone = "SET time_zone = '-03:30'",
                    .micros_of_created_at = "timestampdiff(MICROSECOND, '1970-01-01', created_at)",
                    .json_x = "json_value(payload, '$.x')",
                    .json_n_deep_1 = "json_extract(payload, '$.n.deep[1]')"};
  }

  Remote* remote() override {
    if (!remote_) remote_.emplace(database_->url(), table_);
    return &*remote_;
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
  std::optional<MysqlRemote> remote_;
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

OUTBOX_STORE_CONFORMANCE_SUBJECT(Mysql, NetworkTest,
                                 factory<MysqlBackend>("Prepared", "outbox_event"));
OUTBOX_STORE_CONFORMANCE_SUBJECT(Mysql, NetworkCommitTest,
                                 factory<MysqlBackend>("Prepared", "outbox_event"));

}  // namespace outbox::conformance

OUTBOX_STORE_CONFORMANCE(Mysql, factory<MysqlBackend>("Prepared", "outbox_event"),
                         factory<UnpreparedBackend>("Unprepared", "shop_events"));
