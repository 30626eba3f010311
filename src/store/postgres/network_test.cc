// Connections that are lost, by a proxy that loses them.
#include <libpq-fe.h>

#include "outbox/outbox.h"
#include "store/postgres/test_support.h"
#include "support/tcp_proxy.h"

namespace outbox::postgres {
namespace {

class PostgresNetworkTest : public PostgresTest {
 protected:
  void SetUp() override {
    PostgresTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    proxy_ = std::make_unique<test::TcpProxy>("127.0.0.1", test::port_of(test::postgres_url()));
  }

  // Through the proxy. What is not asked for does not connect in the background.
  std::shared_ptr<Store> open_far(Options options = {.notify = false}) {
    return open_store_at(test::with_port(test::postgres_url(), proxy_->port()), std::move(options));
  }

  // Once nobody writes any more.
  std::string rows() {
    sql().execute("BEGIN; SET LOCAL lock_timeout = '20s'; LOCK TABLE " + table() + "; COMMIT");
    return sql().value("SELECT count(*) FROM " + table());
  }

  std::unique_ptr<test::TcpProxy> proxy_;
};

TEST_F(PostgresNetworkTest, AConnectionThatWasLostWhileIdleIsReplacedUnnoticed) {
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

// To set a role, a search path: the replacement needs them as the first one did.
TEST_F(PostgresNetworkTest, OnOpenAlsoSeesTheConnectionThatReplacesALostOne) {
  const auto store = open_far({.notify = false, .on_open = [](pg_conn* handle) {
                                 PQclear(PQexec(handle, "SET application_name = 'mine'"));
                               }});
  const auto connection = store->connect();
  for (int i = 0; i < 3; ++i) {
    proxy_->cut();
    connection->begin();
    EXPECT_EQ(connection->query("SHOW application_name", {}).at(0).at(0), Value{"mine"});
    connection->rollback();
  }
}

TEST_F(PostgresNetworkTest, AConnectionLostWhileIdleIsReplacedAlsoIfAllIsSentWithTheCommit) {
  const auto store = open_far({.insert_at_commit = true, .notify = false});
  write_event(*store, simple_event("before"));
  const Event event = simple_event("e");
  const auto connection = begun(*store);
  connection->insert({&event, 1}, {});
  proxy_->cut();
  EXPECT_NO_THROW(connection->commit());
  EXPECT_TRUE(store->find("e"));
}

TEST_F(PostgresNetworkTest, AServerProcessThatWasEndedWhileIdleIsReplacedUnnoticed) {
  const auto store = open_far();
  const auto backend = [&] {
    const auto connection = begun(*store);
    return std::to_string(
        std::get<std::int64_t>(connection->query("SELECT pg_backend_pid()", {}).at(0).at(0)));
  };
  const std::string ended = backend();
  sql().execute("SELECT pg_terminate_backend(" + ended + ", 10000)");
  EXPECT_NE(backend(), ended);
}

TEST_F(PostgresNetworkTest, LostInTheMiddleOfATransactionNothingHappenedAndItSaysSo) {
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

class PostgresCommitNetworkTest : public PostgresNetworkTest,
                                  public ::testing::WithParamInterface<bool> {};

// Also when the events go with the COMMIT, and on a connection that has committed before.
TEST_P(PostgresCommitNetworkTest, LostInsideCommitTheOutcomeIsUnknownWhicheverWayItWent) {
  const auto store = open_far({.insert_at_commit = GetParam(), .notify = false});
  write_event(*store, simple_event("before"));
  const auto commit = [&](const std::string& id) {
    const Event event = simple_event(id);
    const auto connection = begun(*store);
    connection->insert({&event, 1}, {});
    return message_of<OutcomeUnknownError>([&] { connection->commit(); });
  };
  proxy_->drop_request("COMMIT");
  EXPECT_TRUE(contains(commit("request"), "may have happened"));
  proxy_->drop_reply("COMMIT", "COMMIT");
  EXPECT_TRUE(contains(commit("reply"), "may have happened"));
  EXPECT_EQ(proxy_->drops(), 2);
  EXPECT_EQ(rows(), "2");
  EXPECT_FALSE(store->find("request"));
  EXPECT_TRUE(store->find("reply"));
}

INSTANTIATE_TEST_SUITE_P(Each, PostgresCommitNetworkTest, ::testing::Bool());

TEST_F(PostgresNetworkTest, OthersAreToldOfACommitAtOnceThoughTheConnectionForItWasLost) {
  const auto near = open_store();
  testing::Signal seen;
  const auto watched = near->watch([&] { seen.raise(); });
  ASSERT_TRUE(seen.wait());
  const auto far = open_far({});
  for (int i = 0; i < 3; ++i) {
    const std::size_t before = seen.count();
    write_event(*far, simple_event(std::to_string(i)));
    EXPECT_TRUE(seen.wait(before + 1, 2s)) << i;
    proxy_->cut();
  }
}

TEST_F(PostgresNetworkTest, AnOperatorsConnectionThatWasLostWhileIdleIsReplacedUnnoticed) {
  const auto store = open_far();
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(store->has_pending());
    EXPECT_EQ(store->count({}), 0);
    if (i == 0) proxy_->cut();
    if (i == 1) {
      sql().execute(
          "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE query LIKE '%" +
          schema() + "%' AND pid <> pg_backend_pid()");
      // A call is served after what had arrived before it: the farewell is with the client then.
      for (int pass = 0; pass < 2; ++pass) static_cast<void>(proxy_->connections());
    }
  }
}

// Rule 10: in the mode that delivers from memory.
TEST_F(PostgresNetworkTest, AnUnknownOutcomeIsNeverDeliveredFromMemoryButIfTheRowExistsByPolling) {
  auto listener = std::make_shared<testing::RecordingListener>();
  Listeners listeners;
  listeners.add(kGlobalAggregate, "Happened", listener);
  outbox::Options options{.mode = Mode::multi_node, .ordering = Ordering::none, .log = log_.log()};
  options.poll_interval = 100ms;
  Outbox box(open_far(), listeners, std::move(options));
  box.start();
  const auto write = [&](const std::string& id) {
    auto tx = box.begin();
    tx.write({.type = "Happened", .payload = json("{}"), .id = id});
    tx.commit();
  };
  proxy_->drop_request("COMMIT");
  EXPECT_THROW(write("request"), OutcomeUnknownError);
  proxy_->drop_reply("COMMIT");
  EXPECT_THROW(write("reply"), OutcomeUnknownError);
  EXPECT_EQ(proxy_->drops(), 2);
  EXPECT_TRUE(listener->wait_for(1));
  write("last");
  EXPECT_TRUE(listener->wait_for(2));
  EXPECT_TRUE(box.wait_idle(20s));
  EXPECT_EQ(listener->ids(), (std::vector<std::string>{"reply", "last"}));
}

// The store connects to `counts`, which accepts also when nobody is behind it.
TEST_F(PostgresNetworkTest, AServerThatIsAwayIsNotHammeredByAllThatMissIt) {
  const test::TcpProxy counts("127.0.0.1", proxy_->port());
  const auto store =
      open_store_at(test::with_port(test::postgres_url(), counts.port()), {.notify = false});
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

TEST_F(PostgresNetworkTest, ALostConnectionIsNoticedAtOnceNotWhenTheCallsLimitIsOver) {
  const auto store = open_far();
  const auto instance = store->join({.lease = 30s});  // calls may take 10 s
  const Lease lease = instance->renew();
  write_event(*store, simple_event("e"));
  const Rows rows = instance->ready(lease.shards, 0, 10);
  ASSERT_EQ(rows.rows.size(), 1U);
  const StatusUpdate done{.row = rows.rows.front().ref, .event_id = "e"};
  instance->apply(lease.epoch, {&done, 1});
  proxy_->cut();
  const auto start = std::chrono::steady_clock::now();
  EXPECT_NO_THROW(instance->renew()) << "it is replaced before the renewal";
  EXPECT_THROW(instance->ready(lease.shards, 0, 10), RetryableError);
  EXPECT_THROW(instance->apply(lease.epoch, {&done, 1}), RetryableError);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 1s);
  EXPECT_EQ(instance->renew().epoch, lease.epoch) << "the lease lives on";
}

TEST_F(PostgresNetworkTest, AStalledServerFailsTheRenewalWithinTheLease) {
  const auto store = open_far();
  const auto instance = store->join({.lease = 3s});
  instance->renew();
  proxy_->stall();
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(contains(message_of<RetryableError>([&] { instance->renew(); }), "no answer within"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, 3s);
  proxy_->resume();
  EXPECT_NE(instance->renew().epoch, 0);
}

}  // namespace
}  // namespace outbox::postgres
