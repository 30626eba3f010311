#include "store/mysql/connection.h"

#include <sys/wait.h>
#include <unistd.h>

#include <future>

#include "store/mysql/test_support.h"
#include "support/tcp_proxy.h"

namespace outbox::mysql {
namespace {

class MysqlConnectionTest : public MysqlTest {
 protected:
  void SetUp() override {
    MysqlTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    sql().execute("CREATE TABLE accounts (id int PRIMARY KEY, cents int)");
    sql().execute("INSERT INTO accounts VALUES (1, 0), (2, 0)");
    proxy_ = std::make_unique<test::TcpProxy>("127.0.0.1", test::port_of(test::mysql_url()));
  }

  static PoolLimits limits(std::size_t size) {
    return {.size = size, .wait_timeout = 50ms, .hint = "raise mysql::Options::connections"};
  }
  std::shared_ptr<Pool> pool(const std::string& url, std::size_t size = 4) const {
    return make_pool(config_at(url), Use::transactions, limits(size), 30s);
  }
  std::unique_ptr<PooledConnection> begun(const std::shared_ptr<Pool>& from) const {
    auto connection = std::make_unique<PooledConnection>(from->take());
    connection->begin();
    return connection;
  }

  // Through a network that can fail, and sees what it carries.
  std::string proxied() const {
    return test::with_port(url(), proxy_->port()) + "?ssl_mode=disabled";
  }
  test::TcpProxy& network() { return *proxy_; }

  static std::string pay(int id) {
    return "UPDATE accounts SET cents = cents + 1 WHERE id = " + std::to_string(id);
  }
  int cents(int id) {
    return std::stoi(sql().value("SELECT cents FROM accounts WHERE id = " + std::to_string(id)));
  }

 private:
  std::unique_ptr<test::TcpProxy> proxy_;
};

TEST_F(MysqlConnectionTest, WhatIsCommittedIsThereAndWhatIsNotIsNot) {
  const auto from = pool(url());
  {
    const auto connection = begun(from);
    EXPECT_TRUE(connection->in_transaction());
    connection->execute(pay(1), {});
    connection->commit();
    EXPECT_FALSE(connection->in_transaction());
    connection->begin();
    connection->execute(pay(1), {});
    connection->rollback();
    connection->begin();
    connection->execute(pay(1), {});
  }
  EXPECT_EQ(cents(1), 1);
  EXPECT_THROW(PooledConnection(from->take()).commit(), MisuseError);
  EXPECT_THROW(begun(from)->begin(), MisuseError);
}

TEST_F(MysqlConnectionTest, SavepointsAreRolledBackToAndReleased) {
  const auto connection = begun(pool(url()));
  connection->execute(pay(1), {});
  connection->savepoint("a `quoted` one");
  connection->execute(pay(1), {});
  connection->rollback_to("a `quoted` one");
  connection->release("a `quoted` one");
  EXPECT_THROW(connection->rollback_to("a `quoted` one"), MisuseError);
  connection->execute(pay(2), {});
  connection->commit();
  EXPECT_EQ(cents(1), 1);
  EXPECT_EQ(cents(2), 1);
}

TEST_F(MysqlConnectionTest, AnErrorOfOneStatementLeavesTheOthers) {
  const auto connection = begun(pool(url()));
  connection->execute(pay(1), {});
  EXPECT_TRUE(contains(message_of<DatabaseError>(
                           [&] { connection->execute("INSERT INTO accounts VALUES (1, 0)", {}); }),
                       "'1'"));
  connection->commit();
  EXPECT_EQ(cents(1), 1);
}

TEST_F(MysqlConnectionTest, AfterADeadlockNothingIsDoneOutsideTheTransaction) {
  const auto from = pool(url());
  const auto one = begun(from);
  const auto two = begun(from);
  one->execute(pay(1), {});
  two->execute(pay(2), {});
  const auto finish = [](Connection& connection, int other) {
    std::string failure;
    try {
      connection.execute(pay(other), {});
    } catch (const RetryableError& error) {
      failure = error.what();
    }
    // The victim goes on as if nothing had been.
    try {
      connection.execute(pay(other), {});
      connection.commit();
    } catch (const RetryableError& error) {
      failure += std::string(" / ") + error.what();
    }
    return failure;
  };
  auto other = std::async(std::launch::async, [&] { return finish(*two, 1); });
  const std::string of_one = finish(*one, 2);
  const std::string of_two = other.get();
  EXPECT_NE(of_one.empty(), of_two.empty()) << of_one << "\n" << of_two;
  EXPECT_TRUE(contains(of_one + of_two, "[1213]"));
  EXPECT_TRUE(contains(of_one + of_two, "/ the transaction was rolled back"));
  for (const auto* each : {&one, &two}) {
    if ((*each)->in_transaction()) (*each)->rollback();
  }
  EXPECT_EQ(cents(1) + cents(2), 3);  // the winner's alone
}

TEST_F(MysqlConnectionTest, AfterALockWaitTheTransactionIsToBeStartedOver) {
  const auto from = pool(url());
  const auto blocker = begun(from);
  blocker->execute(pay(1), {});
  const auto waits = begun(from);
  waits->execute(pay(2), {});
  waits->execute("SET SESSION innodb_lock_wait_timeout = 1", {});
  EXPECT_TRUE(contains(message_of<RetryableError>([&] { waits->execute(pay(1), {}); }), "[1205]"));
  EXPECT_TRUE(contains(message_of<RetryableError>([&] { waits->commit(); }), "rolled back"));
  EXPECT_FALSE(waits->in_transaction());
  EXPECT_EQ(cents(2), 0);
}

TEST_F(MysqlConnectionTest, AStatementThatCommitsByItselfEndsTheTransaction) {
  const auto from = pool(url());
  const auto connection = begun(from);
  connection->execute(pay(1), {});
  EXPECT_TRUE(contains(
      message_of<MisuseError>([&] { connection->execute("CREATE TABLE other (id int)", {}); }),
      "committed the transaction"));
  EXPECT_FALSE(connection->in_transaction());
  EXPECT_THROW(connection->commit(), MisuseError);
}

TEST_F(MysqlConnectionTest, APoolThatIsExhaustedSaysItsLimit) {
  const auto from = pool(url(), 1);
  const auto only = begun(from);
  const std::string message = message_of<RetryableError>([&] { from->take(); });
  EXPECT_TRUE(contains(message, "all 1 are in use"));
  EXPECT_TRUE(contains(message, "mysql::Options::connections"));
}

TEST_F(MysqlConnectionTest, ATransactionIsOverWhenTheNetworkIsCut) {
  const auto connection = begun(pool(proxied()));
  connection->execute(pay(1), {});
  network().cut();
  EXPECT_THROW(connection->execute(pay(2), {}), RetryableError);
  EXPECT_THROW(connection->execute(pay(2), {}), RetryableError);
  EXPECT_THROW(connection->commit(), RetryableError);
  EXPECT_EQ(cents(1) + cents(2), 0);
  connection->begin();
  connection->execute(pay(1), {});
  connection->commit();
  EXPECT_EQ(cents(1), 1);
}

TEST_F(MysqlConnectionTest, ACommitWhoseRequestWasLostHasAnUnknownOutcome) {
  const auto connection = begun(pool(proxied()));
  connection->execute(pay(1), {});
  network().drop_request("COMMIT");
  EXPECT_THROW(connection->commit(), OutcomeUnknownError);
  EXPECT_EQ(network().drops(), 1);
  EXPECT_EQ(cents(1), 0);
}

TEST_F(MysqlConnectionTest, ACommitWhoseReplyWasLostHasAnUnknownOutcome) {
  const auto connection = begun(pool(proxied()));
  connection->execute(pay(1), {});
  network().drop_reply("COMMIT");
  EXPECT_THROW(connection->commit(), OutcomeUnknownError);
  EXPECT_EQ(network().drops(), 1);
  EXPECT_EQ(cents(1), 1);
  EXPECT_FALSE(connection->in_transaction());
}

TEST_F(MysqlConnectionTest, AConnectionThatWasKilledWhileIdleIsReplaced) {
  const auto from = pool(url());
  for (const bool lent : {false, true}) {
    auto connection = std::make_unique<PooledConnection>(from->take());
    const std::string id = std::to_string(mysql_thread_id(connection->handle()));
    if (!lent) connection.reset();
    sql().execute("KILL CONNECTION " + id);
    // The server closes it when it gets to it.
    ASSERT_TRUE(eventually([&] {
      return sql().value("SELECT COUNT(*) FROM information_schema.processlist WHERE id = " + id) ==
             "0";
    }));
    if (!lent) connection = std::make_unique<PooledConnection>(from->take());
    connection->begin();
    connection->execute(pay(1), {});
    connection->commit();
  }
  EXPECT_EQ(cents(1), 2);
}

TEST_F(MysqlConnectionTest, AChildMadeByForkLeavesTheParentsConnectionAlone) {
  const auto from = pool(url());
  constexpr Sql kOne{"read", "SELECT ?"};
  Database own(config());
  own.run(kOne, 1);
  {
    auto connection = begun(from);
    connection->execute(pay(1), {});
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      bool refused = false;
      try {
        from->take();
      } catch (const MisuseError&) {
        refused = true;
      }
      connection.reset();
      own.drop();
      _exit(refused ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    connection->commit();
  }
  EXPECT_EQ(own.run(kOne, 2).integer(0, 0), 2);
  EXPECT_FALSE(own.ensure_connected());
  EXPECT_EQ(cents(1), 1);
}

// What a node of a Galera cluster says when it loses the others in the middle of it, and
// what a server says that is being stopped.
TEST_F(MysqlConnectionTest, ACommitThatMayHaveHappenedIsUnknown) {
  const auto from = pool(proxied());
  for (const unsigned number : {1047U, 1053U, 1105U, 1180U, 1317U}) {
    const auto connection = begun(from);
    connection->execute(pay(1), {});
    network().replace_reply(
        "\x03"
        "COMMIT",
        error_packet(number));
    EXPECT_THROW(connection->commit(), OutcomeUnknownError) << number;
    EXPECT_FALSE(connection->in_transaction());
  }
  EXPECT_EQ(cents(1), 5) << "here they all did";
}

TEST_F(MysqlConnectionTest, ACommitThatCertainlyDidNotHappenIsToBeStartedOver) {
  const auto from = pool(proxied());
  for (const unsigned number : {1213U, 1290U, 1836U, 3101U}) {
    const auto connection = begun(from);
    network().replace_reply(
        "\x03"
        "COMMIT",
        error_packet(number));
    EXPECT_THROW(connection->commit(), RetryableError) << number;
  }
}

TEST_F(MysqlConnectionTest, OfAServerThatIsNotReadyTheNextHostIsTried) {
  const std::string two = test::with_port(url(), network().port());
  const auto slash = two.rfind('/');
  const std::string both = two.substr(0, slash) +
                           ",127.0.0.1:" + std::to_string(test::port_of(url())) +
                           two.substr(slash) + "?ssl_mode=disabled";
  // A node that has lost its cluster answers some statements.
  int accepted = 0;
  for (const char* refused : {"SET NAMES", "DO 0"}) {
    network().replace_reply(refused, error_packet(1047, "08S01"));
    const auto connection = begun(pool(both));
    EXPECT_EQ(network().accepted(), ++accepted);
    EXPECT_TRUE(eventually([&] { return network().connections() == 0; }));
    connection->execute(pay(1), {});
    connection->commit();
  }
  EXPECT_EQ(cents(1), 2);
}

// Cut off from its cluster, or made a replica of another one.
TEST_F(MysqlConnectionTest, AConnectionToAServerThatIsReadyNoMoreIsReplaced) {
  const auto from = pool(url(), 1);
  const auto id = [&] {
    return PooledConnection(from->take())
        .query("SELECT connection_id()", {})
        .at(0)
        .get<std::int64_t>(0);
  };
  auto last = id();
  EXPECT_EQ(id(), last) << "it is kept as a rule";
  for (const std::string error :
       {"'08S01' SET MYSQL_ERRNO = 1047", "'HY000' SET MYSQL_ERRNO = 1836",
        "'HY000' SET MYSQL_ERRNO = 1290, MESSAGE_TEXT = 'running with the --read-only option'"}) {
    sql().execute("CREATE TRIGGER refuse BEFORE UPDATE ON accounts FOR EACH ROW SIGNAL SQLSTATE " +
                  error);
    EXPECT_THROW(begun(from)->execute(pay(1), {}), RetryableError) << error;
    sql().execute("DROP TRIGGER refuse");
    const auto next = id();
    EXPECT_NE(next, last) << error;
    last = next;
  }
  EXPECT_THROW(PooledConnection(from->take()).query("SELECT 1 INTO OUTFILE '/nowhere/x'", {}),
               Error);
  EXPECT_EQ(id(), last) << "other errors cost nothing";
}

// BEGIN opens a block there, and the other one begins the next transaction at once.
TEST_F(MysqlConnectionTest, TransactionsBeginAndEndWhateverTheModesOfTheSessionAre) {
  for (const char* mode : {"sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT'",
                           "completion_type = 'CHAIN'", "completion_type = 'RELEASE'",
                           "sql_select_limit = 0", "sql_mode = 'ORACLE'"}) {
    const auto set = [&](MYSQL* connection) {
      const std::string text = std::string("SET SESSION ") + mode;
      // Only MariaDB knows ORACLE.
      mysql_query(connection, text.c_str());
    };
    const auto from = make_pool(config(), Use::transactions, limits(1), 30s, set);
    MYSQL* first = nullptr;
    for (int i = 0; i < 2; ++i) {
      const auto connection = begun(from);
      if (first == nullptr) first = connection->handle();
      EXPECT_EQ(connection->handle(), first) << mode << ": it is still the same connection";
      connection->execute(pay(1), {});
      connection->commit();
      connection->begin();
      connection->execute(pay(2), {});
      connection->rollback();
    }
  }
  EXPECT_EQ(cents(1), 10);
  EXPECT_EQ(cents(2), 0);
}

}  // namespace
}  // namespace outbox::mysql
