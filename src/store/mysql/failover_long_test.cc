// A primary that dies, and another one in its place that lacks its last commits.
#include "store/mysql/test_support.h"
#include "support/own_server.h"

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
          "INSERT INTO outbox_event_instance (epoch, owner, lease, capacity, whole, claims,"
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

}  // namespace
}  // namespace outbox::mysql
