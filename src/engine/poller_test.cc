// A poller with a handler of its user's own.
#include "outbox/spi/poller.h"

#include <algorithm>

#include "engine/test_fixture.h"
#include "outbox/error.h"

namespace outbox::testing {
namespace {

using Texts = std::vector<std::string>;

// Keeps what it is given, each row once, and updates nothing. Thread-safe.
class Collector final : public PollHandler {
 public:
  explicit Collector(std::size_t room = 100) : room_(room) {}

  std::size_t room() override {
    const std::lock_guard lock(mutex_);
    return room_;
  }
  std::size_t in_flight() override { return ids().size(); }
  bool handle(Row row) override {
    const std::lock_guard lock(mutex_);
    offered_.push_back(row.event.id());
    if (std::find(ids_.begin(), ids_.end(), row.event.id()) != ids_.end()) return true;
    if (ids_.size() >= limit_) return false;
    ids_.push_back(row.event.id());
    taken.raise();
    return true;
  }

  void set_room(std::size_t room) {
    const std::lock_guard lock(mutex_);
    room_ = room;
  }
  // Refuses what comes after so many, whatever room() says.
  void take_at_most(std::size_t limit) {
    const std::lock_guard lock(mutex_);
    limit_ = limit;
  }
  Texts ids() const {
    const std::lock_guard lock(mutex_);
    return ids_;
  }
  Texts offered() const {
    const std::lock_guard lock(mutex_);
    return offered_;
  }

  Signal taken;

 private:
  mutable std::mutex mutex_;
  std::size_t room_;
  std::size_t limit_ = 1'000;
  Texts ids_;
  Texts offered_;
};

class PollerTest : public EngineTest {
 protected:
  std::unique_ptr<Poller> poller(PollerOptions options = {}) {
    instance = store->join({.row_claims = options.row_claims});
    options.interval = 1h;  // nothing in these tests comes from a sweep
    options.log = log.log();
    options.clock = &clock;
    return std::make_unique<Poller>(instance, handler, options);
  }

  Texts write_events(int n) {
    Texts ids;
    for (int i = 0; i < n; ++i) ids.push_back(write_elsewhere(order_event("1", "{}")));
    return ids;
  }

  std::string locked_by(const std::string& id) { return store->find(id)->locked_by; }

  std::shared_ptr<Instance> instance;
  std::shared_ptr<Collector> handler = std::make_shared<Collector>();
};

TEST_F(PollerTest, PollsAtOnceWhenItIsStartedAndWhenItIsWoken) {
  const Texts first = write_events(1);
  auto on = poller();
  on->start();
  ASSERT_TRUE(handler->taken.wait(1));
  EXPECT_EQ(handler->ids(), first);
  const Texts second = write_events(1);
  on->wake();
  ASSERT_TRUE(handler->taken.wait(2));
  EXPECT_EQ(handler->ids().back(), second.front());
}

TEST_F(PollerTest, FollowsAFullReadByTheNextAtOnce) {
  const Texts all = write_events(7);
  auto on = poller({.batch = 2});
  on->start();
  ASSERT_TRUE(handler->taken.wait(7));
  EXPECT_EQ(handler->ids(), all);
}

TEST_F(PollerTest, RunsOneRoundWhenAskedAndSaysWhetherThereIsMore) {
  const Texts all = write_events(3);
  auto on = poller({.batch = 2});
  EXPECT_TRUE(on->poll());
  EXPECT_EQ(handler->ids(), (Texts{all[0], all[1]}));
  EXPECT_EQ(faults->calls("ready"), 1u);
  handler->set_room(100);
  for (int rounds = 0; on->poll(); ++rounds) ASSERT_LT(rounds, 10);
  EXPECT_EQ(handler->ids(), all);
}

TEST_F(PollerTest, SaysThatThereIsNoMoreWhenTheStoreIsEmpty) {
  auto on = poller();
  EXPECT_FALSE(on->poll());
  EXPECT_EQ(faults->calls("ready"), 1u);
  EXPECT_TRUE(handler->offered().empty());
}

TEST_F(PollerTest, ReadsNoMoreThanTheHandlerHasRoomFor) {
  const Texts all = write_events(5);
  handler->set_room(1);
  auto on = poller({.batch = 3});
  EXPECT_TRUE(on->poll());
  EXPECT_EQ(handler->offered(), (Texts{all[0]}));
}

TEST_F(PollerTest, ReadsNoMoreThanABatchHoweverMuchRoomThereIs) {
  const Texts all = write_events(5);
  auto on = poller({.batch = 3});
  EXPECT_TRUE(on->poll());
  EXPECT_EQ(handler->offered(), (Texts{all[0], all[1], all[2]}));
}

TEST_F(PollerTest, DoesNotAskTheStoreWhileTheHandlerHasNoRoom) {
  const Texts all = write_events(1);
  for (const bool row_claims : {false, true}) {
    handler = std::make_shared<Collector>(0);
    auto on = poller({.row_claims = row_claims});
    EXPECT_TRUE(on->poll()) << "there may be something";
    EXPECT_EQ(faults->calls("ready"), row_claims ? 1u : 0u) << "one of them asked below";
    EXPECT_EQ(faults->calls("claim"), 0u);
    handler->set_room(1);
    on->poll();
    EXPECT_EQ(faults->calls(row_claims ? "claim" : "ready"), 1u);
    EXPECT_EQ(handler->ids(), all);
  }
}

TEST_F(PollerTest, EndsTheRoundAtTheFirstRefusalAndBringsTheRestAgain) {
  const Texts all = write_events(3);
  handler->take_at_most(1);
  auto on = poller();
  EXPECT_TRUE(on->poll());
  EXPECT_EQ(handler->offered(), (Texts{all[0], all[1]})) << "the third would overtake";
  EXPECT_EQ(handler->ids(), (Texts{all[0]}));
  handler->take_at_most(3);
  EXPECT_FALSE(on->poll());
  EXPECT_EQ(handler->ids(), all);
}

TEST_F(PollerTest, BringsTheRestAgainByItself) {
  const Texts all = write_events(3);
  handler->take_at_most(1);
  auto on = poller();
  on->start();
  ASSERT_TRUE(eventually([&] { return handler->offered().size() >= 4; })) << "offered again";
  EXPECT_EQ(handler->ids(), (Texts{all[0]}));
  handler->take_at_most(3);
  ASSERT_TRUE(handler->taken.wait(3));
  EXPECT_EQ(handler->ids(), all);
}

TEST_F(PollerTest, DoesNotAskInALoopWhatTheHandlerRefusesThoughItHasRoom) {
  write_events(3);
  handler->take_at_most(0);
  auto on = poller();
  const auto begin = std::chrono::steady_clock::now();
  on->start();
  ASSERT_TRUE(eventually([&] { return faults->calls("ready") >= 5; }));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 15ms);
}

TEST_F(PollerTest, GivesBackTheClaimsOfWhatWasRefused) {
  const Texts all = write_events(3);
  handler->take_at_most(1);
  auto on = poller({.row_claims = true});
  EXPECT_TRUE(on->poll());
  ASSERT_EQ(handler->ids().size(), 1u);
  for (const std::string& id : all) {
    EXPECT_EQ(locked_by(id), id == handler->ids().front() ? instance->owner() : "");
  }
  handler->take_at_most(3);
  EXPECT_FALSE(on->poll());
  EXPECT_EQ(handler->ids(), all);
  for (const std::string& id : all) EXPECT_EQ(locked_by(id), instance->owner());
}

TEST_F(PollerTest, LetsTheCallerKnowWhatTheStoreThrowsAndReadsOnAfterwards) {
  const Texts all = write_events(2);
  auto on = poller();
  faults->before(failing({"ready"}));
  EXPECT_THROW(on->poll(), RetryableError);
  EXPECT_TRUE(handler->offered().empty());
  faults->clear();
  EXPECT_FALSE(on->poll());
  EXPECT_EQ(handler->ids(), all);
}

TEST_F(PollerTest, GivesBackWhatItOwnsWhenItIsClosed) {
  const auto shards = static_cast<std::size_t>(store->capabilities().shards);
  auto on = poller();
  on->poll();
  const auto other = store->join({});
  EXPECT_LT(other->renew().shards.size(), shards) << "the poller owns them";
  on->close();
  EXPECT_NO_THROW(on->close());
  const Lease lease = other->renew();
  EXPECT_NE(lease.epoch, 0);
  EXPECT_EQ(lease.shards.size(), shards);
  EXPECT_TRUE(lease.inherited.empty()) << "nobody died, so nothing is candidate";
}

TEST_F(PollerTest, IsStartedOnceAndNotAfterItsEnd) {
  auto on = poller();
  on->start();
  EXPECT_THROW(on->start(), MisuseError);
  on->close();
  EXPECT_THROW(on->start(), MisuseError);
  auto idle = poller();
  EXPECT_NO_THROW(idle->close());
  EXPECT_THROW(idle->start(), MisuseError);
}

// Closes its poller when it is given a row, and polls.
class Impatient final : public PollHandler {
 public:
  std::size_t room() override { return 100; }
  std::size_t in_flight() override { return 0; }
  bool handle(Row /*row*/) override {
    for (const auto& call : {std::function<void()>([&] { poller->close(); }),
                             std::function<void()>([&] { poller->poll(); })}) {
      try {
        call();
      } catch (const MisuseError&) {
        refused.raise();
      }
    }
    return true;
  }

  Poller* poller = nullptr;
  Signal refused;
};

TEST_F(PollerTest, ClosingItOrPollingInItsHandlerIsRefused) {
  write_events(1);
  const auto impatient = std::make_shared<Impatient>();
  Poller on(store->join({}), impatient, {.log = log.log(), .clock = &clock});
  impatient->poller = &on;
  on.poll();
  EXPECT_EQ(impatient->refused.count(), 2u) << "in this thread";
  on.start();
  EXPECT_TRUE(impatient->refused.wait(4)) << "in its own";
  on.close();
}

}  // namespace
}  // namespace outbox::testing
