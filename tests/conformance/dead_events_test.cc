// Rule 32: what operators do about events that are dead, or delivered.
#include <algorithm>
#include <atomic>
#include <thread>

#include "store_conformance.h"

namespace outbox::conformance {
namespace {

using Ids = std::vector<std::string>;
using Kind = StatusUpdate::Kind;

// --- Looking ---

TEST_P(DeadEventsTest, AListIsNarrowedByEachFieldOfTheFilter) {
  write({event({.id = "plain"}), event({.id = "type", .type = "Other"}),
         event({.id = "aggregate", .aggregate_type = "Order", .aggregate_id = "7"}),
         event({.id = "tenant", .tenant_id = "acme"}),
         event({.id = "early", .occurred_at = now() - 1h})});
  EXPECT_EQ(ids(store().admin().list({}, 0, 100)),
            (Ids{"plain", "type", "aggregate", "tenant", "early"}));
  EXPECT_EQ(ids(store().admin().list({.type = "Other"}, 0, 100)), Ids{"type"});
  EXPECT_EQ(ids(store().admin().list({.aggregate_type = "Order"}, 0, 100)), Ids{"aggregate"});
  EXPECT_EQ(ids(store().admin().list({.aggregate_id = "7"}, 0, 100)), Ids{"aggregate"});
  EXPECT_EQ(ids(store().admin().list({.tenant_id = "acme"}, 0, 100)), Ids{"tenant"});
  EXPECT_EQ(ids(store().admin().list({.occurred = {.until = now() - 30min}}, 0, 100)),
            Ids{"early"});
  EXPECT_EQ(ids(store().admin().list({.type = "Other", .tenant_id = "acme"}, 0, 100)), Ids{});
  EXPECT_EQ(store().admin().count({.aggregate_type = std::string(kGlobalAggregate)}), 4);
  EXPECT_EQ(store().admin().count({}), 5);
  EXPECT_EQ(store().admin().count({.type = "other"}), 0) << "case counts";
}

TEST_P(DeadEventsTest, AListIsNarrowedByStatusAlsoBySeveral) {
  write({event({.id = "new"}), event({.id = "retry"}), event({.id = "done"}), event({.id = "dead"}),
         event({.id = "blocking"}), event({.id = "delayed", .available_at = now() + 1h})});
  const Owner owner = own_everything();
  apply(owner, {update("retry", Kind::retry), update("done", Kind::done), dead("dead"),
                dead("blocking", "", 5)});
  const std::vector<std::pair<std::vector<Status>, Ids>> expected{
      {{Status::pending}, {"new", "delayed"}},
      {{Status::retry}, {"retry"}},
      {{Status::done}, {"done"}},
      {{Status::dead}, {"dead", "blocking"}},
      {{Status::pending, Status::retry}, {"new", "retry", "delayed"}},
      {{Status::dead, Status::done}, {"done", "dead", "blocking"}},
      {{Status::pending, Status::dead}, {"new", "dead", "blocking", "delayed"}},
  };
  for (const auto& [status, wanted] : expected) {
    EXPECT_EQ(ids(store().admin().list({.status = status}, 0, 100)), wanted);
    EXPECT_EQ(store().admin().count({.status = status}), static_cast<std::int64_t>(wanted.size()));
  }
}

TEST_P(DeadEventsTest, AListComesInPagesByTheOrderOfTheRows) {
  std::vector<Event> events;
  Ids all;
  for (int i = 0; i < 25; ++i) {
    all.push_back("e" + std::to_string(i));
    events.push_back(event({.id = all.back(), .aggregate_id = std::to_string(i)}));
  }
  write(events);
  const Owner owner = own_everything();
  for (const std::vector<Status>& status : {std::vector<Status>{}, {Status::pending}}) {
    Ids read;
    Seq after = 0;
    for (;;) {
      const auto page = store().admin().list({.status = status}, after, 10);
      EXPECT_LE(page.size(), 10u);
      for (const auto& record : page) read.push_back(record.row.event.id());
      if (page.empty()) break;
      after = page.back().row.ref.seq;
    }
    EXPECT_EQ(read, all);
  }
  EXPECT_TRUE(store().admin().list({}, 0, 0).empty());
}

TEST_P(DeadEventsTest, ARecordInAListIsWhatFindTells) {
  write(event({.id = "e", .headers = {{"k", "v"}}, .payload = bytes(std::string("\0\xff", 2))}));
  const Owner owner = own_everything();
  apply(owner, {dead("e", "gave up")});
  const EventRecord listed = store().admin().list({.status = {Status::dead}}, 0, 10).at(0);
  const EventRecord found = record("e");
  EXPECT_EQ(listed.row.event.payload(), found.row.event.payload());
  EXPECT_EQ(listed.row.event.headers(), found.row.event.headers());
  EXPECT_EQ(listed.row.ref.seq, found.row.ref.seq);
  EXPECT_EQ(listed.row.attempts, 10);
  EXPECT_EQ(listed.last_error, "gave up");
  EXPECT_EQ(listed.done_at, found.done_at);
  EXPECT_EQ(listed.hold, found.hold);
}

TEST_P(DeadEventsTest, NoCharacterOfAFilterIsSpecial) {
  const Ids errors{"100% of a_b", "100 of aXb",      "it's \"broken\"",
                   "' OR '1'='1", "back\\slash*[a]", "gr\xc3\xbc\xc3\x9f"};
  std::vector<Event> events;
  for (std::size_t i = 0; i < errors.size(); ++i) events.push_back(event({.id = errors[i]}));
  write(events);
  const Owner owner = own_everything();
  for (const std::string& error : errors) apply(owner, {dead(error, "failed: " + error + "!")});
  for (const std::string& error : errors) {
    EXPECT_EQ(ids(store().admin().list({.error_contains = error}, 0, 10)), Ids{error});
    EXPECT_EQ(store().admin().count({.status = {Status::dead}, .error_contains = error}), 1)
        << error;
  }
  EXPECT_EQ(store().admin().count({.error_contains = "%"}), 1);
  EXPECT_EQ(store().admin().count({.error_contains = "_"}), 1);
  EXPECT_EQ(store().admin().count({.error_contains = "FAILED"}), 0) << "case counts";
  EXPECT_EQ(store().admin().count({.type = "' OR '1'='1"}), 0);
  EXPECT_EQ(store().admin().count({.aggregate_id = "%"}), 0);
}

TEST_P(DeadEventsTest, ATimeRangeHoldsItsBeginningAndNotItsEnd) {
  const Time begin = now();
  write({event({.id = "a"}), event({.id = "b", .occurred_at = begin + 1h})});
  EXPECT_EQ(ids(store().admin().list({.occurred = {.from = begin, .until = begin + 1h}}, 0, 9)),
            Ids{"a"});
  EXPECT_EQ(ids(store().admin().list({.occurred = {.from = begin + 1h}}, 0, 9)), Ids{"b"});
  EXPECT_EQ(store().admin().count({.occurred = {.from = begin + 1h, .until = begin}}), 0);

  const Owner owner = own_everything();
  apply(owner, {dead("a")});
  const Time died = *record("a").done_at;
  EXPECT_EQ(ids(store().admin().list({.finished = {.from = died}}, 0, 9)), Ids{"a"})
      << "what is not finished has no such time";
  EXPECT_EQ(store().admin().count({.finished = {.until = died}}), 0);
  EXPECT_EQ(store().admin().count({.finished = {.until = died + 1us}}), 1);
}

TEST_P(DeadEventsTest, GroupsTellWhatEventsDiedOf) {
  write({event({.id = "1", .aggregate_type = "Order"}),
         event({.id = "2", .aggregate_type = "Order"}),
         event({.id = "3", .aggregate_type = "Order"}), event({.id = "4"}),
         event({.id = "alive", .aggregate_type = "Order"})});
  const Owner owner = own_everything();
  std::string lengthy;
  for (int i = 0; i < 300; ++i) lengthy += "\xc3\xa4";
  apply(owner, {dead("1", "timeout")});
  const Time first = *record("1").done_at;
  advance(1min);
  apply(owner, {dead("2", "timeout"), dead("3", "refused", 5), dead("4", lengthy)});

  const auto groups = store().admin().dead_groups({}, 10);
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[0].aggregate_type, "Order");
  EXPECT_EQ(groups[0].type, "Happened");
  EXPECT_EQ(groups[0].error, "timeout");
  EXPECT_EQ(groups[0].count, 2);
  EXPECT_EQ(groups[0].first, noted(first, 1min));
  EXPECT_EQ(groups[0].last, *record("2").done_at);
  EXPECT_TRUE(groups[0].example_id == "1" || groups[0].example_id == "2");
  for (const DeadGroup& group : groups) {
    if (group.aggregate_type == "Order") continue;
    EXPECT_EQ(group.aggregate_type, kGlobalAggregate);
    EXPECT_EQ(group.error, lengthy.substr(0, 400)) << "200 characters of two bytes";
    EXPECT_EQ(group.example_id, "4");
  }
  EXPECT_EQ(store().admin().dead_groups({}, 1).size(), 1u);
  EXPECT_EQ(store()
                .admin()
                .dead_groups({.status = {Status::pending}, .error_contains = "refused"}, 9)
                .size(),
            1u)
      << "groups are of dead events, whatever the status says";
  EXPECT_TRUE(store().admin().dead_groups({.error_contains = "nothing"}, 9).empty());
}

TEST_P(DeadEventsTest, CountsTellWhatWaitsForWhat) {
  const Time oldest = now() - 3h;
  write({event({.id = "new", .occurred_at = oldest + 1h}), event({.id = "retry"}),
         event({.id = "later", .occurred_at = oldest, .available_at = now() + 1h}),
         event({.id = "held", .occurred_at = oldest}), event({.id = "due"}),
         event({.id = "blocking"})});
  const Owner owner = own_everything();
  EXPECT_EQ(store().counts().oldest_pending, oldest) << "held is ready as yet";
  StatusUpdate retry = update("retry", Kind::retry);
  retry.delay = 1h;
  StatusUpdate held = update("held", Kind::hold);
  held.lane = 5;
  StatusUpdate due = update("due", Kind::retry);
  due.delay = 1s;
  apply(owner, {retry, held, due, dead("blocking", "", 5)});
  advance(1min);
  const Counts counts = store().counts();
  EXPECT_EQ(counts.pending, 5);
  EXPECT_EQ(counts.dead, 1);
  EXPECT_EQ(counts.retry, 2);
  EXPECT_EQ(counts.delayed, 2) << "retry, later";
  EXPECT_EQ(counts.held, 1);
  EXPECT_EQ(counts.oldest_pending, noted(oldest + 1h, 1min));

  apply(owner, {update("new", Kind::done), update("due", Kind::done)});
  EXPECT_EQ(store().counts().oldest_pending, std::nullopt);
}

// --- Replay ---

TEST_P(DeadEventsTest, ADeliveredEventCanBeReplayedToo) {
  write(event({.id = "e"}));
  const Owner owner = own_everything();
  apply(owner, {update("e", Kind::done)});
  advance(1h);
  EXPECT_TRUE(store().admin().replay("e"));
  const EventRecord read = record("e");
  EXPECT_EQ(read.row.status, Status::pending);
  EXPECT_EQ(read.done_at, std::nullopt);
  expect_due_in(read, 0us);
  EXPECT_EQ(ids(owner->due(owner.shards(), 10).rows), Ids{"e"});
}

TEST_P(DeadEventsTest, BulkReplayTakesTheDeadThatMatchAndNothingElse) {
  write({event({.id = "new"}), event({.id = "retry"}), event({.id = "done"}), event({.id = "a"}),
         event({.id = "b"}), event({.id = "c"})});
  const Owner owner = own_everything();
  apply(owner, {update("retry", Kind::retry), update("done", Kind::done), dead("a", "timeout"),
                dead("b", "refused"), dead("c", "timeout")});
  const Changed step = store().admin().replay({.error_contains = "timeout"}, 0, 100);
  EXPECT_EQ(step.rows, 2);
  EXPECT_FALSE(step.more);
  EXPECT_EQ(step.through, ref("c").seq);
  EXPECT_EQ(record("a").row.status, Status::pending);
  EXPECT_EQ(record("a").row.attempts, 0);
  EXPECT_EQ(record("a").last_error, "");
  expect_due_in(record("a"), 0us);
  EXPECT_EQ(record("b").row.status, Status::dead);
  EXPECT_EQ(record("done").row.status, Status::done);
  EXPECT_EQ(record("retry").row.attempts, 0);
  EXPECT_EQ(record("retry").row.status, Status::retry);
  EXPECT_EQ(ids(owner->due(owner.shards(), 10).rows).size(), 3u) << "retry, a, c";
}

TEST_P(DeadEventsTest, BulkReplayLeavesUnfinishedEventsAloneEvenIfAskedFor) {
  write({event({.id = "new"}), event({.id = "retry"}), event({.id = "dead"})});
  const Owner owner = own_everything();
  StatusUpdate retry = update("retry", Kind::retry);
  retry.attempts = 3;
  apply(owner, {retry, dead("dead")});
  EXPECT_EQ(store().admin().replay({.status = {Status::pending, Status::retry}}, 0, 100).rows, 0);
  EXPECT_EQ(record("retry").row.attempts, 3);
  EXPECT_EQ(store().admin().replay({.status = {Status::retry, Status::dead}}, 0, 100).rows, 1);
  EXPECT_EQ(record("retry").row.attempts, 3);
  EXPECT_EQ(record("dead").row.status, Status::pending);
}

TEST_P(DeadEventsTest, DeliveredEventsAreReplayedInBulkOnlyWhenNamed) {
  write_aggregate("1", {"a", "b"});
  write_aggregate("2", {"c", "d"});
  const Owner owner = own_everything();
  apply(owner,
        {update("a", Kind::done), update("b", Kind::done), update("c", Kind::done), dead("d")});
  EXPECT_EQ(store().admin().replay({}, 0, 100).rows, 1) << "the dead one";
  EXPECT_EQ(record("d").row.status, Status::pending);
  EXPECT_EQ(store().admin().replay({.status = {Status::done}, .aggregate_id = "1"}, 0, 100).rows,
            2);
  EXPECT_EQ(record("c").row.status, Status::done);
  // Two of one aggregate, due at one moment, come in their old order.
  const Ids due = ids(owner->due(owner.shards(), 10).rows);
  EXPECT_LT(std::find(due.begin(), due.end(), "a"), std::find(due.begin(), due.end(), "b"));
}

TEST_P(DeadEventsTest, BulkReplayByStepsEndsThoughEventsDieAgainAtOnce) {
  std::vector<Event> events;
  for (int i = 0; i < 10; ++i) events.push_back(event({.id = "e" + std::to_string(i)}));
  write(events);
  const Owner owner = own_everything();
  for (const Event& e : events) apply(owner, {dead(e.id())});
  std::int64_t replayed = 0;
  int steps = 0;
  Seq after = 0;
  for (bool more = true; more && steps < 100; ++steps) {
    const Changed step = store().admin().replay({}, after, 3);
    EXPECT_GT(step.through, after);
    after = step.through;
    more = step.more;
    replayed += step.rows;
    for (const Event& e : events) {
      if (record(e.id()).row.status == Status::pending) apply(owner, {dead(e.id())});
    }
  }
  EXPECT_EQ(replayed, 10);
  EXPECT_EQ(steps, 4);
  EXPECT_EQ(store().counts().dead, 10);
  const Changed nothing = store().admin().replay({}, after, 3);
  EXPECT_EQ(nothing.rows, 0);
  EXPECT_EQ(nothing.through, after) << "from where the next step goes on";
  EXPECT_FALSE(nothing.more);
}

TEST_P(DeadEventsTest, BulkReplayKeepsTheHeadsOfLanesInTheirPlace) {
  write_aggregate("1", {"a", "b", "c"});
  const Owner owner = own_everything();
  StatusUpdate held = update("c", Kind::hold);
  held.lane = 7;
  apply(owner, {dead("a", "", 7), dead("b", "", 7), held});
  EXPECT_EQ(store().admin().replay({}, 0, 10).rows, 2);
  EXPECT_EQ(record("a").hold, 7);
  EXPECT_EQ(ids(owner->held({ref("a").shard, 7}, 10).rows), (Ids{"a", "b", "c"}));
  EXPECT_TRUE(owner->due(owner.shards(), 10).rows.empty()) << "they do not wait alone as well";
}

TEST_P(DeadEventsTest, AnUpdateAfterAReplayFinishesTheEventAgain) {
  write(event({.id = "e"}));
  const Owner owner = own_everything();
  const StatusUpdate done = update("e", Kind::done);
  apply(owner, {done});
  EXPECT_EQ(store().admin().replay({.status = {Status::done}}, 0, 10).rows, 1);
  apply(owner, {update("e", Kind::done)});
  EXPECT_EQ(record("e").row.status, Status::done);
  EXPECT_FALSE(store().has_pending());
}

TEST_P(DeadEventsTest, TwoOperatorsReplayEachEventOnce) {
  constexpr int kEvents = 200;
  std::vector<Event> events;
  for (int i = 0; i < kEvents; ++i) events.push_back(event({.id = "e" + std::to_string(i)}));
  write(events);
  const Owner owner = own_everything();
  std::vector<StatusUpdate> updates;
  for (const Event& e : events) updates.push_back(dead(e.id()));
  apply(owner, updates);
  std::atomic<std::int64_t> replayed = 0;
  {
    std::vector<std::jthread> operators;
    for (int i = 0; i < 3; ++i) {
      operators.emplace_back([&] {
        Changed step{.more = true};
        while (step.more) {
          step = store().admin().replay({}, step.through, 7);
          replayed += step.rows;
        }
      });
    }
  }
  EXPECT_EQ(replayed, kEvents);
  EXPECT_EQ(store().counts().dead, 0);
}

// Bulk operations look for their rows first. Between that and the change somebody else may change
// the rows.
TEST_P(DeadEventsTest, WhatIsDeliveredBetweenTheSearchAndTheReplayIsNotDeliveredAgain) {
  write({event({.id = "delivered"}), event({.id = "dead"})});
  const Owner owner = own_everything();
  apply(owner, {dead("delivered"), dead("dead")});
  Changed step;
  if (!backend().interrupt(
          store(), "UPDATE {table} SET status = 1, hold = NULL WHERE event_id = 'delivered'",
          [&] { step = store().admin().replay({.status = {Status::dead}}, 0, 10); })) {
    GTEST_SKIP() << "a replay is one step in this store";
  }
  EXPECT_EQ(step.rows, 1);
  EXPECT_EQ(record("delivered").row.status, Status::done);
  EXPECT_EQ(record("dead").row.status, Status::pending);
}

TEST_P(DeadEventsTest, WhatIsReplayedBetweenTheSearchAndTheReplayIsReplayedOnce) {
  write({event({.id = "failing"}), event({.id = "dead"})});
  const Owner owner = own_everything();
  apply(owner, {dead("failing"), dead("dead")});
  Changed step;
  if (!backend().interrupt(store(),
                           "UPDATE {table} SET status = 2, attempts = 3, hold = -1, done_at = NULL "
                           "WHERE event_id = 'failing'",
                           [&] { step = store().admin().replay({}, 0, 10); })) {
    GTEST_SKIP() << "a replay is one step in this store";
  }
  EXPECT_EQ(step.rows, 1);
  EXPECT_EQ(record("failing").row.attempts, 3) << "its attempts start over though it failed";
  EXPECT_EQ(record("dead").row.status, Status::pending);
}

TEST_P(DeadEventsTest, WhatIsReplayedBetweenTheSearchAndTheDiscardIsNotLost) {
  write({event({.id = "replayed"}), event({.id = "dead"})});
  const Owner owner = own_everything();
  apply(owner, {dead("replayed"), dead("dead")});
  Changed step;
  if (!backend().interrupt(
          store(),
          "UPDATE {table} SET status = 0, hold = 0, done_at = NULL WHERE event_id = 'replayed'",
          [&] { step = store().admin().discard({}, 0, 10); })) {
    GTEST_SKIP() << "a discard is one step in this store";
  }
  EXPECT_EQ(step.rows, 1);
  EXPECT_TRUE(store().admin().find("replayed"));
  EXPECT_FALSE(store().admin().find("dead"));
}

TEST_P(DeadEventsTest, WhatDiedAgainOfAnotherErrorSinceTheSearchIsLeftAlone) {
  const std::vector<std::function<Changed()>> changes{
      [&] { return store().admin().replay({.error_contains = "refused"}, 0, 10); },
      [&] { return store().admin().discard({.error_contains = "refused"}, 0, 10); },
  };
  for (const auto& change : changes) {
    const std::string id = "e" + std::to_string(&change - changes.data());
    write(event({.id = id}));
    const Owner owner = own_everything();
    apply(owner, {dead(id, "connection refused")});
    owner->leave();
    Changed step;
    if (!backend().interrupt(
            store(),
            "UPDATE {table} SET last_error = 'no such mailbox' WHERE event_id = '" + id + "'",
            [&] { step = change(); })) {
      GTEST_SKIP() << "a change is one step in this store";
    }
    EXPECT_EQ(step.rows, 0) << id;
    ASSERT_TRUE(store().admin().find(id)) << "discarded, though it died of something else";
    EXPECT_EQ(record(id).row.status, Status::dead);
  }
}

TEST_P(DeadEventsTest, BulkReplayTellsTheWatch) {
  write(event({.id = "e"}));
  const Owner owner = own_everything();
  apply(owner, {dead("e")});
  testing::Signal told;
  const auto watch = store().watch([&] { told.raise(); });
  OUTBOX_NEEDS(watch != nullptr);
  const std::size_t before = told.count();
  EXPECT_EQ(store().admin().replay({}, 0, 10).rows, 1);
  EXPECT_TRUE(told.wait(before + 1));
}

// --- Discard ---

TEST_P(DeadEventsTest, BulkDiscardTakesTheDeadOnlyWhateverTheFilterSays) {
  write({event({.id = "new"}), event({.id = "done"}), event({.id = "a"}), event({.id = "b"}),
         event({.id = "c"})});
  const Owner owner = own_everything();
  apply(owner, {update("done", Kind::done), dead("a"), dead("b", "", 9), dead("c", "keep")});
  const Changed first = store().admin().discard({.status = {Status::pending, Status::done}}, 0, 1);
  EXPECT_EQ(first.rows, 1);
  EXPECT_TRUE(first.more);
  EXPECT_FALSE(store().admin().find("a"));
  EXPECT_EQ(store().admin().discard({.error_contains = "keep"}, first.through, 10).rows, 1);
  EXPECT_FALSE(store().admin().find("c"));
  EXPECT_EQ(ids(store().admin().list({}, 0, 10)), (Ids{"new", "done", "b"}));
  EXPECT_EQ(store().admin().discard({}, 0, 10).rows, 1);
  for (const int shard : owner.shards()) {
    EXPECT_TRUE(owner->held_lanes(shard, kNoLane, 10).empty()) << "gone from its lane too";
  }
}

// --- Members ---

TEST_P(DeadEventsTest, MembersAreThoseWhoOwnEventsAndSayWhetherTheyLive) {
  EXPECT_TRUE(store().admin().members().empty());
  const Owner owner = own_everything({.name = "alice"});
  auto members = store().admin().members();
  ASSERT_EQ(members.size(), 1u);
  EXPECT_EQ(members[0].name, "alice");
  EXPECT_TRUE(members[0].alive);
  EXPECT_EQ(members[0].epoch, owner.lease.epoch);
  EXPECT_EQ(members[0].shards, owner.shards());
  EXPECT_GT(members[0].pid, 0);
  EXPECT_FALSE(members[0].host.empty());
  expect_time(members[0].registered_at.time_since_epoch(), now().time_since_epoch());

  owner->leave();
  for (const Member& member : store().admin().members()) {
    EXPECT_FALSE(member.alive);
    EXPECT_TRUE(member.shards.empty());
  }
}

}  // namespace
}  // namespace outbox::conformance
