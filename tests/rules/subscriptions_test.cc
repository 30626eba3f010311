// Several receivers of one outbox.
#include <atomic>
#include <stdexcept>

#include "every_store.h"
#include "outbox/error.h"
#include "support/stores.h"

namespace outbox::testing {
namespace {

using test::contains;
using test::message_of;

class SubscriptionsTest : public OnEveryStore {
 protected:
  void SetUp() override {
    OnEveryStore::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    use_store({.host_clock = true});
    if (!capabilities().subscriptions) GTEST_SKIP() << "the store has no subscriptions";
  }

  static Listeners to(std::shared_ptr<Listener> listener) {
    Listeners on;
    on.add("Order", "Happened", std::move(listener));
    return on;
  }

  std::unique_ptr<Outbox> box_of(std::vector<std::string> names) {
    auto box = std::make_unique<Outbox>(store, with_defaults({}));
    for (const std::string& name : names) {
      auto receiver = std::make_shared<RecordingListener>();
      box->subscribe(name, to(receiver), with_defaults({.begin = Begin::beginning}));
      receivers.push_back(receiver);
    }
    return box;
  }

  std::vector<std::shared_ptr<RecordingListener>> receivers;
};
OUTBOX_ON_EVERY_STORE(SubscriptionsTest);

TEST_P(SubscriptionsTest, EachReceivesEveryEvent) {
  const auto box = box_of({"billing", "search", "audit"});
  box->start();
  for (const char* payload : {"1", "2", "3"}) write(*box, order_event("42", payload));
  ASSERT_TRUE(box->wait_idle(20s));
  for (const auto& receiver : receivers) {
    EXPECT_EQ(receiver->payloads(), (std::vector<std::string>{"1", "2", "3"}));
  }
  EXPECT_TRUE(box->owner());
  EXPECT_EQ(box->in_flight(), 0u);
}

TEST_P(SubscriptionsTest, TheOutboxMayHaveListenersOfItsOwn) {
  const auto box = make();
  const auto billing = std::make_shared<RecordingListener>();
  box->subscribe("billing", to(billing), with_defaults({.begin = Begin::now}));
  box->start();
  write(*box, order_event("42", "1"));
  ASSERT_TRUE(box->wait_idle(20s));
  EXPECT_EQ(recorder->payloads(), std::vector<std::string>{"1"});
  EXPECT_EQ(billing->payloads(), std::vector<std::string>{"1"});
}

TEST_P(SubscriptionsTest, OneThatFailsCostsTheOthersNothing) {
  const auto box = box_of({"search"});
  const auto failing = std::make_shared<RecordingListener>(
      [](const Event&, const Delivery&) { return Outcome::unavailable("down"); });
  box->subscribe("billing", to(failing), with_defaults({.begin = Begin::beginning}));
  box->start();
  for (int n = 0; n < 50; ++n) write(*box, order_event(std::to_string(n % 7), std::to_string(n)));
  EXPECT_TRUE(receivers[0]->wait_for(50));
  EXPECT_TRUE(eventually([&] { return !store->subscription("search")->has_pending(); }));
  EXPECT_TRUE(store->subscription("billing")->has_pending());
  EXPECT_TRUE(eventually([&] { return says(box->health(), "subscription \"billing\": "); }));
  EXPECT_FALSE(box->wait_idle(50ms));
}

TEST_P(SubscriptionsTest, EachHasItsOwnDeadEvents) {
  const auto box = box_of({"search"});
  const auto failing = std::make_shared<RecordingListener>(
      [](const Event&, const Delivery&) { return Outcome::permanent("no"); });
  box->subscribe("billing", to(failing), with_defaults({.begin = Begin::beginning}));
  box->start();
  write(*box, order_event("42", "1"));
  ASSERT_TRUE(box->wait_idle(20s));
  EXPECT_EQ(store->subscription("billing")->counts().dead, 1);
  EXPECT_EQ(store->subscription("search")->counts().dead, 0);

  EXPECT_EQ(DeadEvents(store->subscription("billing")).replay_all({}), 1);
  box->wake();
  EXPECT_TRUE(failing->wait_for(2));
  ASSERT_TRUE(box->wait_idle(20s));
  EXPECT_EQ(receivers[0]->count(), 1u) << "replayed to the one that asked";
}

TEST_P(SubscriptionsTest, EventsWithoutAListenerAreForOthers) {
  const auto box = box_of({"search"});
  box->start();
  auto tx = box->begin();
  const std::string id = tx.write(
      {.type = "Other", .aggregate_type = "Order", .aggregate_id = "42", .payload = json("{}")});
  tx.commit();
  ASSERT_TRUE(box->wait_idle(20s));
  EXPECT_EQ(store->subscription("search")->admin().find(id)->row.status, Status::done);
  EXPECT_EQ(receivers[0]->count(), 0u);
}

TEST_P(SubscriptionsTest, OneJoinsWhileTheOutboxRuns) {
  const auto box = box_of({"search"});
  box->start();
  write(*box, order_event("42", "1"));
  ASSERT_TRUE(box->wait_idle(20s));
  const auto late = std::make_shared<RecordingListener>();
  box->subscribe("late", to(late), with_defaults({.begin = Begin::now}));
  write(*box, order_event("42", "2"));
  ASSERT_TRUE(box->wait_idle(20s));
  EXPECT_EQ(late->payloads(), std::vector<std::string>{"2"});
  EXPECT_EQ(receivers[0]->payloads(), (std::vector<std::string>{"1", "2"}));
}

TEST_P(SubscriptionsTest, OneGoesOnWhereItsLastProcessStopped) {
  {
    const auto box = box_of({"billing", "search"});
    box->start();
    write(*box, order_event("42", "1"));
    ASSERT_TRUE(box->wait_idle(20s));
  }
  write_elsewhere(order_event("42", "2"));
  Outbox next{store, with_defaults({})};
  const auto billing = std::make_shared<RecordingListener>();
  next.subscribe("billing", to(billing), with_defaults({}));
  next.start();
  ASSERT_TRUE(next.wait_idle(20s));
  EXPECT_EQ(billing->payloads(), std::vector<std::string>{"2"});
  EXPECT_TRUE(store->subscription("search")->has_pending()) << "which nobody serves now";
}

TEST_P(SubscriptionsTest, PausingStopsAllOfThemOrThoseThatListen) {
  const auto box = box_of({"billing", "search"});
  box->start();
  box->pause();
  write(*box, order_event("42", "1"));
  EXPECT_FALSE(box->wait_idle(50ms));
  EXPECT_EQ(receivers[0]->count() + receivers[1]->count(), 0u);
  box->resume();
  ASSERT_TRUE(box->wait_idle(20s));
  box->pause("Order", "Happened");
  write(*box, order_event("42", "2"));
  EXPECT_FALSE(box->wait_idle(50ms));
  box->resume("Order", "Happened");
  ASSERT_TRUE(box->wait_idle(20s));
  EXPECT_THROW(box->pause("Order", "Unknown"), MisuseError);
}

TEST_P(SubscriptionsTest, AreClosedAtTheSameTime) {
  std::atomic<int> running{0};
  std::atomic<int> stopped{0};
  const auto ends_with_the_other = [&](const Event&, const Delivery& delivery) {
    ++running;
    eventually([&] { return delivery.stop.stop_requested(); });
    ++stopped;
    return eventually([&] { return stopped == 2; }, 5s) ? Outcome::done()
                                                        : Outcome::permanent("alone");
  };
  Outbox box{store, with_defaults({})};
  for (const char* name : {"billing", "search"}) {
    box.subscribe(name, to(std::make_shared<RecordingListener>(ends_with_the_other)),
                  with_defaults({.begin = Begin::beginning}));
  }
  box.start();
  write(box, order_event("42", "1"));
  ASSERT_TRUE(eventually([&] { return running == 2; }));
  box.close(0ms);
  EXPECT_EQ(store->subscription("billing")->counts().dead, 0);
  EXPECT_EQ(store->subscription("search")->counts().dead, 0);
}

TEST_P(SubscriptionsTest, LogRecordsNameIt) {
  const auto box = box_of({"billing"});
  box->start();
  box->pause();
  EXPECT_TRUE(log.contains("subscription \"billing\": delivery is paused"));
}

TEST_P(SubscriptionsTest, WhatCannotBeIsRefused) {
  Outbox box{store, with_defaults({})};
  EXPECT_TRUE(contains(message_of<MisuseError>([&] { box.start(); }), "call subscribe() first"));
  box.subscribe("billing", to(recorder), with_defaults({}));
  EXPECT_TRUE(contains(message_of<MisuseError>([&] { box.subscribe("billing", to(recorder)); }),
                       "is served here already"));
  EXPECT_TRUE(contains(message_of<MisuseError>([&] { box.subscribe("search", to(recorder)); }),
                       "say where it begins"));
  EXPECT_TRUE(contains(message_of<MisuseError>([&] {
                         box.subscribe("search", to(recorder), {.purge = PurgeOptions{}});
                       }),
                       "options of the whole outbox"));
  EXPECT_TRUE(contains(message_of<MisuseError>([&] { box.subscribe("search", Listeners{}); }),
                       "there is no listener"));
  Outbox writer{store, {.mode = Mode::writer_only, .log = log.log()}};
  EXPECT_TRUE(contains(message_of<MisuseError>([&] { writer.subscribe("a", to(recorder)); }),
                       "only writes"));
  box.close();
  EXPECT_THROW(box.subscribe("search", to(recorder), {.begin = Begin::now}), MisuseError);
}

class WithoutSubscriptionsTest : public OnEveryStore {};
OUTBOX_ON_EVERY_STORE(WithoutSubscriptionsTest);

TEST_P(WithoutSubscriptionsTest, AreRefusedWithTheReason) {
  if (capabilities().subscriptions) GTEST_SKIP() << "the store has subscriptions";
  const auto box = make();
  Listeners on;
  on.add("Order", "Happened", std::static_pointer_cast<Listener>(recorder));
  EXPECT_TRUE(contains(message_of<MisuseError>([&] { box->subscribe("billing", on); }),
                       "several need progress by position"));
}

}  // namespace
}  // namespace outbox::testing
