// Connections that are cut while an engine waits for an answer.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "outbox/error.h"
#include "outbox/postgres.h"
#include "support/postgres.h"
#include "support/stores.h"
#include "support/tcp_proxy.h"

namespace outbox {
namespace {

using namespace std::chrono_literals;

// Far below the time after which a call is given up.
constexpr std::chrono::seconds kAtOnce{8};

class PostgresCutTest : public ::testing::Test {
 protected:
  void SetUp() override {
    OUTBOX_NEEDS_POSTGRES();
    schema_.emplace();
    proxy_.emplace("127.0.0.1", test::port_of(test::postgres_url()));
    const std::string url = test::with_port(test::postgres_url(), proxy_->port());
    store_ =
        postgres::open(url, {.table = schema_->name() + ".outbox_event", .log = [](auto, auto) {}});
    instance_ = store_->join({.lease = 60s});
    lease_ = instance_->renew();
    ASSERT_NE(lease_.epoch, 0);
  }

  // Cut while the call waits for its answer, or between two calls; some calls replace a
  // connection that was lost in between.
  enum class Idle { fails, is_replaced };
  template <class Call>
  void expect_to_fail_at_once(const Call& call, Idle idle = Idle::fails) {
    for (const bool waiting : {true, false}) {
      call();  // connects, and prepares its statements
      std::optional<std::jthread> caller;
      if (!waiting) proxy_->cut();
      if (waiting) proxy_->hold_request("outbox_");  // so all names of statements begin
      const auto begin = std::chrono::steady_clock::now();
      caller.emplace([&] {
        if (!waiting && idle == Idle::is_replaced) {
          EXPECT_NO_THROW(call());
        } else {
          EXPECT_THROW(call(), RetryableError);
        }
      });
      if (waiting) {
        EXPECT_TRUE(test::eventually([&] { return proxy_->held() == 1; }));
        proxy_->cut();
      }
      caller.reset();
      EXPECT_LT(std::chrono::steady_clock::now() - begin, kAtOnce)
          << (waiting ? "waiting" : "idle");
    }
  }

  std::optional<test::Schema> schema_;
  std::optional<test::TcpProxy> proxy_;
  std::shared_ptr<Store> store_;
  std::unique_ptr<Instance> instance_;
  Lease lease_;
};

TEST_F(PostgresCutTest, ARenewalFailsAtOnce) {
  expect_to_fail_at_once([&] { instance_->renew(); }, Idle::is_replaced);
}

TEST_F(PostgresCutTest, AReadOfDueRowsFailsAtOnce) {
  expect_to_fail_at_once([&] { instance_->due(lease_.shards, 10); });
}

TEST_F(PostgresCutTest, AMarkFailsAtOnce) {
  const StatusUpdate update{.row = {.seq = 1, .shard = lease_.shards.front()}, .event_id = "none"};
  expect_to_fail_at_once(
      [&] { instance_->apply(lease_.epoch, std::vector<StatusUpdate>{update}); });
}

}  // namespace
}  // namespace outbox
