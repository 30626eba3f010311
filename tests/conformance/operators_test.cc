// Rules 32 and 33, and what an operator or an idle engine asks.
#include <atomic>

#include "database.h"
#include "support/stores.h"

namespace outbox::conformance {
namespace {

using Ids = std::vector<std::string>;
using Kind = StatusUpdate::Kind;

TEST_P(OperatorsTest, AStoreSaysWhatItIs) {
  EXPECT_FALSE(store().description().empty());
  EXPECT_GE(capabilities().shards, 1);
}

TEST_P(OperatorsTest, WhatIsNewRetryingDelayedOrHeldIsPending) {
  const Owner owner = own_everything();
  EXPECT_FALSE(store().has_pending());
  write(event({.id = "e"}));
  EXPECT_TRUE(store().has_pending()) << "new";

  StatusUpdate retry = update("e", Kind::retry);
  retry.delay = 1h;
  apply(owner, {retry});
  EXPECT_TRUE(store().has_pending()) << "retrying";

  StatusUpdate held = update("e", Kind::hold);
  held.lane = 5;
  apply(owner, {held});
  EXPECT_TRUE(store().has_pending()) << "held";

  apply(owner, {update("e", Kind::done)});
  EXPECT_FALSE(store().has_pending()) << "done";

  write(event({.id = "delayed", .available_at = now() + 24h}));
  EXPECT_TRUE(store().has_pending()) << "delayed";
}

TEST_P(OperatorsTest, WhatIsDeadIsNotPendingAlsoWhenItBlocksItsLane) {
  write({event({.id = "a"}), event({.id = "b"})});
  const Owner owner = own_everything();
  StatusUpdate blocking = update("b", Kind::dead);
  blocking.lane = 5;
  apply(owner, {update("a", Kind::dead), blocking});
  EXPECT_FALSE(store().has_pending());
  EXPECT_EQ(store().counts().pending, 0);
  EXPECT_EQ(store().counts().dead, 2);
}

TEST_P(OperatorsTest, CountsTellPendingFromDeadAndIgnoreDone) {
  write({event({.id = "new"}), event({.id = "retry"}), event({.id = "done"}), event({.id = "dead"}),
         event({.id = "delayed", .available_at = now() + 1h})});
  const Owner owner = own_everything();
  apply(owner,
        {update("retry", Kind::retry), update("done", Kind::done), update("dead", Kind::dead)});
  EXPECT_EQ(store().counts().pending, 3);
  EXPECT_EQ(store().counts().dead, 1);
}

TEST_P(OperatorsTest, AnEventThatIsNotThereIsNotFound) {
  write(event({.id = "e"}));
  EXPECT_FALSE(store().admin().find("nobody"));
  EXPECT_FALSE(store().admin().find(""));
  EXPECT_FALSE(store().admin().find("' OR '1'='1"));
  EXPECT_TRUE(store().admin().find("e"));
}

TEST_P(OperatorsTest, ReplayMakesADeadEventNewAndDueAtOnce) {
  write({event({.id = "e"}), event({.id = "younger"})});
  const Owner owner = own_everything();
  StatusUpdate candidate = update("e", Kind::crashes);
  candidate.crashes = 2;
  apply(owner, {candidate});
  StatusUpdate dead = update("e", Kind::dead);
  dead.attempts = 10;
  dead.error = "gave up";
  dead.progress = "mail";
  apply(owner, {dead});
  advance(1h);

  EXPECT_TRUE(store().admin().replay("e"));
  const EventRecord read = record("e");
  EXPECT_EQ(read.row.status, Status::pending);
  EXPECT_EQ(read.row.attempts, 0);
  EXPECT_EQ(read.row.crashes, 0);
  EXPECT_EQ(read.row.progress, "mail") << "those who have it do not get it again";
  EXPECT_EQ(read.last_error, "");
  EXPECT_EQ(read.locked_by, "");
  EXPECT_EQ(read.done_at, std::nullopt);
  expect_due_in(read, 0us);
  EXPECT_EQ(store().counts().dead, 0);

  EXPECT_EQ(ids(owner->due(owner.shards(), 10).rows), Ids{"e"});
  apply(owner, {update("e", Kind::done)});
  EXPECT_EQ(record("e").row.status, Status::done);
}

TEST_P(OperatorsTest, ReplayingTheDeadHeadOfALaneKeepsItsPlace) {
  write_aggregate("1", {"a", "b"});
  const Owner owner = own_everything();
  StatusUpdate dead = update("a", Kind::dead);
  dead.lane = 7;
  StatusUpdate held = update("b", Kind::hold);
  held.lane = 7;
  apply(owner, {dead, held});
  EXPECT_TRUE(store().admin().replay("a"));
  EXPECT_EQ(record("a").row.status, Status::pending);
  EXPECT_EQ(record("a").hold, 7);
  EXPECT_LE(record("a").row.available_in, backend().clock_error());
  EXPECT_EQ(ids(owner->held({ref("a").shard, 7}, 10).rows), (Ids{"a", "b"}));
}

TEST_P(OperatorsTest, OnlyTheFinishedAreReplayedAndOnlyTheDeadDiscarded) {
  write({event({.id = "new"}), event({.id = "retry"}), event({.id = "done"})});
  const Owner owner = own_everything();
  apply(owner, {update("retry", Kind::retry), update("done", Kind::done)});
  for (const char* id : {"new", "retry", "done"}) {
    const Status before = record(id).row.status;
    EXPECT_FALSE(store().admin().discard(id)) << id;
    EXPECT_EQ(record(id).row.status, before) << id;
  }
  EXPECT_FALSE(store().admin().replay("new"));
  EXPECT_FALSE(store().admin().replay("retry"));
  EXPECT_TRUE(store().admin().replay("done"));
  EXPECT_FALSE(store().admin().replay("done")) << "it is NEW already";
  EXPECT_FALSE(store().admin().replay("nobody"));
  EXPECT_FALSE(store().admin().discard("nobody"));
}

TEST_P(OperatorsTest, DiscardDeletesADeadEventAlsoFromItsLane) {
  write_aggregate("1", {"a", "b", "c"});
  const Owner owner = own_everything();
  StatusUpdate blocking = update("a", Kind::dead);
  blocking.lane = 7;
  StatusUpdate held = update("b", Kind::hold);
  held.lane = 7;
  apply(owner, {blocking, held, update("c", Kind::dead)});
  const int shard = ref("a").shard;
  EXPECT_TRUE(store().admin().discard("a"));
  EXPECT_TRUE(store().admin().discard("c"));
  EXPECT_FALSE(store().admin().discard("a")) << "gone already";
  EXPECT_FALSE(store().admin().find("a"));
  EXPECT_EQ(store().counts().dead, 0);
  EXPECT_EQ(ids(owner->held({shard, 7}, 10).rows), Ids{"b"});
}

TEST_P(OperatorsTest, AWatchIsToldOfEveryCommitSoonAfterIt) {
  testing::Signal told;
  const auto watch = store().watch([&] { told.raise(); });
  OUTBOX_NEEDS(watch != nullptr);
  for (int i = 0; i < 20; ++i) {
    const std::size_t before = told.count();
    write(event({.id = "e" + std::to_string(i)}));
    EXPECT_TRUE(told.wait(before + 1)) << "commit " << i;
  }
}

TEST_P(OperatorsTest, AWatchSeesWhatItIsToldOf) {
  store();
  testing::Signal seen;
  // The callback may use the store: no lock is held.
  const auto watch = store().watch([&] {
    if (store().has_pending()) seen.raise();
  });
  OUTBOX_NEEDS(watch != nullptr);
  write(event({.id = "e"}));
  EXPECT_TRUE(seen.wait());
}

TEST_P(OperatorsTest, AWatchThatWasDestroyedIsNotCalledAnyMore) {
  std::atomic<bool> watching = true;
  std::atomic<bool> called_late = false;
  auto watch = store().watch([&] {
    if (!watching) called_late = true;
  });
  OUTBOX_NEEDS(watch != nullptr);
  testing::Signal other_told;
  const auto other = store().watch([&] { other_told.raise(); });
  write(event({.id = "a"}));
  const auto start = std::chrono::steady_clock::now();
  watch.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
  watching = false;
  const std::size_t before = other_told.count();
  write(event({.id = "b"}));
  EXPECT_TRUE(other_told.wait(before + 1));
  EXPECT_FALSE(called_late);
}

TEST_P(OperatorsTest, AWatchIsToldOfTheLastCommitOfABurst) {
  std::atomic<int> committed{0};
  std::atomic<int> seen{0};
  const auto watch = store().watch([&] { seen = committed.load(); });
  OUTBOX_NEEDS(watch != nullptr);
  for (int i = 1; i <= 300; ++i) {
    write(event({.id = std::to_string(i)}));
    committed = i;
  }
  // It may have been under way when the last commit was counted.
  EXPECT_TRUE(test::eventually([&] { return seen >= 299; })) << seen;
}

TEST_P(OperatorsTest, ARollbackAndATransactionWithoutEventsTellNobody) {
  testing::Signal told;
  const auto watch = store().watch([&] { told.raise(); });
  OUTBOX_NEEDS(watch != nullptr);
  write(event({.id = "first"}));
  ASSERT_TRUE(told.wait());
  // Some say first that they hear.
  std::size_t before = told.count();
  while (told.wait(before + 1, 200ms)) before = told.count();
  {
    const auto connection = store().connect();
    connection->begin();
    connection->insert(std::vector{event({.id = "lost"})}, {});
    connection->rollback();
    connection->begin();
    if (capabilities().dialect != Dialect::none) connection->query("SELECT 1", {});
    connection->commit();
  }
  EXPECT_FALSE(told.wait(before + 1, 200ms));
  write(event({.id = "second"}));
  EXPECT_TRUE(told.wait(before + 1));
}

TEST_P(WatchTest, ACommitOfAnotherStoreIsToldWithinASecond) {
  const auto writes = open_store({.told_of_commits = true});
  const auto reads = open_store({.told_of_commits = true});
  testing::Signal told;
  const auto watch = reads->watch([&] { told.raise(); });
  OUTBOX_NEEDS(watch != nullptr);
  test::write_event(*writes, test::simple_event("first"));
  ASSERT_TRUE(told.wait());
  for (int i = 0; i < 20; ++i) {
    const std::size_t before = told.count();
    test::write_event(*writes, test::simple_event(std::to_string(i)));
    EXPECT_TRUE(told.wait(before + 1, 1s)) << i;
  }
}

}  // namespace

// Where no store with a database is built.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(WatchTest);

}  // namespace outbox::conformance
