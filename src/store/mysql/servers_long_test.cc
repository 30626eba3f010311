// A primary that dies, and another one in its place that lacks its last commits.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <random>
#include <set>
#include <thread>

#include "base/mutex.h"
#include "client/mysql/facts.h"
#include "outbox/testing.h"
#include "store/mysql/lock_test_support.h"
#include "store/mysql/reader.h"
#include "store/mysql/test_support.h"
#include "support/services.h"
#include "support/tcp_proxy.h"

namespace outbox::mysql {
namespace {

class MysqlFailoverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    OUTBOX_NEEDS_MYSQL();
    first_ = std::make_unique<test::OwnServer>("mariadb");
    second_ = std::make_unique<test::OwnServer>("mariadb");
  }

  // Both, the first one first.
  std::string url() const {
    const std::string all = first_->url();
    const auto end = all.rfind('/');
    return all.substr(0, end) + ",127.0.0.1:" + std::to_string(test::port_of(second_->url())) +
           all.substr(end);
  }

  // Which replication did in time.
  void copy_registrations() {
    test::Mysql from(first_->url());
    test::Mysql to(second_->url());
    for (const test::Row& row :
         from.query("SELECT epoch, owner, lease, capacity, name, host, pid, process FROM "
                    "outbox_event_instance")) {
      to.execute(
          "INSERT INTO outbox_event_instance (epoch, owner, lease, capacity, exclusive, claims,"
          " name, host, pid, process) VALUES (" +
          row[0].value() + ", '" + row[1].value() + "', " + row[2].value() + ", " + row[3].value() +
          ", FALSE, FALSE, '" + row[4].value() + "', '" + row[5].value() + "', " + row[6].value() +
          ", '" + row[7].value() + "')");
      to.execute("UPDATE outbox_event_shard SET epoch = " + row[0].value());
    }
  }

  testing::RecordingLog log_;
  std::unique_ptr<test::OwnServer> first_;
  std::unique_ptr<test::OwnServer> second_;
};

TEST_F(MysqlFailoverTest, WhatTheNewPrimaryHasUnderNumbersThatWereLostIsDelivered) {
  const auto old = mysql::open(first_->url(), {.log = log_.log()});
  const auto other = mysql::open(second_->url(), {.log = log_.log()});
  const auto store = mysql::open(url(), {.log = log_.log()});
  const auto instance = store->join({});
  const Lease before = instance->renew();
  ASSERT_EQ(before.shards.size(), 16U);
  write_event(*store, simple_event("lost 1"));
  write_event(*store, simple_event("lost 2"));
  const std::vector<Row> lost = instance->ready(before.shards, 0, 10).rows;
  ASSERT_EQ(lost.size(), 2U);
  copy_registrations();
  write_event(*other, simple_event("other 1"));
  write_event(*other, simple_event("other 2"));

  first_.reset();
  const std::vector<StatusUpdate> done{{.row = lost[0].ref, .event_id = lost[0].event.id()},
                                       {.row = lost[1].ref, .event_id = lost[1].event.id()}};
  // It is registered there as well, but what it holds is of another history.
  EXPECT_TRUE(eventually([&] {
    try {
      instance->apply(before.epoch, done);
      return false;
    } catch (const RetryableError& error) {
      return static_cast<bool>(contains(error.what(), "not the server that the instance is"));
    }
  }));
  Lease after;
  ASSERT_TRUE(works_again([&] { after = instance->renew(); }));
  EXPECT_GT(after.epoch, before.epoch);
  EXPECT_EQ(after.shards.size(), 16U);
  EXPECT_TRUE(instance->apply(before.epoch, done).fenced);

  std::vector<Row> rows;
  ASSERT_TRUE(works_again([&] { rows = instance->ready(after.shards, 0, 10).rows; }));
  EXPECT_EQ(ids(rows), (std::vector<std::string>{"other 1", "other 2"}));
  EXPECT_EQ(rows.at(0).ref.seq, lost.at(0).ref.seq) << "the number was given out again";
  // What was held under the lost epoch names another event under the new one.
  EXPECT_EQ(instance->apply(after.epoch, done).stale, (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(other->counts().pending, 2);
}

// One that was set back, by a restore of its files for example.
TEST_F(MysqlFailoverTest, AServerThatGoesBackEndsTheEpoch) {
  const auto store = mysql::open(first_->url(), {.log = log_.log()});
  const auto instance = store->join({});
  const std::int64_t before = instance->renew().epoch;
  EXPECT_EQ(instance->renew().epoch, before);
  first_->restart(true);
  Lease lease;
  ASSERT_TRUE(works_again([&] { lease = instance->renew(); }));
  EXPECT_EQ(lease.epoch, before) << "nothing was lost";
  test::Mysql(first_->url()).execute("RESET MASTER");
  lease = instance->renew();
  EXPECT_GT(lease.epoch, before);
  EXPECT_EQ(lease.shards.size(), 16U);
  EXPECT_TRUE(lease.inherited.empty()) << "it left before";
}

// A process that is stopped in the middle of a change of ownership.

// What the child's exit code tells.
enum Exit { kAsItShould = 0, kNeverLostItsTurn = 1, kCouldNotComeBack = 2 };

// A process that joins, and says what became of that.
class Child {
 public:
  explicit Child(const std::string& url) : pid_(fork()) {
    if (pid_ == 0) _exit(join(url));
  }
  ~Child() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void stop() {
    kill(pid_, SIGSTOP);
    int status = 0;
    waitpid(pid_, &status, WUNTRACED);
    EXPECT_TRUE(WIFSTOPPED(status));
  }

  // Its exit code.
  int go_on() {
    kill(pid_, SIGCONT);
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  static Exit join(const std::string& url) {
    const auto store = open(url);
    const auto instance = store->join({.lease = 9s});
    try {
      instance->renew();
      return kNeverLostItsTurn;
    } catch (const RetryableError&) {
    }
    // It did not register, and does so now.
    return works_again([&] { instance->renew(); }) ? kAsItShould : kCouldNotComeBack;
  }

  pid_t pid_;
};

class MysqlStoppedTest : public MysqlTest {
 protected:
  std::string instances() { return sql().value("SELECT count(*) FROM outbox_event_instance"); }
};

// It has the turn: nobody else can change who owns what. The server ends its connection
// when that was idle for as long as its lease.
TEST_F(MysqlStoppedTest, WhoIsStoppedInTheMiddleOfAChangeLosesTheTurnAfterItsLease) {
  const auto store = open_store();
  const auto one = store->join({.lease = 60s});
  const Lease before = one->renew();
  ASSERT_EQ(before.shards.size(), 16U);
  // A registration waits here, in the middle of its transaction.
  sql().execute("CREATE TABLE gate (id INT PRIMARY KEY, n INT); INSERT INTO gate VALUES (1, 0)");
  sql().execute(
      "CREATE TRIGGER wait_at_the_gate AFTER INSERT ON outbox_event_instance"
      " FOR EACH ROW UPDATE gate SET n = n + 1");
  test::Mysql keeper(url());
  keeper.execute("BEGIN; SELECT * FROM gate FOR UPDATE");
  Child child(url());
  ASSERT_TRUE(wait_for_waiters(sql(), 1));
  child.stop();
  keeper.execute("COMMIT");

  std::atomic<bool> joined{false};
  const auto two = store->join({.lease = 60s});
  std::jthread joining([&] {
    EXPECT_TRUE(works_again([&] { two->renew(); }));
    joined = true;
  });
  EXPECT_TRUE(wait_for_waiters(sql(), 1)) << "it waits for the turn";
  EXPECT_FALSE(joined);
  const Lease during = one->renew();
  EXPECT_EQ(during.epoch, before.epoch) << "leases are renewed without it";
  EXPECT_EQ(during.shards, before.shards);
  joining.join();
  EXPECT_EQ(instances(), "2") << "what the child had begun is rolled back";
  EXPECT_EQ(one->renew().draining.size(), 8U);

  EXPECT_EQ(child.go_on(), kAsItShould);
  EXPECT_EQ(instances(), "3");
}

// A server without a binary log, which shows commits before they are on its disk: on one
// of its own.

class MysqlNoBinlogTest : public ::testing::Test {
 protected:
  void SetUp() override {
    OUTBOX_NEEDS_MYSQL();
    server_ = std::make_unique<test::OwnServer>("mariadb", "--no-binlog");
    sql_ = std::make_unique<test::Mysql>(server_->url());
  }

  test::Mysql& sql() { return *sql_; }
  std::shared_ptr<Store> open_store(const std::string& url, Options options = {}) {
    options.log = log_.log();
    return open(url, std::move(options));
  }

  // How often an engine has had the server flush its log.
  int flushes() { return std::stoi(sql().value("SELECT sum(flushes) FROM outbox_event_flush")); }

  testing::RecordingLog log_;
  std::unique_ptr<test::OwnServer> server_;
  std::unique_ptr<test::Mysql> sql_;
};

TEST_F(MysqlNoBinlogTest, EveryReadThatFindsRowsIsFollowedByOneWrite) {
  ASSERT_EQ(sql().value("SELECT @@log_bin"), "0");
  for (const bool prepare : {true, false}) {
    const auto store = open_store(server_->url(), {.prepare = prepare});
    sql().execute("DELETE FROM outbox_event; UPDATE outbox_event_flush SET flushes = 0");
    const auto instance = store->join({});
    const Lease lease = instance->renew();
    ASSERT_EQ(lease.shards.size(), 16U);
    EXPECT_TRUE(instance->ready(lease.shards, 0, 10).rows.empty());
    EXPECT_TRUE(instance->due(lease.shards, 10).rows.empty());
    EXPECT_TRUE(instance->held({0, 7}, 10).rows.empty());
    EXPECT_EQ(flushes(), 0) << "there was nothing";

    // One look finds all of them, and two reads fetch them.
    for (int i = 0; i < 15; ++i) write_event(*store, simple_event(std::to_string(i)));
    EXPECT_EQ(instance->ready(lease.shards, 0, 10).rows.size(), 10U);
    EXPECT_EQ(instance->ready(lease.shards, 0, 10).rows.size(), 5U);
    EXPECT_EQ(flushes(), 1);
    EXPECT_TRUE(instance->ready(lease.shards, 0, 10).rows.empty());
    EXPECT_EQ(flushes(), 1) << "nothing new";

    sql().execute("UPDATE outbox_event SET hold = -1 WHERE event_id = '1'");
    EXPECT_EQ(instance->due(lease.shards, 10).rows.size(), 1U);
    EXPECT_EQ(flushes(), 2);

    sql().execute("UPDATE outbox_event SET hold = 7 WHERE event_id = '2'");
    const int shard = store->admin().find("2")->row.ref.shard;
    EXPECT_EQ(instance->held({shard, 7}, 10).rows.size(), 1U);
    EXPECT_EQ(flushes(), 3);
    instance->leave();
  }
}

TEST_F(MysqlNoBinlogTest, EnginesWriteToDifferentRows) {
  const auto store = open_store(server_->url());
  const auto one = store->join({});
  one->renew();
  const auto two = store->join({});
  two->renew();
  for (const int shard : one->renew().draining) one->release(shard);
  const Lease first = one->renew();
  const Lease second = two->renew();
  ASSERT_EQ(first.shards.size(), 8U);
  ASSERT_EQ(second.shards.size(), 8U);
  for (int i = 0; i < 200; ++i) write_event(*store, simple_event(std::to_string(i)));
  EXPECT_FALSE(one->ready(first.shards, 0, 10).rows.empty());
  EXPECT_FALSE(two->ready(second.shards, 0, 10).rows.empty());
  EXPECT_EQ(sql().value("SELECT count(*) FROM outbox_event_flush WHERE flushes = 1"), "2");
}

TEST_F(MysqlNoBinlogTest, ClaimsAreWritesThemselves) {
  const auto store = open_store(server_->url());
  const auto instance = store->join({.row_claims = true});
  instance->renew();
  write_event(*store, simple_event("e"));
  EXPECT_EQ(instance->claim(0ms, 10).rows.size(), 1U);
  EXPECT_EQ(flushes(), 0);
}

// A server that may lose commits gets no promise, and does not pay for one.
TEST_F(MysqlNoBinlogTest, WhereCommitsAreNotFlushedAtAllNothingIsWritten) {
  open_store(server_->url());
  for (const auto& [setting, early] : {std::pair{"0", false}, {"1", true}, {"2", false}}) {
    sql().execute(std::string("SET GLOBAL innodb_flush_log_at_trx_commit = ") + setting);
    Database database(config_at(server_->url()));
    EXPECT_EQ(database.session().shows_commits_early(), early) << setting;
    sync_log(database.session(), 0);
    EXPECT_EQ(database.session().shows_commits_early(), early) << setting;
  }
  EXPECT_EQ(flushes(), 1);
}

TEST_F(MysqlNoBinlogTest, ARowThatIsMissingIsNamedAndNothingIsHandedOut) {
  const auto store = open_store(server_->url());
  const auto instance = store->join({});
  const Lease lease = instance->renew();
  write_event(*store, simple_event("e"));
  sql().execute("DELETE FROM outbox_event_flush");
  const std::string message =
      message_of<PermanentError>([&] { instance->ready(lease.shards, 0, 10); });
  EXPECT_TRUE(contains(message, ".outbox_event_flush (shard) VALUES (")) << message;
  for (int shard = 0; shard < 16; ++shard) {
    sql().execute("INSERT INTO outbox_event_flush (shard) VALUES (" + std::to_string(shard) + ")");
  }
  EXPECT_EQ(ids(instance->ready(lease.shards, 0, 10).rows), std::vector<std::string>{"e"});
}

// The next connection might be to a server that has lost the rows.
TEST_F(MysqlNoBinlogTest, RowsWhoseConnectionIsLostBeforeTheWriteAreNotHandedOutButReadAgain) {
  test::TcpProxy network("127.0.0.1", test::port_of(server_->url()));
  const auto store = open_store(
      test::with_port(server_->url(), network.port()) + "?ssl_mode=disabled", {.prepare = false});
  const auto instance = store->join({});
  const Lease lease = instance->renew();
  write_event(*store, simple_event("held"));
  sql().execute("UPDATE outbox_event SET hold = 7");
  write_event(*store, simple_event("due"));
  sql().execute("UPDATE outbox_event SET hold = -1 WHERE event_id = 'due'");
  write_event(*store, simple_event("ready"));
  const int shard = store->admin().find("held")->row.ref.shard;
  const auto ready = [&] { return ids(instance->ready(lease.shards, 0, 10).rows); };
  const auto due = [&] { return ids(instance->due(lease.shards, 10).rows); };
  const auto held = [&] { return ids(instance->held({shard, 7}, 10).rows); };
  const auto loses_and_reads_again = [&](const auto& read, const std::string& id) {
    const int before = network.drops();
    network.drop_request("outbox_event_flush` SET");
    EXPECT_THROW(read(), RetryableError) << id;
    EXPECT_EQ(network.drops(), before + 1) << id;
    std::vector<std::string> found;
    EXPECT_TRUE(works_again([&] { found = read(); }));
    EXPECT_EQ(found, std::vector<std::string>{id});
  };
  loses_and_reads_again(ready, "ready");
  loses_and_reads_again(due, "due");
  loses_and_reads_again(held, "held");
}

// Many commit at once, so that at any moment some commit is seen and not yet on the disk.
TEST_F(MysqlNoBinlogTest, NothingIsHandedOutThatAServerThatIsKilledForgets) {
  constexpr int kKills = 8;
  constexpr int kWriters = 12;
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  open_store(server_->url());
  std::size_t handed_out = 0;
  for (int kill = 0; kill < kKills; ++kill) {
    std::atomic<bool> stop{false};
    std::vector<std::jthread> writers;
    for (int writer = 0; writer < kWriters; ++writer) {
      writers.emplace_back([&, writer] {
        try {
          test::Mysql mine(server_->url());
          for (int i = 0; !stop; ++i) {
            const std::string id =
                std::to_string(kill) + "-" + std::to_string(writer) + "-" + std::to_string(i);
            mine.execute("INSERT INTO outbox_event (event_id, event_type, payload) VALUES ('" + id +
                         "', 'T', '{}')");
          }
        } catch (const std::exception&) {
          // It was killed.
        }
      });
    }
    Mutex mutex;
    std::set<std::string> seen;
    std::jthread reader([&] {
      try {
        const auto store = open_store(server_->url());
        const auto instance = store->join({});
        const Lease lease = instance->renew();
        while (!stop) {
          const std::vector<std::string> found = ids(instance->ready(lease.shards, 0, 100).rows);
          MutexLock lock(mutex);
          seen.insert(found.begin(), found.end());
        }
      } catch (const std::exception&) {
        // It was killed.
      }
    });
    const std::size_t enough = 200 + random() % 200;
    EXPECT_TRUE(eventually([&] {
      MutexLock lock(mutex);
      return seen.size() >= enough;
    }));
    server_->restart(false);
    stop = true;
    writers.clear();
    reader.join();

    sql_ = std::make_unique<test::Mysql>(server_->url());
    std::set<std::string> kept;
    for (const auto& row : sql().query("SELECT event_id FROM outbox_event")) kept.insert(*row[0]);
    std::vector<std::string> invented;
    std::set_difference(seen.begin(), seen.end(), kept.begin(), kept.end(),
                        std::back_inserter(invented));
    EXPECT_TRUE(invented.empty()) << "kill " << kill << ": " << invented.size() << " of "
                                  << seen.size() << ", the first is " << invented.front();
    handed_out += seen.size();
    sql().execute(
        "DELETE FROM outbox_event; DELETE FROM outbox_event_instance;"
        "UPDATE outbox_event_shard SET epoch = NULL, draining = FALSE, candidates = NULL");
  }
  EXPECT_GT(handed_out, static_cast<std::size_t>(kKills) * 200);
}

// Servers whose settings change what statements mean, or stop them.

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
  EXPECT_EQ(store->admin().replay({}, 0, 100).rows, 10);
  EXPECT_EQ(store->admin().purge(Purgeable::done, host_clock().now() + 1h, 0, 100, true).rows, 20);
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
  EXPECT_EQ(store->admin().replay({.status = {Status::done, Status::dead}}, 0, 1'000).rows, 300);

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
