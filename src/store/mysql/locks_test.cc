// Locks that updates wait for, and that others wait for while an update has them.
#include <atomic>
#include <thread>

#include "outbox/testing.h"
#include "store/mysql/lock_test_support.h"

namespace outbox::mysql {
namespace {

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
      updates.push_back({.row = store_->find(id)->row.ref, .event_id = id});
    }
    return updates;
  }

  Status status(const std::string& id) { return store_->find(id)->row.status; }

  testing::RecordingLog log_;
  std::shared_ptr<Store> store_;
};

TEST_F(MysqlLocksTest, AMarkThatWaitsForAStrangersLockDoesNotCostTheLease) {
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

  std::atomic<bool> landed{false};
  std::jthread marking([&, updates = done({"free", "locked"})] {
    const UpdateResult result = apply_patiently(*instance, lease.epoch, updates);
    EXPECT_FALSE(result.fenced);
    EXPECT_TRUE(result.stale.empty());
    landed = true;
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
  EXPECT_FALSE(landed);
  stranger.execute("ROLLBACK");
  marking.join();
  EXPECT_EQ(status("locked"), Status::done);
}

// Else the update could land after it.
TEST_F(MysqlLocksTest, ATakeOverWaitsForAMarkThatIsUnderWay) {
  const auto dead = store_->join({.lease = 60s});
  const Lease lease = dead->renew();
  write_event(*store_, simple_event("free"));
  write_event(*store_, simple_event("locked"));
  test::Mysql stranger(url());
  stranger.execute("BEGIN; SELECT * FROM outbox_event WHERE event_id = 'locked' FOR UPDATE");
  UpdateResult result;
  std::jthread marking([&, updates = done({"free", "locked"})] {
    result = apply_patiently(*dead, lease.epoch, updates);
  });
  EXPECT_TRUE(wait_for_waiters(sql(), 1));

  std::atomic<bool> taken{false};
  std::jthread taking_over([&] {
    test::Mysql heir(url());
    heir.execute("DELETE FROM outbox_event_instance");
    taken = true;
  });
  EXPECT_TRUE(eventually([&] { return taken || test::waiting_transactions(sql()) == 2; }));
  EXPECT_FALSE(taken);
  stranger.execute("ROLLBACK");
  marking.join();
  EXPECT_FALSE(result.fenced);
  EXPECT_TRUE(result.stale.empty());
  EXPECT_EQ(status("locked"), Status::done);
}

// The server chooses the one that has changed less: that is the update.
TEST_F(MysqlLocksTest, AMarkThatWasTheVictimOfADeadlockIsRepeated) {
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
  std::jthread marking([&, updates = done({"first", "second"})] {
    result = apply_patiently(*instance, lease.epoch, updates);
  });
  ASSERT_TRUE(wait_for_waiters(sql(), 1));
  stranger.execute("SELECT * FROM outbox_event WHERE event_id = 'first' FOR UPDATE");
  stranger.execute("COMMIT");
  marking.join();
  EXPECT_FALSE(result.fenced);
  EXPECT_TRUE(result.stale.empty());
  EXPECT_EQ(status("first"), Status::done);
  EXPECT_EQ(status("second"), Status::done);
}

}  // namespace
}  // namespace outbox::mysql
