#include "outbox/consumer/consumption.h"

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "outbox/error.h"
#include "outbox/memory.h"
#include "outbox/outbox.h"
#include "outbox/testing.h"
#include "support/stores.h"

namespace outbox {
namespace {

using namespace std::chrono_literals;
using State = ConsumptionTracker::State;
using std::chrono::milliseconds;
using testing::RecordingListener;

// A tracker that fails on demand: a function that is called before each call goes through.
class FlakyTracker final : public ConsumptionTracker {
 public:
  explicit FlakyTracker(const Clock& clock)
      : inner_(memory_tracker({.lease = 60s, .retention = 3600s}, clock)) {}

  Start start(std::string_view group, std::string_view id) override {
    if (before_start) before_start();
    return inner_->start(group, id);
  }
  bool finish(std::string_view group, std::string_view id, std::int64_t fence) override {
    ++finishes;
    if (before_finish) before_finish();
    return inner_->finish(group, id, fence);
  }
  bool abandon(std::string_view group, std::string_view id, std::int64_t fence) override {
    if (before_abandon) before_abandon();
    return inner_->abandon(group, id, fence);
  }

  std::function<void()> before_start{}, before_finish{}, before_abandon{};
  int finishes = 0;

 private:
  const std::shared_ptr<ConsumptionTracker> inner_;
};

class IdempotentTest : public ::testing::Test {
 protected:
  std::shared_ptr<Listener> wrap(std::shared_ptr<Listener> inner, IdempotentOptions options = {}) {
    options.log = log_.log();
    return idempotent(tracker_, "billing", std::move(inner), options);
  }

  // What the wrapped listener says of event "e1".
  Outcome deliver(Listener& to, std::stop_token stop = {}) {
    return to.on_event(test::simple_event("e1"), {.stop = std::move(stop)});
  }

  bool is_free() {
    const auto start = tracker_->start("billing", "e1");
    if (start.state == State::started) tracker_->abandon("billing", "e1", start.fence);
    return start.state == State::started;
  }

  testing::ManualClock clock_;
  testing::RecordingLog log_;
  std::shared_ptr<FlakyTracker> tracker_ = std::make_shared<FlakyTracker>(clock_);
  std::shared_ptr<RecordingListener> inner_ = std::make_shared<RecordingListener>();
};

std::shared_ptr<RecordingListener> answering(Outcome outcome) {
  return std::make_shared<RecordingListener>(
      [=](const Event&, const Delivery&) { return outcome; });
}

TEST_F(IdempotentTest, TheSecondDeliveryIsSkipped) {
  const auto listener = wrap(inner_);
  EXPECT_EQ(deliver(*listener).kind(), Outcome::Kind::done);
  EXPECT_EQ(deliver(*listener).kind(), Outcome::Kind::done);
  EXPECT_EQ(inner_->count(), 1U);
  EXPECT_TRUE(log_.lines().empty());
}

TEST_F(IdempotentTest, WhatAnotherIsAtComesAgainLaterWithoutAnAttempt) {
  const auto other = tracker_->start("billing", "e1");
  const auto listener = wrap(inner_, {.ask_again = 10s});
  const Outcome early = deliver(*listener);
  EXPECT_EQ(early.kind(), Outcome::Kind::retry_after);
  EXPECT_EQ(early.delay(), 10s);
  clock_.advance(57s);
  EXPECT_EQ(deliver(*listener).delay(), 3s) << "when the other one is considered dead";
  EXPECT_EQ(inner_->count(), 0U);

  tracker_->finish("billing", "e1", other.fence);
  EXPECT_EQ(deliver(*listener).kind(), Outcome::Kind::done);
  EXPECT_EQ(inner_->count(), 0U);
}

TEST_F(IdempotentTest, WhateverIsNotDoneIsPassedOnAndMayBeBegunAgain) {
  for (const Outcome& said :
       {Outcome::retry_after(7s), Outcome::failed("f"), Outcome::failed("f", 9s),
        Outcome::permanent("p"), Outcome::unavailable("u")}) {
    const auto failing = answering(said);
    const auto listener = wrap(failing);
    const Outcome outcome = deliver(*listener);
    EXPECT_EQ(outcome.kind(), said.kind());
    EXPECT_EQ(outcome.error(), said.error());
    EXPECT_EQ(outcome.delay(), said.delay());
    EXPECT_TRUE(is_free());
    deliver(*listener);
    EXPECT_EQ(failing->count(), 2U);
  }
}

TEST_F(IdempotentTest, WhatTheListenerThrowsIsPassedOnAndMayBeBegunAgain) {
  const auto listener = idempotent(
      tracker_, "billing", [](const Event&) -> void { throw RetryAfterError("come back", 3s); });
  EXPECT_THROW(deliver(*listener), RetryAfterError);
  EXPECT_TRUE(is_free());
}

TEST_F(IdempotentTest, NothingIsDoneWhileTheTrackerIsUnreachable) {
  tracker_->before_start = [] { throw UnavailableError("no tracker at 127.0.0.1"); };
  const Outcome outcome = deliver(*wrap(inner_));
  EXPECT_EQ(outcome.kind(), Outcome::Kind::unavailable);
  EXPECT_TRUE(test::contains(outcome.error(), "no tracker at 127.0.0.1"));
  EXPECT_TRUE(test::contains(outcome.error(), "billing"));
  EXPECT_EQ(inner_->count(), 0U);
}

TEST_F(IdempotentTest, ATrackerThatCannotBeUsedDoesNotSendEventsToTheDead) {
  tracker_->before_start = [] { throw PermanentError("wrong password"); };
  EXPECT_EQ(deliver(*wrap(inner_)).kind(), Outcome::Kind::unavailable);
  EXPECT_EQ(inner_->count(), 0U);
}

TEST_F(IdempotentTest, AConsumerThatWasConsideredDeadIsLogged) {
  const auto slow = std::make_shared<RecordingListener>([&](const Event&, const Delivery&) {
    clock_.advance(61s);
    tracker_->start("billing", "e1");  // another one
    return Outcome::done();
  });
  EXPECT_EQ(deliver(*wrap(slow)).kind(), Outcome::Kind::done);
  EXPECT_TRUE(log_.contains("event e1 in group \"billing\" took longer than its lease"));
  EXPECT_EQ(tracker_->start("billing", "e1").state, State::in_progress) << "the other one is at it";
}

TEST_F(IdempotentTest, ATrackerThatComesBackIsToldOfTheEffect) {
  tracker_->before_finish = [this] {
    if (tracker_->finishes < 3) throw UnavailableError("unreachable");
  };
  const auto listener = wrap(inner_);
  EXPECT_EQ(deliver(*listener).kind(), Outcome::Kind::done);
  EXPECT_EQ(tracker_->finishes, 3);
  EXPECT_EQ(deliver(*listener).kind(), Outcome::Kind::done);
  EXPECT_EQ(inner_->count(), 1U);
  EXPECT_TRUE(log_.lines().empty());
}

TEST_F(IdempotentTest, TheLongestTimeToRecordAnEffectIsForEver) {
  tracker_->before_finish = [&] {
    if (tracker_->finishes < 2) throw UnavailableError("unreachable");
  };
  deliver(*wrap(inner_, {.finish_within = milliseconds::max()}));
  EXPECT_EQ(tracker_->finishes, 2);
  EXPECT_TRUE(log_.lines().empty());
}

TEST_F(IdempotentTest, AnEffectThatCannotBeRecordedIsDoneNevertheless) {
  tracker_->before_finish = [] { throw UnavailableError("unreachable"); };
  const auto listener = wrap(inner_, {.finish_within = 1s});
  EXPECT_EQ(deliver(*listener).kind(), Outcome::Kind::done);
  EXPECT_GE(tracker_->finishes, 2);
  EXPECT_TRUE(log_.contains("could not be recorded"));
  EXPECT_TRUE(log_.contains("unreachable"));
  EXPECT_EQ(deliver(*listener).kind(), Outcome::Kind::retry_after) << "until the lease is over";
  EXPECT_EQ(inner_->count(), 1U);
}

TEST_F(IdempotentTest, ATrackerThatRefusesTheRecordIsNotAskedAgain) {
  tracker_->before_finish = [] { throw PermanentError("wrong password"); };
  EXPECT_EQ(deliver(*wrap(inner_)).kind(), Outcome::Kind::done);
  EXPECT_EQ(tracker_->finishes, 1);
  EXPECT_TRUE(log_.contains("wrong password"));
}

TEST_F(IdempotentTest, AStopEndsTheAttemptsToRecord) {
  std::stop_source stop;
  tracker_->before_finish = [&] {
    stop.request_stop();
    throw UnavailableError("unreachable");
  };
  EXPECT_EQ(deliver(*wrap(inner_, {.finish_within = 1h}), stop.get_token()).kind(),
            Outcome::Kind::done);
  EXPECT_EQ(tracker_->finishes, 1);
}

TEST_F(IdempotentTest, AFailureThatCannotBeRecordedIsPassedOnAllTheSame) {
  tracker_->before_abandon = [] { throw UnavailableError("unreachable"); };
  EXPECT_EQ(deliver(*wrap(answering(Outcome::failed("f")))).error(), "f");
  EXPECT_TRUE(log_.contains("before its lease expires: unreachable"));
}

TEST_F(IdempotentTest, InvalidArgumentsAreRefused) {
  const auto make = [&](IdempotentOptions options) { wrap(inner_, options); };
  EXPECT_THROW(make({.ask_again = 0ms}), MisuseError);
  EXPECT_THROW(make({.finish_within = -1ms}), MisuseError);
  EXPECT_THROW(idempotent_listener(nullptr, "g", inner_), MisuseError);
  EXPECT_THROW(idempotent_listener(tracker_, "", inner_), MisuseError);
  EXPECT_THROW(idempotent_listener(tracker_, std::string(65, 'g'), inner_), MisuseError);
  EXPECT_THROW(idempotent(tracker_, "g", std::function<void(const Event&)>{}), MisuseError);
}

TEST_F(IdempotentTest, EachHandlerOfAFanOutHasAGroupOfItsOwn) {
  const auto mail = std::make_shared<RecordingListener>();
  const auto stock = std::make_shared<RecordingListener>();
  const auto tracker = memory_tracker();
  Listeners on;
  on.fan_out("Order", "Placed",
             {handler("mail", idempotent(tracker, "mail", mail)),
              handler("stock", idempotent(tracker, "stock", stock))});
  Outbox box{memory::open(), on};
  box.start();
  for (int i = 0; i < 2; ++i) {
    auto tx = box.begin();
    tx.write({.type = "Placed",
              .aggregate_type = "Order",
              .aggregate_id = std::to_string(i),
              .payload = json("{}")});
    tx.commit();
  }
  ASSERT_TRUE(box.wait_idle(20s));
  EXPECT_EQ(mail->count(), 2U);
  EXPECT_EQ(stock->count(), 2U);
  for (const std::string& id : mail->ids()) {
    EXPECT_EQ(tracker->start("mail", id).state, State::done);
    EXPECT_EQ(tracker->start("stock", id).state, State::done);
  }
}

// The second would be told that the group has had the event, and never have any.
TEST_F(IdempotentTest, TwoHandlersOfAFanOutInOneGroupAreRefused) {
  const auto tracker = memory_tracker();
  const auto elsewhere = memory_tracker();
  const auto handlers = [&](const std::shared_ptr<ConsumptionTracker>& second,
                            const std::string& group) {
    return std::vector<Handler>{handler("mail", idempotent(tracker, "placed", inner_)),
                                handler("log", inner_),
                                handler("stock", idempotent(second, group, inner_))};
  };
  Listeners on;
  const std::string message = test::message_of<MisuseError>(
      [&] { on.fan_out("Order", "Placed", handlers(tracker, "placed")); });
  EXPECT_TRUE(test::contains(message, "handlers \"mail\" and \"stock\" of Order/Placed"));
  EXPECT_TRUE(test::contains(message, "consumer group \"placed\""));
  EXPECT_TRUE(on.empty());
  on.fan_out("Order", "Placed", handlers(tracker, "stock"));
  on.fan_out("Order", "Paid", handlers(elsewhere, "placed"));
}

TEST_F(IdempotentTest, AnEventThatAnotherIsAtCostsNoAttempt) {
  const auto tracker = memory_tracker();
  const std::string id = "01J0000000000000000000000A";
  const auto other = tracker->start("g", id);
  const auto inner = std::make_shared<RecordingListener>();
  testing::Signal asked;
  Listeners on;
  on.add("T", [&, wrapped = idempotent(tracker, "g", inner, {.ask_again = 1ms})](
                  const Event& event, const Delivery& delivery) {
    const Outcome outcome = wrapped->on_event(event, delivery);
    if (outcome.kind() == Outcome::Kind::retry_after) asked.raise();
    return outcome;
  });
  Outbox box{memory::open(), on, {.retry = {.max_attempts = 1}}};
  box.start();
  auto tx = box.begin();
  tx.write({.type = "T", .payload = json("{}"), .id = id});
  tx.commit();
  ASSERT_TRUE(asked.wait(3));
  tracker->abandon("g", id, other.fence);
  ASSERT_TRUE(inner->wait_for(1));
  ASSERT_TRUE(box.wait_idle(20s));
  EXPECT_EQ(inner->calls().front().attempt, 1);
}

}  // namespace
}  // namespace outbox
