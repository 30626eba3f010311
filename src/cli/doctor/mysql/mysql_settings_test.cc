#include "cli/doctor/mysql/mysql_settings.h"

#include <gtest/gtest.h>

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
  for (const Finding& finding : judge_settings(MysqlSettings(values))) {
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

}  // namespace
}  // namespace outbox::cli
