#include "engine/completer.h"

#include <atomic>

#include "engine/test_fixture.h"
#include "outbox/error.h"

namespace outbox::internal {
namespace {

using namespace std::chrono_literals;
using testing::Barrier;
using testing::RecordingLog;
using testing::Signal;

// Only marks; the hook decides what becomes of them.
class MarkingInstance final : public Instance {
 public:
  std::function<MarkResult(std::span<const Mark>)> on_mark;
  std::mutex mutex;
  std::vector<std::size_t> batches;
  std::vector<std::string> ids;
  Signal marked;

  MarkResult mark(std::int64_t, std::span<const Mark> marks) override {
    {
      const std::lock_guard lock(mutex);
      batches.push_back(marks.size());
      for (const Mark& mark : marks) ids.push_back(mark.event_id);
    }
    marked.raise();
    return on_mark ? on_mark(marks) : MarkResult{};
  }

  Tenure renew() override { return {}; }
  std::optional<std::chrono::milliseconds> lease() const override { return std::nullopt; }
  void release(int) override {}
  void leave() override {}
  Rows ready(std::span<const int>, std::size_t, std::size_t) override { return {}; }
  void rewind(Seq) override {}
  DueRows due(std::span<const int>, std::size_t) override { return {}; }
  Rows held(int, LaneKey, std::size_t) override { return {}; }
  std::vector<HeldLane> held_lanes(int, LaneKey, std::size_t) override { return {}; }
  Rows claim(std::chrono::milliseconds, std::size_t) override { return {}; }
  void unclaim(std::span<const RowRef>) override {}
  const std::string& owner() const override { return name_; }

 private:
  const std::string name_ = "me";
};

class CompleterTest : public ::testing::Test {
 protected:
  Completion completion(const std::string& id, std::int64_t epoch = 1) {
    return {.job = {.row = {.event = Event::restore({.id = id})}, .epoch = epoch},
            .mark = {.event_id = id}};
  }

  void start() {
    completer.set_epoch(1);
    completer.start();
  }

  RecordingLog log;
  std::shared_ptr<MarkingInstance> store = std::make_shared<MarkingInstance>();
  Signal landed;
  Signal stale;
  Signal fenced;
  Completer completer{store,
                      {.landed =
                           [this](std::span<Completion> all) {
                             for (const Completion& one : all) (one.stale ? stale : landed).raise();
                           },
                       .fenced = [this](std::int64_t) { fenced.raise(); }},
                      host_clock(),
                      log.log()};
};

TEST_F(CompleterTest, AnIdleOneMarksAtOnce) {
  start();
  completer.submit(completion("a"));
  ASSERT_TRUE(landed.wait(1));
  completer.submit(completion("b"));
  ASSERT_TRUE(landed.wait(2));
  EXPECT_EQ(store->batches, (std::vector<std::size_t>{1, 1}));
}

TEST_F(CompleterTest, WhateverFinishedDuringAFlushGoesInOne) {
  Barrier slow;
  store->on_mark = [&](std::span<const Mark> marks) {
    if (marks[0].event_id == "first") slow.pass();
    return MarkResult{};
  };
  start();
  completer.submit(completion("first"));
  ASSERT_TRUE(slow.reached());
  for (int n = 0; n < 300; ++n) completer.submit(completion(std::to_string(n)));
  slow.open();
  ASSERT_TRUE(landed.wait(301));
  EXPECT_EQ(store->batches, (std::vector<std::size_t>{1, 300}));
  ASSERT_EQ(store->ids.size(), 301u);
  for (std::size_t n = 0; n < 300; ++n) EXPECT_EQ(store->ids[n + 1], std::to_string(n));
}

TEST_F(CompleterTest, AMarkThatFailsIsRepeatedUntilItLandsAndCountsOnlyThen) {
  std::atomic<int> failures{5};
  store->on_mark = [&](std::span<const Mark>) -> MarkResult {
    if (failures-- > 0) throw RetryableError("locked");
    return {};
  };
  start();
  completer.submit(completion("a"));
  ASSERT_TRUE(store->marked.wait(3));
  EXPECT_EQ(landed.count(), 0u);
  ASSERT_TRUE(landed.wait(1));
  EXPECT_EQ(store->ids, std::vector<std::string>(6, "a"));
  EXPECT_TRUE(log.contains("cannot mark 1 events, will try again: locked"));
}

TEST_F(CompleterTest, AFencedFlushIsStaleAndSaysSo) {
  store->on_mark = [](std::span<const Mark>) { return MarkResult{.fenced = true}; };
  start();
  completer.submit(completion("a"));
  ASSERT_TRUE(stale.wait(1));
  EXPECT_EQ(fenced.count(), 1u);
  EXPECT_EQ(landed.count(), 0u);
}

TEST_F(CompleterTest, OnlyTheMarksThatTheStoreNamesAreStale) {
  store->on_mark = [](std::span<const Mark> marks) {
    return marks.size() == 2 ? MarkResult{.stale = {1}} : MarkResult{};
  };
  completer.set_epoch(1);
  completer.submit({completion("old", 7), completion("mine"), completion("lost")});
  completer.start();
  ASSERT_TRUE(stale.wait(2));
  ASSERT_TRUE(landed.wait(1));
  EXPECT_EQ(store->ids, (std::vector<std::string>{"mine", "lost"}))
      << "what was read in another tenure is not even sent";
}

TEST_F(CompleterTest, ALostTenureEndsTheRepeating) {
  store->on_mark = [](std::span<const Mark>) -> MarkResult { throw RetryableError("away"); };
  start();
  completer.submit(completion("a"));
  ASSERT_TRUE(store->marked.wait(2));
  completer.set_epoch(2);
  ASSERT_TRUE(stale.wait(1));
  EXPECT_EQ(landed.count(), 0u);
}

TEST_F(CompleterTest, ClosingFlushes) {
  Barrier slow;
  store->on_mark = [&](std::span<const Mark> marks) {
    if (marks[0].event_id == "first") slow.pass();
    return MarkResult{};
  };
  start();
  completer.submit(completion("first"));
  ASSERT_TRUE(slow.reached());
  completer.submit(completion("second"));
  slow.open();
  EXPECT_TRUE(completer.close(std::chrono::steady_clock::now() + 20s));
  EXPECT_EQ(landed.count(), 2u);
}

TEST_F(CompleterTest, ClosingGivesUpAtTheDeadlineAndSaysWhatIsLeft) {
  store->on_mark = [](std::span<const Mark>) -> MarkResult { throw RetryableError("away"); };
  start();
  completer.submit(completion("a"));
  ASSERT_TRUE(store->marked.wait(1));
  EXPECT_FALSE(completer.close(std::chrono::steady_clock::now() + 50ms));
  EXPECT_TRUE(log.contains("closed with 1 marks that the store did not take"));
  EXPECT_EQ(landed.count(), 0u);
}

}  // namespace
}  // namespace outbox::internal
