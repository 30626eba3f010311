// A server that says nothing any more, by a proxy that passes nothing on: transactions end all
// the same.
#include <libpq-fe.h>

#include "store/postgres/test_support.h"
#include "support/tcp_proxy.h"

namespace outbox::postgres {
namespace {

using std::chrono::steady_clock;

class PostgresFrozenTest : public PostgresTest {
 protected:
  void SetUp() override {
    PostgresTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    proxy_ = std::make_unique<test::TcpProxy>("127.0.0.1", test::port_of(test::postgres_url()));
  }

  std::shared_ptr<Store> open_far(Options options = {}) {
    options.notify = false;
    if (options.statement_timeout == Options{}.statement_timeout) options.statement_timeout = 2s;
    return open_store_at(test::with_port(test::postgres_url(), proxy_->port()), std::move(options));
  }

  std::unique_ptr<test::TcpProxy> proxy_;
};

// Long before the server's limits or TCP's would end it.
template <class Work>
void expect_to_end_soon(Work work) {
  const auto start = steady_clock::now();
  work();
  EXPECT_LT(steady_clock::now() - start, 8s);
}

TEST_F(PostgresFrozenTest, ThereIsALimitUnlessSomebodySwitchesItOff) {
  EXPECT_EQ(Options{}.statement_timeout, 30s);
  const auto store = open_far({.statement_timeout = 0ms});
  const auto connection = begun(*store);
  EXPECT_NO_THROW(connection->query("SELECT pg_sleep(0.1)", {}));
}

TEST_F(PostgresFrozenTest, AStatementIsGivenUpAndItsTransactionIsToBeStartedOver) {
  const auto store = open_far();
  const Event event = simple_event("e");
  const auto connection = begun(*store);
  connection->insert({&event, 1}, {});
  proxy_->stall();
  expect_to_end_soon([&] {
    EXPECT_TRUE(contains(message_of<RetryableError>([&] { connection->execute("SELECT 1", {}); }),
                         "no answer within 2000 ms"));
    EXPECT_TRUE(contains(message_of<RetryableError>([&] { connection->commit(); }),
                         "nothing of the transaction happened"));
  });
  proxy_->resume();
  write_event(*store, simple_event("after"));
  EXPECT_FALSE(store->find("e"));
}

// The first statement begins the transaction, and may be sent again on a new connection:
// only if the old one was lost.
TEST_F(PostgresFrozenTest, TheFirstStatementOfATransactionIsGivenUpOnce) {
  const auto store = open_far();
  const auto connection = begun(*store);
  proxy_->stall();
  const int before = proxy_->accepted();
  expect_to_end_soon([&] { EXPECT_THROW(connection->execute("SELECT 1", {}), RetryableError); });
  proxy_->resume();
  EXPECT_EQ(proxy_->accepted(), before) << "it was not tried on another connection";
}

class PostgresFrozenCommitTest : public PostgresFrozenTest,
                                 public ::testing::WithParamInterface<bool> {};

TEST_P(PostgresFrozenCommitTest, TheOutcomeOfACommitThatIsGivenUpIsUnknown) {
  const auto store = open_far({.insert_at_commit = GetParam()});
  write_event(*store, simple_event("before"));  // from then on its statements are prepared
  const Event event = simple_event("e");
  const auto connection = begun(*store);
  connection->insert({&event, 1}, {});
  proxy_->stall();
  expect_to_end_soon([&] {
    const std::string message = message_of<OutcomeUnknownError>([&] { connection->commit(); });
    EXPECT_TRUE(contains(message, "may have happened"));
    EXPECT_TRUE(contains(message, "no answer within 2000 ms"));
  });
  proxy_->resume();
  EXPECT_TRUE(eventually([&] { return store->find("e").has_value(); })) << "and so it did";
}

INSTANTIATE_TEST_SUITE_P(Each, PostgresFrozenCommitTest, ::testing::Bool());

TEST_F(PostgresFrozenTest, ARollbackEndsAlsoIfNobodyAnswers) {
  const auto store = open_far();
  auto asked = begun(*store);
  asked->execute("SELECT 1", {});
  auto forgotten = begun(*store);
  forgotten->execute("SELECT 1", {});
  proxy_->stall();
  expect_to_end_soon([&] {
    EXPECT_NO_THROW(asked->rollback());
    forgotten.reset();
  });
}

// More than the buffers on the way take: sending would wait as well.
TEST_F(PostgresFrozenTest, WhatIsTooLargeToBeSentIsGivenUpToo) {
  const auto store = open_far();
  std::vector<Event> events;
  for (int i = 0; i < 64; ++i) {
    events.push_back(simple_event(std::to_string(i), "\"" + std::string(1'000'000, 'x') + "\""));
  }
  const auto connection = begun(*store);
  connection->execute("SELECT 1", {});
  proxy_->stall();
  expect_to_end_soon([&] { EXPECT_THROW(connection->insert(events, {}), RetryableError); });
  expect_to_end_soon([&] { EXPECT_NO_THROW(connection->rollback()); });
  proxy_->resume();
  EXPECT_NO_THROW(write_event(*store, simple_event("after")));
}

TEST_F(PostgresFrozenTest, OperatorsAreGivenUpToo) {
  const auto store = open_far();
  EXPECT_FALSE(store->has_pending());
  proxy_->stall();
  expect_to_end_soon([&] { EXPECT_THROW(store->has_pending(), RetryableError); });
}

TEST_F(PostgresFrozenTest, WhoeverUsesTheHandleFindsItBlockingAsAlways) {
  const auto store = open_far();
  const auto connection = begun(*store);
  connection->execute("SELECT 1", {});
  EXPECT_EQ(PQisnonblocking(handle(*connection)), 0);
  connection->savepoint("one");
  EXPECT_EQ(PQisnonblocking(handle(*connection)), 0);
}

TEST_F(PostgresFrozenTest, TransactionsAreTakenAgainWithinHalfASecondOfTheServersReturn) {
  const auto store = open_far();
  begun(*store)->execute("SELECT 1", {});
  proxy_->refuse();
  proxy_->cut();
  const auto back = steady_clock::now() + 3s;
  while (steady_clock::now() < back) {
    EXPECT_THROW(begun(*store), RetryableError);
    std::this_thread::sleep_for(5ms);
  }
  proxy_->admit();
  const auto admitted = steady_clock::now();
  EXPECT_TRUE(eventually([&] {
    try {
      write_event(*store, simple_event("back"));
      return true;
    } catch (const RetryableError&) {
      return false;
    }
  }));
  // Half a second, and what a busy machine takes for the transaction itself.
  EXPECT_LT(steady_clock::now() - admitted, 1s);
}

}  // namespace
}  // namespace outbox::postgres
