#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <thread>

#include "cli/doctor/backend.h"
#include "outbox/postgres.h"
#include "support/postgres.h"

namespace outbox::cli {
namespace {

using Verdict = Finding::Verdict;

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

  static Finding find_in(const std::vector<Finding>& findings, const std::string& check) {
    for (const Finding& finding : findings) {
      if (finding.check == check) return finding;
    }
    ADD_FAILURE() << "no finding about " << check;
    return {};
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

}  // namespace
}  // namespace outbox::cli
