// The engine by itself, with a test in the place of poller and lease keeper.
#include "engine/engine.h"

#include <limits>
#include <set>

#include "engine/lease_keeper.h"
#include "engine/test_fixture.h"

namespace outbox::internal {
namespace {

using namespace std::chrono_literals;

constexpr Seq kEverything = std::numeric_limits<Seq>::max();

// Tells when an event is about to leave.
class TellingTracker final : public InFlightTracker {
 public:
  std::function<void()> on_release;

  bool try_acquire(std::string_view event_id) override {
    const std::lock_guard lock(mutex_);
    return ids_.emplace(event_id).second;
  }
  void release(std::string_view event_id) override {
    if (on_release) on_release();
    const std::lock_guard lock(mutex_);
    ids_.erase(std::string(event_id));
  }

 private:
  std::mutex mutex_;
  std::set<std::string> ids_;
};

class EngineAloneTest : public testing::EngineTest {
 protected:
  // However the test ends: the engine, which outlives the test's own variables, waits for its call.
  void TearDown() override {
    hang.open();
    if (engine) engine->close();
  }

  void start(std::shared_ptr<Listener> listener) {
    Listeners on;
    on.add("Order", "Happened", std::move(listener));
    engine = std::make_unique<Engine>(instance, on,
                                      DispatcherOptions{.workers = 1,
                                                        .timeouts = {.hung = 30s},
                                                        .tracker = tracker,
                                                        .log = log.log(),
                                                        .clock = &clock});
    engine->leave_lease_to_others();
    engine->start();
    lease = instance->renew();
    engine->on_lease(lease, Clock::Steady::max());
    read_through.assign(lease.shards.size(), kEverything);
  }

  void read_ready() {
    engine->read_begins(lease.epoch);
    for (Row& row : instance->ready(lease.shards, 0, 50).rows) engine->handle(std::move(row));
    engine->read_ends();
  }

  void read_lanes() {
    for (;;) {
      const auto lane = engine->next_lane(read_through);
      if (lane.key == kNoLane) return;
      engine->read_begins(lease.epoch);
      engine->load_lane(lane, instance->held({lane.shard, lane.key}, lane.limit), false);
      engine->read_ends();
    }
  }

  std::shared_ptr<TellingTracker> tracker = std::make_shared<TellingTracker>();
  std::shared_ptr<Instance> instance = bare_store->join({.lease = 24h});
  Lease lease;
  std::vector<Seq> read_through;
  testing::Barrier hang;
  std::unique_ptr<Engine> engine;
};

// The lane must not be read before the event has ceased to be in flight: it would be passed over,
// and with the lane forgotten nobody would look for it again.
TEST_F(EngineAloneTest, WhatWasHandedOverAndIsOursAgainIsFoundWhenItsCallReturns) {
  std::atomic<bool> quick{false};
  auto hanging = std::make_shared<testing::RecordingListener>([&](const Event&, const Delivery&) {
    hang.pass();
    return Outcome::done();
  });
  const std::string id = write_elsewhere(testing::order_event("a", "1"));
  start(hanging);
  read_ready();
  ASSERT_TRUE(hang.reached());
  clock.advance(31s);
  engine->tick();

  // Its shard is given up, and comes back.
  const int shard = store->admin().find(id)->row.ref.shard;
  Lease without = lease;
  std::erase(without.shards, shard);
  without.draining.push_back(shard);
  engine->on_lease(without, Clock::Steady::max());
  ASSERT_TRUE(testing::eventually([&] { return engine->drained(shard); }));
  engine->on_lease(lease, Clock::Steady::max());
  for (const HeldLane& lane : instance->held_lanes(shard, 0, 10)) engine->restore(lane);
  clock.advance(60s);
  read_lanes();
  EXPECT_EQ(hanging->count(), 1u) << "its lane waits for the call";

  tracker->on_release = [&] {
    if (!quick) read_lanes();  // a reader that comes just then
    quick = true;
  };
  hang.open();
  EXPECT_TRUE(testing::eventually([&] {
    if (quick) read_lanes();
    return status(id) == Status::done;
  }));
  engine->close();  // before on_release uses what is on the stack here
}

// A listener that needs so long, and not for ever, gets there in the end.
TEST_F(EngineAloneTest, EachTimeAllWorkersHangTheyGetTwiceAsLong) {
  auto hanging = std::make_shared<testing::RecordingListener>([&](const Event&, const Delivery&) {
    hang.pass();
    return Outcome::done();
  });
  write_elsewhere(testing::order_event("a", "1"));
  start(hanging);
  read_ready();
  ASSERT_TRUE(hang.reached());
  write_elsewhere(testing::order_event("b", "1"));
  for (const auto longer : {60s, 120s, 240s}) {
    read_ready();                                          // there is something to do
    clock.advance(longer == 60s ? 89s : longer / 2 - 1s);  // since the call began
    engine->tick();
    EXPECT_EQ(engine->stalled(), "") << longer.count();
    clock.advance(1s);
    EXPECT_TRUE(testing::eventually([&] { return !engine->stalled().empty(); })) << longer.count();
    engine->on_lease({}, Clock::Steady::min());
    instance->leave();
    lease = instance->renew();
    engine->on_lease(lease, Clock::Steady::max());
  }
}

class HolderThatHasStalled final : public LeaseHolder {
 public:
  std::atomic<int> asked{0};
  testing::Signal ticks;

  void on_lease(const Lease& /*lease*/, Clock::Steady /*valid_until*/) override {}
  std::string stalled() override {
    ++asked;
    return "why";
  }
  bool able() override { return true; }
  std::optional<Clock::Steady> tick() override {
    ticks.raise();
    return std::nullopt;
  }
};

// Of a dispatcher and a poller only the poller gives up; were the other one asked first, it
// would take the answer for the poller's, and double the time until the next.
TEST_F(EngineAloneTest, ALeaseKeeperWithoutAnInstanceDoesNotAskWhetherItHasStalled) {
  HolderThatHasStalled holder;
  LeaseKeeper keeper(nullptr, holder, clock, log.log());
  keeper.start();
  ASSERT_TRUE(holder.ticks.wait(1));
  keeper.wake();
  ASSERT_TRUE(holder.ticks.wait(2));
  keeper.stop();
  EXPECT_EQ(holder.asked, 0);
}

}  // namespace
}  // namespace outbox::internal
