// A dispatcher that is fed by other means than a reader of ours.
#include "outbox/spi/dispatcher.h"

#include <set>

#include "engine/test_fixture.h"
#include "outbox/error.h"

namespace outbox::testing {
namespace {

class DispatcherTest : public EngineTest {
 protected:
  std::unique_ptr<Dispatcher> dispatcher(DispatcherOptions options = {},
                                         std::shared_ptr<Listener> to = {}) {
    options.log = log.log();
    options.clock = &clock;
    Listeners on;
    on.add("Order", "Happened", to ? to : std::static_pointer_cast<Listener>(recorder));
    return std::make_unique<Dispatcher>(store->join({}), on, options);
  }

  // A row that is in the store, as a change feed would bring it.
  Row row(const std::string& aggregate_id) {
    return store->find(write_elsewhere(order_event(aggregate_id, "{}")))->row;
  }

  bool becomes_done(const Row& row) {
    return eventually([&] { return status(row.event.id()) == Status::done; });
  }

  std::shared_ptr<RecordingListener> waiting() {
    return std::make_shared<RecordingListener>([this](const Event&, const Delivery&) {
      barrier.pass();
      return Outcome::done();
    });
  }

  Barrier barrier;
};

TEST_F(DispatcherTest, DeliversHotAndColdEventsAndMarksThemDone) {
  const Row hot = row("1");
  const Row cold = row("2");
  auto on = dispatcher();
  on->start();
  EXPECT_TRUE(on->enqueue_hot(hot));
  EXPECT_TRUE(on->enqueue_cold(cold));
  EXPECT_TRUE(becomes_done(hot));
  EXPECT_TRUE(becomes_done(cold));
  const auto ids = recorder->ids();
  EXPECT_EQ(std::multiset<std::string>(ids.begin(), ids.end()),
            (std::multiset<std::string>{hot.event.id(), cold.event.id()}));
}

TEST_F(DispatcherTest, TakesRoomFromTheRightQueueUntilTheMarkIsAcknowledged) {
  const Row hot = row("1");
  const Row cold = row("2");
  auto on = dispatcher({.queue = {.hot_capacity = 3, .cold_capacity = 5}}, waiting());
  on->start();
  EXPECT_EQ(on->hot_room(), 3u);
  EXPECT_EQ(on->cold_room(), 5u);
  ASSERT_TRUE(on->enqueue_hot(hot));
  EXPECT_EQ(on->hot_room(), 2u);
  EXPECT_EQ(on->cold_room(), 5u);
  ASSERT_TRUE(on->enqueue_cold(cold));
  EXPECT_EQ(on->hot_room(), 2u);
  EXPECT_EQ(on->cold_room(), 4u);
  EXPECT_EQ(on->in_flight(), 2u);
  ASSERT_TRUE(barrier.reached(2)) << "running events take room as well";
  EXPECT_EQ(on->hot_room(), 2u);
  EXPECT_EQ(on->cold_room(), 4u);
  barrier.open();
  EXPECT_TRUE(eventually([&] { return on->in_flight() == 0; }));
  EXPECT_EQ(on->hot_room(), 3u);
  EXPECT_EQ(on->cold_room(), 5u);
}

TEST_F(DispatcherTest, RefusesWhatAFullQueueCannotTakeAndTakesItLater) {
  const Row first = row("1");
  const Row second = row("2");
  auto on = dispatcher({.workers = 2, .queue = {.hot_capacity = 1, .cold_capacity = 1}}, waiting());
  on->start();
  ASSERT_TRUE(on->enqueue_hot(first));
  EXPECT_FALSE(on->enqueue_hot(second));
  EXPECT_EQ(status(second.event.id()), Status::pending);
  EXPECT_TRUE(on->enqueue_cold(second)) << "it is not in flight after the refusal";
  EXPECT_FALSE(on->enqueue_cold(row("3")));
  barrier.open();
  EXPECT_TRUE(becomes_done(first));
  EXPECT_TRUE(becomes_done(second));
  EXPECT_TRUE(eventually([&] { return on->hot_room() == 1; }));
  const Row third = row("4");
  EXPECT_TRUE(on->enqueue_hot(third));
  EXPECT_TRUE(becomes_done(third));
}

// With row claims nobody has to tell it of a lease: each row has its owner.
TEST_F(DispatcherTest, DeliversClaimsThatAreHandedToItsPollHandler) {
  Listeners on;
  on.add("Order", "Happened", recorder);
  const std::shared_ptr<Instance> instance = store->join({.row_claims = true});
  Dispatcher dispatcher(instance, on,
                        {.ordering = Ordering::none, .lock_timeout = 15s, .log = log.log()});
  const auto handler = dispatcher.poll_handler();
  dispatcher.start();
  const std::string id = write_elsewhere(order_event("1", "{}"));
  for (Row& row : instance->claim(0ms, 1).rows) ASSERT_TRUE(handler->handle(std::move(row)));
  EXPECT_TRUE(eventually([&] { return status(id) == Status::done; }, 5s));
}

// As after a pause of the whole machine, of which its clock knows nothing.
TEST_F(DispatcherTest, WhoseMarkWasFencedDeliversNothingMore) {
  ManualClock stood_still;
  Barrier renewals;
  std::atomic<bool> renew{true};
  faults->before([&](std::string_view call) {
    if (call == "renew" && !renew) renewals.pass();
  });
  const auto listener = waiting();
  Listeners on;
  on.add("Order", "Happened", listener);
  Dispatcher zombie(store->join({.lease = 15s}), on,
                    {.log = log.log(), .metrics = metrics, .clock = &stood_still});
  zombie.start();
  ASSERT_TRUE(zombie.enqueue_cold(row("1")));
  ASSERT_TRUE(barrier.reached());
  renew = false;
  clock.advance(16s);
  const auto next = bare_store->join({.lease = 15s});
  ASSERT_NE(next->renew().epoch, 0) << "taken over";
  barrier.open();
  ASSERT_TRUE(eventually([&] { return (*metrics)[Counter::stale_updates] == 1; }));
  zombie.enqueue_cold(row("2"));  // refused, once everything is given up
  EXPECT_FALSE(listener->wait_for(2, 100ms)) << "which is the other's";
  renewals.open();
  ASSERT_TRUE(eventually([&] { return zombie.in_flight() == 0; }));
  EXPECT_EQ(listener->count(), 1u);
  next->leave();
}

TEST_F(DispatcherTest, AcceptsAndDropsAnEventThatIsInFlight) {
  const Row once = row("1");
  const Row next = row("1");
  const auto listener = waiting();
  auto on = dispatcher({}, listener);
  on->start();
  ASSERT_TRUE(on->enqueue_hot(once));
  ASSERT_TRUE(barrier.reached());
  EXPECT_TRUE(on->enqueue_hot(once));
  EXPECT_TRUE(on->enqueue_cold(once));
  EXPECT_EQ(on->in_flight(), 1u);
  ASSERT_TRUE(on->enqueue_hot(next)) << "behind whatever was taken of the first";
  barrier.open();
  ASSERT_TRUE(becomes_done(next));
  EXPECT_EQ(listener->ids(), (std::vector<std::string>{once.event.id(), next.event.id()}));
}

TEST_F(DispatcherTest, AsksTheTrackerOfItsUser) {
  const auto tracker = timed_tracker(10s, clock);
  const Row taken = row("1");
  auto on = dispatcher({.tracker = tracker});
  on->start();
  ASSERT_TRUE(tracker->try_acquire(taken.event.id()));
  EXPECT_TRUE(on->enqueue_hot(taken)) << "accepted and dropped: somebody has it";
  EXPECT_EQ(on->in_flight(), 0u);
  clock.advance(10s);
  EXPECT_TRUE(on->enqueue_hot(taken)) << "forgotten, and delivered after all";
  EXPECT_TRUE(becomes_done(taken));
  EXPECT_TRUE(eventually([&] { return on->in_flight() == 0; }));
  EXPECT_EQ(recorder->count(), 1u);
  EXPECT_TRUE(eventually([&] { return tracker->try_acquire(taken.event.id()); }))
      << "released when the update had been acknowledged";
}

TEST_F(DispatcherTest, MayBeClosedTwiceAndWithoutAStart) {
  auto started = dispatcher();
  started->start();
  EXPECT_NO_THROW(started->close());
  EXPECT_NO_THROW(started->close());
  auto idle = dispatcher();
  EXPECT_NO_THROW(idle->close());
  EXPECT_NO_THROW(idle->close());
}

TEST_F(DispatcherTest, IsStartedOnceAndNotAfterItsEnd) {
  auto on = dispatcher();
  on->start();
  EXPECT_THROW(on->start(), MisuseError);
  EXPECT_THROW(on->poll_handler(), MisuseError);
  on->close();
  EXPECT_THROW(on->start(), MisuseError);
  auto idle = dispatcher();
  idle->close();
  EXPECT_THROW(idle->start(), MisuseError);
}

TEST_F(DispatcherTest, FinishesWhatIsQueuedWhenItIsClosed) {
  std::vector<Row> rows;
  for (int n = 0; n < 20; ++n) rows.push_back(row("1"));
  auto on = dispatcher({.workers = 1});
  on->start();
  for (const Row& one : rows) ASSERT_TRUE(on->enqueue_cold(one));
  on->close();
  for (const Row& one : rows) EXPECT_EQ(status(one.event.id()), Status::done);
  EXPECT_EQ(recorder->count(), rows.size());
}

TEST_F(DispatcherTest, TakesNothingBeforeItOwnsAnything) {
  const Row early = row("1");
  auto on = dispatcher();
  EXPECT_FALSE(on->enqueue_hot(early)) << "true would promise a delivery";
  EXPECT_FALSE(on->enqueue_cold(early));
  on->start();
  EXPECT_TRUE(on->enqueue_cold(early));
  EXPECT_TRUE(becomes_done(early));
}

TEST_F(DispatcherTest, TakesNothingOnceItIsClosed) {
  const Row late = row("1");
  auto on = dispatcher();
  on->start();
  on->close();
  EXPECT_FALSE(on->enqueue_hot(late));
  EXPECT_FALSE(on->enqueue_cold(late));
  EXPECT_EQ(on->hot_room(), 0u);
  EXPECT_EQ(on->cold_room(), 0u);
  EXPECT_EQ(recorder->count(), 0u);
  EXPECT_EQ(status(late.event.id()), Status::pending);
}

TEST_F(DispatcherTest, ClosingItInAListenerIsRefusedAndChangesNothing) {
  std::atomic<int> refused{0};
  std::unique_ptr<Dispatcher> on;  // last: its listener uses the rest
  on = dispatcher({}, std::make_shared<RecordingListener>([&](const Event&, const Delivery&) {
                    try {
                      on->close();
                    } catch (const MisuseError&) {
                      ++refused;
                    }
                    return Outcome::done();
                  }));
  const Row first = row("1");
  const Row second = row("2");
  on->start();
  EXPECT_TRUE(on->enqueue_cold(first));
  EXPECT_TRUE(becomes_done(first));
  EXPECT_EQ(refused, 1);
  EXPECT_TRUE(on->enqueue_cold(second));
  EXPECT_TRUE(becomes_done(second));
  on->close();
}

}  // namespace
}  // namespace outbox::testing
