#include "store/memory/gate.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace outbox::memory {
namespace {

using namespace std::chrono_literals;

TEST(FairGate, LetsInAsManyAsThereArePlaces) {
  FairGate gate(2);
  EXPECT_TRUE(gate.enter(0ms));
  EXPECT_TRUE(gate.enter(0ms));
  EXPECT_FALSE(gate.enter(1ms));
  gate.leave();
  EXPECT_TRUE(gate.enter(0ms)) << "the one that gave up does not stand in the way";
}

TEST(FairGate, LetsEverybodyInSoonerOrLater) {
  FairGate gate(1);
  int inside = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] {
        for (int n = 0; n < 200; ++n) {
          ASSERT_TRUE(gate.enter(20s));
          ++inside;  // a race, if two were let in
          gate.leave();
        }
      });
    }
  }
  EXPECT_EQ(inside, 1'600);
}

}  // namespace
}  // namespace outbox::memory
