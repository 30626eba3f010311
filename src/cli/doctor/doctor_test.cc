#include "cli/doctor/doctor.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <stdexcept>
#include <thread>

#include "cli/doctor/backend.h"
#include "cli/errors.h"

#ifdef OUTBOX_WITH_POSTGRES
#include "outbox/postgres.h"
#include "support/postgres.h"
#endif
#ifdef OUTBOX_WITH_MYSQL
#include "cli/doctor/mysql/mysql_backend.h"
#include "outbox/mysql.h"
#include "support/mysql.h"
#endif

namespace outbox::cli {
namespace {

using Verdict = Finding::Verdict;

std::string place_of(const char* url) { return find_backend(url, "t")->description(); }

std::string refusal(const char* url) {
  try {
    find_backend(url, "outbox_event");
  } catch (const std::exception& error) {
    EXPECT_EQ(exit_code_of(error), kConfiguration) << error.what();
    return error.what();
  }
  ADD_FAILURE() << url << " was accepted";
  return {};
}

TEST(FindBackend, TakesAPathOrAUrlForSqlite) {
  EXPECT_EQ(place_of("sqlite:shop.db"), "SQLite database shop.db, table t");
  EXPECT_EQ(place_of("SQLite:///var/shop.db"), "SQLite database /var/shop.db, table t");
  EXPECT_EQ(place_of("shop.db"), "SQLite database shop.db, table t");
  EXPECT_EQ(place_of("/var/a:b"), "SQLite database /var/a:b, table t");
  EXPECT_EQ(place_of("./a:b"), "SQLite database ./a:b, table t");
  EXPECT_EQ(place_of("c:db"), "SQLite database c:db, table t");
  EXPECT_EQ(place_of("file:shop.db?vfs=unix"), "SQLite database file:shop.db?vfs=unix, table t");
}

TEST(FindBackend, RefusesOthersWithoutShowingTheirPasswords) {
  for (const char* url : {"oracle://hunter2", "nosuch:hunter2", "http://u:hunter2@h"}) {
    const std::string message = refusal(url);
    EXPECT_NE(message.find("no store is known for"), std::string::npos) << message;
    EXPECT_NE(message.find("sqlite:PATH"), std::string::npos) << message;
    EXPECT_EQ(message.find("hunter2"), std::string::npos) << message;
  }
  EXPECT_NE(refusal("").find("names no file"), std::string::npos);
  EXPECT_NE(refusal("sqlite:").find("names no file"), std::string::npos);
  EXPECT_NE(refusal("sqlite://host/x").find("not name a host"), std::string::npos);
}

// Without a scheme it would be the name of a file, and be shown.
TEST(FindBackend, RefusesTheSettingsOfAServerInPlaceOfAFile) {
  for (const char* text : {"host=h password=hunter2 dbname=d", "sqlite:host=h password=hunter2",
                           "file://u:hunter2@h/d", "sqlite:postgresql://u:hunter2@h/d"}) {
    const std::string message = refusal(text);
    EXPECT_NE(message, "") << text;
    EXPECT_EQ(message.find("hunter2"), std::string::npos) << message;
  }
  const auto encrypted = find_backend("file:shop.db?key=hunter2", "t");
  EXPECT_EQ(encrypted->description().find("hunter2"), std::string::npos);
  EXPECT_EQ(encrypted->arguments().find("hunter2"), std::string::npos);
  const std::string missing = encrypted->missing_file();
  EXPECT_NE(missing.find("shop.db"), std::string::npos) << "there should be none here";
  EXPECT_EQ(missing.find("hunter2"), std::string::npos) << missing;
}

#ifdef OUTBOX_WITH_POSTGRES

TEST(FindBackend, NamesAPostgresServerWithoutItsPassword) {
  const auto backend = find_backend(
      "Postgres://shop:hunter2@db.example:5433/orders?sslmode=require&password=hunter2", "x.t");
  EXPECT_EQ(backend->description(), "PostgreSQL database db.example:5433/orders, table x.t");
  EXPECT_EQ(backend->arguments(),
            "--db 'postgresql://shop@db.example:5433/orders?sslmode=require' --table x.t");
  for (const char* url : {"postgresql:hunter2", "postgres://u:hunter2@h/db?bogus=1",
                          "postgresql://u:hunter2@[h/db"}) {
    const std::string message = refusal(url);
    EXPECT_NE(message.find("the PostgreSQL URL cannot be understood"), std::string::npos);
    EXPECT_EQ(message.find("hunter2"), std::string::npos) << message;
  }
}

#else

TEST(FindBackend, SaysThatItWasBuiltWithoutPostgres) {
  for (const char* url : {"postgres://u:hunter2@h/db", "postgresql:hunter2"}) {
    const std::string message = refusal(url);
    EXPECT_NE(message.find("built without PostgreSQL"), std::string::npos) << message;
    EXPECT_EQ(message.find("hunter2"), std::string::npos) << message;
  }
}

#endif

#ifdef OUTBOX_WITH_MYSQL

TEST(FindBackend, NamesAMysqlServerWithoutItsPassword) {
  for (const char* scheme : {"mysql", "MariaDB"}) {
    const auto backend = find_backend(
        std::string(scheme) + "://shop:hunter2@db.example:3307/orders?ssl_mode=required", "x.t");
    EXPECT_EQ(backend->description(), "MySQL database db.example:3307/orders, table x.t");
  }
  EXPECT_EQ(
      find_backend("mysql://shop:hunter2@db.example/orders?ssl_mode=required", "x.t")->arguments(),
      "--db 'mysql://shop@db.example/orders?ssl_mode=required' --table x.t");
  for (const char* url :
       {"mysql:hunter2", "mariadb://u:hunter2@h/db?bogus=1", "mysql://u:hunter2@[h/db"}) {
    const std::string message = refusal(url);
    EXPECT_NE(message.find("the MySQL URL"), std::string::npos) << message;
    EXPECT_EQ(message.find("hunter2"), std::string::npos) << message;
  }
}

TEST(FindBackend, TheSchemeSaysWhoseDialectIsPrinted) {
  EXPECT_NE(find_backend("mysql://", "t")->schema_sql({}).find("utf8mb4_0900_bin"),
            std::string::npos);
  EXPECT_NE(find_backend("mariadb://", "t")->schema_sql({}).find("utf8mb4_nopad_bin"),
            std::string::npos);
}

#else

TEST(FindBackend, SaysThatItWasBuiltWithoutMysql) {
  for (const char* url : {"mysql://u:hunter2@h/db", "mariadb:hunter2"}) {
    const std::string message = refusal(url);
    EXPECT_NE(message.find("built without MariaDB and MySQL"), std::string::npos) << message;
    EXPECT_EQ(message.find("hunter2"), std::string::npos) << message;
  }
}

#endif

TEST(ShellWord, CanBePasted) {
  EXPECT_EQ(shell_word("sqlite:/a/b-c_1.db"), "sqlite:/a/b-c_1.db");
  EXPECT_EQ(shell_word("a b"), "'a b'");
  EXPECT_EQ(shell_word("it's;"), "'it'\\''s;'");
  EXPECT_EQ(shell_word(""), "''");
}

// --- The list of checks ---

Check finds(const char* name, std::vector<Finding> findings) {
  return {.name = name, .find = [findings] { return findings; }};
}

Check throws(const char* name, bool required) {
  return {.name = name,
          .find = []() -> std::vector<Finding> { throw std::runtime_error("no answer"); },
          .required = required,
          .advice = "ask again"};
}

std::string names(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) text += finding.check + " ";
  return text;
}

TEST(Examine, GoesOnAfterAFailureThatSaysNothingOfTheRest) {
  const auto findings = examine({finds("a", {fine("good")}), finds("b", {failure("bad", "fix it")}),
                                 finds("c", {}), finds("d", {fine("x"), warning("y")})});
  EXPECT_EQ(names(findings), "a b d d ");
  EXPECT_EQ(findings[1].verdict, Verdict::failure);
  EXPECT_EQ(findings[1].advice, "fix it");
}

TEST(Examine, StopsWhereTheRestWouldOnlyFindTheSame) {
  EXPECT_EQ(names(examine({finds("a", {fatal("bad")}), finds("b", {fine("good")})})), "a ");
  const auto findings = examine({throws("a", true), finds("b", {fine("good")})});
  ASSERT_EQ(names(findings), "a ");
  EXPECT_EQ(findings[0].verdict, Verdict::failure);
  EXPECT_EQ(findings[0].says, "no answer");
  EXPECT_EQ(findings[0].advice, "ask again");
}

TEST(Examine, WarnsOfWhatCannotBeCheckedAndGoesOn) {
  const auto findings = examine({throws("a", false), finds("b", {fine("good")})});
  ASSERT_EQ(names(findings), "a b ");
  EXPECT_EQ(findings[0].verdict, Verdict::warning);
  EXPECT_NE(findings[0].says.find("no answer"), std::string::npos);
}

// --- What it finds on servers ---

[[maybe_unused]] Finding find_in(const std::vector<Finding>& findings, const std::string& check) {
  for (const Finding& finding : findings) {
    if (finding.check == check) return finding;
  }
  ADD_FAILURE() << "no finding about " << check;
  return {};
}

#ifdef OUTBOX_WITH_POSTGRES

std::vector<Finding> examine_postgres(const std::string& url, const std::string& table,
                                      const PostgresLimits& limits = {}) {
  return examine(make_postgres_backend(url, table, limits)->checks({}));
}

class PostgresDoctorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    OUTBOX_NEEDS_POSTGRES();
    schema_.emplace();
    table_ = schema_->name() + ".outbox_event";
    postgres::migrate(test::postgres_url(), table_);
  }

  Finding find(const std::string& check, const PostgresLimits& limits = {}) const {
    return find_in(examine_postgres(test::postgres_url(), table_, limits), check);
  }

  std::optional<test::Schema> schema_;
  std::string table_;
};

// A role of its own, without any privilege.
class Role {
 public:
  explicit Role(std::string name) : name_(std::move(name)) {
    sql_.execute("CREATE ROLE " + name_ + " LOGIN");
  }
  ~Role() { sql_.execute("DROP OWNED BY " + name_ + "; DROP ROLE " + name_); }
  Role(const Role&) = delete;
  Role& operator=(const Role&) = delete;

  std::string url() const {
    const std::string url = test::postgres_url();
    return "postgresql://" + name_ + url.substr(url.find('@'));
  }

 private:
  const std::string name_;
  test::Sql sql_;
};

TEST_F(PostgresDoctorTest, TellsWhatTheRoleMayDo) {
  const Role role(schema_->name() + "_role");
  const std::string grantee = " TO " + schema_->name() + "_role";
  test::Sql sql;
  sql.execute("GRANT USAGE ON SCHEMA " + schema_->name() + grantee);
  Finding finding = find_in(examine_postgres(role.url(), table_), "privileges");
  EXPECT_EQ(finding.verdict, Verdict::failure);
  EXPECT_NE(finding.says.find("may do nothing"), std::string::npos) << finding.says;

  // Column by column, as docs/databases.md has it.
  sql.execute("GRANT SELECT ON " + table_ + "_migration" + grantee +
              "; GRANT INSERT (event_id, event_type, aggregate_type, aggregate_id, tenant_id, "
              "content_type, headers, payload, payload_bytes, created_at, available_at, hold, "
              "locked_by, locked_at), SELECT (event_id, seq, shard) ON " +
              table_ + grantee);
  finding = find_in(examine_postgres(role.url(), table_), "privileges");
  EXPECT_EQ(finding.verdict, Verdict::ok);
  EXPECT_EQ(finding.says.find("the role may write; to deliver it lacks SELECT, UPDATE on " +
                              table_ + "; SELECT on " + table_ + "_sequence; "),
            0u)
      << finding.says;
  sql.execute(
      "GRANT SELECT, DELETE, UPDATE (status, hold, attempts, crashes, available_at, "
      "done_at, locked_by, locked_at, last_error, progress) ON " +
      table_ + grantee + "; GRANT INSERT ON " + table_ + "_archive" + grantee +
      "; GRANT SELECT ON " + table_ + "_instance, " + table_ + "_shard" + grantee);
  finding = find_in(examine_postgres(role.url(), table_), "privileges");
  EXPECT_EQ(
      finding.says.find("the role may write, replay and purge; to deliver it lacks SELECT on " +
                        table_ + "_sequence; INSERT, UPDATE, DELETE on "),
      0u)
      << finding.says;
  EXPECT_NE(find_in(examine_postgres(role.url(), table_), "snapshots").says.find("pg_read_all"),
            std::string::npos);
}

TEST_F(PostgresDoctorTest, WarnsOfNumbersThatDoNotKeepTheOrder) {
  EXPECT_EQ(find("order").verdict, Verdict::ok);
  test::Sql().execute("ALTER SEQUENCE " + table_ + "_sequence CACHE 50");
  EXPECT_EQ(find("order").verdict, Verdict::warning);
}

TEST_F(PostgresDoctorTest, WarnsWhenConnectionsAreShort) {
  EXPECT_EQ(find("sessions", {.free_connections = 0}).verdict, Verdict::ok);
  EXPECT_EQ(find("sessions", {.free_connections = 100'000}).verdict, Verdict::warning);
  const Role role(schema_->name() + "_role");
  test::Sql sql;
  sql.execute("ALTER ROLE " + schema_->name() + "_role CONNECTION LIMIT 5");
  const Finding finding = find_in(examine_postgres(role.url(), table_), "sessions");
  EXPECT_EQ(finding.verdict, Verdict::warning) << finding.says;
}

TEST_F(PostgresDoctorTest, WarnsWhenTheVacuumIsBehindOrOff) {
  EXPECT_EQ(find("vacuum").verdict, Verdict::ok);
  EXPECT_EQ(find("vacuum", {.dead_rows = -1}).verdict, Verdict::warning);
  test::Sql().execute("ALTER TABLE " + table_ + " SET (autovacuum_enabled = off)");
  const Finding finding = find("vacuum");
  EXPECT_EQ(finding.verdict, Verdict::warning);
  EXPECT_NE(finding.says.find("autovacuum is off"), std::string::npos) << finding.says;
}

TEST_F(PostgresDoctorTest, WarnsOfOldTransactions) {
  test::Sql sql;
  sql.execute("BEGIN; SELECT pg_current_xact_id()");
  EXPECT_EQ(find("snapshots", {.old_transaction = std::chrono::hours{24}}).verdict, Verdict::ok);
  // An older prepared transaction of another test would be named in its place.
  Finding finding = find("snapshots", {.old_transaction = std::chrono::seconds{0}});
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{60};
  while (finding.says.starts_with("prepared") && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds{50});
    finding = find("snapshots", {.old_transaction = std::chrono::seconds{0}});
  }
  EXPECT_EQ(finding.verdict, Verdict::warning);
  EXPECT_NE(finding.says.find("has had a transaction open for"), std::string::npos) << finding.says;
}

TEST_F(PostgresDoctorTest, WarnsOfPreparedTransactions) {
  const std::string gid = "'" + schema_->name() + "'";
  test::Sql sql;
  sql.execute("BEGIN; SELECT pg_current_xact_id(); PREPARE TRANSACTION " + gid);
  const Finding finding = find("snapshots", {.old_transaction = std::chrono::seconds{0}});
  sql.execute("ROLLBACK PREPARED " + gid);
  EXPECT_EQ(finding.verdict, Verdict::warning) << finding.says;
}

TEST_F(PostgresDoctorTest, FailsWhereNothingCanBeWritten) {
  const auto findings =
      examine_postgres(test::postgres_url() +
                           "?target_session_attrs=any&options=-cdefault_transaction_read_only%3Don",
                       table_);
  EXPECT_EQ(find_in(findings, "primary").verdict, Verdict::failure);
  EXPECT_EQ(findings.back().check, "primary") << "the rest would fail for the same reason";
}

TEST_F(PostgresDoctorTest, FailsForADatabaseThatIsNotUtf8) {
  const std::string name = schema_->name();
  test::Sql sql;
  sql.execute("CREATE DATABASE " + name +
              " ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0");
  const std::string url = test::postgres_url();
  const auto findings = examine_postgres(url.substr(0, url.rfind('/') + 1) + name, "outbox_event");
  sql.execute("DROP DATABASE " + name);
  EXPECT_EQ(find_in(findings, "encoding").verdict, Verdict::failure);
}

#endif

#ifdef OUTBOX_WITH_MYSQL

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
  return find_in(examine(settings_checks(settings)), check);
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

#endif

}  // namespace
}  // namespace outbox::cli
