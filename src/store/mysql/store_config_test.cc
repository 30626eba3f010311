#include "store/mysql/store_config.h"

#include "store/mysql/test_support.h"

namespace outbox::mysql {
namespace {

TEST(MysqlVersion, RefusesServersWithoutSkipLocked) {
  const auto refused = [](bool is_mariadb, const char* version, unsigned long number) {
    return message_of<PermanentError>([&] { check_version(is_mariadb, version, number, "here"); });
  };
  EXPECT_EQ(refused(false, "5.7.44-log", 50744),
            "the server is MySQL 5.7.44-log (here), which has no SKIP LOCKED; this library needs "
            "MariaDB 10.6 or MySQL 8.0");
  EXPECT_TRUE(contains(refused(true, "10.5.29-MariaDB", 100529), "MariaDB 10.5.29-MariaDB"));
  EXPECT_NO_THROW(check_version(false, "8.0.11-TiDB-v7.5.0", 80011, "here"));
  EXPECT_NO_THROW(check_version(false, "9.4.0", 90400, "here"));
  EXPECT_NO_THROW(check_version(true, "10.6.1-MariaDB", 100601, "here"));
  EXPECT_NO_THROW(check_version(true, "11.8.2-MariaDB", 110802, "here"));
}

class MysqlStoreConfigTest : public MysqlTest {
 protected:
  static std::string setting(Database& database, const std::string& name) {
    const Result result = database.session().run_text("SELECT @@SESSION." + name, name);
    return result.is_null(0, 0)        ? "NULL"
           : result.text(0, 0).empty() ? std::to_string(result.integer(0, 0))
                                       : std::string(result.text(0, 0));
  }
  static std::string isolation(Database& database) {
    const bool is_mariadb = mariadb_connection(database.handle()) != 0;
    return setting(database, is_mariadb ? "tx_isolation" : "transaction_isolation");
  }
  // What users get who do nothing.
  std::string of_server(const std::string& name) { return sql().value("SELECT @@GLOBAL." + name); }
};

TEST_F(MysqlStoreConfigTest, TheEnginesConnectionsDependOnNoSettingOfTheServer) {
  Database engine(config());
  EXPECT_NE(of_server("time_zone"), "+00:00");  // or this test shows nothing
  EXPECT_TRUE(engine.ensure_connected());
  EXPECT_FALSE(engine.ensure_connected());
  EXPECT_EQ(setting(engine, "time_zone"), "+00:00");
  EXPECT_EQ(isolation(engine), "READ-COMMITTED");
  EXPECT_EQ(setting(engine, "autocommit"), "1");
  EXPECT_EQ(setting(engine, "character_set_client"), "utf8mb4");
  EXPECT_EQ(setting(engine, "character_set_results"), "utf8mb4");
  EXPECT_EQ(setting(engine, "collation_connection"), "utf8mb4_bin");
  EXPECT_EQ(setting(engine, "sql_mode"), "STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION");
}

TEST_F(MysqlStoreConfigTest, TheUsersConnectionsAreAsTheServerMakesThem) {
  Database users(config(), Use::transactions);
  EXPECT_EQ(setting(users, "time_zone"), of_server("time_zone"));
  EXPECT_EQ(setting(users, "sql_mode"), of_server("sql_mode"));
  EXPECT_EQ(isolation(users), "REPEATABLE-READ");
  EXPECT_EQ(setting(users, "autocommit"), "1");
  EXPECT_EQ(setting(users, "character_set_client"), "utf8mb4");
}

TEST_F(MysqlStoreConfigTest, ALimitToCallsIsOneToWaitingForLocksToo) {
  Database limited(config());
  limited.limit_calls(2500ms);
  limited.ensure_connected();
  // MySQL ends a wait up to a second late.
  const std::string below = mariadb_connection(limited.handle()) != 0 ? "2" : "1";
  EXPECT_EQ(setting(limited, "innodb_lock_wait_timeout"), below);
  EXPECT_EQ(setting(limited, "lock_wait_timeout"), below);
}

TEST_F(MysqlStoreConfigTest, ACallThatTakesTooLongGivesTheConnectionUp) {
  Database limited(config());
  limited.limit_calls(1s);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THROW(limited.session().run_text("SELECT SLEEP(20)", "sleep"), RetryableError);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
  EXPECT_FALSE(limited.healthy());
  EXPECT_EQ(limited.session().run_text("SELECT 1", "go on").integer(0, 0), 1);
}

TEST_F(MysqlStoreConfigTest, AServerThatIsAwayIsNotAskedEachTime) {
  const auto away = config_at("mysql://root@127.0.0.1:1/x");
  const auto connect = [&] { away->connect(Use::engine); };
  EXPECT_TRUE(contains(message_of<RetryableError>(connect), "check that the server runs"));
  // Whoever was kept from asking for as long as the pause asks again.
  EXPECT_TRUE(eventually([&] {
    return contains(message_of<RetryableError>(connect), "the next attempt is made in");
  }));
}

TEST_F(MysqlStoreConfigTest, OfSeveralHostsTheFirstThatAnswersIsUsed) {
  const std::string address = "127.0.0.1:" + std::to_string(test::port_of(test::mysql_url()));
  std::string url = test::mysql_url();
  url.replace(url.find(address), address.size(), "127.0.0.1:1," + address);
  EXPECT_TRUE(Database(config_at(url)).ensure_connected());
}

}  // namespace
}  // namespace outbox::mysql
