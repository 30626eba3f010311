#include "support/postgres.h"

#include <gtest/gtest.h>
#include <libpq-fe.h>

#include <stdexcept>

#include "support/tcp_proxy.h"

namespace outbox::test {
namespace {

class PostgresTest : public ::testing::Test {
 protected:
  void SetUp() override { OUTBOX_NEEDS_POSTGRES(); }

  static std::string message_of(Sql& sql, const std::string& statement) {
    try {
      sql.execute(statement);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "no error";
  }
};

TEST_F(PostgresTest, QueriesGiveTextAndNulls) {
  Sql sql;
  EXPECT_EQ(sql.query("SELECT 1, NULL, '' UNION ALL SELECT 2, 'x', NULL ORDER BY 1"),
            (std::vector<Row>{{"1", std::nullopt, ""}, {"2", "x", std::nullopt}}));
  EXPECT_TRUE(sql.query("SELECT 1 WHERE false").empty());
  EXPECT_EQ(sql.value("SELECT 'a' || 'b'"), "ab");
  EXPECT_THROW(sql.value("SELECT 1 WHERE false"), std::runtime_error);
  EXPECT_THROW(sql.value("SELECT 1, 2"), std::runtime_error);
  EXPECT_THROW(sql.value("SELECT NULL"), std::runtime_error);
}

TEST_F(PostgresTest, ErrorsCarryTheServersMessageAndItsState) {
  Sql sql;
  const std::string message = message_of(sql, "SELECT * FROM no_such_table");
  EXPECT_NE(message.find("42P01"), std::string::npos) << message;
  EXPECT_NE(message.find("relation \"no_such_table\" does not exist"), std::string::npos)
      << message;
  EXPECT_EQ(sql.value("SELECT 1"), "1") << "usable afterwards";
}

TEST_F(PostgresTest, AServerThatIsNotThereIsAnError) {
  EXPECT_THROW(Sql("postgresql://postgres@127.0.0.1:1/outbox"), std::runtime_error);
}

TEST_F(PostgresTest, ASchemaIsFreshAndGoesWithAllThatIsInIt) {
  Sql sql;
  const auto exists = [&](const std::string& name) {
    return sql.value("SELECT count(*) FROM pg_namespace WHERE nspname = '" + name + "'") == "1";
  };
  std::string first;
  {
    const Schema one;
    const Schema two;
    EXPECT_NE(one.name(), two.name());
    first = one.name();
    EXPECT_TRUE(exists(first));
    EXPECT_TRUE(exists(two.name()));
    sql.execute("CREATE TABLE " + first + ".t(i int); INSERT INTO " + first + ".t VALUES (1)");
    EXPECT_EQ(sql.value("SELECT i FROM " + first + ".t"), "1");
  }
  EXPECT_FALSE(exists(first));
}

TEST_F(PostgresTest, TheServerIsDurableAndItsZoneIsNotUtc) {
  Sql sql;
  EXPECT_EQ(sql.value("SHOW fsync"), "on");
  EXPECT_EQ(sql.value("SHOW synchronous_commit"), "on");
  EXPECT_EQ(sql.value("SHOW full_page_writes"), "on");
  EXPECT_NE(sql.value("SELECT extract(timezone FROM now())"), "0");
}

TEST_F(PostgresTest, PgBouncerPoolsTransactionsOfTheSameServer) {
  OUTBOX_NEEDS_PGBOUNCER();
  const Schema schema;
  Sql direct;
  Sql pooled(pgbouncer_url());
  pooled.execute("CREATE TABLE " + schema.name() + ".t(i int)");
  EXPECT_EQ(direct.value("SELECT count(*) FROM " + schema.name() + ".t"), "0");

  std::string console = pgbouncer_url();
  console.replace(console.rfind("/outbox"), std::string::npos, "/pgbouncer");
  std::string mode;
  for (const Row& row : Sql(console).query("SHOW CONFIG")) {
    if (row[0] == "pool_mode") mode = row[1].value_or("");
  }
  EXPECT_EQ(mode, "transaction");
}

TEST_F(PostgresTest, EveryRoleMayComeThroughPgBouncer) {
  OUTBOX_NEEDS_PGBOUNCER();
  const Schema schema;
  Sql direct;
  const std::string& role = schema.name();
  direct.execute("CREATE ROLE " + role + " LOGIN");
  std::string url = pgbouncer_url();
  url.replace(url.find("postgres@"), std::string("postgres").size(), role);
  EXPECT_EQ(Sql(url).value("SELECT current_user"), role);
  direct.execute("DROP ROLE " + role);
}

// Behind the proxy: what a lost message does to a COMMIT.
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
