#include "outbox/admin/purge.h"

#include <limits>

#include "engine/test_fixture.h"
#include "outbox/admin/dead_events.h"
#include "outbox/error.h"

namespace outbox::testing {
namespace {

class PurgeTest : public EngineTest {
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
};

TEST_F(PurgeTest, EachKindHasItsOwnRetention) {
  deliver({"1", "2", "bad"});
  write_elsewhere(order_event("3", "{}"));
  Purger subject = purger();
  clock.advance(7 * 24h);
  EXPECT_EQ(subject.run_once(), Purged{}) << "not before the time is over";
  clock.advance(1us);
  EXPECT_EQ(subject.preview(), (Purged{.done = 2}));
  EXPECT_EQ(store->count({}), 4) << "a preview removes nothing";
  EXPECT_EQ(subject.run_once(), (Purged{.done = 2}));
  EXPECT_EQ(subject.run_once().total(), 0);
  clock.advance(23 * 24h);
  EXPECT_EQ(subject.run_once(), (Purged{.dead = 1}));
  EXPECT_EQ(store->count({}), 1) << "what is pending stays, however old";
  EXPECT_TRUE(memory::archived(*bare_store).empty());
}

TEST_F(PurgeTest, AKindWithoutRetentionStays) {
  deliver({"1", "bad"});
  clock.advance(1000 * 24h);
  EXPECT_EQ(purger({.done_retention = std::nullopt}).run_once(), (Purged{.dead = 1}));
  EXPECT_EQ(purger({.dead_retention = std::nullopt}).run_once(), (Purged{.done = 1}));
}

TEST_F(PurgeTest, ByAgeItTakesEverythingAndTheRetentionsDoNotCount) {
  deliver({"1", "bad"});
  write_elsewhere(order_event("2", "{}"));
  clock.advance(1h);
  write_elsewhere(order_event("3", "{}"));
  clock.advance(1s);
  EXPECT_EQ(purger({.done_retention = 0s, .age = 2h}).run_once().total(), 0);
  EXPECT_EQ(purger({.age = 1h}).preview(), (Purged{.aged = 3}));
  EXPECT_EQ(purger({.age = 1h, .archive = true}).run_once(), (Purged{.aged = 3}));
  EXPECT_EQ(store->count({}), 1);
  EXPECT_EQ(memory::archived(*bare_store).size(), 3u);
}

TEST_F(PurgeTest, ItGoesByBatchesUntilOneComesBackShort) {
  deliver(std::vector<std::string>(10, "1"));
  clock.advance(1us);
  EXPECT_EQ(purger({.done_retention = 0s, .dead_retention = std::nullopt, .batch = 4}).run_once(),
            (Purged{.done = 10}));
  EXPECT_EQ(faults->calls("purge"), 3u);
}

TEST_F(PurgeTest, AStopEndsItBetweenTwoBatchesAndInAPause) {
  deliver(std::vector<std::string>(10, "1"));
  clock.advance(1us);
  Purger subject = purger({.done_retention = 0s, .batch = 4, .pause = 1h});
  std::stop_source stop;
  faults->after([&](std::string_view call) {
    if (call == "purge") stop.request_stop();
  });
  EXPECT_EQ(subject.run_once(stop.get_token()), (Purged{.done = 4}));
  EXPECT_EQ(subject.run_once(stop.get_token()), Purged{});
}

TEST_F(PurgeTest, ErrorsReachTheCallerAndARepetitionGoesOn) {
  deliver(std::vector<std::string>(6, "1"));
  clock.advance(1us);
  Purger subject = purger({.done_retention = 0s, .batch = 4});
  faults->before([&](std::string_view call) {
    if (call == "purge" && faults->calls("purge") >= 2) throw RetryableError("away");
  });
  EXPECT_THROW(subject.run_once(), RetryableError);
  EXPECT_EQ(store->count({}), 2);
  faults->clear();
  EXPECT_EQ(subject.run_once(), (Purged{.done = 2}));
}

TEST_F(PurgeTest, OnAScheduleItGoesOnThroughFailuresUntilItIsClosed) {
  deliver({"1"});
  clock.advance(8 * 24h);
  faults->before(failing({"purge"}));
  Purger subject = purger({.interval = 2ms});
  subject.start();
  EXPECT_THROW(subject.start(), MisuseError);
  EXPECT_TRUE(
      eventually([&] { return log.contains("purge failed: the database is unreachable"); }));
  faults->clear();
  EXPECT_TRUE(eventually([&] { return store->count({}) == 0; }));
  EXPECT_TRUE(eventually([&] { return log.contains("removed 1 DONE and 0 DEAD"); }));
  subject.close();
  subject.close();
  EXPECT_THROW(subject.start(), MisuseError);
}

TEST_F(PurgeTest, OptionsThatMakeNoSenseAreRefused) {
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

TEST_F(PurgeTest, WhileAnEngineDeliversItTakesOnlyWhatIsFinished) {
  constexpr std::size_t kEvents = 2'000;
  const auto box = open({.workers = 4, .poll_interval = 50ms});
  Purger subject = purger({.done_retention = 0s, .archive = true, .batch = 7});
  std::int64_t purged = 0;
  for (std::size_t i = 0; i < kEvents; ++i) {
    write(*box, order_event(std::to_string(i % 17), std::to_string(i)));
    clock.advance(1us);
    if (i % 50 == 0) purged += subject.run_once().done;
  }
  ASSERT_TRUE(box->wait_idle(20s));
  clock.advance(1us);
  purged += subject.run_once().done;
  EXPECT_EQ(recorder->count(), kEvents) << "each delivered once, none lost";
  EXPECT_EQ(purged, static_cast<std::int64_t>(kEvents));
  EXPECT_EQ(memory::archived(*bare_store).size(), kEvents);
}

TEST_F(PurgeTest, ADeadEventThatBlocksItsLaneStaysUntilAnOperatorHasActed) {
  auto listener =
      std::make_shared<RecordingListener>([](const Event& event, const Delivery&) -> Outcome {
        if (event.payload() == "\"killer\"") throw PermanentError("broken");
        return Outcome::done();
      });
  const auto box = open({.poll_interval = 50ms, .dead = {.then = OnDead::block}}, listener);
  const std::string head = write(*box, order_event("1", "\"killer\""));
  ASSERT_TRUE(eventually([&] { return status(head) == Status::dead; }));
  const std::string next = write(*box, order_event("1", "{}"));
  ASSERT_TRUE(eventually([&] { return store->find(next)->hold.value_or(0) > 0; }));
  EXPECT_EQ(store->counts().held, 1);

  clock.advance(31 * 24h);
  EXPECT_EQ(purger().preview(), Purged{});
  EXPECT_EQ(purger().run_once(), Purged{});
  EXPECT_EQ(status(head), Status::dead);
  ASSERT_TRUE(DeadEvents{store}.discard(head));
  EXPECT_TRUE(eventually([&] {
    clock.advance(1s);
    box->wake();
    return status(next) == Status::done;
  }));
  EXPECT_EQ(listener->count(), 2u);
}

}  // namespace
}  // namespace outbox::testing
