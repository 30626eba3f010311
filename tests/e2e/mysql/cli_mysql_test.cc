// The command line on MariaDB or MySQL: all that every server can do, and what only
// happens there.
#include "cli_server.h"
#include "outbox/mysql.h"
#include "support/mysql.h"

namespace outbox::e2e {
namespace {

// A database, and a user with a password who may do everything in it, and see what
// others do.
class MysqlServer final : public Server {
 public:
  MysqlServer() {
    test::Mysql sql;
    sql.execute("CREATE USER " + place() + " IDENTIFIED BY '" + kSecret + "'");
    sql.execute("GRANT ALL ON " + place() + ".* TO " + place());
    sql.execute("GRANT PROCESS ON *.* TO " + place());
  }
  ~MysqlServer() override { test::Mysql().execute("DROP USER " + place()); }
  MysqlServer(const MysqlServer&) = delete;
  MysqlServer& operator=(const MysqlServer&) = delete;

  std::string scheme() const override { return "mysql"; }
  std::string product() const override { return "MySQL"; }
  std::string url() const override {
    const std::string of_root = database_.url();
    return with_secret("mysql://" + place() + of_root.substr(of_root.find('@')));
  }
  std::string url_of_no_database() const override { return url() + "_not"; }
  std::string dialect() const override { return mariadb() ? "mariadb://" : "mysql://"; }
  std::string place() const override { return database_.name(); }
  std::shared_ptr<Store> store() const override { return mysql::open(url()); }
  void sql(const std::string& statements) const override {
    test::Mysql(database_.url()).execute(statements);
  }
  void unchecked_sql(const std::string& statements) const override {
    if (mariadb()) return sql("SET check_constraint_checks = 0; " + statements);
    const std::string question =
        "SELECT constraint_name FROM information_schema.table_constraints WHERE table_schema = "
        "database() AND table_name = 'outbox_event' AND constraint_type = 'CHECK'";
    for (const test::Row& row : test::Mysql(database_.url()).query(question)) {
      sql("ALTER TABLE outbox_event DROP CHECK " + row[0].value());
    }
    sql(statements);
  }

 private:
  static bool mariadb() {
    return test::Mysql().value("SELECT version()").find("MariaDB") != std::string::npos;
  }

  const test::Database database_;
};

constexpr ServerKind kMysql{"OUTBOX_TEST_MYSQL", []() -> std::unique_ptr<Server> {
                              return std::make_unique<MysqlServer>();
                            }};

INSTANTIATE_TEST_SUITE_P(Mysql, EveryServerCli, ::testing::Values(kMysql));

class MysqlCli : public ServerCli {
 protected:
  MysqlCli() : ServerCli(kMysql) {}
};

TEST_F(MysqlCli, DoctorFindsNothingWrong) {
  publish("A");
  const Result result = run({"doctor"});
  EXPECT_EQ(result.code, 0) << result.out;
  for (const char* words :
       {"accepts writes", "flushed to disk", "max_allowed_packet", "autocommit is on", "one by one",
        "are free", "all are InnoDB", "all are there", "may write, deliver, replay and purge",
        "up to date"}) {
    EXPECT_TRUE(contains(result.out, words));
  }
}

TEST_F(MysqlCli, DoctorFindsATableThatWasConverted) {
  store();
  sql("ALTER TABLE outbox_event_archive ENGINE = MyISAM");
  const Result result = run({"doctor", "--json"});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(check(result, "tables"),
            std::pair(std::string("fail"),
                      std::string("the engine of outbox_event_archive is MyISAM, not InnoDB")));
}

TEST_F(MysqlCli, TakesTheSchemeOfMariaDbAsWell) {
  const std::string other = "MariaDB" + url().substr(server().scheme().size());
  EXPECT_EQ(run_on(other, {"migrate", "up"}).code, 0);
  EXPECT_EQ(run_on(other, {"status"}).code, 0);
}

TEST_F(MysqlCli, TakesThePasswordFromTheEnvironment) {
  store();
  std::string without = url();
  without.erase(without.find(":" + kSecret), kSecret.size() + 1);
  EXPECT_EQ(run_on(without, {"status"}).code, 78);
  const Result result =
      run({"status"}, {.environment = {{"OUTBOX_DB", without}, {"MYSQL_PWD", kSecret}}});
  EXPECT_EQ(result.code, 0) << result.err;
}

}  // namespace
}  // namespace outbox::e2e
