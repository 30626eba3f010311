#include "support/mysql.h"

#include <gtest/gtest.h>
#include <mysql.h>

#include <stdexcept>

#include "support/client_suite.h"

namespace outbox::test {
namespace {

struct OnMysql {
  using Client = Mysql;
  using Place = Database;
  static constexpr const char* kVariable = "OUTBOX_TEST_MYSQL";
  static constexpr const char* kNoRows = "SELECT 1 FROM DUAL WHERE false";
  static constexpr const char* kMissingTable = "42S02";
  static constexpr const char* kPlaces = "information_schema.schemata WHERE schema_name";
  static std::string url() { return mysql_url(); }
  static std::string url_in(const Database& database) { return database.url(); }
  static std::string elsewhere() { return "mysql://root@127.0.0.1:1/outbox"; }
  static std::string wait_for(const std::string& table) {
    return "SET lock_wait_timeout = 20; LOCK TABLES " + table + " WRITE; UNLOCK TABLES";
  }
  static bool is_broken(const Mysql& sql) { return mysql_ping(sql.handle()) != 0; }
};
INSTANTIATE_TYPED_TEST_SUITE_P(Mysql, ClientTest, OnMysql);
INSTANTIATE_TYPED_TEST_SUITE_P(Mysql, ClientFaultsTest, OnMysql);

using MysqlTest = ClientTest<OnMysql>;
using MysqlFaultsTest = ClientFaultsTest<OnMysql>;

TEST_F(MysqlTest, NulsErrorNumbersAndUrlsOfOthers) {
  Mysql sql;
  EXPECT_EQ(sql.value("SELECT 'a\\0b'"), std::string("a\0b", 3));
  EXPECT_NE(message_of(sql, "SELECT * FROM no_such_table").find("1146"), std::string::npos);
  EXPECT_THROW(Mysql("postgresql://root@127.0.0.1:1/outbox"), std::runtime_error);
}

TEST_F(MysqlTest, OfSeveralStatementsTheLastGivesTheRows) {
  Mysql sql;
  EXPECT_EQ(sql.value("SELECT 1; SET @a = 2; SELECT @a"), "2");
  EXPECT_TRUE(sql.query("SELECT 1; SET @a = 3").empty());
  EXPECT_EQ(sql.value("SELECT @a"), "3");
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

}  // namespace
}  // namespace outbox::test
