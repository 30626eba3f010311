// Connections that are lost, by a proxy that loses them.
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
  std::shared_ptr<Store> open_far() {
    return open_store_at(test::with_port(url(), proxy_->port()) + "?ssl_mode=disabled");
  }

  std::unique_ptr<test::TcpProxy> proxy_;
};

TEST_F(MysqlNetworkTest, AConnectionThatTheServerClosedForItsIdlenessFailsNoTransaction) {
  const auto store = open(
      url(),
      {.on_open = [](st_mysql* handle) { mysql_query(handle, "SET SESSION wait_timeout = 1"); },
       .log = log_.log()});
  const auto number = [](Connection& on) {
    return std::to_string(on.query("SELECT connection_id()", {}).at(0).get<std::int64_t>(0));
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
