#include "base/fair_slots.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "outbox/testing.h"

namespace outbox {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

TEST(FairSlots, GivesOutAsManyAsThereAre) {
  FairSlots slots(2);
  EXPECT_TRUE(slots.take(steady_clock::now()));
  EXPECT_TRUE(slots.take(steady_clock::now()));
  EXPECT_FALSE(slots.take(steady_clock::now() + 1ms));
  slots.give_back();
  EXPECT_TRUE(slots.take(steady_clock::now()));
}

TEST(FairSlots, WhoeverGaveUpIsNotServed) {
  FairSlots slots(1);
  ASSERT_TRUE(slots.take(steady_clock::now()));
  EXPECT_FALSE(slots.take(steady_clock::now() + 1ms));
  slots.give_back();
  EXPECT_TRUE(slots.take(steady_clock::now())) << "the place was handed to nobody";
}

TEST(FairSlots, ServesThoseWhoWaitInTheirOrder) {
  FairSlots slots(1);
  ASSERT_TRUE(slots.take(steady_clock::now()));
  std::vector<int> order;  // guarded by the slot
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < 5; ++i) {
    threads.emplace_back([&, i] {
      EXPECT_TRUE(slots.take(steady_clock::now() + 20s));
      order.push_back(static_cast<int>(i));
      slots.give_back();
    });
    while (slots.waiting() <= i) std::this_thread::yield();
  }
  slots.give_back();
  threads.clear();
  EXPECT_EQ(order, (std::vector{0, 1, 2, 3, 4}));
}

TEST(FairSlots, WhoeverComesAlongDoesNotOvertakeOneThatWaits) {
  FairSlots slots(1);
  ASSERT_TRUE(slots.take(steady_clock::now()));
  testing::Signal enough;
  std::jthread waiting([&] {
    EXPECT_TRUE(slots.take(steady_clock::now() + 20s));
    enough.wait();
    slots.give_back();
  });
  while (slots.waiting() == 0) std::this_thread::yield();
  slots.give_back();
  EXPECT_FALSE(slots.take(steady_clock::now())) << "handed over, even if it has not woken up yet";
  enough.raise();
}

}  // namespace
}  // namespace outbox
