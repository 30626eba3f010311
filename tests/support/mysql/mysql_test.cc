#include "support/mysql.h"

#include <gtest/gtest.h>

#include <stdexcept>

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

}  // namespace
}  // namespace outbox::test
