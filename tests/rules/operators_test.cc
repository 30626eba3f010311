// What operators do: dead events and the purge.
#include <cmath>
#include <limits>

#include "every_store.h"
#include "outbox/admin/dead_events.h"
#include "outbox/admin/purge.h"
#include "outbox/error.h"
#include "outbox/memory.h"

namespace outbox::testing {
namespace {

using Ids = std::vector<std::string>;

class DeadEventsTest : public OnEveryStore {
 protected:
  // Events that are DEAD of these errors, each of an aggregate of its own.
  Ids make_dead(const Ids& errors) {
    const auto box = open(
        {}, std::make_shared<RecordingListener>([](const Event& event, const Delivery&) -> Outcome {
          throw PermanentError(event.payload().substr(1, event.payload().size() - 2));
        }));
    Ids ids;
    for (std::size_t i = 0; i < errors.size(); ++i) {
      ids.push_back(write(*box, order_event(std::to_string(i), '"' + errors[i] + '"')));
    }
    EXPECT_TRUE(box->wait_idle(20s));
    return ids;
  }
  Ids make_dead(std::size_t count) { return make_dead(Ids(count, "broken")); }

  DeadEvents dead() const { return DeadEvents{store}; }
};
OUTBOX_ON_EVERY_STORE(DeadEventsTest);

TEST_P(DeadEventsTest, QueriesCountsAndGroupsAreOfTheDead) {
  const Ids ids = make_dead({"timeout", "refused", "timeout"});
  write_elsewhere(order_event("9", "{}"));
  EXPECT_EQ(dead().count(), 3);
  EXPECT_EQ(dead().count({.status = {Status::pending}}), 3) << "whatever the filter says";
  EXPECT_EQ(dead().count({.error_contains = "time"}), 2);
  const auto page = dead().query({}, 2);
  ASSERT_EQ(page.size(), 2u);
  EXPECT_EQ(page[0].row.event.id(), ids[0]);
  EXPECT_EQ(page[0].last_error, "timeout");
  const auto rest = dead().query({.status = {Status::pending}}, 2, page.back().row.ref.seq);
  ASSERT_EQ(rest.size(), 1u);
  EXPECT_EQ(rest[0].row.event.id(), ids[2]);
  ASSERT_EQ(dead().groups().size(), 2u);
  EXPECT_EQ(dead().groups()[0].error, "timeout");
  EXPECT_EQ(dead().groups()[0].count, 2);
}

TEST_P(DeadEventsTest, OneIsReplayedAndDeliveredAgain) {
  const std::string id = make_dead(1).at(0);
  const auto box = open();
  EXPECT_TRUE(dead().replay(id));
  box->wake();  // not every store tells of a replay
  EXPECT_TRUE(recorder->wait_for(1));
  EXPECT_TRUE(box->wait_idle(20s));
  EXPECT_EQ(status(id), Status::done);
  EXPECT_FALSE(dead().replay(id)) << "it is DONE now: nobody asked for a second delivery";
  EXPECT_FALSE(dead().replay("nobody"));
  EXPECT_FALSE(dead().discard(id));
  EXPECT_EQ(recorder->count(), 1u);
}

TEST_P(DeadEventsTest, AllThatMatchAreReplayedInBatches) {
  make_dead({"a", "b", "a", "a", "b", "a"});
  Ids told;
  const std::size_t before = faults->calls("replay");
  EXPECT_EQ(
      dead().replay_all({.error_contains = "a"}, {.batch = 3,
                                                  .progress =
                                                      [&](std::int64_t changed) {
                                                        told.push_back(std::to_string(changed));
                                                        return true;
                                                      }}),
      4);
  EXPECT_EQ(told, (Ids{"3", "4"}));
  EXPECT_EQ(faults->calls("replay") - before, 2u);
  EXPECT_EQ(dead().count(), 2);
  const auto box = open();
  EXPECT_TRUE(box->wait_idle(20s));
  EXPECT_EQ(recorder->count(), 4u);
}

TEST_P(DeadEventsTest, ABulkReplayStopsAtItsLimitOrWhenToldTo) {
  make_dead(10);
  EXPECT_EQ(dead().replay_all({}, {.batch = 3, .limit = 4}), 4);
  EXPECT_EQ(dead().replay_all({}, {.batch = 2, .progress = [](std::int64_t) { return false; }}), 2);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(dead().replay_all({}, {.stop = stop.get_token()}), 0);
  EXPECT_EQ(dead().count(), 4);
  EXPECT_EQ(
      dead().replay_all({}, {.batch = 100, .limit = std::numeric_limits<std::int64_t>::max()}), 4);
}

TEST_P(DeadEventsTest, ARateIsKept) {
  make_dead(12);
  const auto began = std::chrono::steady_clock::now();
  // 100 a second: batches of ten, and one tenth of a second between two.
  EXPECT_EQ(dead().replay_all({}, {.rate = 100}), 12);
  EXPECT_GE(std::chrono::steady_clock::now() - began, 90ms);
  EXPECT_EQ(faults->calls("replay"), 2u);
}

TEST_P(DeadEventsTest, AWaitForTheRateIsOverAtAStop) {
  make_dead(2);
  std::stop_source stop;
  // One in a day.
  EXPECT_EQ(dead().replay_all({}, {.rate = 1.0 / 86'400,
                                   .progress =
                                       [&](std::int64_t) {
                                         stop.request_stop();
                                         return true;
                                       },
                                   .stop = stop.get_token()}),
            1);
}

TEST_P(DeadEventsTest, ABulkReplayEndsThoughEventsDieAgainAtOnceAndNewOnesDieToo) {
  make_dead(20);
  auto listener = std::make_shared<RecordingListener>(
      [](const Event&, const Delivery&) -> Outcome { throw PermanentError("still broken"); });
  const auto box = open({}, listener);
  std::size_t batches = 0;
  const std::int64_t replayed = dead().replay_all({}, {.batch = 4, .progress = [&](std::int64_t) {
                                                         ++batches;
                                                         // More than a batch dies again between two
                                                         // batches.
                                                         if (time_stands_still()) advance(1s);
                                                         for (int i = 0; i < 10; ++i)
                                                           write(*box, order_event("x", "{}"));
                                                         EXPECT_TRUE(box->wait_idle(20s));
                                                         return batches < 100;
                                                       }});
  EXPECT_EQ(replayed, 20);
  EXPECT_EQ(batches, 5u);
  EXPECT_EQ(dead().count(), 20 + 50);
}

TEST_P(DeadEventsTest, AllThatMatchAreDiscarded) {
  make_dead({"a", "b", "a"});
  EXPECT_EQ(dead().discard_all({.error_contains = "a"}, {.batch = 1}), 2);
  EXPECT_EQ(dead().count(), 1);
  EXPECT_TRUE(dead().discard(dead().query().at(0).row.event.id()));
  EXPECT_EQ(store->admin().count({}), 0);
}

TEST_P(DeadEventsTest, DeliveredEventsAreReplayedInTheirOldOrder) {
  const auto box = open({.workers = 4});
  Ids written;
  for (int i = 0; i < 30; ++i) {
    written.push_back(write(*box, order_event(i % 3 == 0 ? "1" : "2", std::to_string(i))));
  }
  ASSERT_TRUE(box->wait_idle(20s));
  EXPECT_EQ(dead().replay_done({.aggregate_id = "1"}, {.batch = 3}), 10);
  box->wake();
  ASSERT_TRUE(recorder->wait_for(40));
  ASSERT_TRUE(box->wait_idle(20s));
  Ids once;
  Ids again;
  for (const auto& call : recorder->calls()) {
    if (call.event.aggregate_id() != "1") continue;
    (once.size() < 10 ? once : again).push_back(call.event.payload());
  }
  EXPECT_EQ(again, once);
  EXPECT_EQ(recorder->count(), 40u);
}

TEST_P(DeadEventsTest, AllThatWasEverDeliveredIsNotReplayedByMistake) {
  EXPECT_THROW(dead().replay_done({}), MisuseError);
  EXPECT_THROW(dead().replay_done({.type = "Happened", .aggregate_type = "Order"}), MisuseError);
  EXPECT_EQ(dead().replay_done({.occurred = {.from = now() - 1h}}), 0);
  EXPECT_EQ(dead().replay_done({.finished = {.until = now()}}), 0);
}

TEST_P(DeadEventsTest, AnEventThatIsReplayedTheMomentItIsFinishedIsNotMissed) {
  // The engine may not have heard yet that its update has been acknowledged.
  const std::string id = write_elsewhere(order_event("1", "{}"));
  const auto times = static_cast<std::size_t>(many(300, 60));
  const auto box = open({.poll_interval = time_stands_still() ? 100ms : 20ms});
  // Without a poll, where the clock stands still. But a read that met it before the engine had
  // heard leaves it to the next one: in one process that is rare, and must stay so.
  int polls = 0;
  const auto found = [&](const auto& condition) {
    if (eventually(condition, 5s)) return true;
    advance(1s);
    return ++polls <= 3 && eventually(condition);
  };
  for (std::size_t i = 1; i <= times; ++i) {
    ASSERT_TRUE(found([&] { return store->admin().replay(id); }))
        << i << ", with " << polls << " polls";
  }
  ASSERT_TRUE(found([&] { return recorder->count() > times; })) << recorder->count();
  ASSERT_TRUE(box->wait_idle(20s));
  EXPECT_EQ(recorder->count(), times + 1) << "neither more nor less than asked for";
}

TEST_P(DeadEventsTest, ErrorsReachTheCallerAndWhatWasDoneStays) {
  make_dead(4);
  faults->before([&](std::string_view call) {
    if (call == "replay" && faults->calls("replay") >= 2) throw RetryableError("unreachable");
  });
  EXPECT_THROW(dead().replay_all({}, {.batch = 3}), RetryableError);
  EXPECT_EQ(dead().count(), 1);
  faults->clear();
  EXPECT_EQ(dead().replay_all({}, {.batch = 3}), 1) << "a repetition goes on";
  faults->before(failing({"list", "count", "dead_groups", "discard"}));
  EXPECT_THROW(dead().query(), RetryableError);
  EXPECT_THROW(dead().count(), RetryableError);
  EXPECT_THROW(dead().groups(), RetryableError);
  EXPECT_THROW(dead().discard("x"), RetryableError);
}

TEST_P(DeadEventsTest, InvalidOptionsAreRefused) {
  EXPECT_THROW(DeadEvents{nullptr}, MisuseError);
  EXPECT_THROW(dead().replay_all({}, {.batch = 0}), MisuseError);
  EXPECT_THROW(dead().replay_all({}, {.limit = -1}), MisuseError);
  EXPECT_THROW(dead().replay_all({}, {.rate = -1}), MisuseError);
  EXPECT_THROW(dead().discard_all({}, {.rate = std::nan("")}), MisuseError);
  EXPECT_THROW(dead().replay_done({.aggregate_id = "1"}, {.batch = 0}), MisuseError);
  EXPECT_THROW(ScheduledReplay(nullptr, {}), MisuseError);
  EXPECT_THROW(ScheduledReplay(store, {.interval = 0ms}), MisuseError);
  EXPECT_THROW(ScheduledReplay(store, {.min_age = -1ms}), MisuseError);
  EXPECT_THROW(ScheduledReplay(store, {.bulk = {.batch = 0}}), MisuseError);
}

TEST_P(DeadEventsTest, AScheduleReplaysWhatIsOldEnough) {
  make_dead({"a", "b"});
  advance(9min);
  make_dead({"a"});
  ScheduledReplay replay(store, {.filter = {.error_contains = "a"}, .log = log.log()});
  EXPECT_EQ(replay.run_once(), 0);
  advance(1min);
  EXPECT_EQ(replay.run_once(), 1);
  EXPECT_EQ(dead().count(), 2);
  advance(9min);
  EXPECT_EQ(replay.run_once(), 1);
  ScheduledReplay never(store, {.min_age = std::chrono::milliseconds::max()});
  EXPECT_EQ(never.run_once(), 0);
}

TEST_P(DeadEventsTest, AScheduleGoesOnThroughFailuresUntilItIsClosed) {
  faults->before(failing({"replay"}));
  ScheduledReplay replay(store, {.interval = 2ms, .min_age = 0ms, .log = log.log()});
  replay.start();
  EXPECT_TRUE(eventually([&] { return log.contains("scheduled replay failed: the database"); }));
  make_dead(3);
  faults->clear();
  EXPECT_TRUE(eventually([&] { return dead().count() == 0; }));
  EXPECT_TRUE(eventually([&] { return log.contains("3 dead events are NEW again"); }));
  replay.close();
  replay.close();
  EXPECT_THROW(replay.start(), MisuseError);
  make_dead(1);  // and the three once more
  EXPECT_EQ(dead().count(), 4) << "nobody replays them any more";
}

TEST_P(DeadEventsTest, ClosingEndsARoundThatWaitsForItsRate) {
  make_dead(2);
  ScheduledReplay replay(store, {.min_age = 0ms, .bulk = {.rate = 1.0 / 86'400}, .log = log.log()});
  replay.start();
  EXPECT_TRUE(eventually([&] { return dead().count() == 1; }));
  replay.close();
  EXPECT_EQ(dead().count(), 1);
}

// --- Purge ---

class PurgeTest : public OnEveryStore {
 protected:
  // Delivers these; those of the aggregate "bad" die.
  void deliver(const std::vector<std::string>& aggregates) {
    const auto box = open({}, failing_listener());
    for (const std::string& id : aggregates) write(*box, order_event(id, "{}"));
    EXPECT_TRUE(box->wait_idle(20s));
  }
  static std::shared_ptr<Listener> failing_listener() {
    return std::make_shared<RecordingListener>([](const Event& event, const Delivery&) -> Outcome {
      if (event.aggregate_id() == "bad") throw PermanentError("broken");
      return Outcome::done();
    });
  }
  Purger purger(PurgeOptions options = {}) {
    options.log = log.log();
    return {store, std::move(options)};
  }

  // How many rows are in the archive.
  std::int64_t archived() {
    if (capabilities().dialect == Dialect::none) {
      return static_cast<std::int64_t>(memory::archived(*bare_store).size());
    }
    const std::string sql = "SELECT count(*) FROM " + store->side_table("archive");
    return store->connect()->query(sql, {}).at(0).get<std::int64_t>(0);
  }
};
OUTBOX_ON_EVERY_STORE(PurgeTest);

TEST_P(PurgeTest, EachKindHasItsOwnRetention) {
  deliver({"1", "2", "bad"});
  write_elsewhere(order_event("3", "{}"));
  Purger subject = purger();
  advance_almost(7 * 24h);
  EXPECT_EQ(subject.run_once(), Purged{});
  advance_rest();
  if (time_stands_still()) {
    EXPECT_EQ(subject.run_once(), Purged{}) << "not before the time is over";
  }
  advance(1us);
  EXPECT_EQ(subject.preview(), (Purged{.done = 2}));
  EXPECT_EQ(store->admin().count({}), 4) << "a preview removes nothing";
  EXPECT_EQ(subject.run_once(), (Purged{.done = 2}));
  EXPECT_EQ(subject.run_once().total(), 0);
  advance(23 * 24h);
  EXPECT_EQ(subject.run_once(), (Purged{.dead = 1}));
  EXPECT_EQ(store->admin().count({}), 1) << "what is pending stays, however old";
  EXPECT_EQ(archived(), 0);
}

TEST_P(PurgeTest, AKindWithoutRetentionStays) {
  deliver({"1", "bad"});
  advance(1000 * 24h);
  EXPECT_EQ(purger({.done_retention = std::nullopt}).run_once(), (Purged{.dead = 1}));
  EXPECT_EQ(purger({.dead_retention = std::nullopt}).run_once(), (Purged{.done = 1}));
}

TEST_P(PurgeTest, ByAgeItTakesEverythingAndTheRetentionsDoNotCount) {
  deliver({"1", "bad"});
  write_elsewhere(order_event("2", "{}"));
  advance(1h);
  write_elsewhere(order_event("3", "{}"));
  advance(1s);
  EXPECT_EQ(purger({.done_retention = 0s, .age = 2h}).run_once().total(), 0);
  EXPECT_EQ(purger({.age = 1h}).preview(), (Purged{.aged = 3}));
  EXPECT_EQ(purger({.age = 1h, .archive = true}).run_once(), (Purged{.aged = 3}));
  EXPECT_EQ(store->admin().count({}), 1);
  EXPECT_EQ(archived(), 3);
}

TEST_P(PurgeTest, ItGoesByBatchesUntilOneComesBackShort) {
  deliver(std::vector<std::string>(10, "1"));
  advance(1us);
  EXPECT_EQ(purger({.done_retention = 0s, .dead_retention = std::nullopt, .batch = 4}).run_once(),
            (Purged{.done = 10}));
  EXPECT_EQ(faults->calls("purge"), 3u);
}

TEST_P(PurgeTest, AStopEndsItBetweenTwoBatchesAndInAPause) {
  deliver(std::vector<std::string>(10, "1"));
  advance(1us);
  Purger subject = purger({.done_retention = 0s, .batch = 4, .pause = 1h});
  std::stop_source stop;
  faults->after([&](std::string_view call) {
    if (call == "purge") stop.request_stop();
  });
  EXPECT_EQ(subject.run_once(stop.get_token()), (Purged{.done = 4}));
  EXPECT_EQ(subject.run_once(stop.get_token()), Purged{});
}

TEST_P(PurgeTest, ErrorsReachTheCallerAndARepetitionGoesOn) {
  deliver(std::vector<std::string>(6, "1"));
  advance(1us);
  Purger subject = purger({.done_retention = 0s, .batch = 4});
  faults->before([&](std::string_view call) {
    if (call == "purge" && faults->calls("purge") >= 2) throw RetryableError("unreachable");
  });
  EXPECT_THROW(subject.run_once(), RetryableError);
  EXPECT_EQ(store->admin().count({}), 2);
  faults->clear();
  EXPECT_EQ(subject.run_once(), (Purged{.done = 2}));
}

TEST_P(PurgeTest, OnAScheduleItGoesOnThroughFailuresUntilItIsClosed) {
  deliver({"1"});
  advance(8 * 24h);
  faults->before(failing({"purge"}));
  Purger subject = purger({.interval = 2ms});
  subject.start();
  EXPECT_THROW(subject.start(), MisuseError);
  EXPECT_TRUE(
      eventually([&] { return log.contains("purge failed: the database is unreachable"); }));
  faults->clear();
  EXPECT_TRUE(eventually([&] { return store->admin().count({}) == 0; }));
  EXPECT_TRUE(eventually([&] { return log.contains("removed 1 DONE and 0 DEAD"); }));
  subject.close();
  subject.close();
  EXPECT_THROW(subject.start(), MisuseError);
}

TEST_P(PurgeTest, InvalidOptionsAreRefused) {
  EXPECT_THROW(Purger(nullptr), MisuseError);
  EXPECT_THROW(purger({.done_retention = -1s}), MisuseError);
  EXPECT_THROW(purger({.dead_retention = -1s}), MisuseError);
  EXPECT_THROW(purger({.age = 0s}), MisuseError);
  EXPECT_THROW(purger({.done_retention = std::nullopt, .dead_retention = std::nullopt}),
               MisuseError);
  EXPECT_THROW(purger({.batch = 0}), MisuseError);
  EXPECT_THROW(purger({.pause = -1ms}), MisuseError);
  EXPECT_THROW(purger({.interval = 0ms}), MisuseError);
  deliver({"1"});
  EXPECT_EQ(purger({.done_retention = std::chrono::seconds::max()}).run_once(), Purged{})
      << "longer than time goes back";
}

TEST_P(PurgeTest, WhileAnEngineDeliversItTakesOnlyWhatIsFinished) {
  const auto events = static_cast<std::size_t>(many(2'000, 300));
  const auto box = open({.workers = 4, .poll_interval = 50ms});
  Purger subject = purger({.done_retention = 0s, .archive = true, .batch = 7});
  std::int64_t purged = 0;
  for (std::size_t i = 0; i < events; ++i) {
    write(*box, order_event(std::to_string(i % 17), std::to_string(i)));
    if (time_stands_still()) advance(1us);
    if (i % 50 == 0) purged += subject.run_once().done;
  }
  ASSERT_TRUE(box->wait_idle(20s));
  advance(1us);
  purged += subject.run_once().done;
  EXPECT_EQ(recorder->count(), events) << "each delivered once, none lost";
  EXPECT_EQ(purged, static_cast<std::int64_t>(events));
  EXPECT_EQ(archived(), static_cast<std::int64_t>(events));
}

TEST_P(PurgeTest, ADeadEventThatBlocksItsLaneStaysUntilAnOperatorHasActed) {
  auto listener =
      std::make_shared<RecordingListener>([](const Event& event, const Delivery&) -> Outcome {
        if (event.payload() == "\"killer\"") throw PermanentError("broken");
        return Outcome::done();
      });
  const auto box = open({.poll_interval = 50ms, .dead = {.then = OnDead::block}}, listener);
  const std::string head = write(*box, order_event("1", "\"killer\""));
  ASSERT_TRUE(eventually([&] { return status(head) == Status::dead; }));
  const std::string next = write(*box, order_event("1", "{}"));
  ASSERT_TRUE(eventually([&] { return store->admin().find(next)->hold.value_or(0) > 0; }));
  EXPECT_EQ(store->counts().held, 1);

  advance(31 * 24h);
  EXPECT_EQ(purger().preview(), Purged{});
  EXPECT_EQ(purger().run_once(), Purged{});
  EXPECT_EQ(status(head), Status::dead);
  ASSERT_TRUE(DeadEvents{store}.discard(head));
  EXPECT_TRUE(in_time([&] { return status(next) == Status::done; }, *box));
  EXPECT_EQ(listener->count(), 2u);
}

}  // namespace
}  // namespace outbox::testing
