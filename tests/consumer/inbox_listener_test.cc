// The listener that Inbox::listener() makes.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "database.h"
#include "outbox/consumer/inbox.h"
#include "outbox/error.h"
#include "outbox/outbox.h"
#include "outbox/testing.h"
#include "support/faulty_store.h"
#include "support/stores.h"

namespace outbox::patterns {
namespace {

using namespace std::chrono_literals;
using test::simple_event;

class InboxListenerTest : public PatternTest {
 protected:
  void SetUp() override {
    PatternTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    execute("CREATE TABLE effect (event_id VARCHAR(128) NOT NULL)");
    faulty_ = testing::faulty(store(), faults_);
    writer_ = std::make_unique<Writer>(faulty_);
    inbox_ = std::make_unique<Inbox>(faulty_);
    listener_ = inbox_->listener(*writer_, "billing",
                                 [](Transaction& tx, const Event& event) { act(tx, event); });
  }

  static void act(Transaction& tx, const Event& event) {
    tx.execute("INSERT INTO effect VALUES ('" + event.id() + "')");
  }

  void deliver(const std::string& id = "e1") { listener_->on_event(simple_event(id), {}); }
  std::int64_t effects() { return number("SELECT count(*) FROM effect"); }

  const std::shared_ptr<testing::Faults> faults_ = std::make_shared<testing::Faults>();
  std::shared_ptr<Store> faulty_;
  std::unique_ptr<Writer> writer_;
  std::unique_ptr<Inbox> inbox_;
  std::shared_ptr<Listener> listener_;
};

OUTBOX_ON_EVERY_DATABASE(InboxListenerTest);

TEST_P(InboxListenerTest, ARepetitionHasNoEffect) {
  deliver();
  deliver();
  deliver("e2");
  EXPECT_EQ(effects(), 2);
}

TEST_P(InboxListenerTest, WhileTheDatabaseIsUnreachableTheEventIsNotToBlame) {
  for (const std::string_view call : {"connect", "begin"}) {
    SCOPED_TRACE(call);
    faults_->before(testing::failing({call}));
    EXPECT_THROW(deliver(), UnavailableError);
  }
  // Lost after it had begun.
  faults_->before(testing::failing({"execute", "query"}));
  EXPECT_THROW(deliver(), UnavailableError);
  faults_->clear();
  deliver();
  EXPECT_EQ(effects(), 1);
}

// It answers, and takes no record: no grant, no table, no space, a standby.
TEST_P(InboxListenerTest, WhileTheDatabaseTakesNoRecordsTheEventIsNotToBlame) {
  faults_->before([](std::string_view call) {
    if (call == "execute") throw PermanentError("permission denied");
  });
  EXPECT_THROW(deliver(), UnavailableError);
  faults_->clear();
  faults_->before([](std::string_view call) {
    if (call == "execute") throw DatabaseError("permission denied for the schema", {});
  });
  EXPECT_THROW(deliver(), UnavailableError);
  faults_->clear();
  faults_->before(testing::failing({"execute"}));
  EXPECT_THROW(deliver(), UnavailableError);
  faults_->clear();
  deliver();
  EXPECT_EQ(effects(), 1);
}

// A deadlock, say.
TEST_P(InboxListenerTest, ACollisionIsAFailureOfTheEvent) {
  bool collided = false;
  faults_->before([&collided](std::string_view call) {
    if (call == "execute" && !std::exchange(collided, true)) throw RetryableError("deadlock");
  });
  try {
    deliver();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const UnavailableError&) {
    ADD_FAILURE() << "the database was there";
  } catch (const RetryableError&) {
  }
  faults_->clear();
  deliver();
  EXPECT_EQ(effects(), 1);
}

TEST_P(InboxListenerTest, AnUnknownOutcomeIsToldByTheRecord) {
  faults_->after([](std::string_view call) {
    if (call == "commit") throw OutcomeUnknownError("no answer");
  });
  EXPECT_THROW(deliver("e1"), OutcomeUnknownError);  // it happened
  faults_->clear();
  faults_->before([](std::string_view call) {
    if (call == "commit") throw OutcomeUnknownError("no answer");
  });
  EXPECT_THROW(deliver("e2"), OutcomeUnknownError);  // it did not
  faults_->clear();
  EXPECT_EQ(effects(), 1);
  deliver("e1");
  deliver("e2");
  EXPECT_EQ(effects(), 2);
}

TEST_P(InboxListenerTest, WhatTheEffectThrowsIsWhatTheEngineGets) {
  const auto failing = [&](auto error) {
    return inbox_->listener(*writer_, "billing", [error](Transaction& tx, const Event& event) {
      act(tx, event);
      throw error;
    });
  };
  const Event event = simple_event("e1");
  EXPECT_THROW(failing(std::logic_error("bug"))->on_event(event, {}), std::logic_error);
  EXPECT_THROW(failing(PermanentError("never"))->on_event(event, {}), PermanentError);
  EXPECT_THROW(failing(DatabaseError("taken", {}))->on_event(event, {}), DatabaseError);
  EXPECT_THROW(failing(UnavailableError("no broker"))->on_event(event, {}), UnavailableError);
  EXPECT_THROW(failing(RetryAfterError("soon", 5s))->on_event(event, {}), RetryAfterError);
  EXPECT_EQ(effects(), 0);
  deliver();
  EXPECT_EQ(effects(), 1);
}

TEST_P(InboxListenerTest, AnEffectThatEndsTheTransactionIsToldNotTo) {
  for (const bool commit : {true, false}) {
    const auto ending = inbox_->listener(*writer_, "billing", [&](Transaction& tx, const Event& e) {
      act(tx, e);
      commit ? tx.commit() : tx.rollback();
    });
    const Event event = simple_event(commit ? "committed" : "rolled back");
    EXPECT_TRUE(test::contains(test::message_of<MisuseError>([&] { ending->on_event(event, {}); }),
                               "the effect of consumer group \"billing\" ended its transaction"));
  }
  EXPECT_EQ(effects(), 1);
  deliver("committed");
  EXPECT_EQ(effects(), 1);
  deliver("rolled back");
  EXPECT_EQ(effects(), 2);
}

// The second would find the record of the first, and never have its effect.
TEST_P(InboxListenerTest, TwoHandlersOfAFanOutInOneGroupAreRefused) {
  Inbox second{faulty_};
  const auto handlers = [&](const std::string& group) {
    return std::vector<Handler>{
        handler("bill", listener_),
        handler("book", second.listener(*writer_, group, [](Transaction&, const Event&) {}))};
  };
  Listeners on;
  EXPECT_TRUE(test::contains(
      test::message_of<MisuseError>([&] { on.fan_out("Order", "Placed", handlers("billing")); }),
      "handlers \"bill\" and \"book\" of Order/Placed are both consumer group \"billing\""));
  on.fan_out("Order", "Placed", handlers("books"));
}

TEST_P(InboxListenerTest, UnderAnEngineTheEffectMayWriteEventsAndAReplayRepeatsNothing) {
  const auto followed = std::make_shared<testing::RecordingListener>();
  const testing::RecordingLog log;
  Inbox inbox{store()};
  Writer writer{store()};
  Listeners on;
  on.add("Order", "Placed", inbox.listener(writer, "billing", [](Transaction& tx, const Event& e) {
    act(tx, e);
    tx.write({.type = "Billed",
              .aggregate_type = "Bill",
              .aggregate_id = e.aggregate_id(),
              .payload = json("{}")});
  }));
  on.add("Bill", "Billed", followed);
  Outbox box{store(), on, {.poll_interval = 50ms, .log = log.log()}};
  box.start();
  std::string id;
  {
    auto tx = box.begin();
    id = tx.write(
        {.type = "Placed", .aggregate_type = "Order", .aggregate_id = "o1", .payload = json("{}")});
    tx.commit();
  }
  ASSERT_TRUE(followed->wait_for(1, 20s));
  ASSERT_TRUE(box.wait_idle(20s));
  ASSERT_TRUE(store()->admin().replay(id));
  ASSERT_TRUE(
      test::eventually([&] { return store()->admin().find(id)->row.status == Status::done; }));
  EXPECT_EQ(effects(), 1);
  EXPECT_EQ(followed->count(), 1u);
}

}  // namespace
}  // namespace outbox::patterns
