#include "engine/worker.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "model/outcome.h"
#include "outbox/error.h"
#include "outbox/testing.h"

namespace outbox::internal {
namespace {

using namespace std::chrono_literals;
using Kind = Outcome::Kind;
using Steps = std::vector<std::string>;

class Tracing final : public Interceptor {
 public:
  Tracing(std::string name, Steps& steps) : name_(std::move(name)), steps_(steps) {}

  void before(const Event&) override {
    steps_.push_back("before " + name_);
    if (fails_before) throw std::runtime_error("no entry");
  }
  void after(const Event&, const std::exception_ptr& error) override {
    steps_.push_back("after " + name_ + (error ? " " + outcome_of(error).error() : ""));
    if (fails_after) throw 42;
  }

  bool fails_before = false;
  bool fails_after = false;

 private:
  const std::string name_;
  Steps& steps_;
};

class DeliveryTest : public ::testing::Test {
 protected:
  Outcome deliver(const Route& route, Job* keep = nullptr) {
    Breaker to{route, 4, {}};
    Job job{.row = {.event = Event::restore({.id = "e1", .type = "T"})}, .route = &to};
    if (keep != nullptr) job.row.progress = keep->row.progress;
    const Deliverer deliverer{
        DispatcherOptions{.interceptors = {one, two, three}, .log = log.log()}};
    const Outcome outcome = deliverer.deliver(std::span(&job, 1), {}).at(0);
    if (keep != nullptr) keep->row.progress = job.row.progress;
    return outcome;
  }
  Outcome deliver_to(std::function<Outcome(const Event&)> function) {
    return deliver({.listener = listener(std::move(function))});
  }

  testing::RecordingLog log;
  Steps steps;
  std::shared_ptr<Tracing> one = std::make_shared<Tracing>("1", steps);
  std::shared_ptr<Tracing> two = std::make_shared<Tracing>("2", steps);
  std::shared_ptr<Tracing> three = std::make_shared<Tracing>("3", steps);
};

TEST_F(DeliveryTest, RunsInterceptorsInOrderThenTheListenerThenThemInReverse) {
  const Outcome outcome = deliver_to([&](const Event&) {
    steps.push_back("listener");
    return Outcome::done();
  });
  EXPECT_EQ(outcome.kind(), Kind::done);
  EXPECT_EQ(steps, (Steps{"before 1", "before 2", "before 3", "listener", "after 3", "after 2",
                          "after 1"}))
      << "after() gets a null error on success";
}

TEST_F(DeliveryTest, ABeforeThatThrowsIsAFailedAttemptAndOnlyThoseEnteredAreLeft) {
  two->fails_before = true;
  const Outcome outcome = deliver_to([&](const Event&) {
    steps.push_back("listener");
    return Outcome::done();
  });
  EXPECT_EQ(outcome.kind(), Kind::failed);
  EXPECT_EQ(outcome.error(), "no entry");
  EXPECT_EQ(steps, (Steps{"before 1", "before 2", "after 1 no entry"}));
}

TEST_F(DeliveryTest, AnAfterThatThrowsIsLoggedAndChangesNothing) {
  two->fails_after = true;
  EXPECT_EQ(deliver_to([](const Event&) { return Outcome::done(); }).kind(), Kind::done);
  EXPECT_EQ(steps.back(), "after 1");
  EXPECT_TRUE(log.contains("an interceptor failed after the delivery of event e1"));
}

TEST_F(DeliveryTest, InterceptorsSeeWhatWentWrongHoweverItWasSaid) {
  deliver_to([](const Event&) -> Outcome { throw std::runtime_error("thrown"); });
  deliver_to([](const Event&) { return Outcome::failed("said"); });
  EXPECT_EQ(steps[3], "after 3 thrown");
  EXPECT_EQ(steps[9], "after 3 said");
}

TEST_F(DeliveryTest, EverythingThrownCounts) {
  EXPECT_EQ(deliver_to([](const Event&) -> Outcome { throw std::runtime_error("x"); }).kind(),
            Kind::failed);
  const Outcome odd = deliver_to([](const Event&) -> Outcome { throw "a pointer"; });
  EXPECT_EQ(odd.kind(), Kind::failed);
  EXPECT_EQ(odd.error(), "the listener threw something that is not a std::exception");
  EXPECT_EQ(deliver_to([](const Event&) -> Outcome { throw PermanentError("never"); }).kind(),
            Kind::permanent);
  EXPECT_EQ(deliver_to([](const Event&) -> Outcome {
              throw DatabaseError("a key is taken",
                                  {.kind = DatabaseError::Kind::unique_violation});
            }).kind(),
            Kind::failed);
  EXPECT_EQ(deliver_to([](const Event&) -> Outcome { throw UnavailableError("no broker"); }).kind(),
            Kind::unavailable);
  const Outcome later =
      deliver_to([](const Event&) -> Outcome { throw RetryAfterError("later", 7s); });
  EXPECT_EQ(later.kind(), Kind::failed);
  EXPECT_EQ(later.delay(), 7s);
}

TEST_F(DeliveryTest, NobodyListensIsPermanentAndSaysForWhat) {
  Job job{.row = {.event = Event::restore({.id = "e1", .type = "T", .aggregate_type = "A"})}};
  const Deliverer deliverer{DispatcherOptions{.log = log.log()}};
  const Outcome outcome = deliverer.deliver(std::span(&job, 1), {}).at(0);
  EXPECT_EQ(outcome.kind(), Kind::permanent);
  EXPECT_EQ(outcome.error(), "no listener for aggregate type \"A\", event type \"T\"");
}

TEST_F(DeliveryTest, WhatNobodyListensToIsDoneIfItIsToBeIgnored) {
  const Deliverer deliverer{DispatcherOptions{
      .on_unroutable = OnUnroutable::ignore, .interceptors = {one}, .log = log.log()}};
  Job others{.row = {.event = Event::restore({.id = "e1", .type = "T"})}};
  EXPECT_EQ(deliverer.deliver(std::span(&others, 1), {}).at(0).kind(), Kind::done);
  EXPECT_TRUE(steps.empty());
  // Nobody can say whose it is.
  Job nobodys{.row = {.event = Event::restore({.id = "e2"}), .defect = "event_type is empty"}};
  EXPECT_EQ(deliverer.deliver(std::span(&nobodys, 1), {}).at(0).kind(), Kind::permanent);
}

TEST_F(DeliveryTest, ARowThatCannotBeDecodedReachesNobody) {
  Route route{.listener = listener([](const Event&) { FAIL(); })};
  Breaker to{route, 4, {}};
  Job job{.row = {.event = Event::restore({.id = "e1"}), .defect = "bad headers"}, .route = &to};
  const Deliverer deliverer{DispatcherOptions{.interceptors = {one}, .log = log.log()}};
  const Outcome outcome = deliverer.deliver(std::span(&job, 1), {}).at(0);
  EXPECT_EQ(outcome.kind(), Kind::permanent);
  EXPECT_EQ(outcome.error(), "bad headers");
  EXPECT_TRUE(steps.empty());
}

TEST_F(DeliveryTest, ARetryOfAFanOutSkipsThoseThatHaveIt) {
  std::map<std::string, int> calls;
  bool mail_works = false;
  const Route route{.fan_out = {handler("stock", [&](const Event&) { ++calls["stock"]; }),
                                handler("mail",
                                        [&](const Event&) {
                                          ++calls["mail"];
                                          if (!mail_works) throw std::runtime_error("no mail");
                                        }),
                                handler("st", [&](const Event&) { ++calls["st"]; })}};
  Job kept{.row = {.event = Event::restore({.id = "e1"})}};
  const Outcome first = deliver(route, &kept);
  EXPECT_EQ(first.kind(), Kind::failed);
  EXPECT_EQ(first.error(), "mail: no mail");
  EXPECT_EQ(kept.row.progress, "stock,st");
  mail_works = true;
  EXPECT_EQ(deliver(route, &kept).kind(), Kind::done);
  EXPECT_EQ(calls, (std::map<std::string, int>{{"mail", 2}, {"st", 1}, {"stock", 1}}));
}

TEST_F(DeliveryTest, InAFanOutAFailureThatIsTriedAgainGoesBeforeOneThatIsNot) {
  const Route route{
      .fan_out = {
          handler("a", [](const Event&) -> Outcome { throw PermanentError("never"); }),
          handler("b", [](const Event&) -> Outcome { throw std::runtime_error("not yet"); })}};
  const Outcome outcome = deliver(route);
  EXPECT_EQ(outcome.kind(), Kind::failed);
  EXPECT_EQ(outcome.error(), "b: not yet");
}

class Answering final : public BatchListener {
 public:
  std::function<std::vector<Outcome>(std::span<const Item>)> answer;
  std::vector<Outcome> on_events(std::span<const Item> items) override { return answer(items); }
};

class BatchDeliveryTest : public DeliveryTest {
 protected:
  std::vector<Outcome> deliver_three() {
    const Route route{.batch = batch};
    Breaker to{route, 4, {}};
    std::vector<Job> jobs;
    for (const char* id : {"a", "b", "c"}) {
      jobs.push_back({.row = {.event = Event::restore({.id = id}), .attempts = 1}, .route = &to});
    }
    jobs[1].row.defect = defect;
    const Deliverer deliverer{DispatcherOptions{.interceptors = {one}, .log = log.log()}};
    return deliverer.deliver(jobs, {});
  }

  std::shared_ptr<Answering> batch = std::make_shared<Answering>();
  std::string defect;
};

TEST_F(BatchDeliveryTest, EachEventGetsItsOwnOutcome) {
  batch->answer = [](std::span<const BatchListener::Item> items) {
    EXPECT_EQ(items[0].delivery.attempt, 2);
    return std::vector<Outcome>{Outcome::done(), Outcome::failed("b is bad"),
                                Outcome::retry_after(0ms)};
  };
  const auto outcomes = deliver_three();
  EXPECT_EQ(outcomes[0].kind(), Kind::done);
  EXPECT_EQ(outcomes[1].error(), "b is bad");
  EXPECT_EQ(outcomes[2].kind(), Kind::retry_after);
  EXPECT_EQ(steps,
            (Steps{"before 1", "before 1", "before 1", "after 1", "after 1 b is bad", "after 1"}));
}

TEST_F(BatchDeliveryTest, ThrowingCountsForAll) {
  batch->answer = [](auto) -> std::vector<Outcome> { throw std::runtime_error("all bad"); };
  for (const Outcome& outcome : deliver_three()) EXPECT_EQ(outcome.error(), "all bad");
}

TEST_F(BatchDeliveryTest, TheWrongNumberOfAnswersFailsAllInsteadOfGuessing) {
  batch->answer = [](auto) { return std::vector<Outcome>{Outcome::done()}; };
  for (const Outcome& outcome : deliver_three()) {
    EXPECT_EQ(outcome.kind(), Kind::failed);
    EXPECT_EQ(outcome.error(), "the batch listener returned 1 outcomes for 3 events");
  }
}

TEST_F(BatchDeliveryTest, ARowThatCannotBeDecodedDoesNotStopTheOthers) {
  defect = "broken";
  batch->answer = [](std::span<const BatchListener::Item> items) {
    EXPECT_EQ(items.size(), 2u);
    return std::vector<Outcome>(items.size(), Outcome::done());
  };
  const auto outcomes = deliver_three();
  EXPECT_EQ(outcomes[0].kind(), Kind::done);
  EXPECT_EQ(outcomes[1].kind(), Kind::permanent);
  EXPECT_EQ(outcomes[2].kind(), Kind::done);
}

}  // namespace
}  // namespace outbox::internal
