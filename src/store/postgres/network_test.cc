// Connections that are lost, by a proxy that loses them.
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

  std::unique_ptr<test::TcpProxy> proxy_;
};

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
