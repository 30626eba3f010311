// Updates that another server or a stranger gets in the way of, and the locks that they wait for.
#include "store/mysql/updates.h"

#include <array>
#include <atomic>
#include <thread>

#include "outbox/outbox.h"
#include "outbox/telemetry/metrics.h"
#include "outbox/testing.h"
#include "store/mysql/lock_test_support.h"

namespace outbox::mysql {
namespace {

class MysqlUpdatesTest : public MysqlTest, public ::testing::WithParamInterface<OnDone> {
 protected:
  void SetUp() override {
    MysqlTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    store_ = open_store({.on_done = GetParam()});
    instance_ = store_->join({});
    lease_ = instance_->renew();
  }

  std::vector<Row> written(int number) {
    for (int i = 0; i < number; ++i) write_event(*store_, simple_event(std::to_string(next_++)));
    return instance_->ready(lease_.shards, 0, 1'000).rows;
  }
  static StatusUpdate done(const Row& row) { return {.row = row.ref, .event_id = row.event.id()}; }
  static StatusUpdate retry(const Row& row) {
    return {.row = row.ref,
            .event_id = row.event.id(),
            .kind = StatusUpdate::Kind::retry,
            .attempts = 1,
            .delay = 1h,
            .error = "not yet"};
  }
  UpdateResult apply(const std::vector<StatusUpdate>& updates) {
    return instance_->apply(lease_.epoch, updates);
  }
  std::string unfinished() {
    return sql().value("SELECT count(*) FROM outbox_event WHERE status IN (0, 2)");
  }

  std::shared_ptr<Store> store_;
  std::unique_ptr<Instance> instance_;
  Lease lease_;

 private:
  int next_ = 0;
};

// And it gives out epochs again.
TEST_P(MysqlUpdatesTest, AnEpochThatIsSomebodyElsesNowFencesUpdates) {
  const std::vector<Row> rows = written(2);
  sql().execute("UPDATE outbox_event_instance SET owner = 'somebody else'");
  EXPECT_TRUE(apply({done(rows.at(0)), retry(rows.at(1))}).fenced);
  EXPECT_EQ(sql().value("SELECT count(*) FROM outbox_event WHERE status = 0"), "2");
}

// A thousand errors of 4,000 characters are more than a server takes at once by default,
// and those with a backslash are sent in digits.
TEST_P(MysqlUpdatesTest, ABatchThatIsLongerThanTheServerTakesIsSentInParts) {
  std::string values;
  for (int i = 0; i < 600; ++i) {
    values += (i == 0 ? "('" : ", ('") + std::to_string(i) + "', 'T', '{}')";
  }
  sql().execute("INSERT INTO outbox_event (event_id, event_type, payload) VALUES " + values);
  const std::vector<Row> rows = instance_->ready(lease_.shards, 0, 1'000).rows;
  ASSERT_EQ(rows.size(), 600U);
  std::string error = "\\";
  while (error.size() < 4 * 4'000) error += "\U0001F4A5";
  std::vector<StatusUpdate> updates;
  for (const Row& row : rows) {
    updates.push_back(retry(row));
    updates.back().error = error;
  }
  const UpdateResult result = apply(updates);
  EXPECT_FALSE(result.fenced);
  EXPECT_TRUE(result.stale.empty());
  EXPECT_EQ(sql().value("SELECT count(*) FROM outbox_event WHERE status = 2 AND last_error LIKE "
                        "concat(repeat('_', 4000), '%')"),
            "600");
}

// Of a small table the server would rather look at all rows, and wait for those that
// somebody is writing.
TEST_P(MysqlUpdatesTest, OpenTransactionsHoldUpNeitherUpdatesNorOperators) {
  const std::vector<Row> rows = written(40);
  ASSERT_EQ(rows.size(), 40U);
  const auto open = begun(*store_);
  const Event event = simple_event("open");
  open->insert({&event, 1}, {});

  std::vector<StatusUpdate> updates;
  for (const Row& row : rows) updates.push_back(done(row));
  updates.resize(10);
  for (std::size_t i = 10; i < 40; ++i) {
    updates.push_back(retry(rows[i]));
    updates.back().kind = StatusUpdate::Kind::dead;
  }
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(apply(updates).stale.empty());
  EXPECT_EQ(store_->admin().replay({.status = {Status::dead}}, 0, 10).rows, 10);
  EXPECT_EQ(store_->admin().discard({}, 0, 10).rows, 10);
  EXPECT_EQ(store_->admin().purge(Purgeable::dead, host_clock().now() + 1h, 0, 5, true).rows, 5);
  EXPECT_EQ(store_->admin().purge(Purgeable::dead, host_clock().now() + 1h, 0, 5, false).rows, 5);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
  open->rollback();
}

INSTANTIATE_TEST_SUITE_P(All, MysqlUpdatesTest, ::testing::Values(OnDone::keep, OnDone::remove),
                         [](const auto& each) {
                           return each.param == OnDone::keep ? "Keep" : "Remove";
                         });

class MysqlLocksTest : public MysqlTest {
 protected:
  void SetUp() override {
    MysqlTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    store_ = open(url(), {.log = log_.log()});
  }

  // The update that says DONE of each event.
  std::vector<StatusUpdate> done(const std::vector<std::string>& events) {
    std::vector<StatusUpdate> updates;
    for (const std::string& id : events) {
      updates.push_back({.row = store_->admin().find(id)->row.ref, .event_id = id});
    }
    return updates;
  }

  Status status(const std::string& id) { return store_->admin().find(id)->row.status; }

  testing::RecordingLog log_;
  std::shared_ptr<Store> store_;
};

TEST_F(MysqlLocksTest, AnUpdateThatWaitsForAStrangersLockDoesNotCostTheLease) {
  // MySQL looks once a second who has waited too long, and then ends the waits of the update and
  // of the renewal together, unless the latter may wait for two seconds; see docs/databases.md.
  const bool mariadb = contains(sql().value("SELECT version()"), "MariaDB");
  const auto duration = mariadb ? 6s : 12s;
  const auto instance = store_->join({.lease = duration});
  const Lease lease = instance->renew();
  write_event(*store_, simple_event("free"));
  write_event(*store_, simple_event("locked"));
  test::Mysql stranger(url());
  stranger.execute("BEGIN; SELECT * FROM outbox_event WHERE event_id = 'locked' FOR UPDATE");

  std::atomic<bool> applied{false};
  std::jthread updating([&, updates = done({"free", "locked"})] {
    const UpdateResult result = apply_patiently(*instance, lease.epoch, updates);
    EXPECT_FALSE(result.fenced);
    EXPECT_TRUE(result.stale.empty());
    applied = true;
  });
  // For two leases.
  const auto end = std::chrono::steady_clock::now() + 2 * duration;
  while (std::chrono::steady_clock::now() < end) {
    try {
      EXPECT_EQ(instance->renew().epoch, lease.epoch);
    } catch (const RetryableError&) {
      // One in a lease is enough.
    }
    EXPECT_EQ(sql().value("SELECT count(*) FROM outbox_event_instance "
                          "WHERE beat_at + INTERVAL lease MICROSECOND < utc_timestamp(6)"),
              "0");
    std::this_thread::sleep_for(300ms);
  }
  EXPECT_FALSE(applied);
  stranger.execute("ROLLBACK");
  updating.join();
  EXPECT_EQ(status("locked"), Status::done);
}

// The server chooses the one that has changed less: that is the update.
TEST_F(MysqlLocksTest, AnUpdateThatWasTheVictimOfADeadlockIsRepeated) {
  const auto instance = store_->join({.lease = 60s});
  const Lease lease = instance->renew();
  write_event(*store_, simple_event("first"));
  write_event(*store_, simple_event("second"));
  test::Mysql stranger(url());
  stranger.execute(
      "CREATE TABLE ballast (n INT); BEGIN;"
      "INSERT INTO ballast WITH RECURSIVE numbers(n) AS"
      " (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 500) SELECT n FROM numbers;"
      "SELECT * FROM outbox_event WHERE event_id = 'second' FOR UPDATE");
  UpdateResult result;
  std::jthread updating([&, updates = done({"first", "second"})] {
    result = apply_patiently(*instance, lease.epoch, updates);
  });
  ASSERT_TRUE(wait_for_waiters(sql(), 1));
  stranger.execute("SELECT * FROM outbox_event WHERE event_id = 'first' FOR UPDATE");
  stranger.execute("COMMIT");
  updating.join();
  EXPECT_FALSE(result.fenced);
  EXPECT_TRUE(result.stale.empty());
  EXPECT_EQ(status("first"), Status::done);
  EXPECT_EQ(status("second"), Status::done);
}

// Deadlocks and lock waits that end an engine's own statements: nobody's failure.

class Counters final : public Metrics {
 public:
  void add(Counter counter, std::uint64_t n) noexcept override {
    counts_[static_cast<std::size_t>(counter)] += n;
  }
  void set(Gauge, double) noexcept override {}
  void observe(Timing, std::chrono::nanoseconds) noexcept override {}

  std::uint64_t of(Counter counter) const { return counts_[static_cast<std::size_t>(counter)]; }

 private:
  std::array<std::atomic<std::uint64_t>, 16> counts_{};
};

// What an engine is doing when it meets the stranger.
enum class Doing { claim, update };

// By themselves neither a claim nor an update waits for anything but the rows that it
// changes. So the test makes them: a trigger sends each to a row of another table, which a
// stranger has locked.
class MysqlDeadlocksTest : public MysqlTest, public ::testing::WithParamInterface<Doing> {
 protected:
  void SetUp() override {
    MysqlTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    store_ = open_store();
    sql().execute(
        "CREATE TABLE meeting (id INT PRIMARY KEY, n INT); INSERT INTO meeting VALUES (1, 0);"
        "CREATE TABLE ballast (n INT)");
    write_event(*store_, simple_event("e"));
    stranger_ = std::make_unique<test::Mysql>(url());
    // The server chooses the one that has changed less for its victim.
    stranger_->execute(
        "BEGIN; INSERT INTO ballast WITH RECURSIVE numbers(n) AS"
        " (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 500) SELECT n FROM numbers;"
        "SELECT * FROM meeting FOR UPDATE");
  }

  // Who comes there waits so long.
  void send_to_the_meeting(std::chrono::seconds patience) {
    const std::string who = GetParam() == Doing::claim
                                ? "OLD.locked_by IS NULL AND NEW.locked_by IS NOT NULL"
                                : "NEW.status = 1";
    sql().execute(
        "CREATE TRIGGER meet BEFORE UPDATE ON outbox_event FOR EACH ROW BEGIN"
        " SET SESSION innodb_lock_wait_timeout = " +
        std::to_string(patience.count()) + "; UPDATE meeting SET n = n + 1 WHERE id = (" + who +
        "); END");
  }

  std::unique_ptr<Outbox> start_engine() {
    const bool claims = GetParam() == Doing::claim;
    listeners_.add(kGlobalAggregate, "Happened", listener_);
    outbox::Options options{.mode = Mode::multi_node,
                            .ordering = claims ? Ordering::none : Ordering::per_aggregate,
                            .row_claims = claims,
                            .log = log_.log(),
                            .metrics = counters_};
    options.poll_interval = 50ms;
    auto box = std::make_unique<Outbox>(store_, listeners_, std::move(options));
    box->start();
    return box;
  }

  // Of the whole server, since it was started.
  int deadlocks() {
    return std::stoi(sql().value(
        "SELECT count FROM information_schema.innodb_metrics WHERE name = 'lock_deadlocks'"));
  }
  bool was_logged(const std::string& part) const {
    for (const auto& line : log_.lines()) {
      if (line.text.find(part) != std::string::npos) return true;
    }
    return false;
  }

  void expect_delivered_without_a_failure(Outbox& box) {
    EXPECT_TRUE(listener_->wait_for(1));
    EXPECT_TRUE(box.wait_idle(20s));
    box.close();
    EXPECT_EQ(listener_->count(), 1U);
    EXPECT_EQ(counters_->of(Counter::success), 1U);
    for (const Counter bad : {Counter::failure, Counter::deferred, Counter::dead,
                              Counter::stale_updates, Counter::hung_calls}) {
      EXPECT_EQ(counters_->of(bad), 0U) << static_cast<int>(bad);
    }
    EXPECT_EQ(sql().value("SELECT concat_ws(' ', status, attempts, crashes, last_error) "
                          "FROM outbox_event"),
              "1 0 0");
  }

  std::shared_ptr<Store> store_;
  std::unique_ptr<test::Mysql> stranger_;
  const std::shared_ptr<testing::RecordingListener> listener_ =
      std::make_shared<testing::RecordingListener>();
  Listeners listeners_;
  const std::shared_ptr<Counters> counters_ = std::make_shared<Counters>();
};

TEST_P(MysqlDeadlocksTest, TheVictimOfADeadlockStartsOverAndNobodyHearsOfIt) {
  send_to_the_meeting(30s);
  const int before = deadlocks();
  const auto box = start_engine();
  ASSERT_TRUE(wait_for_waiters(sql(), 1));
  stranger_->execute("SELECT * FROM outbox_event WHERE event_id = 'e' FOR UPDATE");
  EXPECT_GT(deadlocks(), before);
  stranger_->execute("COMMIT");
  expect_delivered_without_a_failure(*box);
  EXPECT_FALSE(was_logged("will try again"));
}

TEST_P(MysqlDeadlocksTest, AfterALockTimeoutItStartsOver) {
  send_to_the_meeting(1s);
  const auto box = start_engine();
  EXPECT_TRUE(eventually([&] { return was_logged("Lock wait timeout exceeded"); }));
  EXPECT_EQ(listener_->count(), GetParam() == Doing::claim ? 0U : 1U);
  EXPECT_EQ(sql().value("SELECT locked_by IS NULL AND status = 0 FROM outbox_event"), "1")
      << "nothing of it was done";
  stranger_->execute("COMMIT");
  expect_delivered_without_a_failure(*box);
}

INSTANTIATE_TEST_SUITE_P(All, MysqlDeadlocksTest, ::testing::Values(Doing::claim, Doing::update),
                         [](const auto& doing) {
                           return doing.param == Doing::claim ? "Claim" : "StatusUpdate";
                         });

}  // namespace

}  // namespace outbox::mysql
