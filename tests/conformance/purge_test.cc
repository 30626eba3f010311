// Rule 33: what becomes of old rows.
#include <atomic>
#include <thread>

#include "store_conformance.h"

namespace outbox::conformance {
namespace {

using Ids = std::vector<std::string>;
using Kind = StatusUpdate::Kind;

TEST_P(PurgeTest, TakesWhatBecameSoBeforeTheTimeAndNothingElse) {
  OUTBOX_NEEDS(capabilities().progress == Progress::row);
  write({event({.id = "new", .occurred_at = now() - 24h}), event({.id = "retry"}),
         event({.id = "done1"}), event({.id = "done2", .occurred_at = now() - 24h}),
         event({.id = "dead1"}), event({.id = "dead2"})});
  const Owner owner = own_everything();
  apply(owner, {update("retry", Kind::retry), update("done1", Kind::done), dead("dead1")});
  advance(1h);
  apply(owner, {update("done2", Kind::done), dead("dead2")});
  advance(1h);
  const Time between = now() - 90min;

  EXPECT_EQ(store().admin().count_purgeable(Purgeable::done, between), 1);
  EXPECT_EQ(store().admin().count_purgeable(Purgeable::dead, between), 1);
  const Changed done = store().admin().purge(Purgeable::done, between, 0, 100, false);
  EXPECT_EQ(done.rows, 1);
  EXPECT_FALSE(done.more);
  EXPECT_EQ(ids(store().admin().list({}, 0, 10)), (Ids{"new", "retry", "done2", "dead1", "dead2"}))
      << "by the time they became so, not by the time they occurred; the dead are not done";
  EXPECT_EQ(store().admin().purge(Purgeable::dead, between, 0, 100, false).rows, 1);
  EXPECT_EQ(ids(store().admin().list({}, 0, 10)), (Ids{"new", "retry", "done2", "dead2"}));

  EXPECT_EQ(store().admin().purge(Purgeable::done, now() + 24h, 0, 100, false).rows, 1);
  EXPECT_EQ(store().admin().purge(Purgeable::dead, now() + 24h, 0, 100, false).rows, 1);
  EXPECT_EQ(ids(store().admin().list({}, 0, 10)), (Ids{"new", "retry"})) << "never NEW or RETRY";
  EXPECT_EQ(store().counts().pending, 2);
  EXPECT_EQ(store().counts().dead, 0);
  EXPECT_TRUE(backend().archived(store()).empty());
}

TEST_P(PurgeTest, TheTimeItselfIsNotBefore) {
  write({event({.id = "a"}), event({.id = "b"})});
  const Owner owner = own_everything();
  apply(owner, {update("a", Kind::done), dead("b")});
  const Time finished = *record("a").done_at;
  EXPECT_EQ(store().admin().purge(Purgeable::done, finished, 0, 10, false).rows, 0);
  EXPECT_EQ(store().admin().purge(Purgeable::done, finished + 1us, 0, 10, false).rows, 1);
  EXPECT_EQ(store()
                .admin()
                .purge(Purgeable::any_age, record("b").row.event.occurred_at(), 0, 10, false)
                .rows,
            0);
}

TEST_P(PurgeTest, GoesByBoundedStepsThroughTheTable) {
  std::vector<Event> events;
  std::vector<StatusUpdate> updates;
  for (int i = 0; i < 10; ++i) events.push_back(event({.id = "e" + std::to_string(i)}));
  write(events);
  const Owner owner = own_everything();
  for (const Event& e : events) updates.push_back(update(e.id(), Kind::done));
  apply(owner, updates);
  advance(1h);
  std::vector<std::int64_t> steps;
  Changed step{.more = true};
  while (step.more && steps.size() < 20) {
    step = store().admin().purge(Purgeable::done, now(), step.through, 4, false);
    steps.push_back(step.rows);
  }
  EXPECT_EQ(steps, (std::vector<std::int64_t>{4, 4, 2}));
  EXPECT_EQ(store().admin().count({}), 0);
  EXPECT_EQ(store().admin().purge(Purgeable::done, now(), 7, 4, false).through, 7);
}

TEST_P(PurgeTest, ByAgeTakesEverythingWhateverItsState) {
  const Time old = now() - 2h;
  write({event({.id = "new", .occurred_at = old}), event({.id = "retry", .occurred_at = old}),
         event({.id = "delayed", .occurred_at = old, .available_at = now() + 1h}),
         event({.id = "done", .occurred_at = old}), event({.id = "dead", .occurred_at = old}),
         event({.id = "held", .occurred_at = old}), event({.id = "young"})});
  const Owner owner = own_everything();
  StatusUpdate held = update("held", Kind::hold);
  held.lane = 3;
  apply(owner, {update("retry", Kind::retry), update("done", Kind::done), dead("dead"), held});
  EXPECT_EQ(store().admin().count_purgeable(Purgeable::any_age, now() - 1h), 6);
  EXPECT_EQ(store().admin().purge(Purgeable::any_age, now() - 1h, 0, 100, true).rows, 6);
  EXPECT_EQ(ids(store().admin().list({}, 0, 10)), Ids{"young"});
  EXPECT_EQ(store().counts().pending, 1);
  EXPECT_EQ(store().counts().held, 0);
  EXPECT_EQ(ids(ready(owner)), Ids{"young"});
  EXPECT_EQ(backend().archived(store()).size(), 6u);
}

TEST_P(PurgeTest, TheArchiveGetsWhatWasPurgedByteForByte) {
  write({event({.id = "a", .payload = json(R"({"b":1.10, "a":2})")}), event({.id = "b"}),
         event({.id = "c"})});
  const Owner owner = own_everything();
  apply(owner, {update("a", Kind::done), dead("b", "it's over")});
  advance(1h);
  EXPECT_EQ(store().admin().purge(Purgeable::done, now(), 0, 10, true).rows, 1);
  EXPECT_EQ(store().admin().purge(Purgeable::dead, now(), 0, 10, true).rows, 1);
  EXPECT_EQ(backend().archived(store()), (Ids{R"(a={"b":1.10, "a":2})", "b={}"}));
  EXPECT_EQ(ids(store().admin().list({}, 0, 10)), Ids{"c"});
}

TEST_P(PurgeTest, AnIdThatWasArchivedMayComeBackAndBeArchivedAgain) {
  const Owner owner = own_everything();
  for (int i = 0; i < 2; ++i) {
    write(event({.id = "again"}));
    apply(owner, {update("again", Kind::done)});
    advance(1h);
    EXPECT_EQ(store().admin().purge(Purgeable::done, now(), 0, 10, true).rows, 1);
  }
  EXPECT_EQ(backend().archived(store()).size(), 2u);
}

TEST_P(PurgeTest, ADeadRowThatBlocksItsLaneIsNotPurged) {
  write_aggregate("1", {"a", "b"});
  const Owner owner = own_everything();
  StatusUpdate held = update("b", Kind::hold);
  held.lane = 7;
  apply(owner, {dead("a", "", 7), held});
  const int shard = ref("a").shard;
  advance(1h);
  EXPECT_EQ(store().admin().count_purgeable(Purgeable::dead, now()), 0);
  EXPECT_EQ(store().admin().purge(Purgeable::dead, now(), 0, 10, true).rows, 0);
  EXPECT_EQ(ids(owner->held({shard, 7}, 10).rows), (Ids{"a", "b"}));
  apply(owner, {update("a", Kind::unblock)});
  EXPECT_EQ(store().admin().count_purgeable(Purgeable::dead, now()), 1);
  EXPECT_EQ(store().admin().purge(Purgeable::dead, now(), 0, 10, true).rows, 1);
  EXPECT_EQ(ids(owner->held({shard, 7}, 10).rows), Ids{"b"});
}

TEST_P(PurgeTest, WhatIsReplayedInBetweenStays) {
  OUTBOX_NEEDS(capabilities().progress == Progress::row);
  // Replayed and delivered once more, it is young again.
  write(event({.id = "e"}));
  const Owner owner = own_everything();
  apply(owner, {update("e", Kind::done)});
  advance(10h);
  const Time before = now() - 1h;
  EXPECT_TRUE(store().admin().replay("e"));
  EXPECT_EQ(store().admin().purge(Purgeable::done, before, 0, 10, false).rows, 0) << "it is NEW";
  apply(owner, {update("e", Kind::done)});
  EXPECT_EQ(store().admin().purge(Purgeable::done, before, 0, 10, false).rows, 0)
      << "done just now";
}

// A purge looks for its rows first. Between that and the deletion an operator may replay them.
TEST_P(PurgeTest, WhatIsReplayedBetweenTheSearchAndTheDeletionStays) {
  for (const bool archive : {false, true}) {
    for (const Purgeable what : {Purgeable::done, Purgeable::dead}) {
      const Kind kind = what == Purgeable::done ? Kind::done : Kind::dead;
      const std::string suffix =
          std::to_string(static_cast<int>(what)) + (archive ? "-archived" : "");
      const Ids names{"replayed" + suffix, "old" + suffix};
      write({event({.id = names[0]}), event({.id = names[1]})});
      const Owner owner = own_everything();
      apply(owner, {update(names[0], kind), update(names[1], kind)});
      owner->leave();
      advance(1h);
      Changed step;
      if (!backend().interrupt(
              store(),
              "UPDATE {table} SET status = 0, hold = 0, done_at = NULL WHERE event_id = '" +
                  names[0] + "'",
              [&] { step = store().admin().purge(what, now(), 0, 10, archive); })) {
        GTEST_SKIP() << "a purge is one step in this store";
      }
      EXPECT_EQ(step.rows, 1) << suffix;
      EXPECT_TRUE(store().admin().find(names[0])) << "an event that nobody has delivered is gone";
      EXPECT_FALSE(store().admin().find(names[1]));
    }
  }
  EXPECT_EQ(backend().archived(store()).size(), 2u) << "what stays is not in the archive";
}

TEST_P(PurgeTest, WhatIsFinishedAgainBetweenTheSearchAndTheDeletionStays) {
  for (const bool archive : {false, true}) {
    const std::string id = archive ? "archived" : "deleted";
    write(event({.id = id, .occurred_at = now() + 24h}));
    const Owner owner = own_everything();
    apply(owner, {update(id, Kind::done)});
    owner->leave();
    advance(10h);
    Changed step;
    if (!backend().interrupt(
            store(), "UPDATE {table} SET done_at = created_at WHERE event_id = '" + id + "'",
            [&] { step = store().admin().purge(Purgeable::done, now() - 1h, 0, 10, archive); })) {
      GTEST_SKIP() << "a purge is one step in this store";
    }
    EXPECT_EQ(step.rows, 0) << id;
    EXPECT_TRUE(store().admin().find(id)) << "it was finished just now";
  }
  EXPECT_TRUE(backend().archived(store()).empty());
}

TEST_P(PurgeTest, WhatBlocksItsLaneSinceTheSearchStays) {
  for (const bool archive : {false, true}) {
    const std::string id = archive ? "archived" : "deleted";
    write(event({.id = id}));
    const Owner owner = own_everything();
    apply(owner, {dead(id)});
    owner->leave();
    advance(1h);
    Changed step;
    if (!backend().interrupt(
            store(), "UPDATE {table} SET hold = 7 WHERE event_id = '" + id + "'",
            [&] { step = store().admin().purge(Purgeable::dead, now(), 0, 10, archive); })) {
      GTEST_SKIP() << "a purge is one step in this store";
    }
    EXPECT_EQ(step.rows, 0) << id;
    ASSERT_TRUE(store().admin().find(id)) << "the lane has lost its head";
    EXPECT_EQ(record(id).hold, 7);
  }
  EXPECT_TRUE(backend().archived(store()).empty());
}

TEST_P(PurgeTest, TwoPurgersRemoveEachRowOnce) {
  constexpr int kEvents = 300;
  std::vector<Event> events;
  for (int i = 0; i < kEvents; ++i) events.push_back(event({.id = "e" + std::to_string(i)}));
  write(events);
  const Owner owner = own_everything();
  std::vector<StatusUpdate> updates;
  for (const Event& e : events) updates.push_back(update(e.id(), Kind::done));
  apply(owner, updates);
  advance(1h);
  std::atomic<std::int64_t> removed = 0;
  {
    std::vector<std::jthread> purgers;
    for (int i = 0; i < 3; ++i) {
      purgers.emplace_back([&] {
        Changed step{.more = true};
        while (step.more) {
          step = store().admin().purge(Purgeable::done, now(), step.through, 11, true);
          removed += step.rows;
        }
      });
    }
  }
  EXPECT_EQ(removed, kEvents);
  EXPECT_EQ(backend().archived(store()).size(), static_cast<std::size_t>(kEvents));
}

TEST_P(PurgeTest, NumbersOfPurgedRowsAreNotGivenAgain) {
  const Seq last = write(event({.id = "a"})).seq;
  const Owner owner = own_everything();
  apply(owner, {update("a", Kind::done)});
  advance(1h);
  EXPECT_EQ(store().admin().purge(Purgeable::done, now(), 0, 10, false).rows, 1);
  EXPECT_GT(write(event({.id = "b"})).seq, last);
  EXPECT_EQ(ids(owner->ready(owner.shards(), 0, 10).rows), Ids{"b"});
}

}  // namespace
}  // namespace outbox::conformance
