#include "consumer/tracker_conformance.h"

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "outbox/error.h"
#include "support/stores.h"

namespace outbox::test {
namespace {

using namespace std::chrono_literals;
using State = ConsumptionTracker::State;

constexpr TrackerOptions kOptions{.lease = 60s, .retention = 3600s};

TEST_P(TrackerTest, OneBeginsAndTheOthersHearThatItIsInProgress) {
  const auto tracker = open(kOptions);
  const auto first = tracker->start("billing", "e1");
  EXPECT_EQ(first.state, State::started);
  EXPECT_GT(first.fence, 0);
  const auto second = tracker->start("billing", "e1");
  EXPECT_EQ(second.state, State::in_progress);
  EXPECT_GT(second.expires_in, 50s);
  EXPECT_LE(second.expires_in, 60s);
}

TEST_P(TrackerTest, WhatIsDoneIsNotBegunAgain) {
  const auto tracker = open(kOptions);
  const auto start = tracker->start("billing", "e1");
  EXPECT_TRUE(tracker->finish("billing", "e1", start.fence));
  EXPECT_EQ(tracker->start("billing", "e1").state, State::done);
  backend_->advance(120s);  // its lease is over, and does not matter
  EXPECT_EQ(tracker->start("billing", "e1").state, State::done);
}

TEST_P(TrackerTest, WhatIsAbandonedIsBegunAgainAtOnceWithAHigherFence) {
  const auto tracker = open(kOptions);
  const auto first = tracker->start("billing", "e1");
  EXPECT_TRUE(tracker->abandon("billing", "e1", first.fence));
  const auto second = tracker->start("billing", "e1");
  EXPECT_EQ(second.state, State::started);
  EXPECT_GT(second.fence, first.fence);
}

TEST_P(TrackerTest, AfterTheLeaseAnotherBeginsAndTheStaleOwnerIsRefused) {
  const auto tracker = open(kOptions);
  const auto stale = tracker->start("billing", "e1");
  backend_->advance(59s);
  ASSERT_EQ(tracker->start("billing", "e1").state, State::in_progress);
  backend_->advance(2s);
  const auto owner = tracker->start("billing", "e1");
  ASSERT_EQ(owner.state, State::started);
  EXPECT_GT(owner.fence, stale.fence);

  EXPECT_FALSE(tracker->finish("billing", "e1", stale.fence));
  EXPECT_FALSE(tracker->abandon("billing", "e1", stale.fence));
  EXPECT_EQ(tracker->start("billing", "e1").state, State::in_progress) << "the owner is at it";
  EXPECT_TRUE(tracker->finish("billing", "e1", owner.fence));
  EXPECT_FALSE(tracker->finish("billing", "e1", stale.fence));
  EXPECT_FALSE(tracker->abandon("billing", "e1", stale.fence));
  EXPECT_EQ(tracker->start("billing", "e1").state, State::done);
}

TEST_P(TrackerTest, AStaleOwnerIsRefusedAlsoWhenTheNextOneHasGivenUp) {
  const auto tracker = open(kOptions);
  const auto stale = tracker->start("billing", "e1");
  backend_->advance(61s);
  const auto owner = tracker->start("billing", "e1");
  ASSERT_TRUE(tracker->abandon("billing", "e1", owner.fence));
  EXPECT_FALSE(tracker->finish("billing", "e1", stale.fence));
  EXPECT_EQ(tracker->start("billing", "e1").state, State::started);
}

TEST_P(TrackerTest, AnOwnerWhoseLeaseIsOverMayFinishWhileNobodyHasBegun) {
  const auto tracker = open(kOptions);
  const auto late = tracker->start("billing", "e1");
  backend_->advance(61s);
  EXPECT_TRUE(tracker->finish("billing", "e1", late.fence));
  EXPECT_EQ(tracker->start("billing", "e1").state, State::done);
}

TEST_P(TrackerTest, FinishAndAbandonMayBeRepeated) {
  const auto tracker = open(kOptions);
  const auto failed = tracker->start("billing", "e1");
  EXPECT_TRUE(tracker->abandon("billing", "e1", failed.fence));
  EXPECT_TRUE(tracker->abandon("billing", "e1", failed.fence));
  const auto done = tracker->start("billing", "e1");
  EXPECT_TRUE(tracker->finish("billing", "e1", done.fence));
  EXPECT_TRUE(tracker->finish("billing", "e1", done.fence));
}

TEST_P(TrackerTest, WhatIsDoneCannotBeAbandoned) {
  const auto tracker = open(kOptions);
  const auto start = tracker->start("billing", "e1");
  ASSERT_TRUE(tracker->finish("billing", "e1", start.fence));
  EXPECT_FALSE(tracker->abandon("billing", "e1", start.fence));
  EXPECT_EQ(tracker->start("billing", "e1").state, State::done);
}

TEST_P(TrackerTest, TheRecordOfAnEventLastsForTheRetention) {
  const auto tracker = open(kOptions);
  const auto first = tracker->start("billing", "e1");
  ASSERT_TRUE(tracker->finish("billing", "e1", first.fence));
  backend_->advance(3500s);
  EXPECT_EQ(tracker->start("billing", "e1").state, State::done);
  backend_->advance(101s);
  const auto again = tracker->start("billing", "e1");
  EXPECT_EQ(again.state, State::started);
  EXPECT_GT(again.fence, first.fence) << "fences grow for what was forgotten as well";
}

TEST_P(TrackerTest, AnEffectIsRecordedAlsoIfItsBeginningWasForgotten) {
  const auto tracker = open(kOptions);
  const auto start = tracker->start("billing", "e1");
  backend_->advance(3601s);
  EXPECT_TRUE(tracker->abandon("billing", "e1", start.fence));
  EXPECT_TRUE(tracker->finish("billing", "e1", start.fence));
  EXPECT_EQ(tracker->start("billing", "e1").state, State::done);
}

TEST_P(TrackerTest, GroupsAndEventsAreKeptApart) {
  const auto tracker = open(kOptions);
  const std::vector<std::pair<std::string, std::string>> pairs{
      {"a", "b"},   {"a", "c"},        {"b", "a"},    {"a:b", "c"},  {"a", "b:c"}, {"ab", "c"},
      {"a", "bc"},  {"a%3ab", "c"},    {"a{b}", "c"}, {"a", "{b}c"}, {"A", "b"},   {"a ", "b"},
      {"1:a", "b"}, {"\xc3\xa4", "b"}, {"a\n", "b"},  {"a", "\nb"},  {"a*", "?"},  {"}:{", ":"}};
  for (const auto& [group, id] : pairs) {
    const auto start = tracker->start(group, id);
    EXPECT_EQ(start.state, State::started) << group << ' ' << id;
    EXPECT_TRUE(tracker->finish(group, id, start.fence));
  }
  for (const auto& [group, id] : pairs) {
    EXPECT_EQ(tracker->start(group, id).state, State::done) << group << ' ' << id;
  }
}

TEST_P(TrackerTest, GroupsAndIdsThatMakeNoSenseAreRefused) {
  const auto tracker = open(kOptions);
  const std::string longest(128, 'x');
  EXPECT_EQ(tracker->start(std::string(64, 'g'), longest).state, State::started);
  EXPECT_TRUE(contains(message_of<MisuseError>([&] { tracker->start(std::string(65, 'g'), "e"); }),
                       "group"));
  EXPECT_TRUE(contains(message_of<MisuseError>([&] { tracker->start("g", longest + "x"); }),
                       "id of a consumed event is 129 characters long"));
  EXPECT_THROW(tracker->start("", "e"), MisuseError);
  EXPECT_THROW(tracker->finish("g", "", 1), MisuseError);
  EXPECT_THROW(tracker->abandon("g", "\xff", 1), MisuseError);
  EXPECT_THROW(tracker->start("g", std::string("a\0b", 3)), MisuseError);
}

TEST_P(TrackerTest, OptionsThatMakeNoSenseAreRefused) {
  EXPECT_TRUE(contains(message_of<MisuseError>([&] { open({.lease = 0ms}); }), "lease is 0 ms"));
  EXPECT_TRUE(contains(message_of<MisuseError>([&] { open({.lease = 2s, .retention = 1s}); }),
                       "less than the lease of 2000 ms"));
  EXPECT_THROW(open({.retention = std::chrono::seconds::min()}), MisuseError);
  EXPECT_THROW(open({.retention = std::chrono::seconds::max()}), MisuseError);
  EXPECT_NO_THROW(open({.lease = 1s, .retention = 1s}));
}

TEST_P(TrackerTest, OfManyThreadsExactlyOneBeginsEachEvent) {
  constexpr int kThreads = 4;
  constexpr int kEvents = 200;
  const auto tracker = open(kOptions);
  const auto other = backend_->shared() ? open(kOptions) : tracker;
  std::vector<std::atomic<int>> started(kEvents);
  std::atomic<int> waiting{0};
  const auto work = [&](ConsumptionTracker& mine) {
    ++waiting;
    while (waiting < kThreads) std::this_thread::yield();
    for (int i = 0; i < kEvents; ++i) {
      if (mine.start("race", std::to_string(i)).state == State::started) {
        ++started[static_cast<std::size_t>(i)];
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] { work(i % 2 == 0 ? *tracker : *other); });
    }
  }
  for (const auto& count : started) EXPECT_EQ(count, 1);
}

}  // namespace
}  // namespace outbox::test
