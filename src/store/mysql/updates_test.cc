#include "store/mysql/updates.h"

#include <future>

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

TEST_P(MysqlUpdatesTest, WhoWasTakenForDeadChangesNothing) {
  const std::vector<Row> rows = written(2);
  sql().execute("DELETE FROM outbox_event_instance");
  EXPECT_TRUE(apply({done(rows.at(0)), retry(rows.at(1))}).fenced);
  EXPECT_EQ(sql().value("SELECT count(*) FROM outbox_event WHERE status = 0"), "2");
}

TEST_P(MysqlUpdatesTest, RowsOfAShardThatIsSomebodyElsesAreLeftAlone) {
  const std::vector<Row> rows = written(1);
  sql().execute("UPDATE outbox_event_shard SET epoch = 999 WHERE shard = " +
                std::to_string(rows.at(0).ref.shard));
  const UpdateResult result = apply({done(rows.at(0))});
  EXPECT_FALSE(result.fenced);
  EXPECT_EQ(result.stale, std::vector<std::size_t>{0});
  EXPECT_EQ(unfinished(), "1");
}

// A primary that has lost commits gives their numbers out again.
TEST_P(MysqlUpdatesTest, AMarkWhoseNumberNamesAnotherEventIsStale) {
  const std::vector<Row> rows = written(3);
  sql().execute("UPDATE outbox_event SET event_id = concat('other ', seq) WHERE seq <> " +
                std::to_string(rows.at(2).ref.seq));
  const UpdateResult result = apply({done(rows.at(0)), retry(rows.at(1)), done(rows.at(2))});
  EXPECT_FALSE(result.fenced);
  EXPECT_EQ(result.stale, (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(sql().value("SELECT count(*) FROM outbox_event WHERE status = 0 AND hold = 0"), "2");
  EXPECT_EQ(unfinished(), "2");
}

// And it gives out epochs again.
TEST_P(MysqlUpdatesTest, AnEpochThatIsSomebodyElsesNowFencesMarks) {
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

// By hand, or by a replay.
TEST_P(MysqlUpdatesTest, ARowThatWasMovedSinceItWasReadIsMarkedWhereItIs) {
  const std::vector<Row> rows = written(3);
  sql().execute("UPDATE outbox_event SET hold = 77");
  const UpdateResult result = apply({done(rows.at(0)), retry(rows.at(1)), done(rows.at(2))});
  EXPECT_TRUE(result.stale.empty());
  EXPECT_EQ(sql().value("SELECT status FROM outbox_event WHERE seq = " +
                        std::to_string(rows.at(1).ref.seq)),
            "2");
  EXPECT_EQ(unfinished(), "1");
}

TEST_P(MysqlUpdatesTest, AMarkThatIsRepeatedIsAcknowledged) {
  const std::vector<Row> rows = written(2);
  for (int i = 0; i < 2; ++i) {
    const UpdateResult result = apply({done(rows.at(0)), retry(rows.at(1))});
    EXPECT_FALSE(result.fenced);
    EXPECT_TRUE(result.stale.empty());
  }
}

// Nobody can take over while an update is under way, and after that it is too late for one.
TEST_P(MysqlUpdatesTest, ATakeOverThatWasQuickerFencesAMarkThatWaitedForIt) {
  const std::vector<Row> rows = written(1);
  test::Mysql other(url());
  other.execute("BEGIN; DELETE FROM outbox_event_instance");
  auto result = std::async(std::launch::async, [&] {
    return apply_patiently(*instance_, lease_.epoch, {done(rows.at(0))});
  });
  ASSERT_TRUE(wait_for_waiters(sql(), 1));
  other.execute("COMMIT");
  EXPECT_TRUE(result.get().fenced);
  EXPECT_EQ(unfinished(), "1");
}

// Of a small table the server would rather look at all rows, and wait for those that
// somebody is writing.
TEST_P(MysqlUpdatesTest, TransactionsThatAreOpenHoldUpNeitherMarksNorOperators) {
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
  EXPECT_EQ(store_->replay({.status = {Status::dead}}, 0, 10).rows, 10);
  EXPECT_EQ(store_->discard({}, 0, 10).rows, 10);
  EXPECT_EQ(store_->purge(Purgeable::dead, host_clock().now() + 1h, 0, 5, true).rows, 5);
  EXPECT_EQ(store_->purge(Purgeable::dead, host_clock().now() + 1h, 0, 5, false).rows, 5);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
  open->rollback();
}

INSTANTIATE_TEST_SUITE_P(All, MysqlUpdatesTest, ::testing::Values(OnDone::keep, OnDone::remove),
                         [](const auto& each) {
                           return each.param == OnDone::keep ? "Keep" : "Remove";
                         });

}  // namespace
}  // namespace outbox::mysql
