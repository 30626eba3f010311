// Connections that are cut while an engine waits for an answer.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "harness/ledger.h"
#include "harness/process.h"
#include "outbox/error.h"
#include "outbox/postgres.h"
#include "support/postgres.h"
#include "support/stores.h"
#include "support/tcp_proxy.h"
#include "support/temporary_directory.h"

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
    store_ = postgres::open(
        url, {.table = schema_->name() + ".outbox_event", .log = [](const LogRecord&) {}});
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

TEST_F(PostgresCutTest, AnUpdateFailsAtOnce) {
  const StatusUpdate update{.row = {.seq = 1, .shard = lease_.shards.front()}, .event_id = "none"};
  expect_to_fail_at_once(
      [&] { instance_->apply(lease_.epoch, std::vector<StatusUpdate>{update}); });
}

// A process that is stopped while it sends a large batch of updates.

using namespace std::chrono_literals;

constexpr std::chrono::seconds kPatience{60};
constexpr const char* kMiddle = "the process stops here";

template <class Condition>
bool eventually(const Condition& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(20ms);
  }
  return true;
}

class PostgresStoppedTest : public ::testing::Test {
 protected:
  void SetUp() override {
    OUTBOX_NEEDS_POSTGRES();
    schema_.emplace();
  }

  std::shared_ptr<Store> open(const std::string& url) const {
    return postgres::open(url, {.table = schema_->name() + ".outbox_event",
                                .notify = false,
                                .log = [](const LogRecord&) {}});
  }

  // In another process: 0 if the update has changed nothing in the end.
  int update_all() const {
    const std::string port_file = directory_.file("port");
    const auto told = [&] {
      return std::filesystem::exists(port_file) && !harness::read_lines(port_file).empty();
    };
    if (!eventually(told)) return 2;
    const int port = std::stoi(harness::read_lines(port_file).at(0));
    const auto store = open(test::with_port(test::postgres_url(), port));
    const auto instance = store->join({.name = "stopped", .lease = 3s});
    const Lease lease = instance->renew();
    std::vector<StatusUpdate> updates;
    for (const Row& row : instance->ready(lease.shards, 0, 1'000).rows) {
      updates.push_back({.row = row.ref, .event_id = row.event.id()});
      if (updates.size() <= 300) continue;
      updates.back().kind = StatusUpdate::Kind::retry;
      updates.back().error = updates.size() == 700 ? kMiddle : std::string(4'000, 'x');
    }
    if (updates.size() != 1'000) return 3;
    while (true) {
      try {
        return instance->apply(lease.epoch, updates).fenced ? 0 : 4;
      } catch (const RetryableError&) {
        std::this_thread::sleep_for(100ms);
      }
    }
  }

  test::TemporaryDirectory directory_;
  std::optional<test::Schema> schema_;
};

TEST_F(PostgresStoppedTest, OthersTakeOverWithinALeaseOrSo) {
  // Before there are threads.
  harness::Process stopped([this] { return update_all(); });
  const auto store = open(test::postgres_url());
  test::Sql sql;
  sql.execute("INSERT INTO " + schema_->name() +
              ".outbox_event (event_id, event_type, payload) SELECT i, 'T', '{}' "
              "FROM generate_series(1, 1000) AS i");
  test::TcpProxy proxy("127.0.0.1", test::port_of(test::postgres_url()));
  proxy.hold_request(kMiddle);
  harness::Ledger(directory_.file("port")).append(std::to_string(proxy.port()));
  ASSERT_TRUE(eventually([&] { return proxy.held() == 1; }));
  stopped.signal(SIGSTOP);

  const auto heir = store->join({.name = "heir", .lease = 3s});
  Lease lease;
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(eventually([&] {
    try {
      lease = heir->renew();
    } catch (const RetryableError&) {
      // Its turn comes.
    }
    return lease.shards.size() == 16;
  }));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 20s);
  EXPECT_EQ(heir->ready(lease.shards, 0, 2'000).rows.size(), 1'000u) << "nothing has happened";

  stopped.signal(SIGCONT);
  proxy.cut();
  EXPECT_EQ(stopped.wait(kPatience), harness::ExitStatus{}) << "its updates are late";
}

}  // namespace

}  // namespace outbox
