#include "support/postgres.h"

#include <gtest/gtest.h>

#include <stdexcept>

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

}  // namespace
}  // namespace outbox::test
