#include "support/mysql.h"

#include <gtest/gtest.h>
#include <mysql.h>

#include <stdexcept>

#include "support/tcp_proxy.h"

namespace outbox::test {
namespace {

class MysqlTest : public ::testing::Test {
 protected:
  void SetUp() override { OUTBOX_NEEDS_MYSQL(); }

  static std::string message_of(Mysql& sql, const std::string& statement) {
    try {
      sql.execute(statement);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "no error";
  }
};

TEST_F(MysqlTest, QueriesGiveTextAndNulls) {
  Mysql sql;
  EXPECT_EQ(sql.query("SELECT 1, NULL, '' UNION ALL SELECT 2, 'x', NULL ORDER BY 1"),
            (std::vector<Row>{{"1", std::nullopt, ""}, {"2", "x", std::nullopt}}));
  EXPECT_TRUE(sql.query("SELECT 1 FROM DUAL WHERE false").empty());
  EXPECT_EQ(sql.value("SELECT 'a\\0b'"), std::string("a\0b", 3));
  EXPECT_THROW(sql.value("SELECT 1 FROM DUAL WHERE false"), std::runtime_error);
  EXPECT_THROW(sql.value("SELECT 1, 2"), std::runtime_error);
  EXPECT_THROW(sql.value("SELECT NULL"), std::runtime_error);
}

TEST_F(MysqlTest, OfSeveralStatementsTheLastGivesTheRows) {
  Mysql sql;
  EXPECT_EQ(sql.value("SELECT 1; SET @a = 2; SELECT @a"), "2");
  EXPECT_TRUE(sql.query("SELECT 1; SET @a = 3").empty());
  EXPECT_EQ(sql.value("SELECT @a"), "3");
}

TEST_F(MysqlTest, ErrorsCarryTheServersMessageItsNumberAndItsState) {
  Mysql sql;
  for (const char* statements :
       {"SELECT * FROM no_such_table", "SELECT 1; DROP TABLE no_such_table"}) {
    const std::string message = message_of(sql, statements);
    EXPECT_NE(message.find("42S02"), std::string::npos) << message;
    EXPECT_NE(message.find("no_such_table"), std::string::npos) << message;
    EXPECT_EQ(sql.value("SELECT 1"), "1") << "usable afterwards";
  }
  EXPECT_NE(message_of(sql, "SELECT * FROM no_such_table").find("1146"), std::string::npos);
}

TEST_F(MysqlTest, AServerThatIsNotThereIsAnError) {
  EXPECT_THROW(Mysql("mysql://root@127.0.0.1:1/outbox"), std::runtime_error);
  EXPECT_THROW(Mysql("postgresql://root@127.0.0.1:1/outbox"), std::runtime_error);
}

TEST_F(MysqlTest, ADatabaseIsFreshAndGoesWithAllThatIsInIt) {
  Mysql sql;
  const auto exists = [&](const std::string& name) {
    return sql.value("SELECT count(*) FROM information_schema.schemata WHERE schema_name = '" +
                     name + "'") == "1";
  };
  std::string first;
  {
    const Database one;
    const Database two;
    EXPECT_NE(one.name(), two.name());
    first = one.name();
    EXPECT_TRUE(exists(first));
    EXPECT_TRUE(exists(two.name()));
    Mysql inside(one.url());
    inside.execute("CREATE TABLE t(i int); INSERT INTO t VALUES (1)");
    EXPECT_EQ(sql.value("SELECT i FROM " + first + ".t"), "1");
  }
  EXPECT_FALSE(exists(first));
}

TEST_F(MysqlTest, TheServerIsDurableAndItsZoneIsNotUtc) {
  Mysql sql;
  EXPECT_EQ(sql.value("SELECT @@innodb_flush_log_at_trx_commit"), "1");
  EXPECT_EQ(sql.value("SELECT @@innodb_doublewrite IN ('1', 'ON')"), "1");
  EXPECT_EQ(sql.value("SELECT @@sync_binlog"), "1");
  EXPECT_NE(sql.value("SELECT timediff(now(), utc_timestamp())"), "00:00:00");
}

TEST_F(MysqlTest, TextOfAllPlanesSurvivesInTheDatabasesOfTests) {
  const Database database;
  Mysql sql(database.url());
  sql.execute("CREATE TABLE t(s text)");
  sql.execute("INSERT INTO t VALUES ('\xF0\x9F\x93\xA4')");
  EXPECT_EQ(sql.value("SELECT s FROM t"), "\xF0\x9F\x93\xA4");
  EXPECT_EQ(sql.value("SELECT char_length(s) FROM t"), "1");
}

// Behind the proxy: what a lost message does to a COMMIT.
class MysqlFaultsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    OUTBOX_NEEDS_MYSQL();
    database_ = std::make_unique<Database>();
    direct_ = std::make_unique<Mysql>(database_->url());
    proxy_ = std::make_unique<TcpProxy>("127.0.0.1", port_of(mysql_url()));
    direct_->execute("CREATE TABLE t(i int)");
  }

  // Through the proxy, with a row that is not committed yet.
  std::unique_ptr<Mysql> begun() {
    auto sql = std::make_unique<Mysql>(with_port(database_->url(), proxy_->port()));
    sql->execute("BEGIN");
    sql->execute("INSERT INTO t VALUES (1)");
    return sql;
  }

  std::string rows() { return direct_->value("SELECT count(*) FROM t"); }

  // Until the server has noticed that a transaction's client is gone; a lock that is
  // held for longer is an error.
  void wait_for_other_transactions() {
    direct_->execute("SET lock_wait_timeout = 20; LOCK TABLES t WRITE; UNLOCK TABLES");
  }

  static bool broken(const Mysql& sql) { return mysql_ping(sql.handle()) != 0; }

  std::unique_ptr<Database> database_;
  std::unique_ptr<Mysql> direct_;
  std::unique_ptr<TcpProxy> proxy_;
};

TEST_F(MysqlFaultsTest, ACommitWhoseReplyIsDroppedDidCommit) {
  const auto sql = begun();
  proxy_->drop_reply("COMMIT");
  EXPECT_THROW(sql->execute("COMMIT"), std::runtime_error);
  EXPECT_TRUE(broken(*sql));
  EXPECT_EQ(proxy_->drops(), 1);
  EXPECT_EQ(rows(), "1");
}

TEST_F(MysqlFaultsTest, ACommitWhoseRequestIsDroppedDidNot) {
  const auto sql = begun();
  proxy_->drop_request("COMMIT");
  EXPECT_THROW(sql->execute("COMMIT"), std::runtime_error);
  EXPECT_TRUE(broken(*sql));
  EXPECT_EQ(proxy_->drops(), 1);
  wait_for_other_transactions();
  EXPECT_EQ(rows(), "0");
}

// The statement's text went before; what is sent now is its number.
TEST_F(MysqlFaultsTest, APreparedCommitWhoseReplyIsDroppedDidCommit) {
  const auto sql = begun();
  const std::unique_ptr<MYSQL_STMT, decltype(&mysql_stmt_close)> commit(
      mysql_stmt_init(sql->handle()), mysql_stmt_close);
  ASSERT_EQ(mysql_stmt_prepare(commit.get(), "COMMIT", 6), 0) << mysql_stmt_error(commit.get());
  std::string execution(1, '\x17');  // COM_STMT_EXECUTE
  for (int shift = 0; shift < 32; shift += 8) {
    execution += static_cast<char>(commit->stmt_id >> shift & 0xFF);
  }
  proxy_->drop_reply(execution);
  EXPECT_NE(mysql_stmt_execute(commit.get()), 0);
  EXPECT_EQ(proxy_->drops(), 1);
  EXPECT_EQ(rows(), "1");
}

TEST_F(MysqlFaultsTest, ConnectionsThatAreCutRollBackAndNewOnesWork) {
  const auto sql = begun();
  proxy_->cut();
  EXPECT_THROW(sql->execute("COMMIT"), std::runtime_error);
  const auto next = begun();
  next->execute("COMMIT");
  wait_for_other_transactions();
  EXPECT_EQ(rows(), "1");
}

}  // namespace
}  // namespace outbox::test
