#include "engine/lanes.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "engine/test_fixture.h"

namespace outbox::internal {
namespace {

using namespace std::chrono_literals;

constexpr LaneKey kKey = 7;
constexpr LaneKey kOther = 8;
constexpr Clock::Steady kNow{100s};
constexpr std::array<Seq, 2> kAllRead{1'000, 1'000};

class LanesTest : public ::testing::Test {
 protected:
  // A lane whose rows are held and that wants them back at that time.
  Lane& hold(LaneKey key, Clock::Steady due = {}, Seq open_after = 0, int shard = 0) {
    Lane& lane = lanes.at(key, shard);
    lane.hold();
    lane.read_not_before(due);
    lane.read_after(open_after);
    EXPECT_FALSE(lanes.update(lane));
    return lane;
  }

  LaneKey next(std::span<const Seq> read_through = kAllRead, Clock::Steady now = kNow) {
    const Lane* lane = lanes.next_readable(read_through, now);
    return lane != nullptr ? lane->key() : kNoLane;
  }

  Job job(Seq seq) {
    const auto store = memory::open();
    Writer writer{store};
    const std::string id = testing::write(writer, testing::order_event("1", "{}"));
    Job made{.row = store->admin().find(id)->row, .lane = kKey};
    made.row.ref.seq = seq;
    return made;
  }

  Lanes lanes;
};

// --- update() ---

TEST_F(LanesTest, LetsTheFirstEventOfAnIdleLaneRun) {
  Lane& lane = lanes.at(kKey, 0);
  lane.push(job(1));
  EXPECT_TRUE(lanes.update(lane));
  lane.stand_in_line();
  EXPECT_FALSE(lanes.update(lane)) << "one at a time";
  lane.leave_line();
  lane.await_ack();
  EXPECT_FALSE(lanes.update(lane)) << "the update of its head is on its way";
  lane.go_on();
  EXPECT_TRUE(lanes.update(lane));
}

TEST_F(LanesTest, ForgetsALaneOnlyOnceNothingIsKnownOfIt) {
  Lane& lane = lanes.at(kKey, 0);
  const auto kept = [&] {
    static_cast<void>(lanes.update(lane));
    return lanes.find(kKey) == &lane;
  };
  lane.stand_in_line();
  EXPECT_TRUE(kept());
  lane.leave_line();
  lane.await_ack();
  EXPECT_TRUE(kept());
  lane.go_on();
  lane.hold_submitted();
  EXPECT_TRUE(kept());
  lane.hold_acked();
  lane.held_row_read();
  EXPECT_TRUE(kept());
  lane.held_row_left();
  lane.hold();
  EXPECT_TRUE(kept());
  lane.nothing_held();
  EXPECT_FALSE(kept());
  EXPECT_EQ(lanes.size(), 0u);
  EXPECT_EQ(lanes.next_due(), std::nullopt) << "nor is it listed any more";
}

TEST_F(LanesTest, ALaneThatComesAgainKnowsNothingOfItsPast) {
  Lane& lane = hold(kKey, kNow, 50, 1);
  lane.nothing_held();
  static_cast<void>(lanes.update(lane));
  ASSERT_EQ(lanes.find(kKey), nullptr);
  for (const LaneKey key : {kKey, kOther}) {
    Lane& again = lanes.at(key, 0);
    EXPECT_EQ(again.key(), key);
    EXPECT_EQ(again.shard(), 0);
    EXPECT_TRUE(again.idle());
    EXPECT_FALSE(again.held() || again.failing());
    EXPECT_TRUE(again.jobs().empty());
    EXPECT_EQ(lanes.next_due(), std::nullopt);
    again.hold();
    EXPECT_FALSE(lanes.update(again));
    EXPECT_EQ(next(std::array<Seq, 1>{0}, Clock::Steady{}), key)
        << "neither a time nor a number is waited for";
  }
}

TEST_F(LanesTest, ALaneIsReadBackOnlyWhenNothingElseOfItIsUnderWay) {
  Lane& lane = hold(kKey);
  const auto readable = [&] {
    static_cast<void>(lanes.update(lane));
    return lanes.next_due().has_value();
  };
  EXPECT_TRUE(readable());
  lane.stand_in_line();
  EXPECT_FALSE(readable());
  lane.leave_line();
  lane.await_ack();
  EXPECT_FALSE(readable());
  lane.go_on();
  lane.hold_submitted();
  EXPECT_FALSE(readable()) << "a row is not held yet";
  lane.hold_acked();
  lanes.block(lane);
  EXPECT_FALSE(readable());
  lanes.unblock(&lane);
  lane.push(job(1));
  EXPECT_FALSE(readable());
  static_cast<void>(lane.take_jobs());
  EXPECT_TRUE(readable());
}

// --- next_readable() ---

TEST_F(LanesTest, ALaneIsReadableFromItsDueTimeOn) {
  hold(kKey, kNow + 5s);
  EXPECT_EQ(lanes.next_due(), kNow + 5s);
  EXPECT_EQ(next(kAllRead, kNow + 4'999ms), kNoLane);
  EXPECT_EQ(next(kAllRead, kNow + 5s), kKey);
}

TEST_F(LanesTest, TheLaneThatIsDueFirstComesFirst) {
  hold(kKey, kNow - 1s);
  hold(kOther, kNow - 2s);
  EXPECT_EQ(lanes.next_due(), kNow - 2s);
  EXPECT_EQ(next(), kOther);
  EXPECT_EQ(lanes.next_due(), kNow - 1s);
  EXPECT_EQ(next(), kKey);
  EXPECT_EQ(next(), kNoLane);
}

TEST_F(LanesTest, ALaneIsReadableOnceUntilItIsSettledAgain) {
  Lane& lane = hold(kKey);
  EXPECT_EQ(next(), kKey);
  EXPECT_EQ(next(), kNoLane) << "it is being read";
  EXPECT_EQ(lanes.next_due(), std::nullopt);
  EXPECT_EQ(lanes.find(kKey), &lane);
  static_cast<void>(lanes.update(lane));
  EXPECT_EQ(next(), kKey);
}

TEST_F(LanesTest, ALaneThatIsSettledWithAnotherDueTimeIsListedUnderThatAlone) {
  Lane& lane = hold(kKey, kNow - 1s);
  lane.read_not_before(kNow + 1s);
  static_cast<void>(lanes.update(lane));
  EXPECT_EQ(lanes.next_due(), kNow + 1s);
  EXPECT_EQ(next(), kNoLane);
  EXPECT_EQ(next(kAllRead, kNow + 1s), kKey);
  EXPECT_EQ(next(kAllRead, kNow + 1s), kNoLane);
}

TEST_F(LanesTest, ALaneIsNotReadBeforeItsOwnShardHasBeenReadFarEnough) {
  hold(kKey, {}, 50, 1);
  EXPECT_EQ(next(std::array<Seq, 2>{1'000, 49}), kNoLane);
  EXPECT_EQ(next(std::array<Seq, 1>{1'000}), kNoLane) << "its shard is not read at all";
  EXPECT_EQ(next({}), kNoLane);
  EXPECT_EQ(next(std::array<Seq, 2>{0, 50}), kKey);
}

TEST_F(LanesTest, ALaneBehindTheBarrierDoesNotHoldBackALaterOne) {
  hold(kKey, kNow - 2s, 50);
  hold(kOther, kNow - 1s, 10);
  EXPECT_EQ(next(std::array<Seq, 1>{10}), kOther);
  EXPECT_EQ(next(std::array<Seq, 1>{10}), kNoLane);
  EXPECT_EQ(next(std::array<Seq, 1>{50}), kKey) << "it stayed on the list";
}

// --- restore() ---

TEST_F(LanesTest, ARestoredLaneWaitsForItsHeadAndForWhatStandsBeforeIt) {
  lanes.restore({.key = kKey, .shard = 1, .first = 50, .available_in = 3s}, kNow);
  const Lane* lane = lanes.find(kKey);
  ASSERT_NE(lane, nullptr);
  EXPECT_EQ(lane->shard(), 1);
  EXPECT_TRUE(lane->held()) << "rows that the reader meets go behind";
  EXPECT_EQ(lanes.next_due(), kNow + 3s);
  EXPECT_EQ(next(kAllRead, kNow + 2s), kNoLane);
  EXPECT_EQ(next(std::array<Seq, 2>{1'000, 49}, kNow + 3s), kNoLane);
  EXPECT_EQ(next(std::array<Seq, 2>{0, 50}, kNow + 3s), kKey);
}

TEST_F(LanesTest, ARestoredLaneBehindADeadHeadIsLookedAtOnce) {
  lanes.restore({.key = kKey, .first = 1, .status = Status::dead}, kNow);
  EXPECT_EQ(next(), kKey);
  EXPECT_EQ(next(), kNoLane);
}

// --- Lanes behind a DEAD event ---

TEST_F(LanesTest, ABlockedLaneIsNotReadableUntilItIsRechecked) {
  Lane& lane = hold(kKey);
  lanes.block(lane);
  EXPECT_FALSE(lanes.update(lane));
  EXPECT_EQ(lanes.next_due(), std::nullopt);
  EXPECT_EQ(next(), kNoLane);
  EXPECT_EQ(lanes.size(), 1u) << "kept: it holds back what comes";
  lanes.recheck_blocked(1);
  EXPECT_EQ(next(), kKey);
}

TEST_F(LanesTest, BlockedLanesAreRecheckedInTurnSoManyAtATime) {
  for (const LaneKey key : {kKey, kOther, LaneKey{9}}) {
    Lane& lane = hold(key);
    lanes.block(lane);
    static_cast<void>(lanes.update(lane));
  }
  lanes.recheck_blocked(0);
  EXPECT_EQ(next(), kNoLane);
  lanes.recheck_blocked(1);
  EXPECT_EQ(next(), kKey);
  EXPECT_EQ(next(), kNoLane);

  // Still dead: it goes to the end of the line.
  lanes.block(*lanes.find(kKey));
  static_cast<void>(lanes.update(*lanes.find(kKey)));
  lanes.recheck_blocked(2);
  EXPECT_EQ(next(), kOther);
  EXPECT_EQ(next(), 9);
  EXPECT_EQ(next(), kNoLane);
  lanes.recheck_blocked(100);
  EXPECT_EQ(next(), kKey);
}

TEST_F(LanesTest, ABlockedLaneThatIsGoneIsNotRechecked) {
  lanes.block(hold(kKey, {}, 0, 1));
  lanes.forget_shard(1);
  EXPECT_EQ(lanes.size(), 0u);
  lanes.recheck_blocked(1);
  EXPECT_EQ(next(), kNoLane);
  EXPECT_EQ(lanes.size(), 0u);
}

// --- Forgetting ---

TEST_F(LanesTest, AShardIsForgottenWithItsLanesAndNoOther) {
  hold(kKey, {}, 0, 0);
  hold(kOther, {}, 0, 1);
  lanes.forget_shard(0);
  EXPECT_EQ(lanes.find(kKey), nullptr);
  EXPECT_EQ(next(), kOther);
  EXPECT_EQ(next(), kNoLane);
}

TEST_F(LanesTest, ClearReturnsWhatWasQueuedAndForgetsTheRest) {
  Lane& lane = lanes.at(kKey, 0);
  lane.push(job(1));
  lane.push(job(2));
  hold(kOther);
  const std::vector<Job> jobs = lanes.clear();
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(jobs[0].row.ref.seq, 1);
  EXPECT_EQ(jobs[1].row.ref.seq, 2);
  EXPECT_EQ(lanes.size(), 0u);
  EXPECT_EQ(lanes.next_due(), std::nullopt);
}

// --- What is in flight ---

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
