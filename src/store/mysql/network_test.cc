// Connections that are lost, by a proxy that loses them.
#include <thread>

#include "outbox/outbox.h"
#include "outbox/testing.h"
#include "store/mysql/test_support.h"
#include "support/tcp_proxy.h"

namespace outbox::mysql {
namespace {

class MysqlNetworkTest : public MysqlTest {
 protected:
  void SetUp() override {
    MysqlTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    proxy_ = std::make_unique<test::TcpProxy>("127.0.0.1", test::port_of(url()));
  }

  // Through the proxy, which has to read what it loses.
  std::shared_ptr<Store> open_far() { return open_at(proxy_->port()); }
  std::shared_ptr<Store> open_at(int port) {
    return open(test::with_port(url(), port) + "?ssl_mode=disabled", {.log = log_.log()});
  }

  // Once nobody writes any more.
  std::string rows() {
    sql().execute("SET lock_wait_timeout = 20; LOCK TABLES outbox_event WRITE; UNLOCK TABLES");
    return sql().value("SELECT count(*) FROM outbox_event");
  }

  testing::RecordingLog log_;
  std::unique_ptr<test::TcpProxy> proxy_;
};

TEST_F(MysqlNetworkTest, AConnectionThatWasLostWhileIdleIsReplacedUnnoticed) {
  const auto store = open_far();
  write_event(*store, simple_event("1"));
  proxy_->cut();
  EXPECT_NO_THROW(write_event(*store, simple_event("2")));
  // On loan, but nothing begun yet.
  const auto connection = store->connect();
  proxy_->cut();
  const Event event = simple_event("3");
  connection->begin();
  connection->insert({&event, 1}, {});
  connection->commit();
  EXPECT_EQ(rows(), "3");
}

// To set a time zone, a mode: the replacement needs them as the first one did.
TEST_F(MysqlNetworkTest, OnOpenAlsoSeesTheConnectionThatReplacesALostOne) {
  const auto store =
      open(test::with_port(url(), proxy_->port()) + "?ssl_mode=disabled",
           {.on_open = [](st_mysql* handle) { mysql_query(handle, "SET @mine = 1"); }});
  const auto connection = store->connect();
  for (int i = 0; i < 3; ++i) {
    proxy_->cut();
    connection->begin();
    EXPECT_EQ(connection->query("SELECT @mine", {}).at(0).at(0), Value{std::int64_t{1}});
    connection->rollback();
  }
}

TEST_F(MysqlNetworkTest, AConnectionThatTheServerEndedWhileIdleIsReplacedUnnoticed) {
  const auto store = open_far();
  const auto number = [&] {
    const auto connection = begun(*store);
    return std::to_string(
        std::get<std::int64_t>(connection->query("SELECT connection_id()", {}).at(0).at(0)));
  };
  const std::string ended = number();
  sql().execute("KILL CONNECTION " + ended);
  ASSERT_TRUE(eventually([&] {
    return sql().value("SELECT count(*) FROM information_schema.processlist WHERE id = " + ended) ==
           "0";
  }));
  EXPECT_NE(number(), ended);
}

TEST_F(MysqlNetworkTest, AConnectionThatTheServerClosedForItsIdlenessFailsNoTransaction) {
  const auto store = open(
      url(),
      {.on_open = [](st_mysql* handle) { mysql_query(handle, "SET SESSION wait_timeout = 1"); },
       .log = log_.log()});
  const auto number = [](Connection& on) {
    return std::to_string(
        std::get<std::int64_t>(on.query("SELECT connection_id()", {}).at(0).at(0)));
  };
  const auto wait_until_closed = [&](const std::string& id) {
    return eventually([&] {
      return sql().value("SELECT count(*) FROM information_schema.processlist WHERE id = " + id) ==
             "0";
    });
  };
  ASSERT_TRUE(wait_until_closed(number(*begun(*store))));
  EXPECT_NO_THROW(write_event(*store, simple_event("between two transactions")));
  const auto connection = store->connect();
  ASSERT_TRUE(wait_until_closed(number(*connection)));
  connection->begin();
  const Event event = simple_event("before the first statement");
  connection->insert({&event, 1}, {});
  EXPECT_NO_THROW(connection->commit());
}

TEST_F(MysqlNetworkTest, LostInTheMiddleOfATransactionNothingHappenedAndItSaysSo) {
  const auto store = open_far();
  const Event event = simple_event("e");
  {
    const auto connection = begun(*store);
    connection->insert({&event, 1}, {});
    proxy_->cut();
    EXPECT_THROW(connection->execute("SELECT 1", {}), RetryableError);
    EXPECT_THROW(connection->insert({&event, 1}, {}), RetryableError)
        << "a new connection must not pass for the old one";
    EXPECT_TRUE(contains(message_of<RetryableError>([&] { connection->commit(); }),
                         "nothing of the transaction happened"));
    EXPECT_FALSE(connection->in_transaction());
    connection->begin();
    connection->rollback();
  }
  const auto connection = begun(*store);
  connection->insert({&event, 1}, {});
  proxy_->cut();
  EXPECT_THROW(connection->commit(), RetryableError) << "known to be lost before COMMIT is sent";
  EXPECT_EQ(rows(), "0");
}

TEST_F(MysqlNetworkTest, LostInsideCommitTheOutcomeIsUnknownWhicheverWayItWent) {
  const auto store = open_far();
  write_event(*store, simple_event("before"));
  const auto commit = [&](const std::string& id) {
    const Event event = simple_event(id);
    const auto connection = begun(*store);
    connection->insert({&event, 1}, {});
    return message_of<OutcomeUnknownError>([&] { connection->commit(); });
  };
  proxy_->drop_request("COMMIT");
  EXPECT_TRUE(contains(commit("request"), "may have happened"));
  proxy_->drop_reply("COMMIT");
  EXPECT_TRUE(contains(commit("reply"), "may have happened"));
  EXPECT_EQ(proxy_->drops(), 2);
  EXPECT_EQ(rows(), "2");
  EXPECT_FALSE(store->find("request"));
  EXPECT_TRUE(store->find("reply"));
}

TEST_F(MysqlNetworkTest, AnOperatorsConnectionThatWasLostWhileIdleIsReplacedUnnoticed) {
  const auto store = open_far();
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(store->has_pending());
    EXPECT_EQ(store->count({}), 0);
    proxy_->cut();
  }
}

// Rule 10: in the mode that delivers from memory.
TEST_F(MysqlNetworkTest, AnUnknownOutcomeIsNeverDeliveredFromMemoryButIfTheRowExistsByPolling) {
  auto listener = std::make_shared<testing::RecordingListener>();
  Listeners listeners;
  listeners.add(kGlobalAggregate, "Happened", listener);
  outbox::Options options{.mode = Mode::multi_node, .ordering = Ordering::none, .log = log_.log()};
  options.poll_interval = 100ms;
  // The engine's own transactions take another way: the COMMIT that is lost is the user's.
  Outbox box(open_at(test::port_of(url())), listeners, std::move(options));
  box.start();
  Writer far{open_far()};
  const auto write = [](Writer& writer, const std::string& id) {
    auto tx = writer.begin();
    tx.write({.type = "Happened", .payload = json("{}"), .id = id});
    tx.commit();
  };
  proxy_->drop_request("COMMIT");
  EXPECT_THROW(write(far, "request"), OutcomeUnknownError);
  proxy_->drop_reply("COMMIT");
  EXPECT_THROW(write(far, "reply"), OutcomeUnknownError);
  EXPECT_EQ(proxy_->drops(), 2);
  EXPECT_TRUE(listener->wait_for(1));
  write(box.writer(), "last");
  EXPECT_TRUE(listener->wait_for(2));
  EXPECT_TRUE(box.wait_idle(20s));
  EXPECT_EQ(listener->ids(), (std::vector<std::string>{"reply", "last"}));
}

// The store connects to `counts`, which accepts also when nobody is behind it.
TEST_F(MysqlNetworkTest, AServerThatIsAwayIsNotHammeredByAllThatMissIt) {
  const test::TcpProxy counts("127.0.0.1", proxy_->port());
  const auto store = open_at(counts.port());
  const auto instance = store->join({.lease = 2s});
  instance->renew();
  begun(*store);

  proxy_->refuse();
  proxy_->cut();
  const int before = counts.accepted();
  int calls = 0;
  const auto began = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() < began + 1s || calls <= 20) {
    EXPECT_THROW(instance->renew(), RetryableError);
    EXPECT_THROW(instance->ready(std::vector{0}, 0, 1), RetryableError);
    EXPECT_THROW(begun(*store), RetryableError);
    EXPECT_THROW(store->has_pending(), RetryableError);
    ++calls;
    std::this_thread::sleep_for(2ms);
  }
  // Pauses of 50, 100, 200, 400, 400 ms, each up to a quarter longer.
  const auto longer = std::chrono::steady_clock::now() - began - 1s;
  EXPECT_GE(counts.accepted() - before, 3);
  EXPECT_LE(counts.accepted() - before, 6 + longer / 400ms);
  EXPECT_TRUE(eventually([&] {
    return contains(message_of<RetryableError>([&] { begun(*store); }),
                    "the next attempt is made in");
  }));

  proxy_->admit();
  EXPECT_TRUE(works_again([&] { EXPECT_NE(instance->renew().epoch, 0); }));
  EXPECT_NO_THROW(instance->ready(std::vector{0}, 0, 1));
  EXPECT_NO_THROW(begun(*store));
  EXPECT_NO_THROW(store->has_pending());
}

// Those that were idle are replaced; those that wait for an answer are told at once, and
// not when the call's limit of ten seconds is over.
TEST_F(MysqlNetworkTest, AConnectionLostWhileItWaitsForAnAnswerIsNoticedAtOnce) {
  const auto store = open_far();
  const auto instance = store->join({.lease = 30s});
  const Lease lease = instance->renew();
  write_event(*store, simple_event("e"));
  const Rows rows = instance->ready(lease.shards, 0, 10);
  ASSERT_EQ(rows.rows.size(), 1U);
  const StatusUpdate done{.row = rows.rows.front().ref, .event_id = "e"};
  const auto expect_to_fail_at_once = [&](const std::string& statement, const auto& call) {
    proxy_->drop_reply(statement);
    const auto start = std::chrono::steady_clock::now();
    EXPECT_THROW(call(), RetryableError) << statement;
    EXPECT_LT(std::chrono::steady_clock::now() - start, 5s) << statement;
  };
  expect_to_fail_at_once("SELECT shard, seq", [&] { instance->ready(lease.shards, 0, 10); });
  expect_to_fail_at_once("SET status = 1", [&] { instance->apply(lease.epoch, {&done, 1}); });
  EXPECT_EQ(proxy_->drops(), 2);
  EXPECT_EQ(instance->renew().epoch, lease.epoch) << "the lease lives on";
}

TEST_F(MysqlNetworkTest, AStalledServerFailsTheRenewalWithinTheLease) {
  const auto store = open_far();
  const auto instance = store->join({.lease = 6s});
  instance->renew();
  proxy_->stall();
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THROW(instance->renew(), RetryableError);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 6s);
  proxy_->resume();
  EXPECT_TRUE(works_again([&] { EXPECT_NE(instance->renew().epoch, 0); }));
}

}  // namespace
}  // namespace outbox::mysql
