// The client of MariaDB and MySQL behind the proxy: what a lost message does to a COMMIT.
#include <gtest/gtest.h>
#include <mysql.h>

#include <stdexcept>

#include "support/mysql.h"
#include "support/tcp_proxy.h"

namespace outbox::test {
namespace {

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
