#include "engine/work_queue.h"

#include <gtest/gtest.h>

#include <array>
#include <future>
#include <string>
#include <thread>

#include "outbox/listener.h"
#include "outbox/testing.h"

namespace outbox::internal {
namespace {

using namespace std::chrono_literals;
using Admission = WorkQueue::Admission;
using Kind = Decision::Kind;

constexpr LaneKey kLane = 77;
const Clock::Steady kNow{std::chrono::hours{1}};

class BatchEverything final : public BatchListener {
  std::vector<Outcome> on_events(std::span<const Item> items) override {
    return std::vector<Outcome>(items.size(), Outcome::done());
  }
};

class WorkQueueTest : public ::testing::Test {
 protected:
  Job job(const std::string& id, LaneKey lane = kNoLane, bool hot = false, std::size_t bytes = 1) {
    return {.row = {.ref = {.seq = ++seq_},
                    .event = Event::restore({.id = id, .payload = json(std::string(bytes, '1'))})},
            .lane = lane,
            .route = &plain_,
            .hot = hot};
  }

  Admission admit(WorkQueue& queue, Job job) { return queue.admit(job); }

  // What a worker gets now; empty if it would have to wait.
  std::vector<std::string> take(WorkQueue& queue) {
    if (queue.depth(true) + queue.depth(false) == 0) return {};
    EXPECT_TRUE(queue.take(work_));
    std::vector<std::string> ids;
    for (const Job& one : work_.jobs) ids.push_back(one.row.event.id());
    return ids;
  }

  static Completion over(Job job, Kind kind) {
    return {.job = std::move(job), .decision = {.kind = kind, .unavailable = kind == Kind::again}};
  }

  // Ends what was taken last, all with the same outcome.
  WorkQueue::Followers finish(WorkQueue& queue, Kind kind) {
    finished_.clear();
    for (Job& one : work_.jobs) finished_.push_back(over(std::move(one), kind));
    return queue.finish(finished_, kNow);
  }

  Completion ack(Kind kind, std::size_t n = 0) { return over(finished_.at(n).job, kind); }
  void acknowledge(WorkQueue& queue, Completion completion) {
    EXPECT_TRUE(queue.acked(std::span(&completion, 1), kNow).empty());
  }
  void acknowledge(WorkQueue& queue, Job acked, Kind kind) {
    acknowledge(queue, over(std::move(acked), kind));
  }

  Route plain_route_{.listener = listener([](const Event&) {})};
  Route batch_route_{.batch = std::make_shared<BatchEverything>(), .options = {.max_batch = 3}};
  Breaker plain_{plain_route_, 4, {}};
  Breaker batch_{batch_route_, 4, {}};
  WorkQueue::Work work_;
  std::vector<Completion> finished_;
  Seq seq_ = 0;
};

using Ids = std::vector<std::string>;

TEST_F(WorkQueueTest, TakesTwoHotForOneColdWhenBothHaveWork) {
  WorkQueue queue{{}};
  for (int n = 0; n < 6; ++n) admit(queue, job("h" + std::to_string(n), kNoLane, true));
  for (int n = 0; n < 6; ++n) admit(queue, job("c" + std::to_string(n)));
  std::string order;
  for (int n = 0; n < 12; ++n) order += take(queue).at(0).at(0);
  EXPECT_EQ(order, "hhchhchhcccc");
}

TEST_F(WorkQueueTest, IsBoundedInEventsForEachQueueAlone) {
  WorkQueue queue{{.hot_capacity = 2, .cold_capacity = 1}};
  EXPECT_EQ(admit(queue, job("h1", kNoLane, true)), Admission::queued);
  EXPECT_EQ(admit(queue, job("h2", kNoLane, true)), Admission::queued);
  EXPECT_EQ(admit(queue, job("h3", kNoLane, true)), Admission::full);
  EXPECT_EQ(queue.room(true), 0u);
  EXPECT_EQ(queue.room(false), 1u);
  EXPECT_EQ(admit(queue, job("c1")), Admission::queued);
  EXPECT_EQ(admit(queue, job("c2")), Admission::full);
}

TEST_F(WorkQueueTest, IsBoundedInBytesForBothQueuesTogether) {
  WorkQueue queue{{.capacity_bytes = 100}};
  EXPECT_EQ(admit(queue, job("h", kNoLane, true, 60)), Admission::queued);
  EXPECT_EQ(admit(queue, job("c", kNoLane, false, 60)), Admission::queued)
      << "one event may exceed what is left, or a big one would never fit";
  EXPECT_EQ(queue.room(true), 0u);
  EXPECT_EQ(queue.room(false), 0u);
  EXPECT_EQ(admit(queue, job("more", kNoLane, true, 1)), Admission::full);
}

TEST_F(WorkQueueTest, GivesCapacityBackOnlyWhenTheUpdateIsAcknowledged) {
  WorkQueue queue{{.cold_capacity = 1}};
  admit(queue, job("a"));
  take(queue);
  EXPECT_EQ(queue.room(false), 0u);
  finish(queue, Kind::done);
  EXPECT_EQ(queue.room(false), 0u) << "a crash would deliver it again";
  EXPECT_EQ(queue.in_flight(), 1u);
  acknowledge(queue, ack(Kind::done));
  EXPECT_EQ(queue.room(false), 1u);
  EXPECT_EQ(queue.in_flight(), 0u);
}

TEST_F(WorkQueueTest, ALaneRunsOneEventAtATimeInOrder) {
  WorkQueue queue{{}};
  admit(queue, job("a1", kLane));
  admit(queue, job("a2", kLane));
  admit(queue, job("b1", kLane + 1));
  EXPECT_EQ(take(queue), Ids{"a1"});
  auto first = std::move(work_);
  EXPECT_EQ(take(queue), Ids{"b1"}) << "a2 has to wait for a1";
  finish(queue, Kind::done);
  work_ = std::move(first);
  finish(queue, Kind::done);
  EXPECT_EQ(take(queue), Ids{"a2"}) << "a1's update need not have been acknowledged";
}

TEST_F(WorkQueueTest, FollowersOfAFailingHeadAreHeldAndComeBackAfterItsUpdate) {
  WorkQueue queue{{}};
  admit(queue, job("a1", kLane));
  admit(queue, job("a2", kLane));
  take(queue);
  auto followers = finish(queue, Kind::wait);
  ASSERT_EQ(followers.held.size(), 1u);
  const std::vector<Seq> read_through{100};
  EXPECT_EQ(admit(queue, job("a3", kLane)), Admission::hold) << "it must not pass a2";
  EXPECT_EQ(queue.next_lane(read_through, kNow).key, kNoLane)
      << "the head's update is not acknowledged yet";
  auto head = ack(Kind::wait);
  head.due = kNow + 1s;
  acknowledge(queue, head);
  EXPECT_EQ(queue.next_lane(read_through, kNow + 1s).key, kNoLane) << "two rows are not held yet";
  acknowledge(queue, followers.held.at(0), Kind::hold);
  acknowledge(queue, job("a3", kLane), Kind::hold);
  EXPECT_EQ(queue.next_lane(read_through, kNow).key, kNoLane) << "not before it is due";
  EXPECT_EQ(queue.next_due(), kNow + 1s);
  EXPECT_EQ(queue.next_lane(read_through, kNow + 1s).key, kLane);
}

TEST_F(WorkQueueTest, AfterADeadHeadTheLaneGoesOnOnlyWhenTheUpdateIsAcknowledged) {
  WorkQueue queue{{}};
  admit(queue, job("a1", kLane));
  admit(queue, job("a2", kLane));
  take(queue);
  finish(queue, Kind::skip);
  admit(queue, job("b", kNoLane));
  EXPECT_EQ(take(queue), Ids{"b"});
  const auto b = ack(Kind::wait);
  acknowledge(queue, b);
  EXPECT_EQ(take(queue), Ids{"a2"});
}

TEST_F(WorkQueueTest, ParksFollowersOfADeadHead) {
  WorkQueue queue{{.park = true}};
  admit(queue, job("a1", kLane));
  admit(queue, job("a2", kLane));
  take(queue);
  auto followers = finish(queue, Kind::block);
  EXPECT_EQ(followers.park.size(), 1u);
  EXPECT_EQ(admit(queue, job("a3", kLane)), Admission::park);
}

// A lane that is looked at again is blocked until the look says otherwise.
TEST_F(WorkQueueTest, ParksWhatComesWhileABlockedLaneIsBeingRead) {
  WorkQueue queue{{.park = true}};
  const std::vector<Seq> read_through{100};
  const auto comes = [&](const char* id) {
    Job one = job(id, kLane);
    const Job copy = one;
    const Admission admission = queue.admit(one);
    acknowledge(queue, copy, Kind::hold);
    return admission;
  };
  queue.restore({.key = kLane, .first = 1, .status = Status::dead}, kNow);
  EXPECT_EQ(comes("a2"), Admission::park) << "as its last owner left it";
  ASSERT_EQ(queue.next_lane(read_through, kNow).key, kLane);
  queue.load_lane(kLane, {.blocked = true});

  queue.recheck_blocked(10);
  ASSERT_EQ(queue.next_lane(read_through, kNow).key, kLane);
  EXPECT_EQ(comes("a3"), Admission::park) << "the read is under way";
  queue.load_lane(kLane, {.more = true, .saw_first = false});
  EXPECT_EQ(comes("a4"), Admission::park) << "the read failed";

  ASSERT_EQ(queue.next_lane(read_through, kNow).key, kLane);
  queue.load_lane(kLane, {.due = kNow + 1s});
  EXPECT_EQ(comes("a5"), Admission::hold) << "its head was replayed";
}

TEST_F(WorkQueueTest, ARowThatWasHeldAndIsParkedLeavesNoTraceInTheCounts) {
  WorkQueue queue{{.cold_capacity = 8, .park = true}};
  queue.restore({.key = kLane, .first = 1}, kNow);
  const std::vector<Seq> read_through{100};
  ASSERT_EQ(queue.next_lane(read_through, kNow).limit, 2u);
  queue.load_lane(kLane, {.blocked = true});
  Job behind = job("a2", kLane);
  behind.row.ref.hold = kLane;
  const Job copy = behind;
  ASSERT_EQ(queue.admit(behind), Admission::park);
  acknowledge(queue, copy, Kind::hold);
  queue.recheck_blocked(10);
  EXPECT_EQ(queue.next_lane(read_through, kNow).limit, 2u);
}

TEST_F(WorkQueueTest, OneBusyLaneCannotFillTheWholeQueue) {
  WorkQueue queue{{.cold_capacity = 8}};
  EXPECT_EQ(admit(queue, job("a1", kLane)), Admission::queued);
  EXPECT_EQ(admit(queue, job("a2", kLane)), Admission::queued);
  EXPECT_EQ(admit(queue, job("a3", kLane)), Admission::hold);
  EXPECT_EQ(admit(queue, job("a4", kLane)), Admission::hold) << "once held, all are";
  EXPECT_EQ(admit(queue, job("b1", kLane + 1)), Admission::queued);
}

TEST_F(WorkQueueTest, ABatchTakesFromOneLaneInOrderAndFromThoseBehindIt) {
  WorkQueue queue{{}};
  for (const auto& [id, lane] : std::vector<std::pair<std::string, LaneKey>>{
           {"a1", kLane}, {"a2", kLane}, {"b1", kLane + 1}, {"b2", kLane + 1}}) {
    Job one = job(id, lane);
    one.route = &batch_;
    queue.admit(one);
  }
  EXPECT_EQ(take(queue), (Ids{"a1", "a2", "b1"})) << "at most max_batch";
  EXPECT_EQ(queue.depth(false), 1u);
  finish(queue, Kind::done);
  EXPECT_EQ(take(queue), Ids{"b2"});
}

TEST_F(WorkQueueTest, WhatFollowsAFailureInABatchIsHeldUntried) {
  WorkQueue queue{{}};
  for (const auto* id : {"a1", "a2", "a3"}) {
    Job one = job(id, kLane);
    one.route = &batch_;
    queue.admit(one);
  }
  ASSERT_EQ(take(queue).size(), 3u);
  finished_.clear();
  const Kind said[] = {Kind::done, Kind::wait, Kind::wait};
  for (std::size_t i = 0; i < 3; ++i) {
    finished_.push_back(over(std::move(work_.jobs[i]), said[i]));
  }
  const auto followers = queue.finish(finished_, kNow);
  EXPECT_EQ(finished_[0].decision.kind, Kind::done);
  EXPECT_EQ(finished_[1].decision.kind, Kind::wait);
  EXPECT_EQ(finished_[2].decision.kind, Kind::hold);
  EXPECT_EQ(followers.held.size(), 1u);
}

// Its outcome would count for nothing otherwise: it would be taken for one behind the failure.
TEST_F(WorkQueueTest, WhatComesAgainOfABatchWaitsForTheUpdateOfALaterOneOfItsLane) {
  WorkQueue queue{{}};
  for (const auto* id : {"a1", "a2"}) {
    Job one = job(id, kLane);
    one.route = &batch_;
    queue.admit(one);
  }
  ASSERT_EQ(take(queue).size(), 2u);
  finished_.clear();
  const Kind said[] = {Kind::again, Kind::wait};
  for (std::size_t i = 0; i < 2; ++i) {
    finished_.push_back(over(std::move(work_.jobs[i]), said[i]));
  }
  queue.finish(finished_, kNow);
  queue.tick(kNow + 1h);  // the listener is back
  admit(queue, job("other"));
  EXPECT_EQ(take(queue), Ids{"other"}) << "a2's update is on its way";
  acknowledge(queue, ack(Kind::wait, 1));
  EXPECT_EQ(take(queue), Ids{"a1"});
}

TEST_F(WorkQueueTest, AnUnavailableListenerIsProbedByOneThenByMore) {
  WorkQueue queue{{}};
  for (int n = 0; n < 8; ++n) admit(queue, job(std::to_string(n)));
  take(queue);
  finish(queue, Kind::again);
  admit(queue, job("h", kNoLane, true));
  const auto until = queue.tick(kNow);
  ASSERT_TRUE(until);
  EXPECT_EQ(*until, kNow + 200ms);

  EXPECT_EQ(queue.tick(kNow + 200ms), std::nullopt);
  EXPECT_EQ(take(queue), Ids{"h"});
  finish(queue, Kind::done);  // the probe was answered: now two at once
  EXPECT_EQ(take(queue), Ids{"0"}) << "the one that found out comes first again";
  const auto one = std::move(work_);
  EXPECT_EQ(take(queue), Ids{"1"});
}

TEST_F(WorkQueueTest, AWorkerThatIsFreeReadsWhileTheReaderDeliversWhatItKept) {
  WorkQueue queue{{.workers = 2, .batch = 1}};
  queue.enable_polling(true);
  queue.request_poll();
  ASSERT_TRUE(queue.take(work_));
  ASSERT_TRUE(work_.poll);
  std::promise<bool> second;
  std::jthread other([&] {
    WorkQueue::Work work;
    second.set_value(queue.take(work) && work.poll);
  });
  // Not to be right but to be sharp: a worker that waits already has to be
  // woken, one that comes later finds out by itself.
  std::this_thread::sleep_for(20ms);
  Job found = job("a");
  ASSERT_EQ(queue.admit_quietly(found), Admission::queued);
  queue.read_ends();
  queue.poll_done(true);
  ASSERT_TRUE(queue.take(work_));  // the reader keeps it, and is busy from now on
  auto answer = second.get_future();
  const bool answered = answer.wait_for(20s) == std::future_status::ready;
  EXPECT_TRUE(answered) << "nobody read on";
  // One of them has the event and the other one reads, whichever came first.
  if (answered) {
    EXPECT_NE(answer.get(), work_.poll);
  }
  queue.stop();
}

TEST_F(WorkQueueTest, JobsOfAnotherEpochAreNotAdmittedAndRunningOnesAreDropped) {
  WorkQueue queue{{}};
  queue.enter(1);
  Job old = job("old");
  old.epoch = 1;
  queue.admit(old);
  ASSERT_EQ(take(queue), Ids{"old"});
  Job queued = job("queued", kLane);
  queued.epoch = 1;
  queue.admit(queued);
  EXPECT_EQ(queue.enter(2).size(), 1u);
  Job late = job("late");
  late.epoch = 1;
  EXPECT_EQ(queue.admit(late), Admission::full);
  finish(queue, Kind::done);
  EXPECT_EQ(finished_[0].decision.kind, Kind::drop);
  EXPECT_FALSE(queue.reclaim(finished_[0].job)) << "no lane has waited for it";
  queue.let_go(finished_[0].job);
  EXPECT_EQ(queue.in_flight(), 0u);
}

// --- Reclaimed events: what is in flight when a lease ends ---

class ReclaimedTest : public WorkQueueTest {
 protected:
  Job of(std::int64_t epoch, const std::string& id, int shard = 0) {
    Job made = job(id, kLane);
    made.epoch = epoch;
    made.row.ref.shard = shard;
    return made;
  }

  // Nothing of the lane may run, and what is read of it is held.
  void expect_to_wait(std::int64_t epoch) {
    Job follower = of(epoch, "follower");
    ASSERT_EQ(queue.admit(follower), Admission::hold);
    EXPECT_TRUE(take(queue).empty());
    acknowledge(queue, follower, Kind::hold);
    EXPECT_EQ(readable(), kNoLane);
  }

  LaneKey readable(Seq read_through = 1'000) {
    return queue.next_lane(std::array{read_through, read_through}, kNow).key;
  }

  // Comes back, to the lease that waits for it.
  void reclaim(Job reclaimed, std::int64_t epoch) {
    ASSERT_TRUE(queue.reclaim(reclaimed));
    EXPECT_EQ(reclaimed.epoch, epoch);
    acknowledge(queue, reclaimed, Kind::hold);
  }

  WorkQueue queue{{.cold_capacity = 8}};
};

TEST_F(ReclaimedTest, TheLaneWaitsForWhatRuns) {
  queue.enter(1);
  admit(queue, of(1, "runs"));
  ASSERT_EQ(take(queue), Ids{"runs"});
  queue.enter(2);
  expect_to_wait(2);
  finish(queue, Kind::done);
  ASSERT_EQ(finished_[0].decision.kind, Kind::drop);
  reclaim(finished_[0].job, 2);
  EXPECT_EQ(readable(), kLane);
  EXPECT_EQ(queue.in_flight(), 0u);
}

TEST_F(ReclaimedTest, TheLaneWaitsForEveryUpdateThatIsUnderWay) {
  queue.enter(1);
  admit(queue, of(1, "head"));
  admit(queue, of(1, "second"));
  ASSERT_EQ(take(queue), Ids{"head"});
  WorkQueue::Followers followers = finish(queue, Kind::wait);
  ASSERT_EQ(followers.held.size(), 1u);
  queue.enter(2);
  expect_to_wait(2);
  reclaim(finished_[0].job, 2);
  EXPECT_EQ(readable(), kNoLane) << "the second is still in flight";
  reclaim(followers.held[0], 2);
  EXPECT_EQ(readable(), kLane);
}

TEST_F(ReclaimedTest, AnUpdateThatWasAppliedAfterAllLetsTheLaneGoOn) {
  queue.enter(1);
  admit(queue, of(1, "done"));
  ASSERT_EQ(take(queue), Ids{"done"});
  finish(queue, Kind::done);
  queue.enter(2);
  expect_to_wait(2);
  acknowledge(queue, ack(Kind::done));
  EXPECT_EQ(readable(), kLane);
  EXPECT_EQ(queue.in_flight(), 0u);
}

TEST_F(ReclaimedTest, TheLaneWaitsForAPoisonCandidateWhoseUpdateIsUnderWay) {
  queue.enter(1);
  Job candidate = of(1, "crashes");
  ASSERT_EQ(queue.reserve(candidate), Admission::queued);
  queue.enter(2);
  expect_to_wait(2);
  EXPECT_EQ(queue.begin(candidate), Admission::full);
  reclaim(candidate, 2);
  EXPECT_EQ(readable(), kLane);
}

// The rows that were held behind it must not pass it, should it have to wait once it has begun.
TEST_F(ReclaimedTest, ALaneIsNotReadWhileAReadyEventOfItWaitsForItsCrashCount) {
  queue.enter(1);
  queue.restore({.key = kLane, .first = 2}, kNow);
  ASSERT_EQ(readable(), kLane);
  queue.load_lane(kLane, {.epoch = 1, .more = true});  // puts it back on the list
  Job head = of(1, "ready");
  ASSERT_EQ(queue.reserve(head), Admission::queued);
  EXPECT_EQ(readable(), kNoLane);
  ASSERT_EQ(queue.begin(head), Admission::hold) << "behind what is held";
  EXPECT_EQ(readable(), kNoLane);
  acknowledge(queue, std::move(head), Kind::hold);
  EXPECT_EQ(readable(), kLane);
}

TEST_F(ReclaimedTest, AnEventThatWaitsForItsCrashCountIsNotPassedByALaterOne) {
  queue.enter(1);
  Job candidate = of(1, "first");
  Job later = of(1, "later");
  ASSERT_EQ(queue.reserve(candidate), Admission::queued);
  ASSERT_EQ(queue.admit(later), Admission::hold);
  EXPECT_TRUE(take(queue).empty());
  ASSERT_EQ(queue.begin(candidate), Admission::hold) << "it is read back in front of the later one";
  acknowledge(queue, std::move(later), Kind::hold);
  EXPECT_EQ(readable(), kNoLane);
  acknowledge(queue, std::move(candidate), Kind::hold);
  EXPECT_EQ(readable(), kLane);
}

TEST_F(ReclaimedTest, OfCandidatesOfOneLaneTheFirstDoesNotWaitForTheOthers) {
  queue.enter(1);
  Job first = of(1, "first");
  Job second = of(1, "second");
  for (Job* each : {&first, &second}) ASSERT_EQ(queue.reserve(*each), Admission::queued);
  for (Job* each : {&first, &second}) ASSERT_EQ(queue.begin(*each), Admission::queued);
  EXPECT_EQ(take(queue), Ids{"first"});
}

TEST_F(ReclaimedTest, ALaneOfAnEventWhoseCrashCountIsStaleIsReadAgain) {
  queue.enter(1);
  queue.restore({.key = kLane, .first = 2}, kNow);
  Job gone = of(1, "finished by hand");
  ASSERT_EQ(queue.reserve(gone), Admission::queued);
  EXPECT_EQ(readable(), kNoLane);
  Completion stale = over(std::move(gone), Kind::begin);
  stale.stale = true;
  acknowledge(queue, std::move(stale));
  EXPECT_EQ(readable(), kLane);
}

TEST_F(ReclaimedTest, OneThatWasHeldAlreadyIsExpectedInItsOwnLeaseOnly) {
  queue.enter(1);
  Job candidate = of(1, "crashes");
  candidate.row.ref.hold = kLane;
  ASSERT_EQ(queue.reserve(candidate), Admission::queued);
  queue.enter(2);
  reclaim(candidate, 2);
  EXPECT_EQ(readable(), kLane);
}

TEST_F(ReclaimedTest, WhatWasReadInTheLastLeaseDoesNotOpenTheLane) {
  queue.enter(1);
  admit(queue, of(1, "runs"));
  ASSERT_EQ(take(queue), Ids{"runs"});
  queue.enter(2);
  queue.load_lane(kLane, {.epoch = 1});  // nothing was held then
  expect_to_wait(2);
}

TEST_F(ReclaimedTest, ALaneThatWasReadForTheLastLeaseIsStillReadable) {
  queue.enter(1);
  admit(queue, of(1, "done"));
  ASSERT_EQ(take(queue), Ids{"done"});
  finish(queue, Kind::done);
  queue.enter(2);
  acknowledge(queue, ack(Kind::done));
  ASSERT_EQ(readable(), kLane);
  queue.load_lane(kLane, {.epoch = 1});
  EXPECT_EQ(readable(), kLane);
}

// What stood in the queue before it is dropped with the lease, and read again.
TEST_F(ReclaimedTest, TheLaneIsReadBackOnlyAfterWhatCameBeforeTheReclaimedOne) {
  queue.enter(1);
  for (const char* id : {"first", "second"}) admit(queue, of(1, id));
  Job third = of(1, "third");
  ASSERT_EQ(queue.admit(third), Admission::hold) << "a quarter of the capacity is full";
  EXPECT_EQ(queue.enter(2).size(), 2u);
  const Seq last = third.row.ref.seq;
  reclaim(std::move(third), 2);
  EXPECT_EQ(readable(last - 1), kNoLane);
  EXPECT_EQ(readable(last), kLane);
}

TEST_F(ReclaimedTest, AShardThatIsGainedLaterHasWaitedToo) {
  queue.own(std::vector{0, 1});
  queue.enter(1);
  admit(queue, of(1, "runs"));
  ASSERT_EQ(take(queue), Ids{"runs"});
  queue.own(std::vector{1});
  queue.enter(2);
  queue.own(std::vector{0, 1});
  expect_to_wait(2);
  finish(queue, Kind::done);
  reclaim(finished_[0].job, 2);
  EXPECT_EQ(readable(), kLane);
}

TEST_F(ReclaimedTest, ALaneOfAShardThatTheReaderDoesNotKnowYetIsNotRead) {
  queue.own(std::vector{0});
  queue.enter(1);
  admit(queue, of(1, "done", 1));
  ASSERT_EQ(take(queue), Ids{"done"});
  finish(queue, Kind::done);
  queue.enter(2);
  queue.own(std::vector{0, 1});
  acknowledge(queue, ack(Kind::done));
  EXPECT_EQ(queue.next_lane(std::array{Seq{1'000}}, kNow).key, kNoLane);
  EXPECT_EQ(readable(), kLane);
}

TEST_F(ReclaimedTest, InAShardThatIsNotOursItIsLetGo) {
  queue.own(std::vector{0});
  queue.enter(1);
  admit(queue, of(1, "runs"));
  ASSERT_EQ(take(queue), Ids{"runs"});
  queue.own(std::vector{1});
  queue.enter(2);
  finish(queue, Kind::done);
  EXPECT_FALSE(queue.reclaim(finished_[0].job));
  queue.let_go(finished_[0].job);
  EXPECT_EQ(queue.in_flight(), 0u);
}

// The reader may not have heard of it in between: what is behind the reclaimed must not
// be read back before the reclaimed itself.
TEST_F(ReclaimedTest, AShardThatIsBeingGivenUpAndIsKeptAfterAllHasWaited) {
  queue.own(std::vector{0});
  queue.enter(1);
  admit(queue, of(1, "runs"));
  ASSERT_EQ(take(queue), Ids{"runs"});
  queue.enter(2);
  expect_to_wait(2);
  queue.own(std::vector<int>{});
  finish(queue, Kind::done);
  Job reclaimed = finished_[0].job;
  EXPECT_TRUE(queue.reclaim(reclaimed));
  EXPECT_FALSE(queue.shard_idle(0));
  queue.own(std::vector{0});
  EXPECT_EQ(readable(), kNoLane) << "it is not held yet";
  acknowledge(queue, reclaimed, Kind::hold);
  EXPECT_EQ(readable(), kLane);
  EXPECT_TRUE(queue.shard_idle(0));
}

// --- Calls that hang ---

class HungTest : public ReclaimedTest {
 protected:
  // A call that hangs, and has been handed over.
  void hand_over() {
    queue.own(std::vector{0});
    queue.enter(1);
    admit(queue, of(1, "hangs"));
    ASSERT_EQ(take(queue), Ids{"hangs"});
    queue.hangs(work_.jobs);
    queue.own(std::vector<int>{});
    ASSERT_TRUE(queue.begin_hand_over(work_.jobs[0]));
  }
};

// The shard is counted as drained, and the call returns just then.
TEST_F(HungTest, ACallThatReturnsBeforeItsShardIsForgottenCounts) {
  hand_over();
  queue.handed_over(work_.jobs[0], true);
  ASSERT_TRUE(queue.shard_idle(0));
  finish(queue, Kind::done);
  ASSERT_EQ(finished_[0].decision.kind, Kind::done);
  EXPECT_FALSE(queue.forget_shard(0)) << "its update is on its way";
  acknowledge(queue, ack(Kind::done));
  EXPECT_TRUE(queue.forget_shard(0));
}

TEST_F(HungTest, ALeaseThatEndsBeforeTheHandOverIsAcknowledgedLeavesItToTheNext) {
  hand_over();
  queue.enter(0);
  queue.own(std::vector{0});
  queue.enter(2);
  EXPECT_FALSE(queue.hung_are_handed_over());
  EXPECT_TRUE(queue.begin_hand_over(work_.jobs[0])) << "or the shard could never be given up";
}

TEST_F(HungTest, AHandOverThatCameTooLateIsRepeated) {
  hand_over();
  queue.handed_over(work_.jobs[0], false);
  EXPECT_TRUE(queue.begin_hand_over(work_.jobs[0]));
  queue.handed_over(work_.jobs[0], true);
  EXPECT_TRUE(queue.hung_are_handed_over());
}

TEST_F(WorkQueueTest, ACallThatHangsKeepsNoProbeFromItsListener) {
  WorkQueue queue{{}};
  admit(queue, job("hangs"));
  admit(queue, job("unavailable"));
  ASSERT_EQ(take(queue), Ids{"hangs"});
  auto hung = std::move(work_);
  ASSERT_EQ(take(queue), Ids{"unavailable"});
  finish(queue, Kind::again);
  queue.tick(kNow + 1h);
  EXPECT_EQ(queue.depth(false), 1u);
  WorkQueue::Work none;
  std::thread waiting([&] { queue.take(none); });  // the call under way is the probe
  queue.hangs(hung.jobs);
  waiting.join();
  ASSERT_EQ(none.jobs.size(), 1u);
  EXPECT_EQ(none.jobs[0].row.event.id(), "unavailable");
  work_ = std::move(hung);
  finish(queue, Kind::done);
  work_ = std::move(none);
  finish(queue, Kind::done);
  EXPECT_TRUE(plain_.closed() || plain_.may_start());
}

TEST_F(WorkQueueTest, ABatchThatHangsHidesNothingElse) {
  WorkQueue queue{{}};
  for (const char* id : {"1", "2", "3", "behind", "far behind"}) {
    Job one = job(id, kLane);
    one.route = &batch_;
    ASSERT_EQ(queue.admit(one), Admission::queued);
  }
  ASSERT_EQ(take(queue), (Ids{"1", "2", "3"}));
  queue.hangs(work_.jobs);
  EXPECT_EQ(queue.active(), 0u);
  admit(queue, job("other"));
  EXPECT_EQ(queue.active(), 1u);
}

TEST_F(WorkQueueTest, TakesNothingDirectlyThatIsInAnotherInstancesShard) {
  WorkQueue queue{{}};
  Job mine = job("mine", kNoLane, true);
  Job foreign = job("foreign", kNoLane, true);
  foreign.row.ref.shard = 3;
  queue.own(std::vector{0, 1});
  EXPECT_EQ(queue.admit_direct(mine), Admission::queued);
  EXPECT_EQ(queue.admit_direct(foreign), Admission::full);
}

}  // namespace
}  // namespace outbox::internal
