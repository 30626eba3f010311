// An engine that is driven by hand: a dispatcher that is fed by other means than a reader of ours,
// a poller with a handler of its user's own, and a tracker with a time to live.
#include <algorithm>
#include <functional>
#include <set>

#include "engine/test_fixture.h"
#include "outbox/error.h"
#include "outbox/spi/dispatcher.h"
#include "outbox/spi/poller.h"

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
    return store->admin().find(write_elsewhere(order_event(aggregate_id, "{}")))->row;
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

TEST_F(DispatcherTest, DeliversHotAndColdEventsAndFinishesThem) {
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

TEST_F(DispatcherTest, TakesRoomFromTheRightQueueUntilTheUpdateIsAcknowledged) {
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
TEST_F(DispatcherTest, DeliversNothingMoreOnceAnUpdateWasFenced) {
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

// --- A dispatcher and a writer ---

class WriterHookTest : public DispatcherTest {
 protected:
  std::unique_ptr<Writer> writer_with(std::shared_ptr<WriterHook> hook) {
    return std::make_unique<Writer>(store,
                                    WriterOptions{.hooks = {std::move(hook)}, .log = log.log()});
  }

  // How often it is called.
  std::function<void()> wake = [this] { ++wakes; };
  std::atomic<int> wakes{0};
};

TEST_F(WriterHookTest, WithoutOrderACommitBringsItsEventsToTheHotQueue) {
  auto on = dispatcher({.ordering = Ordering::none});
  on->start();
  const auto writer = writer_with(on->writer_hook(wake));
  const std::string id = write(*writer, order_event("1", "{}"));
  EXPECT_TRUE(eventually([&] { return status(id) == Status::done; }));
  EXPECT_EQ(faults->calls("ready"), 0u) << "nobody has read it";
  EXPECT_EQ(wakes, 0);
}

TEST_F(WriterHookTest, WithOrderACommitWakesTheReader) {
  const std::shared_ptr<Instance> instance = store->join({});
  Listeners listeners;
  listeners.add("Order", "Happened", recorder);
  Dispatcher on(instance, listeners, {.log = log.log(), .clock = &clock});
  Poller poller(instance, on.poll_handler(), {.interval = 1h, .log = log.log(), .clock = &clock});
  on.start();
  poller.poll();  // so that it owns the shards
  poller.start();
  const auto writer = writer_with(on.writer_hook([&] { poller.wake(); }));
  for (int n = 0; n < 3; ++n) write(*writer, order_event("1", std::to_string(n)));
  ASSERT_TRUE(recorder->wait_for(3));
  EXPECT_EQ(recorder->payloads(), (std::vector<std::string>{"0", "1", "2"}));
  on.close();
  poller.close();
}

TEST_F(WriterHookTest, AnEventThatTheHotQueueCannotTakeIsLeftToTheReader) {
  auto on = dispatcher({.workers = 1, .ordering = Ordering::none, .queue = {.hot_capacity = 1}},
                       waiting());
  on->start();
  const auto writer = writer_with(on->writer_hook(wake));
  write(*writer, order_event("1", "{}"));
  EXPECT_EQ(wakes, 0);
  const std::string second = write(*writer, order_event("2", "{}"));
  EXPECT_EQ(wakes, 1);
  EXPECT_TRUE(on->enqueue_cold(store->admin().find(second)->row)) << "it is not reserved any more";
  barrier.open();
  EXPECT_TRUE(eventually([&] { return status(second) == Status::done; }));
}

TEST_F(WriterHookTest, ARollbackGivesUpWhatWasReserved) {
  auto on = dispatcher({.ordering = Ordering::none});
  on->start();
  const auto writer = writer_with(on->writer_hook());
  Draft draft = order_event("1", "{}");
  draft.id = "the-same";
  {
    auto tx = writer->begin();
    tx.write(draft);
    tx.rollback();
  }
  EXPECT_EQ(recorder->count(), 0u);
  write(*writer, draft);
  EXPECT_TRUE(eventually([&] { return status("the-same") == Status::done; }));
  EXPECT_EQ(recorder->count(), 1u);
}

TEST_F(WriterHookTest, ItMayOutliveItsDispatcher) {
  auto on = dispatcher({.ordering = Ordering::none});
  const auto writer = writer_with(on->writer_hook(wake));
  const std::string early = write(*writer, order_event("1", "{}"));
  on->start();
  on.reset();
  const std::string late = write(*writer, order_event("2", "{}"));
  EXPECT_EQ(status(early), Status::pending);
  EXPECT_EQ(status(late), Status::pending);
  EXPECT_EQ(recorder->count(), 0u);
  EXPECT_EQ(wakes, 0);
}

// --- Poller ---

using Texts = std::vector<std::string>;

// Keeps what it is given, each row once, and updates nothing. Thread-safe.
class Collector final : public PollHandler {
 public:
  explicit Collector(std::size_t room = 100) : room_(room) {}

  std::size_t room() override {
    const std::lock_guard lock(mutex_);
    return room_;
  }
  std::size_t in_flight() override { return ids().size(); }
  bool handle(Row row) override {
    const std::lock_guard lock(mutex_);
    offered_.push_back(row.event.id());
    if (std::find(ids_.begin(), ids_.end(), row.event.id()) != ids_.end()) return true;
    if (ids_.size() >= limit_) return false;
    ids_.push_back(row.event.id());
    taken.raise();
    return true;
  }

  void set_room(std::size_t room) {
    const std::lock_guard lock(mutex_);
    room_ = room;
  }
  // Refuses what comes after so many, whatever room() says.
  void take_at_most(std::size_t limit) {
    const std::lock_guard lock(mutex_);
    limit_ = limit;
  }
  Texts ids() const {
    const std::lock_guard lock(mutex_);
    return ids_;
  }
  Texts offered() const {
    const std::lock_guard lock(mutex_);
    return offered_;
  }

  Signal taken;

 private:
  mutable std::mutex mutex_;
  std::size_t room_;
  std::size_t limit_ = 1'000;
  Texts ids_;
  Texts offered_;
};

class PollerTest : public EngineTest {
 protected:
  std::unique_ptr<Poller> poller(PollerOptions options = {}) {
    instance = store->join({.row_claims = options.row_claims});
    options.interval = 1h;  // nothing in these tests comes from a sweep
    options.log = log.log();
    options.clock = &clock;
    return std::make_unique<Poller>(instance, handler, options);
  }

  Texts write_events(int n) {
    Texts ids;
    for (int i = 0; i < n; ++i) ids.push_back(write_elsewhere(order_event("1", "{}")));
    return ids;
  }

  std::string locked_by(const std::string& id) { return store->admin().find(id)->locked_by; }

  std::shared_ptr<Instance> instance;
  std::shared_ptr<Collector> handler = std::make_shared<Collector>();
};

TEST_F(PollerTest, PollsAtOnceWhenItIsStartedAndWhenItIsWoken) {
  const Texts first = write_events(1);
  auto on = poller();
  on->start();
  ASSERT_TRUE(handler->taken.wait(1));
  EXPECT_EQ(handler->ids(), first);
  const Texts second = write_events(1);
  on->wake();
  ASSERT_TRUE(handler->taken.wait(2));
  EXPECT_EQ(handler->ids().back(), second.front());
}

TEST_F(PollerTest, FollowsAFullReadByTheNextAtOnce) {
  const Texts all = write_events(7);
  auto on = poller({.batch = 2});
  on->start();
  ASSERT_TRUE(handler->taken.wait(7));
  EXPECT_EQ(handler->ids(), all);
}

TEST_F(PollerTest, RunsOneRoundWhenAskedAndSaysWhetherThereIsMore) {
  const Texts all = write_events(3);
  auto on = poller({.batch = 2});
  EXPECT_TRUE(on->poll());
  EXPECT_EQ(handler->ids(), (Texts{all[0], all[1]}));
  EXPECT_EQ(faults->calls("ready"), 1u);
  handler->set_room(100);
  for (int rounds = 0; on->poll(); ++rounds) ASSERT_LT(rounds, 10);
  EXPECT_EQ(handler->ids(), all);
}

TEST_F(PollerTest, SaysThatThereIsNoMoreWhenTheStoreIsEmpty) {
  auto on = poller();
  EXPECT_FALSE(on->poll());
  EXPECT_EQ(faults->calls("ready"), 1u);
  EXPECT_TRUE(handler->offered().empty());
}

TEST_F(PollerTest, ReadsNoMoreThanTheHandlerHasRoomFor) {
  const Texts all = write_events(5);
  handler->set_room(1);
  auto on = poller({.batch = 3});
  EXPECT_TRUE(on->poll());
  EXPECT_EQ(handler->offered(), (Texts{all[0]}));
}

TEST_F(PollerTest, ReadsNoMoreThanABatchHoweverMuchRoomThereIs) {
  const Texts all = write_events(5);
  auto on = poller({.batch = 3});
  EXPECT_TRUE(on->poll());
  EXPECT_EQ(handler->offered(), (Texts{all[0], all[1], all[2]}));
}

TEST_F(PollerTest, DoesNotAskTheStoreWhileTheHandlerHasNoRoom) {
  const Texts all = write_events(1);
  for (const bool row_claims : {false, true}) {
    handler = std::make_shared<Collector>(0);
    auto on = poller({.row_claims = row_claims});
    EXPECT_TRUE(on->poll()) << "there may be something";
    EXPECT_EQ(faults->calls("ready"), row_claims ? 1u : 0u) << "one of them asked below";
    EXPECT_EQ(faults->calls("claim"), 0u);
    handler->set_room(1);
    on->poll();
    EXPECT_EQ(faults->calls(row_claims ? "claim" : "ready"), 1u);
    EXPECT_EQ(handler->ids(), all);
  }
}

TEST_F(PollerTest, EndsTheRoundAtTheFirstRefusalAndBringsTheRestAgain) {
  const Texts all = write_events(3);
  handler->take_at_most(1);
  auto on = poller();
  EXPECT_TRUE(on->poll());
  EXPECT_EQ(handler->offered(), (Texts{all[0], all[1]})) << "the third would overtake";
  EXPECT_EQ(handler->ids(), (Texts{all[0]}));
  handler->take_at_most(3);
  EXPECT_FALSE(on->poll());
  EXPECT_EQ(handler->ids(), all);
}

TEST_F(PollerTest, BringsTheRestAgainByItself) {
  const Texts all = write_events(3);
  handler->take_at_most(1);
  auto on = poller();
  on->start();
  ASSERT_TRUE(eventually([&] { return handler->offered().size() >= 4; })) << "offered again";
  EXPECT_EQ(handler->ids(), (Texts{all[0]}));
  handler->take_at_most(3);
  ASSERT_TRUE(handler->taken.wait(3));
  EXPECT_EQ(handler->ids(), all);
}

TEST_F(PollerTest, DoesNotAskInALoopWhatTheHandlerRefusesThoughItHasRoom) {
  write_events(3);
  handler->take_at_most(0);
  auto on = poller();
  const auto begin = std::chrono::steady_clock::now();
  on->start();
  ASSERT_TRUE(eventually([&] { return faults->calls("ready") >= 5; }));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 15ms);
}

TEST_F(PollerTest, GivesBackTheClaimsOfWhatWasRefused) {
  const Texts all = write_events(3);
  handler->take_at_most(1);
  auto on = poller({.row_claims = true});
  EXPECT_TRUE(on->poll());
  ASSERT_EQ(handler->ids().size(), 1u);
  for (const std::string& id : all) {
    EXPECT_EQ(locked_by(id), id == handler->ids().front() ? instance->owner() : "");
  }
  handler->take_at_most(3);
  EXPECT_FALSE(on->poll());
  EXPECT_EQ(handler->ids(), all);
  for (const std::string& id : all) EXPECT_EQ(locked_by(id), instance->owner());
}

TEST_F(PollerTest, LetsTheCallerKnowWhatTheStoreThrowsAndReadsOnAfterwards) {
  const Texts all = write_events(2);
  auto on = poller();
  faults->before(failing({"ready"}));
  EXPECT_THROW(on->poll(), RetryableError);
  EXPECT_TRUE(handler->offered().empty());
  faults->clear();
  EXPECT_FALSE(on->poll());
  EXPECT_EQ(handler->ids(), all);
}

TEST_F(PollerTest, GivesBackWhatItOwnsWhenItIsClosed) {
  const auto shards = static_cast<std::size_t>(store->capabilities().shards);
  auto on = poller();
  on->poll();
  const auto other = store->join({});
  EXPECT_LT(other->renew().shards.size(), shards) << "the poller owns them";
  on->close();
  EXPECT_NO_THROW(on->close());
  const Lease lease = other->renew();
  EXPECT_NE(lease.epoch, 0);
  EXPECT_EQ(lease.shards.size(), shards);
  EXPECT_TRUE(lease.inherited.empty()) << "nobody died, so nothing is candidate";
}

TEST_F(PollerTest, IsStartedOnceAndNotAfterItsEnd) {
  auto on = poller();
  on->start();
  EXPECT_THROW(on->start(), MisuseError);
  on->close();
  EXPECT_THROW(on->start(), MisuseError);
  auto idle = poller();
  EXPECT_NO_THROW(idle->close());
  EXPECT_THROW(idle->start(), MisuseError);
}

// Closes its poller when it is given a row, and polls.
class Impatient final : public PollHandler {
 public:
  std::size_t room() override { return 100; }
  std::size_t in_flight() override { return 0; }
  bool handle(Row /*row*/) override {
    for (const auto& call : {std::function<void()>([&] { poller->close(); }),
                             std::function<void()>([&] { poller->poll(); })}) {
      try {
        call();
      } catch (const MisuseError&) {
        refused.raise();
      }
    }
    return true;
  }

  Poller* poller = nullptr;
  Signal refused;
};

TEST_F(PollerTest, ClosingItOrPollingInItsHandlerIsRefused) {
  write_events(1);
  const auto impatient = std::make_shared<Impatient>();
  Poller on(store->join({}), impatient, {.log = log.log(), .clock = &clock});
  impatient->poller = &on;
  on.poll();
  EXPECT_EQ(impatient->refused.count(), 2u) << "in this thread";
  on.start();
  EXPECT_TRUE(impatient->refused.wait(4)) << "in its own";
  on.close();
}

// --- Tracker ---

TEST(TimedTracker, KeepsAnEventUntilItIsReleased) {
  ManualClock clock;
  const auto tracker = timed_tracker(1min, clock);
  EXPECT_TRUE(tracker->try_acquire("a"));
  EXPECT_FALSE(tracker->try_acquire("a"));
  tracker->release("a");
  EXPECT_TRUE(tracker->try_acquire("a"));
}

TEST(TimedTracker, ForgetsAnEventAfterItsTime) {
  ManualClock clock;
  const auto tracker = timed_tracker(1min, clock);
  ASSERT_TRUE(tracker->try_acquire("a"));
  clock.advance(59s);
  EXPECT_FALSE(tracker->try_acquire("a"));
  clock.advance(1s);
  EXPECT_TRUE(tracker->try_acquire("a"));
  clock.advance(59s);
  EXPECT_FALSE(tracker->try_acquire("a")) << "its time counts from the last time it was taken";
}

TEST(TimedTracker, RefusesATimeThatIsNotPositive) { EXPECT_THROW(timed_tracker(0ms), MisuseError); }

}  // namespace
}  // namespace outbox::testing
