#include "support/postgres.h"

#include <gtest/gtest.h>
#include <libpq-fe.h>

#include <stdexcept>

#include "support/client_suite.h"

namespace outbox::test {
namespace {

struct OnPostgres {
  using Client = Sql;
  using Place = Schema;
  static constexpr const char* kVariable = "OUTBOX_TEST_POSTGRES";
  static constexpr const char* kNoRows = "SELECT 1 WHERE false";
  static constexpr const char* kMissingTable = "42P01";
  static constexpr const char* kPlaces = "pg_namespace WHERE nspname";
  static std::string url() { return postgres_url(); }
  static std::string url_in(const Schema&) { return postgres_url(); }
  static std::string elsewhere() { return "postgresql://postgres@127.0.0.1:1/outbox"; }
  static std::string wait_for(const std::string& table) {
    return "SET lock_timeout = '20s'; LOCK TABLE " + table;
  }
  static bool is_broken(const Sql& sql) { return PQstatus(sql.handle()) == CONNECTION_BAD; }
};
INSTANTIATE_TYPED_TEST_SUITE_P(Postgres, ClientTest, OnPostgres);
INSTANTIATE_TYPED_TEST_SUITE_P(Postgres, ClientFaultsTest, OnPostgres);

using PostgresTest = ClientTest<OnPostgres>;
using PostgresFaultsTest = ClientFaultsTest<OnPostgres>;

TEST_F(PostgresTest, ErrorsSayWhatIsMissing) {
  Sql sql;
  EXPECT_NE(message_of(sql, "SELECT * FROM no_such_table")
                .find("relation \"no_such_table\" does not exist"),
            std::string::npos);
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

}  // namespace
}  // namespace outbox::test
