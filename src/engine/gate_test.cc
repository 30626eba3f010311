#include "engine/gate.h"

#include <gtest/gtest.h>

namespace outbox {
namespace {

TEST(Gate, LetsAnEventInOnce) {
  Gate gate;
  EXPECT_TRUE(gate.try_acquire("a"));
  EXPECT_FALSE(gate.try_acquire("a"));
  EXPECT_TRUE(gate.try_acquire("b"));
  EXPECT_EQ(gate.size(), 2u);
  gate.release("a");
  EXPECT_TRUE(gate.try_acquire("a"));
}

TEST(Gate, AnEventThatFinishesDuringAReadStaysUntilItEnds) {
  Gate gate;
  ASSERT_TRUE(gate.try_acquire("a"));
  gate.read_begins();
  gate.release("a");
  EXPECT_FALSE(gate.try_acquire("a")) << "the read may be older than the update";
  EXPECT_EQ(gate.size(), 0u) << "it is not in flight any more";
  gate.read_ends();
  EXPECT_TRUE(gate.try_acquire("a")) << "a later read sees the update: this is a new delivery";
}

TEST(Gate, ReleasingTwiceDuringAReadIsTheSameAsOnce) {
  Gate gate;
  ASSERT_TRUE(gate.try_acquire("a"));
  gate.read_begins();
  gate.release("a");
  gate.release("a");
  EXPECT_EQ(gate.size(), 0u);
  gate.read_ends();
  EXPECT_EQ(gate.size(), 0u);
  ASSERT_TRUE(gate.try_acquire("a"));
  EXPECT_EQ(gate.size(), 1u);
}

TEST(Gate, WhatEntersDuringAReadStaysAfterIt) {
  Gate gate;
  gate.read_begins();
  ASSERT_TRUE(gate.try_acquire("a"));
  gate.read_ends();
  EXPECT_FALSE(gate.try_acquire("a"));
}

// A transaction that is rolled back and repeated with the same ids while a read is under way.
TEST(Gate, WhatIsWrittenOnceMoreDuringAReadStaysAfterIt) {
  Gate gate;
  ASSERT_TRUE(gate.reserve("a"));
  EXPECT_FALSE(gate.reserve("a")) << "it is in flight";
  gate.read_begins();
  gate.release("a");
  ASSERT_TRUE(gate.reserve("a"));
  EXPECT_FALSE(gate.try_acquire("a")) << "the read must not take it as well";
  EXPECT_EQ(gate.size(), 1u);
  gate.read_ends();
  EXPECT_FALSE(gate.try_acquire("a")) << "nor may the next one";
  gate.release("a");
  EXPECT_EQ(gate.size(), 0u);
}

TEST(Gate, ReleasingWhatItDoesNotKnowDoesNothing) {
  Gate gate;
  gate.release("a");
  gate.read_begins();
  gate.release("a");
  gate.read_ends();
  EXPECT_EQ(gate.size(), 0u);
}

}  // namespace
}  // namespace outbox
