#include "store/mysql/store_config.h"
#include "store/mysql/test_support.h"
#include "support/tcp_proxy.h"

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

TEST_F(MysqlStoreConfigTest, AnUnreachableServerIsNotAskedEachTime) {
  const auto unreachable = config_at("mysql://root@127.0.0.1:1/x");
  const auto connect = [&] { unreachable->connect(Use::engine); };
  EXPECT_TRUE(contains(message_of<RetryableError>(connect), "check that the server runs"));
  // A caller that was kept from asking for as long as the pause asks again.
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

// A server that says nothing any more, by a proxy that passes nothing on: transactions end all
// the same.

using std::chrono::steady_clock;

class MysqlFrozenTest : public MysqlTest {
 protected:
  void SetUp() override {
    MysqlTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    proxy_ = std::make_unique<test::TcpProxy>("127.0.0.1", test::port_of(url()));
  }

  std::shared_ptr<Store> open_far(std::chrono::milliseconds limit = 2s,
                                  const std::string& settings = "") {
    return open_store_at(test::with_port(url(), proxy_->port()) + "?ssl_mode=disabled" + settings,
                         {.statement_timeout = limit});
  }

  std::unique_ptr<test::TcpProxy> proxy_;
};

TEST_F(MysqlFrozenTest, ThereIsALimitUnlessSomebodySwitchesItOff) {
  EXPECT_EQ(Options{}.statement_timeout, 30s);
  const auto wait = [&](Store& store) {
    return store.connect()
        ->query("SELECT @@innodb_lock_wait_timeout", {})
        .at(0)
        .get<std::int64_t>(0);
  };
  const std::int64_t usual = std::stoll(sql().value("SELECT @@global.innodb_lock_wait_timeout"));
  EXPECT_EQ(wait(*open_far(0s)), usual);
  const int early = contains(sql().value("SELECT VERSION()"), "MariaDB") ? 1 : 2;
  EXPECT_EQ(wait(*open_far(8s)), 8 - early) << "who waits for a lock is told so in time";
  EXPECT_EQ(wait(*open_far(usual * 2s)), usual) << "which is not raised";
  EXPECT_EQ(wait(*open_far(0s, "&read_timeout=5")), 5 - early);
}

TEST_F(MysqlFrozenTest, TheUrlsReadTimeoutWins) {
  const auto store = open_far(60s, "&read_timeout=1");
  const auto connection = begun(*store);
  proxy_->stall();
  const auto start = steady_clock::now();
  EXPECT_THROW(connection->execute("DO 1", {}), RetryableError);
  EXPECT_LT(steady_clock::now() - start, 10s);
}

// Connections that are lost, by a proxy that loses them.

class MysqlNetworkTest : public MysqlTest {
 protected:
  void SetUp() override {
    MysqlTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    proxy_ = std::make_unique<test::TcpProxy>("127.0.0.1", test::port_of(url()));
  }

  // Through the proxy, which has to read what it loses.
  std::shared_ptr<Store> open_far() {
    return open_store_at(test::with_port(url(), proxy_->port()) + "?ssl_mode=disabled");
  }

  std::unique_ptr<test::TcpProxy> proxy_;
};

TEST_F(MysqlNetworkTest, AConnectionThatTheServerClosedForItsIdlenessFailsNoTransaction) {
  const auto store = open(
      url(),
      {.on_open = [](st_mysql* handle) { mysql_query(handle, "SET SESSION wait_timeout = 1"); },
       .log = log_.log()});
  const auto number = [](Connection& on) {
    return std::to_string(on.query("SELECT connection_id()", {}).at(0).get<std::int64_t>(0));
  };
  const auto wait_until_closed = [&](const std::string& id) {
    return eventually([&] {
      return sql().value("SELECT count(*) FROM information_schema.processlist WHERE id = " + id) ==
             "0";
    });
  };
  ASSERT_TRUE(wait_until_closed(number(*begun(*store))));
  EXPECT_NO_THROW(write_event(*store, simple_event("between two transactions")));
  const auto connection = store->connect();
  ASSERT_TRUE(wait_until_closed(number(*connection)));
  connection->begin();
  const Event event = simple_event("before the first statement");
  connection->insert({&event, 1}, {});
  EXPECT_NO_THROW(connection->commit());
}

// Those that were idle are replaced; those that wait for an answer are told at once, and
// not when the call's limit of ten seconds is over.
TEST_F(MysqlNetworkTest, AConnectionLostWhileItWaitsForAnAnswerIsNoticedAtOnce) {
  const auto store = open_far();
  const auto instance = store->join({.lease = 30s});
  const Lease lease = instance->renew();
  write_event(*store, simple_event("e"));
  const Rows rows = instance->ready(lease.shards, 0, 10);
  ASSERT_EQ(rows.rows.size(), 1U);
  const StatusUpdate done{.row = rows.rows.front().ref, .event_id = "e"};
  const auto expect_to_fail_at_once = [&](const std::string& statement, const auto& call) {
    proxy_->drop_reply(statement);
    const auto start = std::chrono::steady_clock::now();
    EXPECT_THROW(call(), RetryableError) << statement;
    EXPECT_LT(std::chrono::steady_clock::now() - start, 5s) << statement;
  };
  expect_to_fail_at_once("SELECT shard, seq", [&] { instance->ready(lease.shards, 0, 10); });
  expect_to_fail_at_once("SET status = 1", [&] { instance->apply(lease.epoch, {&done, 1}); });
  EXPECT_EQ(proxy_->drops(), 2);
  EXPECT_EQ(instance->renew().epoch, lease.epoch) << "the lease lives on";
}

}  // namespace

}  // namespace outbox::mysql
