#include "engine/completer.h"

#include <atomic>

#include "engine/test_fixture.h"
#include "outbox/error.h"

namespace outbox::internal {
namespace {

using namespace std::chrono_literals;
using testing::Barrier;
using testing::RecordingLog;
using testing::Signal;

// Only updates; the hook decides what becomes of them.
class UpdatingInstance final : public WholeInstance {
 public:
  std::function<UpdateResult(std::span<const StatusUpdate>)> on_update;
  std::mutex mutex;
  std::vector<std::size_t> batches;
  std::vector<std::string> ids;
  Signal updated;

  UpdateResult apply(std::int64_t, std::span<const StatusUpdate> updates) override {
    {
      const std::lock_guard lock(mutex);
      batches.push_back(updates.size());
      for (const StatusUpdate& update : updates) ids.push_back(update.event_id);
    }
    updated.raise();
    return on_update ? on_update(updates) : UpdateResult{};
  }

  std::function<FlushResult(bool at_once)> on_flush;
  Signal flushed;

  FlushResult flush(std::int64_t, bool at_once) override {
    const std::unique_ptr<Signal, void (*)(Signal*)> at_end(&flushed,
                                                            [](Signal* it) { it->raise(); });
    return on_flush ? on_flush(at_once) : FlushResult{};
  }

  Lease renew() override { return {}; }
  std::int64_t epoch() const override { return 0; }
  std::optional<std::chrono::milliseconds> lease_duration() const override { return std::nullopt; }
  void release(int) override {}
  void leave() override {}
  Rows ready(std::span<const int>, std::size_t, const ReadLimit&) override { return {}; }
  void rewind(Seq) override {}
  DueRows due(std::span<const int>, const ReadLimit&) override { return {}; }
  Rows held(std::span<const LaneRef>, const ReadLimit&) override { return {}; }
  std::vector<HeldLane> held_lanes(int, LaneKey, std::size_t) override { return {}; }
  Rows claim(std::chrono::milliseconds, const ReadLimit&) override { return {}; }
  void unclaim(std::span<const RowRef>) override {}
  const std::string& owner() const override { return name_; }

 private:
  const std::string name_ = "me";
};

class CompleterTest : public ::testing::Test, protected Completer::Events {
 protected:
  // However the test ends: before what the completer's thread looks at goes unreachable.
  void TearDown() override {
    slow.open();
    completer.close(std::chrono::steady_clock::now());
  }

  Completion completion(const std::string& id, std::int64_t epoch = 1) {
    return {.job = {.row = {.event = Event::restore({.id = id})}, .epoch = epoch},
            .decision = {.update = {.event_id = id}}};
  }

  void start() {
    completer.set_epoch(1);
    completer.start();
  }

  RecordingLog log;
  std::shared_ptr<UpdatingInstance> store = std::make_shared<UpdatingInstance>();
  Barrier slow;
  Signal acked;
  Signal stale;
  Signal fenced;
  Completer completer{store, *this, host_clock(), log.log()};

 private:
  void on_acked(std::span<Completion> all) override {
    for (const Completion& one : all) (one.stale ? stale : acked).raise();
  }
  void on_fenced(std::int64_t /*epoch*/) override { fenced.raise(); }
  void on_set_apart() override {}
};

TEST_F(CompleterTest, AnIdleOneUpdatesAtOnce) {
  start();
  completer.submit(completion("a"));
  ASSERT_TRUE(acked.wait(1));
  completer.submit(completion("b"));
  ASSERT_TRUE(acked.wait(2));
  EXPECT_EQ(store->batches, (std::vector<std::size_t>{1, 1}));
}

TEST_F(CompleterTest, WhateverFinishedDuringAFlushGoesInOne) {
  store->on_update = [&](std::span<const StatusUpdate> updates) {
    if (updates[0].event_id == "first") slow.pass();
    return UpdateResult{};
  };
  start();
  completer.submit(completion("first"));
  ASSERT_TRUE(slow.reached());
  for (int n = 0; n < 300; ++n) completer.submit(completion(std::to_string(n)));
  slow.open();
  ASSERT_TRUE(acked.wait(301));
  EXPECT_EQ(store->batches, (std::vector<std::size_t>{1, 300}));
  ASSERT_EQ(store->ids.size(), 301u);
  for (std::size_t n = 0; n < 300; ++n) EXPECT_EQ(store->ids[n + 1], std::to_string(n));
}

TEST_F(CompleterTest, AStoreIsFlushedWhenItWantsToBe) {
  store->on_flush = [n = 0](bool) mutable -> FlushResult {
    return {.next_in = ++n < 4 ? std::optional(1ms) : std::nullopt};
  };
  start();
  completer.submit(completion("a"));
  EXPECT_TRUE(store->flushed.wait(4)) << "without another update";
  EXPECT_FALSE(store->flushed.wait(5, 20ms)) << "there is nothing left";
}

TEST_F(CompleterTest, AFlushThatIsFencedEndsTheEpoch) {
  store->on_flush = [](bool) -> FlushResult { return {.fenced = true}; };
  start();
  completer.submit(completion("a"));
  EXPECT_TRUE(fenced.wait(1));
}

TEST_F(CompleterTest, AFlushThatFailsIsRepeatedAndTold) {
  store->on_flush = [n = 0](bool) mutable -> FlushResult {
    if (++n <= 2) throw RetryableError("unreachable");
    return {};
  };
  start();
  completer.submit(completion("a"));
  ASSERT_TRUE(store->flushed.wait(2));
  EXPECT_TRUE(completer.outage().report());
  EXPECT_TRUE(log.contains("cannot store how far"));
  ASSERT_TRUE(store->flushed.wait(3));
  EXPECT_TRUE(testing::eventually([&] { return !completer.outage().report(); }));
}

TEST_F(CompleterTest, ClosingFlushesTheStoreAtOnce) {
  const auto at_once = std::make_shared<std::atomic<bool>>(false);
  store->on_flush = [at_once](bool now) -> FlushResult {
    *at_once = now;
    return {.next_in = now ? std::nullopt : std::optional(1h)};
  };
  start();
  completer.submit(completion("a"));
  ASSERT_TRUE(acked.wait(1));
  EXPECT_TRUE(completer.close(std::chrono::steady_clock::now() + 10s));
  EXPECT_TRUE(*at_once);
}

TEST_F(CompleterTest, AFailedUpdateIsRepeatedUntilItIsAcknowledgedAndCountsOnlyThen) {
  store->on_update = [this, attempts = 0](std::span<const StatusUpdate>) mutable -> UpdateResult {
    EXPECT_EQ(acked.count(), 0u);
    if (++attempts <= 3) throw RetryableError("locked");
    return {};
  };
  start();
  completer.submit(completion("a"));
  ASSERT_TRUE(acked.wait(1));
  EXPECT_EQ(store->ids, std::vector<std::string>(4, "a"));
  EXPECT_TRUE(log.contains("cannot update 1 events, will try again: locked"));
}

TEST_F(CompleterTest, WhatCannotBeFlushedIsAnOutageThoughUpdatesAreTaken) {
  store->on_flush = [](bool) -> FlushResult { throw RetryableError("unreachable"); };
  start();
  completer.submit(completion("1"));
  ASSERT_TRUE(testing::eventually([&] { return completer.outage().report().has_value(); }));
  const auto since = completer.outage().report()->since;
  completer.submit(completion("2"));
  ASSERT_TRUE(acked.wait(2));
  completer.close(std::chrono::steady_clock::now() + 20s);
  ASSERT_TRUE(completer.outage().report());
  EXPECT_EQ(completer.outage().report()->since, since) << "taken is not stored";
}

// --- Updates that nobody waits for ---

// With a time that no test lives to see.
class CollectTest : public CompleterTest {
 protected:
  void SetUp() override { collecting.set_epoch(1); }
  void TearDown() override {
    slow.open();
    collecting.close(std::chrono::steady_clock::now());
    CompleterTest::TearDown();
  }

  Completion completion_of(StatusUpdate::Kind kind) {
    Completion result = completion("urgent");
    result.decision.update.kind = kind;
    if (kind != StatusUpdate::Kind::done) result.decision.kind = Decision::Kind::wait;
    return result;
  }

  Completer collecting{
      store, *this, host_clock(), log.log(), {.time = 10min, .updates = 3, .bytes = 100}};
};

TEST_F(CollectTest, SomeGoTogetherWhenThereAreEnough) {
  collecting.start();
  for (const char* id : {"a", "b"}) collecting.submit(completion(id));
  EXPECT_FALSE(store->updated.wait(1, 50ms));
  collecting.submit(completion("c"));
  ASSERT_TRUE(acked.wait(3));
  EXPECT_EQ(store->batches, std::vector<std::size_t>{3});
  EXPECT_EQ(store->ids, (std::vector<std::string>{"a", "b", "c"}));
}

TEST_F(CollectTest, OrWhenTheFirstHasWaitedLongEnough) {
  Completer soon{store, *this, host_clock(), log.log(), {.time = 5ms, .updates = 3, .bytes = 100}};
  soon.set_epoch(1);
  soon.start();
  for (std::size_t n = 1; n <= 3; ++n) {
    soon.submit(completion(std::to_string(n)));
    ASSERT_TRUE(acked.wait(n));
  }
  soon.close(std::chrono::steady_clock::now());
}

TEST_F(CollectTest, OrWhenTheirPayloadsAreLarge) {
  collecting.start();
  Completion large = completion("large");
  large.job.row.event = Event::restore({.id = "large", .payload = bytes(std::string(100, 'x'))});
  collecting.submit(std::move(large));
  EXPECT_TRUE(acked.wait(1));
}

TEST_F(CollectTest, AnUpdateThatIsWaitedForGoesAtOnceAfterThoseBeforeIt) {
  collecting.start();
  collecting.submit(completion("a"));
  EXPECT_FALSE(store->updated.wait(1, 50ms));
  collecting.submit(completion_of(StatusUpdate::Kind::retry));
  ASSERT_TRUE(acked.wait(2));
  EXPECT_EQ(store->ids, (std::vector<std::string>{"a", "urgent"}));

  Completion candidate = completion("candidate");
  candidate.job.candidate = true;
  collecting.submit(std::move(candidate));
  EXPECT_TRUE(acked.wait(3));
  Completion read_back = completion("read back");
  read_back.job.row.ref.hold = 7;
  collecting.submit(std::move(read_back));
  EXPECT_TRUE(acked.wait(4));
}

TEST_F(CollectTest, NothingIsCollectedWhileSomebodyWaitsForAll) {
  collecting.start();
  collecting.submit(completion("a"));
  EXPECT_FALSE(store->updated.wait(1, 50ms));
  {
    const Completer::Awaiting awaiting(collecting);
    ASSERT_TRUE(acked.wait(1));
    collecting.submit(completion("b"));
    ASSERT_TRUE(acked.wait(2));
  }
  collecting.submit(completion("c"));
  EXPECT_FALSE(store->updated.wait(3, 50ms));
}

TEST_F(CollectTest, CloseFlushesWhatWasCollected) {
  collecting.start();
  collecting.submit(completion("a"));
  EXPECT_FALSE(store->updated.wait(1, 50ms));
  EXPECT_TRUE(collecting.close(std::chrono::steady_clock::now() + 20s));
  EXPECT_EQ(acked.count(), 1u);
}

TEST_F(CollectTest, AnotherEpochReturnsWhatWasCollectedAtOnce) {
  collecting.start();
  collecting.submit(completion("a"));
  EXPECT_FALSE(store->updated.wait(1, 50ms));
  collecting.set_epoch(2);
  EXPECT_TRUE(stale.wait(1));
}

// An update that the store does not take until it is allowed to; a batch with it fails whole.
class RefusalTest : public CompleterTest {
 protected:
  void SetUp() override {
    store->on_update = [this](std::span<const StatusUpdate> updates) -> UpdateResult {
      for (const StatusUpdate& update : updates) {
        if (unreachable || (refused && update.event_id == "bad"))
          throw RetryableError("not this one");
      }
      return {};
    };
  }
  Completion of_lane(LaneKey lane, const std::string& id, StatusUpdate::Kind kind) {
    Completion result = completion(id);
    result.job.lane = lane;
    result.decision.update.kind = kind;
    return result;
  }

  // One batch, that holds all of these.
  void submit(std::vector<Completion> completions) {
    completer.set_epoch(1);
    completer.submit(std::move(completions));
    completer.start();
  }

  std::vector<std::string> sent() {
    const std::lock_guard lock(store->mutex);
    return store->ids;
  }

  std::atomic<bool> refused{true};
  std::atomic<bool> unreachable{false};
  std::atomic<bool> slow_once{false};
};

TEST_F(RefusalTest, ARefusedUpdateStopsNoOther) {
  std::vector<Completion> all;
  for (int n = 0; n < 100; ++n) all.push_back(completion(n == 37 ? "bad" : std::to_string(n)));
  submit(std::move(all));
  ASSERT_TRUE(acked.wait(99));
  for (int n = 0; n < 10; ++n) {
    completer.submit(completion("later " + std::to_string(n)));
    ASSERT_TRUE(acked.wait(static_cast<std::size_t>(100 + n))) << "and none that comes later";
  }
  EXPECT_TRUE(log.contains("the store refuses to update event bad, the others go on without it"));
  ASSERT_EQ(completer.refused().size(), 1u);
  EXPECT_TRUE(testing::eventually([&] { return !completer.waiting_since(); }))
      << "nothing else waits";
  refused = false;
  ASSERT_TRUE(acked.wait(110));
  EXPECT_TRUE(testing::eventually([&] { return completer.refused().empty(); }));
}

TEST_F(RefusalTest, FollowersWaitForTheRefusedUpdateOfTheirHead) {
  submit({of_lane(7, "bad", StatusUpdate::Kind::retry),
          of_lane(7, "behind", StatusUpdate::Kind::hold),
          of_lane(8, "other", StatusUpdate::Kind::hold)});
  ASSERT_TRUE(acked.wait(1));
  completer.submit(of_lane(7, "far behind", StatusUpdate::Kind::hold));
  completer.submit(of_lane(8, "another", StatusUpdate::Kind::done));
  ASSERT_TRUE(acked.wait(2));
  ASSERT_TRUE(testing::eventually([&] { return !completer.refused().empty(); }));
  EXPECT_EQ(acked.count(), 2u) << "a crash would leave them held without their head";
  refused = false;
  ASSERT_TRUE(acked.wait(5));
  const auto ids = sent();
  EXPECT_EQ(std::vector(ids.end() - 2, ids.end()),
            (std::vector<std::string>{"behind", "far behind"}));
}

TEST_F(RefusalTest, NobodyWaitsForARefusedDone) {
  submit(
      {of_lane(7, "bad", StatusUpdate::Kind::done), of_lane(7, "next", StatusUpdate::Kind::done)});
  ASSERT_TRUE(acked.wait(1));
  completer.submit(of_lane(7, "third", StatusUpdate::Kind::retry));
  ASSERT_TRUE(acked.wait(2));
  EXPECT_EQ(completer.refused().size(), 1u);
}

TEST_F(RefusalTest, AnUnreachableStoreRefusesNoUpdate) {
  unreachable = true;
  refused = false;
  std::vector<Completion> all;
  for (int n = 0; n < 20; ++n)
    all.push_back(of_lane(n % 3, std::to_string(n), StatusUpdate::Kind::retry));
  submit(std::move(all));
  ASSERT_TRUE(store->updated.wait(12));
  EXPECT_TRUE(completer.waiting_since().has_value());
  unreachable = false;
  ASSERT_TRUE(acked.wait(20));
  EXPECT_TRUE(completer.refused().empty());
  EXPECT_FALSE(log.contains("refuses"));
  // In the order of submission within each lane; without a lane there is none.
  std::map<int, int> last;
  const auto ids = sent();
  for (auto id = ids.end() - 20; id != ids.end(); ++id) {
    const int number = std::stoi(*id);
    if (number % 3 == 0) continue;
    EXPECT_GT(number, last[number % 3]);
    last[number % 3] = number;
  }
}

TEST_F(RefusalTest, ALostLeaseBringsBackWhatIsRefused) {
  submit({of_lane(7, "bad", StatusUpdate::Kind::retry),
          of_lane(7, "behind", StatusUpdate::Kind::hold), completion("good")});
  ASSERT_TRUE(acked.wait(1));
  ASSERT_TRUE(testing::eventually([&] { return !completer.refused().empty(); }));
  completer.set_epoch(2);
  ASSERT_TRUE(stale.wait(2));
  EXPECT_TRUE(testing::eventually([&] { return completer.refused().empty(); }));
}

// Or an engine with nothing else to do would give up all that it owns.
TEST_F(RefusalTest, NobodyWaitsForARefusedUpdateWhenNothingElseIsToDo) {
  submit({of_lane(7, "bad", StatusUpdate::Kind::retry), completion("good")});
  ASSERT_TRUE(acked.wait(1));
  ASSERT_TRUE(testing::eventually([&] { return !completer.refused().empty(); }));
  ASSERT_TRUE(testing::eventually([&] { return !completer.waiting_since(); }));
  completer.submit(of_lane(7, "behind", StatusUpdate::Kind::hold));
  EXPECT_TRUE(testing::eventually([&] { return !completer.waiting_since(); }));
}

TEST_F(RefusalTest, ManyThatAreRefusedAndTakeTheirTimeLeaveTurnsToTheOthers) {
  store->on_update = [this](std::span<const StatusUpdate> updates) -> UpdateResult {
    for (const StatusUpdate& update : updates) {
      if (!update.event_id.starts_with("bad")) continue;
      if (slow_once.exchange(false)) {
        completer.submit(completion("other"));
        std::this_thread::sleep_for(1'100ms);  // it waits for a lock; now all of them are due
      }
      throw RetryableError("lock wait timeout exceeded");
    }
    return {};
  };
  submit({completion("bad 1"), completion("good 1"), completion("bad 2"), completion("good 2"),
          completion("bad 3"), completion("good 3")});
  ASSERT_TRUE(testing::eventually([&] { return completer.refused().size() == 3; }));
  slow_once = true;  // first: what is sent before it does not count
  const std::size_t before = sent().size();
  ASSERT_TRUE(acked.wait(4));
  std::vector<std::string> since = sent();
  since.erase(since.begin(), since.begin() + static_cast<std::ptrdiff_t>(before));
  const auto other = std::find(since.begin(), since.end(), "other");
  EXPECT_LE(other - since.begin(), 2) << "one may have been on its way when it became slow";
}

TEST_F(RefusalTest, ClosingSendsEveryUpdateThatIsNotRefused) {
  store->on_update = [&](std::span<const StatusUpdate> updates) -> UpdateResult {
    for (const StatusUpdate& update : updates) {
      if (update.event_id == "slow") slow.pass();
      if (update.event_id == "bad") throw RetryableError("not this one");
    }
    return {};
  };
  submit({completion("bad"), completion("good")});
  ASSERT_TRUE(acked.wait(1));
  ASSERT_TRUE(testing::eventually([&] { return !completer.refused().empty(); }));
  completer.submit(completion("slow"));
  ASSERT_TRUE(slow.reached());
  for (int n = 0; n < 10; ++n) completer.submit(completion(std::to_string(n)));
  std::thread opening([&] {
    std::this_thread::sleep_for(50ms);  // if it is not closing by then, nothing is proved
    slow.open();
  });
  EXPECT_FALSE(completer.close(std::chrono::steady_clock::now() + 500ms));
  opening.join();
  EXPECT_EQ(acked.count(), 12u);
  EXPECT_TRUE(log.contains("closed with 1 updates that the store did not take"));
}

// It says nothing of the event: that is delivered without it.
TEST_F(RefusalTest, ASuspicionThatTheStoreDoesNotTakeIsNotWaitedFor) {
  submit({of_lane(7, "bad", StatusUpdate::Kind::crashes),
          of_lane(8, "good", StatusUpdate::Kind::crashes)});
  EXPECT_TRUE(acked.wait(2));
  EXPECT_TRUE(completer.refused().empty());
}

TEST_F(RefusalTest, ClosingGivesUpARefusedUpdateAtTheDeadline) {
  submit({of_lane(7, "bad", StatusUpdate::Kind::retry),
          of_lane(7, "behind", StatusUpdate::Kind::hold), completion("good")});
  ASSERT_TRUE(acked.wait(1));
  EXPECT_FALSE(completer.close(std::chrono::steady_clock::now() + 300ms));
  EXPECT_TRUE(log.contains("closed with 2 updates that the store did not take"));
}

TEST_F(CompleterTest, AFencedFlushIsStaleAndSaysSo) {
  store->on_update = [](std::span<const StatusUpdate>) { return UpdateResult{.fenced = true}; };
  start();
  completer.submit(completion("a"));
  ASSERT_TRUE(stale.wait(1));
  EXPECT_EQ(fenced.count(), 1u);
  EXPECT_EQ(acked.count(), 0u);
}

TEST_F(CompleterTest, OnlyTheUpdatesThatTheStoreNamesAreStale) {
  store->on_update = [](std::span<const StatusUpdate> updates) {
    return updates.size() == 2 ? UpdateResult{.stale = {1}} : UpdateResult{};
  };
  completer.set_epoch(1);
  completer.submit({completion("old", 7), completion("mine"), completion("lost")});
  completer.start();
  ASSERT_TRUE(stale.wait(2));
  ASSERT_TRUE(acked.wait(1));
  EXPECT_EQ(store->ids, (std::vector<std::string>{"mine", "lost"}))
      << "what was read in another lease is not even sent";
}

TEST_F(CompleterTest, ALostLeaseEndsTheRepeating) {
  store->on_update = [](std::span<const StatusUpdate>) -> UpdateResult {
    throw RetryableError("unreachable");
  };
  start();
  completer.submit(completion("a"));
  ASSERT_TRUE(store->updated.wait(2));
  completer.set_epoch(2);
  ASSERT_TRUE(stale.wait(1));
  EXPECT_EQ(acked.count(), 0u);
}

TEST_F(CompleterTest, ClosingFlushes) {
  store->on_update = [&](std::span<const StatusUpdate> updates) {
    if (updates[0].event_id == "first") slow.pass();
    return UpdateResult{};
  };
  start();
  completer.submit(completion("first"));
  ASSERT_TRUE(slow.reached());
  completer.submit(completion("second"));
  slow.open();
  EXPECT_TRUE(completer.close(std::chrono::steady_clock::now() + 20s));
  EXPECT_EQ(acked.count(), 2u);
}

TEST_F(CompleterTest, ClosingGivesUpAtTheDeadlineAndSaysWhatIsLeft) {
  store->on_update = [](std::span<const StatusUpdate>) -> UpdateResult {
    throw RetryableError("unreachable");
  };
  start();
  completer.submit(completion("a"));
  ASSERT_TRUE(store->updated.wait(1));
  EXPECT_FALSE(completer.close(std::chrono::steady_clock::now() + 50ms));
  EXPECT_TRUE(log.contains("closed with 1 updates that the store did not take"));
  EXPECT_EQ(acked.count(), 0u);
}

}  // namespace
}  // namespace outbox::internal
