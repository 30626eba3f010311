// Several instances on one store: who delivers what, and that nobody else does.
#include <set>

#include "engine/test_fixture.h"

namespace outbox::testing {
namespace {

using InstancesTest = EngineTest;

// Both own part of the table, and whatever was to be handed over has been: in
// steps well below the lease, so that neither takes the other for dead.
void settle(ManualClock& clock, Outbox& a, Outbox& b) {
  int steps = 0;
  ASSERT_TRUE(eventually([&] {
    clock.advance(100ms);
    a.wake();
    b.wake();
    return ++steps > 200 && a.owner() && b.owner();
  }));
}

TEST_F(InstancesTest, EachEventIsDeliveredOnceByTwoInstancesWithoutOrder) {
  auto a = open({.mode = Mode::multi_node, .ordering = Ordering::none});
  auto b = open({.mode = Mode::multi_node, .ordering = Ordering::none});
  settle(clock, *a, *b);
  for (int n = 0; n < 200; ++n) {
    write(n % 2 ? *a : *b, order_event(std::to_string(n), std::to_string(n)));
  }
  ASSERT_TRUE(eventually([&] {
    clock.advance(5ms);  // slowly: a keeper that stands still must not lose its lease
    a->wake();
    b->wake();
    return !store->has_pending();
  }));
  const auto ids = recorder->ids();
  EXPECT_EQ(std::set(ids.begin(), ids.end()).size(), 200u);
  EXPECT_EQ(ids.size(), 200u) << "the owner of a shard delivers, not the one that wrote";
  EXPECT_EQ((*metrics)[Counter::stale_updates], 0u);
}

TEST_F(InstancesTest, AShardIsNotHandedOverWhileItsOldOwnerReadsIt) {
  Barrier read;
  std::atomic<bool> stop_here{false};
  faults->after([&](std::string_view call) {
    if (call == "ready" && stop_here.exchange(false)) read.pass();
  });
  auto first_faults = std::exchange(faults, std::make_shared<Faults>());
  auto a = open({.mode = Mode::multi_node});
  store = faulty(bare_store, faults);
  ASSERT_TRUE(eventually([&] { return a->owner(); }));
  ASSERT_TRUE(a->wait_idle(20s));

  for (int n = 0; n < 40; ++n) write_elsewhere(order_event(std::to_string(n), std::to_string(n)));
  stop_here = true;
  a->wake();
  ASSERT_TRUE(read.reached());
  auto b = open({.mode = Mode::multi_node});
  int steps = 0;
  ASSERT_TRUE(eventually([&] {
    clock.advance(1s);
    a->wake();
    b->wake();
    return ++steps == 10;
  }));
  read.open();
  ASSERT_TRUE(eventually([&] {
    clock.advance(5ms);  // slowly: a keeper that stands still must not lose its lease
    a->wake();
    b->wake();
    return !store->has_pending() && b->owner();
  }));
  const auto ids = recorder->ids();
  EXPECT_EQ(ids.size(), std::set(ids.begin(), ids.end()).size()) << "delivered twice";
  EXPECT_EQ(ids.size(), 40u);
}

}  // namespace
}  // namespace outbox::testing
