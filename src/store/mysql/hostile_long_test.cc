// Servers whose settings change what statements mean, or stop them.
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>

#include "client/mysql/facts.h"
#include "store/mysql/test_support.h"
#include "support/own_server.h"

namespace outbox::mysql {
namespace {

class MysqlHostileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    OUTBOX_NEEDS_MYSQL();
    server_ = std::make_unique<test::OwnServer>("mariadb", "--in-memory");
  }
  void set_global(const std::vector<std::string>& settings) {
    test::Mysql sql(server_->url());
    for (const std::string& each : settings) sql.execute("SET GLOBAL " + each);
  }
  const std::string& url() const { return server_->url(); }

  testing::RecordingLog log_;

 private:
  std::unique_ptr<test::OwnServer> server_;
};

// What a program's own transactions can live with: the suite runs those too.
const std::vector<std::string>& unpleasant() {
  static const std::vector<std::string> settings{
      "sql_select_limit = 15",
      "sql_safe_updates = 1",
      "completion_type = 'CHAIN'",
      "sql_mode = 'ORACLE,ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES,HIGH_NOT_PRECEDENCE,"
      "NO_UNSIGNED_SUBTRACTION,ONLY_FULL_GROUP_BY,NO_ZERO_DATE,NO_ZERO_IN_DATE'",
      "autocommit = 0",
      "tx_isolation = 'SERIALIZABLE'",
      "time_zone = '-03:00'",
      "group_concat_max_len = 4",
      "sql_auto_is_null = 1",
      "div_precision_increment = 0",
      "max_sort_length = 64",
      "in_predicate_conversion_threshold = 2",
      "innodb_lock_wait_timeout = 50",
      "character_set_client = latin1",
      "character_set_results = latin1",
      "collation_connection = latin1_german1_ci",
      "auto_increment_increment = 3",
      "default_storage_engine = Aria",
      "optimizer_switch = 'index_condition_pushdown=off,derived_merge=off,mrr=on'",
  };
  return settings;
}

// And what they cannot.
const std::vector<std::string>& hostile() {
  static const std::vector<std::string> settings{
      "sql_select_limit = 0",
      "max_join_size = 1",
      "sql_big_selects = 0",
      "tx_read_only = 1",
      "max_statement_time = 1",
      "innodb_lock_wait_timeout = 1",
      "lock_wait_timeout = 1",
      "optimizer_max_sel_arg_weight = 1",
      "sql_mode = 'ORACLE,EMPTY_STRING_IS_NULL'",
  };
  return settings;
}

TEST_F(MysqlHostileTest, AnEngineDeliversWhateverTheServersSettingsAre) {
  set_global(unpleasant());
  set_global(hostile());
  const auto store = mysql::open(url(), {.log = log_.log()});
  const auto instance = store->join({});
  Lease lease = instance->renew();
  ASSERT_EQ(lease.shards.size(), 16U) << "a limit of 15 hides the last one";
  test::Mysql sql(url());
  sql.execute("SET SESSION TRANSACTION READ WRITE");
  for (int i = 0; i < 40; ++i) {
    sql.execute("INSERT INTO outbox_event (event_id, event_type, payload) VALUES ('" +
                std::to_string(i) + "', 'T', '{}')");
  }
  const std::vector<Row> rows = instance->ready(lease.shards, 0, 100).rows;
  ASSERT_EQ(rows.size(), 40U);
  std::vector<StatusUpdate> updates;
  for (const Row& row : rows) {
    updates.push_back({.row = row.ref, .event_id = row.event.id()});
    if (updates.size() > 20) updates.back().kind = StatusUpdate::Kind::dead;
    if (updates.size() > 30) {
      updates.back().kind = StatusUpdate::Kind::retry;
      updates.back().attempts = 1;
    }
  }
  EXPECT_TRUE(instance->apply(lease.epoch, updates).stale.empty());
  EXPECT_EQ(store->counts().dead, 10);
  EXPECT_EQ(store->counts().pending, 10);
  EXPECT_TRUE(eventually([&] { return instance->due(lease.shards, 100).rows.size() == 10; }));
  EXPECT_EQ(store->replay({}, 0, 100).rows, 10);
  EXPECT_EQ(store->purge(Purgeable::done, host_clock().now() + 1h, 0, 100, true).rows, 20);
  EXPECT_EQ(instance->renew().epoch, lease.epoch);
  instance->leave();

  Database own(config_at(url()));
  for (const SessionSetting& setting : kSessionSettings) {
    const Result value = own.session().run_text(
        "SHOW VARIABLES WHERE Variable_name = '" + std::string(setting.name) + "'", "look");
    if (value.rows() > 0) {
      EXPECT_EQ(value.text(0, 1), setting.value) << setting.name;
    }
  }
}

TEST_F(MysqlHostileTest, TheConformanceSuitePasses) {
  set_global(unpleasant());
  std::string program(PATH_MAX, '\0');
  program.resize(static_cast<std::size_t>(
      std::max<ssize_t>(0, readlink("/proc/self/exe", program.data(), program.size()))));
  program.replace(program.rfind('/') + 1, std::string::npos, "conformance_test");
  ASSERT_EQ(access(program.c_str(), X_OK), 0) << program << " is not built";
  // That some of its cases are skipped must not be taken for a word of this test.
  const std::string command = "OUTBOX_TEST_MYSQL='" + url() + "' bash -o pipefail -c \"" + program +
                              " --gtest_brief=1 --gtest_filter='Mysql/*/Prepared' 2>&1 |"
                              " sed 's/SKIPPED/left out/' >&2\"";
  EXPECT_EQ(std::system(command.c_str()), 0);
}

// An event's texts may double on their way, and an error may be longer than all of it.
TEST_F(MysqlHostileTest, WithSmallPacketsErrorsAreCutAndNothingElseIsLost) {
  set_global({"max_allowed_packet = 16384"});
  const auto store = mysql::open(url(), {.log = log_.log()});
  const auto instance = store->join({});
  const Lease lease = instance->renew();
  test::Mysql sql(url());
  for (int i = 0; i < 300; ++i) {
    sql.execute("INSERT INTO outbox_event (event_id, event_type, payload) VALUES ('" +
                std::to_string(i) + "', 'T', '{}')");
  }
  const std::vector<Row> rows = instance->ready(lease.shards, 0, 1'000).rows;
  ASSERT_EQ(rows.size(), 300U);
  std::string error = "\\";
  while (error.size() < 4 * 4'000) error += "\U0001F4A5";
  std::vector<StatusUpdate> updates;
  for (const Row& row : rows) {
    updates.push_back({.row = row.ref, .event_id = row.event.id()});
    if (updates.size() > 290) {
      updates.back().kind = StatusUpdate::Kind::dead;
      updates.back().error = error;
    }
  }
  EXPECT_TRUE(instance->apply(lease.epoch, updates).stale.empty());
  EXPECT_TRUE(instance->apply(lease.epoch, updates).stale.empty()) << "and again";
  EXPECT_EQ(store->counts().dead, 10);
  EXPECT_EQ(store->counts().pending, 0);
  EXPECT_EQ(sql.value("SELECT count(*) FROM outbox_event WHERE status = 3 AND "
                      "length(last_error) BETWEEN 1000 AND 12000"),
            "10");
  EXPECT_EQ(store->replay({.status = {Status::done, Status::dead}}, 0, 1'000).rows, 300);

  StatusUpdate impossible{
      .row = rows[0].ref, .event_id = rows[0].event.id(), .kind = StatusUpdate::Kind::defer};
  impossible.row.hold = -1;
  impossible.progress.assign(20'000, 'x');
  EXPECT_TRUE(contains(message_of<PermanentError>([&] {
                         instance->apply(lease.epoch, {&impossible, 1});
                       }),
                       "the update of event \"" + impossible.event_id + "\""));
}

}  // namespace
}  // namespace outbox::mysql
