// Connections that are lost, by a proxy that loses them, and servers that say nothing any more.
#include "network.h"

#include <optional>
#include <thread>

#include "outbox/outbox.h"
#include "support/stores.h"

namespace outbox::conformance {
namespace {

using std::chrono::steady_clock;
using test::begun;
using test::contains;
using test::eventually;
using test::message_of;
using test::simple_event;
using test::works_again;
using test::write_event;

TEST_P(NetworkTest, AConnectionThatWasLostWhileIdleIsReplacedUnnoticed) {
  const auto store = open_far();
  write_event(*store, simple_event("1"));
  proxy().cut();
  EXPECT_NO_THROW(write_event(*store, simple_event("2")));
  // On loan, but nothing begun yet.
  const auto connection = store->connect();
  proxy().cut();
  const Event event = simple_event("3");
  connection->begin();
  connection->insert({&event, 1}, {});
  connection->commit();
  EXPECT_EQ(remote().rows(), 3);
}

// To set a time zone, a search path: the replacement needs them as the first one did.
TEST_P(NetworkTest, OnOpenAlsoSeesTheConnectionThatReplacesALostOne) {
  const auto store = open_far({.tagged = true});
  const auto connection = store->connect();
  for (int i = 0; i < 3; ++i) {
    proxy().cut();
    connection->begin();
    EXPECT_TRUE(remote().is_tagged(*connection));
    connection->rollback();
  }
}

TEST_P(NetworkTest, AConnectionThatTheServerEndedWhileIdleIsReplacedUnnoticed) {
  const auto store = open_far();
  const auto session = [&] { return remote().session_of(*begun(*store)); };
  const std::string ended = session();
  remote().end_session(ended);
  EXPECT_NE(session(), ended);
  // On loan, but nothing begun yet.
  const auto connection = store->connect();
  remote().end_session(remote().session_of(*connection));
  const Event event = simple_event("e");
  connection->begin();
  connection->insert({&event, 1}, {});
  connection->commit();
  EXPECT_EQ(remote().rows(), 1);
}

TEST_P(NetworkTest, LostInTheMiddleOfATransactionNothingHappenedAndItSaysSo) {
  const auto store = open_far();
  const Event event = simple_event("e");
  {
    const auto connection = begun(*store);
    connection->insert({&event, 1}, {});
    proxy().cut();
    EXPECT_THROW(connection->execute("SELECT 1", {}), RetryableError);
    EXPECT_THROW(connection->insert({&event, 1}, {}), RetryableError)
        << "a new connection must not pass for the old one";
    EXPECT_TRUE(contains(message_of<RetryableError>([&] { connection->commit(); }),
                         "nothing of the transaction happened"));
    EXPECT_FALSE(connection->in_transaction());
    connection->begin();
    EXPECT_EQ(connection->query("SELECT 1", {}).size(), 1u);
    connection->rollback();
  }
  const auto connection = begun(*store);
  connection->insert({&event, 1}, {});
  proxy().cut();
  EXPECT_THROW(connection->commit(), RetryableError) << "known to be lost before COMMIT is sent";
  EXPECT_EQ(remote().rows(), 0);
}

// Also when the events go with the COMMIT, and on a connection that has committed before.
TEST_P(NetworkCommitTest, LostInsideCommitTheOutcomeIsUnknownWhicheverWayItWent) {
  const auto store = open_far();
  write_event(*store, simple_event("before"));
  const auto commit = [&](const std::string& id) {
    const Event event = simple_event(id);
    const auto connection = begun(*store);
    connection->insert({&event, 1}, {});
    std::string message = message_of<OutcomeUnknownError>([&] { connection->commit(); });
    EXPECT_FALSE(connection->in_transaction());
    return message;
  };
  proxy().drop_request("COMMIT");
  EXPECT_TRUE(contains(commit("request"), "may have happened"));
  proxy().drop_reply("COMMIT", remote().reply_to_commit());
  EXPECT_TRUE(contains(commit("reply"), "may have happened"));
  EXPECT_EQ(proxy().drops(), 2);
  EXPECT_EQ(remote().rows(), 2);
  EXPECT_FALSE(store->admin().find("request"));
  EXPECT_TRUE(store->admin().find("reply"));
}

TEST_P(NetworkTest, AnOperatorsConnectionThatWasLostWhileIdleIsReplacedUnnoticed) {
  const auto store = open_far();
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(store->has_pending());
    EXPECT_EQ(store->admin().count({}), 0);
    if (i == 0 || !remote().end_all_sessions()) {
      proxy().cut();
    } else {
      // A call is served after what had arrived before it: the farewell is with the client then.
      for (int pass = 0; pass < 2; ++pass) static_cast<void>(proxy().connections());
    }
  }
}

// Rule 10: in the mode that delivers from memory.
TEST_P(NetworkTest, AnUnknownOutcomeIsNeverDeliveredFromMemoryButIfTheRowExistsByPolling) {
  auto listener = std::make_shared<testing::RecordingListener>();
  Listeners listeners;
  listeners.add(kGlobalAggregate, "Happened", listener);
  Options options{.mode = Mode::multi_node, .ordering = Ordering::none, .log = log_.log()};
  options.poll_interval = 100ms;
  // The COMMIT that is lost must be the user's: where the engine commits as well, it takes another
  // way.
  const bool apart = remote().engine_commits();
  Outbox box(apart ? open_at(remote().url_at(remote().port())) : open_far(), listeners,
             std::move(options));
  box.start();
  std::optional<Writer> far;
  if (apart) far.emplace(open_far());
  const auto write = [](Writer& writer, const std::string& id) {
    auto tx = writer.begin();
    tx.write({.type = "Happened", .payload = json("{}"), .id = id});
    tx.commit();
  };
  Writer& lossy = far ? *far : box.writer();
  proxy().drop_request("COMMIT");
  EXPECT_THROW(write(lossy, "request"), OutcomeUnknownError);
  proxy().drop_reply("COMMIT");
  EXPECT_THROW(write(lossy, "reply"), OutcomeUnknownError);
  EXPECT_EQ(proxy().drops(), 2);
  EXPECT_TRUE(listener->wait_for(1));
  write(box.writer(), "last");
  EXPECT_TRUE(listener->wait_for(2));
  EXPECT_TRUE(box.wait_idle(20s));
  EXPECT_EQ(listener->ids(), (std::vector<std::string>{"reply", "last"}));
}

// The store connects to `counts`, which accepts also when nobody is behind it.
TEST_P(NetworkTest, AServerThatIsUnreachableIsNotHammeredByAllThatMissIt) {
  const test::TcpProxy counts("127.0.0.1", proxy().port());
  const auto store = open_at(remote().url_at(counts.port()));
  const auto instance = store->join({.lease = 2s});
  instance->renew();
  begun(*store);

  proxy().refuse();
  proxy().cut();
  const int before = counts.accepted();
  int calls = 0;
  const auto began = steady_clock::now();
  while (steady_clock::now() < began + 1s || calls <= 20) {
    EXPECT_THROW(instance->renew(), RetryableError);
    EXPECT_THROW(instance->ready(std::vector{0}, 0, 1), RetryableError);
    EXPECT_THROW(begun(*store), RetryableError);
    EXPECT_THROW(store->has_pending(), RetryableError);
    ++calls;
    std::this_thread::sleep_for(2ms);
  }
  // Pauses of 50, 100, 200, 400, 400 ms, each up to a quarter longer.
  const auto longer = steady_clock::now() - began - 1s;
  EXPECT_GE(counts.accepted() - before, 3);
  EXPECT_LE(counts.accepted() - before, 6 + longer / 400ms);
  EXPECT_TRUE(eventually([&] {
    return contains(message_of<RetryableError>([&] { begun(*store); }),
                    "the next attempt is made in");
  }));

  proxy().admit();
  EXPECT_TRUE(eventually([&] {
    try {
      return instance->renew().epoch != 0;
    } catch (const RetryableError&) {
      return false;
    }
  }));
  EXPECT_NO_THROW(instance->ready(std::vector{0}, 0, 1));
  EXPECT_NO_THROW(begun(*store));
  EXPECT_NO_THROW(store->has_pending());
}

TEST_P(NetworkTest, AStalledServerFailsTheRenewalWithinTheLease) {
  const auto store = open_far();
  const auto instance = store->join({.lease = remote().short_lease()});
  instance->renew();
  proxy().stall();
  const auto start = steady_clock::now();
  EXPECT_TRUE(contains(message_of<RetryableError>([&] { instance->renew(); }),
                       remote().given_up().empty() ? "" : "no answer within"));
  EXPECT_LT(steady_clock::now() - start, remote().short_lease());
  proxy().resume();
  EXPECT_TRUE(works_again([&] { EXPECT_NE(instance->renew().epoch, 0); }));
}

// Long before the server's limits or TCP's would end it.
template <class Work>
void expect_to_end_soon(Work work) {
  const auto start = steady_clock::now();
  work();
  EXPECT_LT(steady_clock::now() - start, 8s);
}

TEST_P(FrozenTest, AStatementIsGivenUpAndItsTransactionIsToBeStartedOver) {
  const auto store = open_impatient();
  const Event event = simple_event("e");
  const auto connection = begun(*store);
  connection->insert({&event, 1}, {});
  proxy().stall();
  expect_to_end_soon([&] {
    EXPECT_TRUE(contains(message_of<RetryableError>([&] { connection->execute("SELECT 1", {}); }),
                         remote().given_up()));
    EXPECT_TRUE(contains(message_of<RetryableError>([&] { connection->commit(); }),
                         "nothing of the transaction happened"));
  });
  proxy().resume();
  write_event(*store, simple_event("after"));
  EXPECT_FALSE(store->admin().find("e"));
}

// What begins the transaction may be sent again on a new connection: only if the old one was lost.
TEST_P(FrozenTest, TheBeginOfATransactionIsGivenUpOnce) {
  const auto store = open_impatient();
  const auto connection = store->connect();
  proxy().stall();
  const int before = proxy().accepted();
  expect_to_end_soon([&] {
    EXPECT_THROW(
        {
          connection->begin();
          connection->execute("SELECT 1", {});
        },
        RetryableError);
  });
  proxy().resume();
  EXPECT_EQ(proxy().accepted(), before) << "it was not tried on another connection";
}

TEST_P(FrozenCommitTest, TheOutcomeOfACommitThatIsGivenUpIsUnknown) {
  const auto store = open_impatient();
  write_event(*store, simple_event("before"));  // from then on its statements are prepared
  const Event event = simple_event("e");
  const auto connection = begun(*store);
  connection->insert({&event, 1}, {});
  proxy().stall();
  expect_to_end_soon([&] {
    const std::string message = message_of<OutcomeUnknownError>([&] { connection->commit(); });
    EXPECT_TRUE(contains(message, "may have happened"));
    EXPECT_TRUE(contains(message, remote().given_up()));
  });
  proxy().resume();
  EXPECT_TRUE(eventually([&] { return store->admin().find("e").has_value(); })) << "and so it did";
}

TEST_P(FrozenTest, ARollbackEndsAlsoIfNobodyAnswers) {
  const auto store = open_impatient();
  auto asked = begun(*store);
  asked->execute("SELECT 1", {});
  auto forgotten = begun(*store);
  forgotten->execute("SELECT 1", {});
  proxy().stall();
  expect_to_end_soon([&] {
    EXPECT_NO_THROW(asked->rollback());
    forgotten.reset();
  });
}

// More than the buffers on the way take: sending would wait as well.
TEST_P(FrozenTest, WhatIsTooLargeToBeSentIsGivenUpToo) {
  const auto store = open_impatient();
  std::vector<Event> events;
  for (int i = 0; i < 64; ++i) {
    events.push_back(simple_event(std::to_string(i), "\"" + std::string(1'000'000, 'x') + "\""));
  }
  const auto connection = begun(*store);
  connection->execute("SELECT 1", {});
  proxy().stall();
  expect_to_end_soon([&] { EXPECT_THROW(connection->insert(events, {}), RetryableError); });
  expect_to_end_soon([&] { EXPECT_NO_THROW(connection->rollback()); });
  proxy().resume();
  EXPECT_NO_THROW(write_event(*store, simple_event("after")));
}

TEST_P(FrozenTest, OperatorsAreGivenUpToo) {
  const auto store = open_impatient();
  EXPECT_FALSE(store->has_pending());
  proxy().stall();
  expect_to_end_soon([&] { EXPECT_THROW(store->has_pending(), RetryableError); });
}

TEST_P(FrozenTest, TransactionsAreTakenAgainWithinHalfASecondOfTheServersReturn) {
  const auto store = open_impatient();
  begun(*store)->execute("SELECT 1", {});
  proxy().refuse();
  proxy().cut();
  const auto back = steady_clock::now() + 3s;
  while (steady_clock::now() < back) {
    EXPECT_THROW(begun(*store), RetryableError);
    std::this_thread::sleep_for(5ms);
  }
  proxy().admit();
  const auto admitted = steady_clock::now();
  EXPECT_TRUE(works_again([&] { write_event(*store, simple_event("back")); }));
  // Half a second, and what a busy machine takes for the transaction itself.
  EXPECT_LT(steady_clock::now() - admitted, 1s);
}

}  // namespace

// Where no store with a server is built.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(NetworkTest);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(NetworkCommitTest);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FrozenTest);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FrozenCommitTest);

}  // namespace outbox::conformance
