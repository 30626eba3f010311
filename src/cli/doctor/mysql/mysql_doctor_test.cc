#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <thread>

#include "cli/doctor/mysql/mysql_settings.h"
#include "outbox/mysql.h"
#include "support/mysql.h"

namespace outbox::cli {
namespace {

using Verdict = Finding::Verdict;
using Values = std::map<std::string, std::string>;

// MySQL's own defaults, with one or the other changed.
Finding judged(const std::string& check, const Values& changed) {
  Values values{
      {"version", "9.1.0"},
      {"read_only", "OFF"},
      {"super_read_only", "OFF"},
      {"innodb_read_only", "OFF"},
      {"transaction_read_only", "OFF"},
      {"log_bin", "ON"},
      {"binlog_format", "ROW"},
      {"innodb_flush_log_at_trx_commit", "1"},
      {"sync_binlog", "1"},
      {"max_allowed_packet", "67108864"},
      {"autocommit", "ON"},
      {"transaction_isolation", "REPEATABLE-READ"},
      {"wait_timeout", "28800"},
      {"auto_increment_increment", "1"},
      {"innodb_autoinc_lock_mode", "2"},
  };
  for (const auto& [name, value] : changed) values[name] = value;
  const MysqlSettings settings(values);
  for (const Finding& finding : examine(settings_checks(settings))) {
    if (finding.check == check) return finding;
  }
  ADD_FAILURE() << "no finding about " << check;
  return {};
}

void expect(Verdict verdict, const std::string& check, const Values& changed,
            const std::string& words) {
  const Finding finding = judged(check, changed);
  EXPECT_EQ(finding.verdict, verdict) << finding.says;
  EXPECT_NE(finding.says.find(words), std::string::npos) << finding.says;
  EXPECT_EQ(finding.advice.empty(), verdict == Verdict::ok) << finding.advice;
}

TEST(MysqlSettings, TheDefaultsAreInOrder) {
  for (const char* check : {"primary", "binlog", "durability", "packet", "defaults", "order"}) {
    expect(Verdict::ok, check, {}, "");
  }
}

TEST(MysqlSettings, AServerThatTakesNoWritesIsNamedWithTheSetting) {
  for (const char* name : {"read_only", "super_read_only", "innodb_read_only",
                           "transaction_read_only", "tx_read_only", "tidb_super_read_only"}) {
    expect(Verdict::failure, "primary", {{name, "ON"}}, name);
  }
  expect(Verdict::failure, "primary", {{"read_only", "NO_LOCK"}}, "NO_LOCK");
}

TEST(MysqlSettings, ALogOfStatementsIsRefused) {
  expect(Verdict::failure, "binlog", {{"binlog_format", "STATEMENT"}}, "STATEMENT");
  expect(Verdict::ok, "binlog", {{"binlog_format", "MIXED"}}, "");
  expect(Verdict::ok, "binlog", {{"binlog_format", "STATEMENT"}, {"log_bin", "OFF"}}, "none");
}

TEST(MysqlSettings, CommitsThatACrashCanLoseAreWarnedOf) {
  expect(Verdict::warning, "durability", {{"innodb_flush_log_at_trx_commit", "2"}}, "is 2");
  expect(Verdict::warning, "durability", {{"sync_binlog", "0"}}, "sync_binlog is 0");
  expect(Verdict::warning, "durability",
         {{"innodb_flush_log_at_trx_commit", "0"}, {"log_bin", "OFF"}}, "is 0");
  expect(Verdict::ok, "durability", {{"innodb_flush_log_at_trx_commit", "3"}}, "");
  expect(Verdict::warning, "durability", {{"sync_binlog", "3"}}, "sync_binlog is 3");
}

TEST(MysqlSettings, ThatCommitsAreSeenEarlyIsSaid) {
  expect(Verdict::ok, "durability", {{"sync_binlog", "0"}, {"log_bin", "OFF"}}, "log_bin is OFF");
  expect(Verdict::ok, "durability", {{"version", "8.0.11-TiDB-v8.5.0"}, {"log_bin", "OFF"}}, "");
}

TEST(MysqlSettings, APacketMustHoldTheLargestEvents) {
  expect(Verdict::warning, "packet", {{"max_allowed_packet", "1048576"}}, "1,048,576 bytes");
  expect(Verdict::ok, "packet", {{"max_allowed_packet", "16777216"}}, "16,777,216 bytes");
}

TEST(MysqlSettings, DefaultsOfSessionsThatGetInTheWayAreWarnedOf) {
  expect(Verdict::warning, "defaults", {{"autocommit", "OFF"}}, "autocommit is off");
  expect(Verdict::warning, "defaults", {{"transaction_isolation", "SERIALIZABLE"}}, "SERIALIZABLE");
  expect(Verdict::warning, "defaults", {{"wait_timeout", "10"}}, "10 s");
  // MariaDB's name for it.
  expect(Verdict::warning, "defaults",
         {{"transaction_isolation", ""}, {"tx_isolation", "SERIALIZABLE"}}, "SERIALIZABLE");
}

TEST(MysqlSettings, OrderIsPromisedWhereOneServerGivesOutTheNumbers) {
  expect(Verdict::warning, "order", {{"version", "8.0.11-TiDB-v7.5.0"}}, "TiDB");
  expect(Verdict::warning, "order", {{"wsrep_on", "ON"}}, "Galera");
  expect(Verdict::warning, "order", {{"group_replication_single_primary_mode", "OFF"}},
         "primaries");
  expect(Verdict::warning, "order", {{"auto_increment_increment", "2"}}, "is 2");
  expect(Verdict::warning, "order", {{"innodb_autoinc_lock_mode", "0"}}, "order is kept");
  expect(Verdict::ok, "order", {{"innodb_autoinc_lock_mode", "1"}}, "one by one");
}

const std::string kTable = "outbox_event";

std::vector<Finding> examine_mysql(const std::string& url, const std::string& table,
                                   const MysqlLimits& limits = {}) {
  return examine(make_mysql_backend(url, table, limits)->checks({}));
}

class MysqlDoctorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    OUTBOX_NEEDS_MYSQL();
    database_.emplace();
    sql_.emplace(database_->url());
    mysql::migrate(database_->url());
  }

  Finding find(const std::string& check, const MysqlLimits& limits = {}) const {
    return find_in(examine_mysql(database_->url(), kTable, limits), check);
  }

  static Finding find_in(const std::vector<Finding>& findings, const std::string& check) {
    for (const Finding& finding : findings) {
      if (finding.check == check) return finding;
    }
    ADD_FAILURE() << "no finding about " << check;
    return {};
  }

  std::optional<test::Database> database_;
  std::optional<test::Mysql> sql_;
};

// A user of its own, without any privilege.
class User {
 public:
  explicit User(const test::Database& database) : name_(database.name()), url_(database.url()) {
    sql_.execute("CREATE USER " + name_);
  }
  ~User() { sql_.execute("DROP USER " + name_); }
  User(const User&) = delete;
  User& operator=(const User&) = delete;

  void grant(const std::string& privileges, const std::string& on) {
    sql_.execute("GRANT " + privileges + " ON " + on + " TO " + name_);
  }
  std::string url() const { return "mysql://" + name_ + url_.substr(url_.find('@')); }

 private:
  const std::string name_;
  const std::string url_;
  test::Mysql sql_;
};

bool begins_with(const std::string& text, const std::string& part) { return text.find(part) == 0; }

TEST_F(MysqlDoctorTest, FindsNothingWrongWithAFreshTable) {
  for (const Finding& finding : examine_mysql(database_->url(), kTable)) {
    EXPECT_NE(finding.verdict, Verdict::failure) << finding.check << ": " << finding.says;
  }
  EXPECT_EQ(find("tables").verdict, Verdict::ok);
  EXPECT_EQ(find("indexes").verdict, Verdict::ok);
  EXPECT_EQ(find("privileges").says, "the user may write, deliver, replay and purge");
}

TEST_F(MysqlDoctorTest, TellsWhatTheUserMayDo) {
  User user(*database_);
  const std::string table = database_->name() + "." + kTable;
  const auto privileges = [&] { return find_in(examine_mysql(user.url(), kTable), "privileges"); };
  user.grant("SELECT (version)", table + "_migration");
  user.grant("DELETE", table);
  EXPECT_EQ(privileges().verdict, Verdict::failure);
  EXPECT_TRUE(begins_with(privileges().says, "the user may do nothing")) << privileges().says;

  // Column by column, as docs/databases.md has it.
  user.grant("SELECT", table + "_migration");
  user.grant(
      "INSERT (event_id, event_type, aggregate_type, aggregate_id, tenant_id, content_type, "
      "headers, payload, payload_bytes, created_at, available_at, hold, locked_by, locked_at)",
      table);
  EXPECT_EQ(privileges().verdict, Verdict::ok);
  EXPECT_TRUE(begins_with(privileges().says,
                          "the user may write; to deliver it lacks SELECT, UPDATE on outbox_event; "
                          "SELECT, INSERT, UPDATE, DELETE on outbox_event_instance; "))
      << privileges().says;
  user.grant(
      "SELECT, UPDATE (status, hold, attempts, crashes, available_at, done_at, locked_by, "
      "locked_at, last_error, progress)",
      table);
  user.grant("INSERT", table + "_archive");
  user.grant("SELECT", table + "_instance");
  user.grant("SELECT", table + "_shard");
  EXPECT_EQ(privileges().says,
            "the user may write, replay and purge; to deliver it lacks INSERT, UPDATE, DELETE on "
            "outbox_event_instance; UPDATE on outbox_event_shard; SELECT, UPDATE on "
            "outbox_event_flush");
  const auto findings = examine_mysql(user.url(), kTable);
  EXPECT_NE(find_in(findings, "snapshots").says.find("lacks PROCESS"), std::string::npos);
}

TEST_F(MysqlDoctorTest, DoesNotTakeHiddenIndexesForMissingOnes) {
  User user(*database_);
  user.grant("INSERT (event_id)", database_->name() + "." + kTable);
  EXPECT_EQ(find_in(examine_mysql(user.url(), kTable), "indexes").verdict, Verdict::ok);
}

TEST_F(MysqlDoctorTest, FailsForTablesThatAreNotAsTheyWereMade) {
  sql_->execute("ALTER TABLE outbox_event_archive ENGINE = MyISAM");
  EXPECT_EQ(find("tables").says, "the engine of outbox_event_archive is MyISAM, not InnoDB");
  EXPECT_EQ(find("tables").verdict, Verdict::failure);
  sql_->execute("ALTER TABLE outbox_event_archive ENGINE = InnoDB");
  EXPECT_EQ(find("tables").verdict, Verdict::ok);

  sql_->execute(
      "ALTER TABLE outbox_event MODIFY event_id VARCHAR(36) CHARACTER SET utf8mb4 COLLATE "
      "utf8mb4_general_ci NOT NULL");
  EXPECT_EQ(find("tables").verdict, Verdict::failure);
  EXPECT_NE(find("tables").says.find("event_id has the collation utf8mb4_general_ci"),
            std::string::npos)
      << find("tables").says;
}

TEST_F(MysqlDoctorTest, FailsForIndexesThatAreMissing) {
  sql_->execute("ALTER TABLE outbox_event DROP INDEX by_hold, ADD INDEX by_hold (hold, seq)");
  const Finding finding = find("indexes");
  EXPECT_EQ(finding.verdict, Verdict::failure);
  EXPECT_NE(finding.says.find("by_hold (shard,hold,seq)"), std::string::npos) << finding.says;
}

TEST_F(MysqlDoctorTest, WarnsWhenConnectionsAreShort) {
  EXPECT_EQ(find("sessions", {.free_connections = 0}).verdict, Verdict::ok);
  EXPECT_EQ(find("sessions", {.free_connections = 100'000}).verdict, Verdict::warning);
  User user(*database_);
  user.grant("SELECT", database_->name() + ".*");
  sql_->execute("ALTER USER " + database_->name() + " WITH MAX_USER_CONNECTIONS 5");
  const Finding finding = find_in(examine_mysql(user.url(), kTable), "sessions");
  EXPECT_EQ(finding.verdict, Verdict::warning) << finding.says;
  EXPECT_EQ(finding.says, "4 of 5 connections are free");
}

TEST_F(MysqlDoctorTest, WarnsOfOldTransactions) {
  sql_->execute("BEGIN; SELECT count(*) FROM outbox_event");
  EXPECT_EQ(find("snapshots", {.old_transaction = std::chrono::hours{24}}).verdict, Verdict::ok);
  // The server shows an old list to those who ask more often than every 100 ms, and the
  // other tests ask, too.
  Finding finding;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{20};
  while (finding.verdict != Verdict::warning && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds{150});
    finding = find("snapshots", {.old_transaction = std::chrono::seconds{0}});
  }
  EXPECT_EQ(finding.verdict, Verdict::warning);
  EXPECT_NE(finding.says.find("has had a transaction open for"), std::string::npos) << finding.says;
}

TEST_F(MysqlDoctorTest, WarnsWhenThePurgeIsBehind) {
  EXPECT_EQ(find("undo log").verdict, Verdict::ok) << find("undo log").says;
  EXPECT_EQ(find("undo log", {.old_versions = -1}).verdict, Verdict::warning);
}

TEST_F(MysqlDoctorTest, SaysWhyItCannotEvenBegin) {
  const auto findings = examine_mysql("mysql://nobody:hunter2@127.0.0.1:1/shop", kTable);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].verdict, Verdict::failure);
  EXPECT_EQ(findings[0].says.find("hunter2"), std::string::npos) << findings[0].says;
}

}  // namespace
}  // namespace outbox::cli
