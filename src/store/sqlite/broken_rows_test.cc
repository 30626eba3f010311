// Rows whose status and hold contradict each other: somebody edited them past the library.
#include <algorithm>

#include "outbox/outbox.h"
#include "store/sqlite/test_support.h"

namespace outbox::sqlite {
namespace {

constexpr int kShard[] = {0};
using Ids = std::vector<std::string>;

class BrokenRowsTest : public SqliteTest {
 protected:
  // As a table looks that was edited before the schema refused it.
  void write(const std::string& id, const std::string& status, const std::string& hold) const {
    db_.run("DROP TRIGGER IF EXISTS outbox_event_check_insert");
    db_.run("DROP TRIGGER IF EXISTS outbox_event_check_update");
    db_.run("INSERT INTO outbox_event (event_id, event_type, payload, status, hold) VALUES ('" +
            id + "', 'T', '{}', " + status + ", " + hold + ")");
  }

  // One of each kind.
  void write_broken() const {
    for (const char* hold : {"'text'", "x'00ff'", "0.5", "-0.5", "1e300", "-1e300", "NULL"}) {
      write("new " + std::to_string(++written_), "0", hold);
    }
    for (const char* hold : {"0", "5", "-5", "'text'"}) {
      write("done " + std::to_string(++written_), "1", hold);
    }
    for (const char* hold : {"0", "-5", "'text'", "0.5"}) {
      write("dead " + std::to_string(++written_), "3", hold);
    }
    for (const char* status : {"7", "-1", "'text'", "1.5", "9223372036854775807"}) {
      for (const char* hold : {"0", "5", "-5", "NULL"}) {
        write("unknown " + std::to_string(++written_), status, hold);
      }
    }
  }

  const std::shared_ptr<Store> store_ = open_store();
  const ForeignConnection db_{path()};
  mutable int written_ = 0;
};

constexpr int kBroken = 7 + 4 + 4 + 20;

TEST_F(BrokenRowsTest, AHoldThatIsNoIntegerMadeEveryReadLoopForEver) {
  write_broken();
  write("ready", "0", "0");
  write("due", "2", "-7");
  write("head", "2", "5");
  write("behind", "0", "5");
  const auto instance = store_->join({});
  instance->renew();
  EXPECT_EQ(ids(instance->ready(kShard, 0, 100).rows), (Ids{"ready"}));
  const DueRows due = instance->due(kShard, 100);
  EXPECT_EQ(ids(due.rows), (Ids{"due"}));
  EXPECT_FALSE(due.more);
  EXPECT_FALSE(due.next_in);
  const auto lanes = instance->held_lanes(0, 0, 100);
  ASSERT_EQ(lanes.size(), 1u);
  EXPECT_EQ(lanes[0].key, 5);
  EXPECT_EQ(lanes[0].first, store_->find("head")->row.ref.seq) << "not the DONE row before it";
  EXPECT_EQ(lanes[0].status, Status::retry);
  EXPECT_EQ(ids(instance->held(0, 5, 100).rows), (Ids{"head", "behind"}));
}

TEST_F(BrokenRowsTest, ClaimsTakeOnlyRowsThatMakeSense) {
  write_broken();
  write("ready", "0", "0");
  write("due", "2", "-7");
  const auto claimer = store_->join({.row_claims = true});
  claimer->renew();
  EXPECT_EQ(ids(claimer->claim(0ms, 100).rows), (Ids{"ready", "due"}));
}

TEST_F(BrokenRowsTest, OperatorsSeeHowManyThereAreAndWhatIsWrong) {
  write_broken();
  write("ready", "0", "0");
  write("head", "2", "5");
  write("dead", "3", "NULL");
  const Counts counts = store_->counts();
  EXPECT_EQ(counts.pending, 2);
  EXPECT_EQ(counts.retry, 1);
  EXPECT_EQ(counts.held, 1);
  EXPECT_EQ(counts.delayed, 0);
  EXPECT_EQ(counts.broken, kBroken);
  const auto held = store_->held_aggregates(100);
  ASSERT_EQ(held.size(), 1u);
  EXPECT_EQ(held[0].head_id, "head");
  for (const char* broken : {"new 7", "unknown 16", "done 9", "dead 13"}) {
    const auto record = store_->find(broken);
    ASSERT_TRUE(record) << broken;
    EXPECT_TRUE(contains(record->row.defect, "status")) << broken;
  }
  EXPECT_EQ(store_->find("head")->row.defect, "");
}

TEST_F(BrokenRowsTest, NothingWaitsForARowThatIsNeverDelivered) {
  write_broken();
  EXPECT_FALSE(store_->has_pending());
  write("ready", "0", "0");
  EXPECT_TRUE(store_->has_pending());
}

TEST_F(BrokenRowsTest, AnUnknownStatusIsNoneOfThoseThatOperatorsAskFor) {
  write_broken();
  for (const Status status : {Status::pending, Status::done, Status::retry, Status::dead}) {
    for (const EventRecord& record : store_->list({.status = {status, Status::done}}, 0, 100)) {
      EXPECT_FALSE(record.row.event.id().starts_with("unknown")) << record.row.event.id();
    }
  }
  EXPECT_EQ(store_->replay({.status = {Status::done, Status::dead}}, 0, 100).rows, 8)
      << "replay mends what is finished";
}

TEST_F(BrokenRowsTest, AnEngineDeliversTheOthersOnceAndCloses) {
  write("head", "2", "5");
  write("behind", "0", "5");
  write_broken();
  db_.run("UPDATE outbox_event SET status = 1 WHERE event_id = 'head'");
  const auto recorder = std::make_shared<testing::RecordingListener>();
  testing::RecordingLog log;
  Listeners on;
  on.add(std::string(kGlobalAggregate), "T", recorder);
  on.add(std::string(kGlobalAggregate), "Happened", recorder);
  Outbox box(store_, on, {.poll_interval = 10ms, .log = log.log()});
  box.start();
  write_event(*store_, simple_event("new"));
  EXPECT_TRUE(box.wait_idle(20s));
  // Several looks at everything later nothing has been delivered again.
  write_event(*store_, simple_event("last"));
  EXPECT_TRUE(box.wait_idle(20s));
  box.close();
  Ids delivered = recorder->ids();
  std::sort(delivered.begin(), delivered.end());
  EXPECT_EQ(delivered, (Ids{"behind", "last", "new"})) << "the head was said to be DONE";
}

// By the listener's own hand, or an operator's: the lane is not blocked by what is not DEAD.
TEST_F(BrokenRowsTest, WhatIsFinishedByHandDuringItsLastAttemptBlocksNobody) {
  const auto listener =
      std::make_shared<testing::RecordingListener>([&](const Event& event, const Delivery&) {
        if (event.id() != "first") return Outcome::done();
        db_.run("UPDATE outbox_event SET status = 1, hold = NULL WHERE event_id = 'first'");
        return Outcome::permanent("no");
      });
  testing::RecordingLog log;
  Listeners on;
  on.add("Order", "Happened", listener);
  Outbox box(store_, on,
             {.poll_interval = 10min, .dead = {.then = OnDead::block}, .log = log.log()});
  box.start();
  auto tx = box.begin();
  for (const char* id : {"first", "second"}) {
    Draft draft{.type = "Happened", .aggregate_type = "Order", .aggregate_id = "1"};
    draft.payload = json("{}");
    draft.id = id;
    tx.write(std::move(draft));
  }
  tx.commit();
  EXPECT_TRUE(box.wait_idle(20s));
  EXPECT_EQ(listener->ids(), (Ids{"first", "second"}));
}

TEST_F(BrokenRowsTest, TheSchemaRefusesThem) {
  write_event(*store_, simple_event("e"));
  const auto refused = [&](const std::string& sql) {
    return message_of<std::runtime_error>([&] { db_.run(sql); });
  };
  EXPECT_TRUE(contains(refused("UPDATE outbox_event SET status = 1"), "hold = NULL"));
  EXPECT_TRUE(contains(refused("UPDATE outbox_event SET hold = NULL"), "hold"));
  EXPECT_TRUE(contains(refused("UPDATE outbox_event SET hold = 'text'"), "hold"));
  EXPECT_TRUE(contains(refused("UPDATE outbox_event SET hold = 0.5"), "hold"));
  EXPECT_TRUE(contains(refused("UPDATE outbox_event SET status = 3"), "hold"));
  EXPECT_TRUE(contains(refused("UPDATE outbox_event SET status = 7"), "status"));
  EXPECT_TRUE(contains(refused("INSERT INTO outbox_event (event_id, event_type, payload, status) "
                               "VALUES ('x', 'T', '{}', 4)"),
                       "status"));
  db_.run("UPDATE outbox_event SET status = 3, hold = 5");
  db_.run("UPDATE outbox_event SET status = 1, hold = NULL");
  db_.run("UPDATE outbox_event SET status = 2, hold = -5");
  EXPECT_EQ(store_->counts().broken, 0);
}

TEST_F(BrokenRowsTest, AMigrationSaysWhatItFindsAndGoesOn) {
  write_broken();
  db_.run("DROP INDEX outbox_event_broken");
  db_.run("DELETE FROM outbox_event_migration WHERE version > 3");
  Ids log;
  const auto store =
      open_store({.log = [&](const LogRecord& record) { log.emplace_back(record.message); }});
  ASSERT_EQ(log.size(), 1u);
  EXPECT_TRUE(contains(log[0], std::to_string(kBroken) + " rows contradict themselves"));
  EXPECT_TRUE(contains(log[0], "outbox doctor --repair"));
  EXPECT_TRUE(contains(
      message_of<std::runtime_error>([&] { db_.run("UPDATE outbox_event SET status = 9"); }),
      "status"));
  log.clear();
  open_store({.log = [&](const LogRecord& record) { log.emplace_back(record.message); }});
  EXPECT_EQ(log, Ids{}) << "once";
}

TEST_F(BrokenRowsTest, AnOwnerSaysThatThereAreSomeWheneverThereAreMore) {
  Ids log;
  testing::ManualClock clock;
  const auto store = open_store(
      {.log = [&](const LogRecord& record) { log.emplace_back(record.message); }, .clock = &clock});
  const auto instance = store->join({});
  instance->renew();
  EXPECT_EQ(log, Ids{});
  write("a", "0", "NULL");
  for (int i = 0; i < 3; ++i) {
    clock.advance(60s);
    instance->renew();
  }
  ASSERT_EQ(log.size(), 1u) << "once";
  EXPECT_TRUE(contains(log[0], "1 row contradicts itself"));
  EXPECT_TRUE(contains(log[0], "\"a\" (status 0, hold NULL)"));
  write("b", "1", "0");
  clock.advance(60s);
  instance->renew();
  ASSERT_EQ(log.size(), 2u);
  EXPECT_TRUE(contains(log[1], "2 rows contradict themselves"));
}

}  // namespace
}  // namespace outbox::sqlite
