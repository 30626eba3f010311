// PostgreSQL's client behind the proxy: what a lost message does to a COMMIT.
#include <gtest/gtest.h>
#include <libpq-fe.h>

#include <stdexcept>

#include "support/postgres.h"
#include "support/tcp_proxy.h"

namespace outbox::test {
namespace {

class PostgresFaultsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    OUTBOX_NEEDS_POSTGRES();
    schema_ = std::make_unique<Schema>();
    direct_ = std::make_unique<Sql>();
    proxy_ = std::make_unique<TcpProxy>("127.0.0.1", port_of(postgres_url()));
    table_ = schema_->name() + ".t";
    direct_->execute("CREATE TABLE " + table_ + "(i int)");
  }

  // Through the proxy, with a row that is not committed yet.
  std::unique_ptr<Sql> begun() {
    auto sql = std::make_unique<Sql>(with_port(postgres_url(), proxy_->port()));
    sql->execute("BEGIN");
    sql->execute("INSERT INTO " + table_ + " VALUES (1)");
    return sql;
  }

  std::string rows() { return direct_->value("SELECT count(*) FROM " + table_); }

  std::unique_ptr<Schema> schema_;
  std::unique_ptr<Sql> direct_;
  std::unique_ptr<TcpProxy> proxy_;
  std::string table_;
};

TEST_F(PostgresFaultsTest, ACommitWhoseReplyIsDroppedDidCommit) {
  const auto sql = begun();
  proxy_->drop_reply("COMMIT");
  EXPECT_THROW(sql->execute("COMMIT"), std::runtime_error);
  EXPECT_EQ(PQstatus(sql->handle()), CONNECTION_BAD);
  EXPECT_EQ(proxy_->drops(), 1);
  EXPECT_EQ(rows(), "1");
}

TEST_F(PostgresFaultsTest, ACommitWhoseRequestIsDroppedDidNot) {
  const auto sql = begun();
  proxy_->drop_request("COMMIT");
  EXPECT_THROW(sql->execute("COMMIT"), std::runtime_error);
  EXPECT_EQ(PQstatus(sql->handle()), CONNECTION_BAD);
  EXPECT_EQ(proxy_->drops(), 1);
  // Waits until the server has noticed, and would wait for ever if it had not.
  direct_->execute("SET lock_timeout = '20s'; LOCK TABLE " + table_);
  EXPECT_EQ(rows(), "0");
}

TEST_F(PostgresFaultsTest, APipelinedCommitWhoseReplyIsDroppedDidCommit) {
  const Sql sql(with_port(postgres_url(), proxy_->port()));
  PGconn* connection = sql.handle();
  proxy_->drop_reply("COMMIT", "COMMIT");
  ASSERT_EQ(PQenterPipelineMode(connection), 1);
  for (const std::string& statement :
       {std::string("BEGIN"), "INSERT INTO " + table_ + " VALUES (1)", std::string("COMMIT")}) {
    ASSERT_EQ(
        PQsendQueryParams(connection, statement.c_str(), 0, nullptr, nullptr, nullptr, nullptr, 0),
        1);
  }
  ASSERT_EQ(PQpipelineSync(connection), 1);
  ExecStatusType status = PGRES_COMMAND_OK;
  while (status == PGRES_COMMAND_OK) {
    PGresult* result = PQgetResult(connection);
    if (result == nullptr) continue;
    status = PQresultStatus(result);
    PQclear(result);
  }
  EXPECT_EQ(status, PGRES_FATAL_ERROR);
  EXPECT_EQ(PQstatus(connection), CONNECTION_BAD);
  EXPECT_EQ(proxy_->drops(), 1);
  EXPECT_EQ(rows(), "1");
}

TEST_F(PostgresFaultsTest, ConnectionsThatAreCutRollBackAndNewOnesWork) {
  const auto sql = begun();
  proxy_->cut();
  EXPECT_THROW(sql->execute("COMMIT"), std::runtime_error);
  const auto next = begun();
  next->execute("COMMIT");
  EXPECT_EQ(rows(), "1");
}

}  // namespace
}  // namespace outbox::test
