// A server that says nothing any more, by a proxy that passes nothing on: transactions end all
// the same.
#include "store/mysql/test_support.h"
#include "support/tcp_proxy.h"

namespace outbox::mysql {
namespace {

using std::chrono::steady_clock;

class MysqlFrozenTest : public MysqlTest {
 protected:
  void SetUp() override {
    MysqlTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    proxy_ = std::make_unique<test::TcpProxy>("127.0.0.1", test::port_of(url()));
  }

  std::shared_ptr<Store> open_far(std::chrono::milliseconds limit = 2s,
                                  const std::string& settings = "") {
    return open_store_at(test::with_port(url(), proxy_->port()) + "?ssl_mode=disabled" + settings,
                         {.statement_timeout = limit});
  }

  std::unique_ptr<test::TcpProxy> proxy_;
};

// Long before the server's limits or TCP's would end it.
template <class Work>
void expect_to_end_soon(Work work) {
  const auto start = steady_clock::now();
  work();
  EXPECT_LT(steady_clock::now() - start, 10s);
}

TEST_F(MysqlFrozenTest, ThereIsALimitUnlessSomebodySwitchesItOff) {
  EXPECT_EQ(Options{}.statement_timeout, 30s);
  const auto wait = [&](Store& store) {
    return store.connect()
        ->query("SELECT @@innodb_lock_wait_timeout", {})
        .at(0)
        .get<std::int64_t>(0);
  };
  const std::int64_t usual = std::stoll(sql().value("SELECT @@global.innodb_lock_wait_timeout"));
  EXPECT_EQ(wait(*open_far(0s)), usual);
  const int early = contains(sql().value("SELECT VERSION()"), "MariaDB") ? 1 : 2;
  EXPECT_EQ(wait(*open_far(8s)), 8 - early) << "who waits for a lock is told so in time";
  EXPECT_EQ(wait(*open_far(usual * 2s)), usual) << "which is not raised";
  EXPECT_EQ(wait(*open_far(0s, "&read_timeout=5")), 5 - early);
}

TEST_F(MysqlFrozenTest, AStatementIsGivenUpAndItsTransactionIsToBeStartedOver) {
  const auto store = open_far();
  const Event event = simple_event("e");
  const auto connection = begun(*store);
  connection->insert({&event, 1}, {});
  proxy_->stall();
  expect_to_end_soon([&] {
    EXPECT_THROW(connection->execute("DO 1", {}), RetryableError);
    EXPECT_TRUE(contains(message_of<RetryableError>([&] { connection->commit(); }),
                         "nothing of the transaction happened"));
  });
  proxy_->resume();
  write_event(*store, simple_event("after"));
  EXPECT_FALSE(store->find("e"));
}

TEST_F(MysqlFrozenTest, TheUrlsReadTimeoutWins) {
  const auto store = open_far(60s, "&read_timeout=1");
  const auto connection = begun(*store);
  proxy_->stall();
  expect_to_end_soon([&] { EXPECT_THROW(connection->execute("DO 1", {}), RetryableError); });
}

// It may be sent again on a new connection: only if the old one was lost.
TEST_F(MysqlFrozenTest, TheBeginOfATransactionIsGivenUpOnce) {
  const auto store = open_far();
  const auto connection = store->connect();
  proxy_->stall();
  const int before = proxy_->accepted();
  expect_to_end_soon([&] { EXPECT_THROW(connection->begin(), RetryableError); });
  proxy_->resume();
  EXPECT_EQ(proxy_->accepted(), before) << "it was not tried on another connection";
}

TEST_F(MysqlFrozenTest, TheOutcomeOfACommitThatIsGivenUpIsUnknown) {
  const auto store = open_far();
  const Event event = simple_event("e");
  const auto connection = begun(*store);
  connection->insert({&event, 1}, {});
  proxy_->stall();
  expect_to_end_soon([&] {
    EXPECT_TRUE(contains(message_of<OutcomeUnknownError>([&] { connection->commit(); }),
                         "may have happened"));
  });
  proxy_->resume();
  EXPECT_TRUE(eventually([&] { return store->find("e").has_value(); })) << "and so it did";
}

TEST_F(MysqlFrozenTest, ARollbackEndsAlsoIfNobodyAnswers) {
  const auto store = open_far();
  auto asked = begun(*store);
  auto forgotten = begun(*store);
  proxy_->stall();
  expect_to_end_soon([&] {
    EXPECT_NO_THROW(asked->rollback());
    forgotten.reset();
  });
}

// More than the buffers on the way take: sending would wait as well.
TEST_F(MysqlFrozenTest, WhatIsTooLargeToBeSentIsGivenUpToo) {
  const auto store = open_far();
  std::vector<Event> events;
  for (int i = 0; i < 64; ++i) {
    events.push_back(simple_event(std::to_string(i), "\"" + std::string(1'000'000, 'x') + "\""));
  }
  const auto connection = begun(*store);
  proxy_->stall();
  expect_to_end_soon([&] { EXPECT_THROW(connection->insert(events, {}), RetryableError); });
  expect_to_end_soon([&] { EXPECT_NO_THROW(connection->rollback()); });
  proxy_->resume();
  EXPECT_NO_THROW(write_event(*store, simple_event("after")));
}

TEST_F(MysqlFrozenTest, OperatorsAreGivenUpToo) {
  const auto store = open_far();
  EXPECT_FALSE(store->has_pending());
  proxy_->stall();
  expect_to_end_soon([&] { EXPECT_THROW(store->has_pending(), RetryableError); });
}

TEST_F(MysqlFrozenTest, TransactionsAreTakenAgainWithinHalfASecondOfTheServersReturn) {
  const auto store = open_far();
  begun(*store);
  proxy_->refuse();
  proxy_->cut();
  const auto back = steady_clock::now() + 3s;
  while (steady_clock::now() < back) {
    EXPECT_THROW(begun(*store), RetryableError);
    std::this_thread::sleep_for(5ms);
  }
  proxy_->admit();
  const auto admitted = steady_clock::now();
  EXPECT_TRUE(works_again([&] { write_event(*store, simple_event("back")); }));
  // Half a second, and what a busy machine takes for the transaction itself.
  EXPECT_LT(steady_clock::now() - admitted, 1s);
}

}  // namespace
}  // namespace outbox::mysql
