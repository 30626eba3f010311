#include "engine/in_flight.h"

#include <gtest/gtest.h>

namespace outbox::internal {
namespace {

bool enter(InFlight& events, std::string_view id) {
  if (events.contains(id)) return false;
  events.add(id);
  return true;
}

TEST(InFlight, LetsAnEventInOnce) {
  InFlight events{true};
  EXPECT_TRUE(enter(events, "a"));
  EXPECT_FALSE(enter(events, "a"));
  EXPECT_TRUE(enter(events, "b"));
  EXPECT_EQ(events.size(), 2u);
  events.remove("a");
  EXPECT_TRUE(enter(events, "a"));
}

TEST(InFlight, AnEventThatFinishesDuringAReadStaysUntilItEnds) {
  InFlight events{true};
  ASSERT_TRUE(enter(events, "a"));
  events.read_begins();
  events.remove("a");
  EXPECT_FALSE(enter(events, "a")) << "the read may be older than the update";
  EXPECT_EQ(events.size(), 0u) << "it is not in flight any more";
  events.read_ends();
  EXPECT_TRUE(enter(events, "a")) << "a later read sees the update: this is a new delivery";
}

TEST(InFlight, ReleasingTwiceDuringAReadIsTheSameAsOnce) {
  InFlight events{true};
  ASSERT_TRUE(enter(events, "a"));
  events.read_begins();
  events.remove("a");
  events.remove("a");
  EXPECT_EQ(events.size(), 0u);
  events.read_ends();
  EXPECT_EQ(events.size(), 0u);
  ASSERT_TRUE(enter(events, "a"));
  EXPECT_EQ(events.size(), 1u);
}

TEST(InFlight, WhatEntersDuringAReadStaysAfterIt) {
  InFlight events{true};
  events.read_begins();
  ASSERT_TRUE(enter(events, "a"));
  events.read_ends();
  EXPECT_FALSE(enter(events, "a"));
}

// A transaction that is rolled back and repeated with the same ids while a read is under way.
TEST(InFlight, WhatIsWrittenOnceMoreDuringAReadStaysAfterIt) {
  InFlight events{true};
  ASSERT_TRUE(events.reserve("a"));
  EXPECT_FALSE(events.reserve("a")) << "it is in flight";
  events.read_begins();
  events.remove("a");
  ASSERT_TRUE(events.reserve("a"));
  EXPECT_FALSE(enter(events, "a")) << "the read must not take it as well";
  EXPECT_EQ(events.size(), 1u);
  events.read_ends();
  EXPECT_FALSE(enter(events, "a")) << "nor may the next one";
  events.remove("a");
  EXPECT_EQ(events.size(), 0u);
}

TEST(InFlight, ReleasingWhatItDoesNotKnowDoesNothing) {
  InFlight events{true};
  events.remove("a");
  events.read_begins();
  events.remove("a");
  events.read_ends();
  EXPECT_EQ(events.size(), 0u);
}

TEST(InFlight, WithoutIdsItKnowsNone) {
  InFlight events{false};
  events.add("a");
  EXPECT_FALSE(events.contains("a"));
  EXPECT_EQ(events.all(), 0u);
}

TEST(InFlight, TheLastReclaimedOneOfALaneIsSaid) {
  InFlight events{true};
  events.check_out(7, 0);
  events.check_out(7, 0);
  events.end_lease();
  events.check_out(7, 0);
  EXPECT_FALSE(events.check_in(7, true)) << "of this lease";
  EXPECT_FALSE(events.check_in(7, false));
  EXPECT_TRUE(events.check_in(7, false));
  EXPECT_TRUE(events.at_rest());
}

TEST(InFlight, ACallThatWasHandedOverIsReclaimedWhenItsShardIsGivenUp) {
  InFlight events{true};
  events.check_out(7, 3);
  events.hangs("a", 7, 3, true);
  EXPECT_EQ(events.hung_lanes(), (std::set<LaneKey>{7}));
  ASSERT_TRUE(events.begin_hand_over("a"));
  EXPECT_FALSE(events.begin_hand_over("a")) << "once";
  EXPECT_FALSE(events.all_handed_over());
  events.end_hand_over("a", true);
  EXPECT_TRUE(events.all_handed_over());
  EXPECT_EQ(events.handed_over_of(3), 1u);
  events.release_handed_over(3);
  EXPECT_EQ(events.handed_over_of(3), 0u);
  EXPECT_TRUE(events.hung_lanes().empty());
  EXPECT_EQ(events.returned("a"), InFlight::Call::released);
  EXPECT_TRUE(events.check_in(7, true)) << "it is a reclaimed one now";
  EXPECT_TRUE(events.at_rest());
}

}  // namespace
}  // namespace outbox::internal
