#include "store/sqlite/fair_slots.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "outbox/testing.h"

namespace outbox::sqlite {
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

// Two threads that take turns: without fairness one of them, which gives the
// place back and takes it again at once, would get it nearly every time.
TEST(FairSlots, AThreadThatComesBackAtOnceDoesNotOvertakeTheOneThatWaits) {
  FairSlots slots(1);
  constexpr int kRounds = 200;
  std::vector<int> order;  // guarded by the slot
  testing::Signal both;
  const auto turns = [&](int self) {
    both.raise();
    both.wait(2);
    for (int i = 0; i < kRounds; ++i) {
      ASSERT_TRUE(slots.take(steady_clock::now() + 20s));
      order.push_back(self);
      std::this_thread::sleep_for(100us);  // so that the other stands in line
      slots.give_back();
    }
  };
  {
    std::jthread first(turns, 1);
    std::jthread second(turns, 2);
  }
  int changes = 0;
  for (std::size_t i = 1; i < order.size(); ++i) changes += order[i] != order[i - 1] ? 1 : 0;
  EXPECT_GT(changes, kRounds) << "turns taken one after the other by the same thread";
}

}  // namespace
}  // namespace outbox::sqlite
