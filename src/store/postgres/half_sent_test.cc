// Calls that reach the server in part, and calls that are given up: neither keeps locks, or a
// place in the queue for them.
#include <string>
#include <thread>
#include <vector>

#include "store/postgres/test_support.h"
#include "support/tcp_proxy.h"

namespace outbox::postgres {
namespace {

using std::chrono::steady_clock;

class PostgresHalfSentTest : public PostgresTest, public ::testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    PostgresTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    proxy_ = std::make_unique<test::TcpProxy>("127.0.0.1", test::port_of(test::postgres_url()));
  }

  // Statements are kept prepared, or not.
  Options options() const { return {.prepare = GetParam(), .notify = false}; }
  std::shared_ptr<Store> open_far() {
    return open_store_at(test::with_port(test::postgres_url(), proxy_->port()), options());
  }

  // How many server processes wait for a lock of this test's tables.
  int waiting() {
    return std::stoi(
        sql().value("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND "
                    "pid IN (SELECT pid FROM pg_locks JOIN pg_class ON pg_class.oid = relation "
                    "WHERE relnamespace = '" +
                    schema() + "'::regnamespace)"));
  }

  std::unique_ptr<test::TcpProxy> proxy_;
};

// DONE for the first half, and for the others errors as long as they may be: some megabytes.
std::vector<StatusUpdate> large_batch(const std::vector<Row>& rows,
                                      const std::string& in_the_middle) {
  std::vector<StatusUpdate> updates;
  for (const Row& row : rows) {
    StatusUpdate& update =
        updates.emplace_back(StatusUpdate{.row = row.ref, .event_id = row.event.id()});
    if (updates.size() <= rows.size() / 2) continue;
    update.kind = StatusUpdate::Kind::retry;
    update.attempts = 1;
    update.delay = 1h;
    update.error = std::string(4'000, 'x');
    if (updates.size() == rows.size() * 3 / 4) update.error = in_the_middle;
  }
  return updates;
}

TEST_P(PostgresHalfSentTest, ABatchOfMarksThatIsCutInTheMiddleKeepsNobodyFromTakingOver) {
  const auto store = open_far();
  sql().execute("INSERT INTO " + table() +
                " (event_id, event_type, payload) SELECT i, 'T', '{}' "
                "FROM generate_series(1, 1000) AS i");
  const auto far = store->join({.name = "far", .lease = 3s});
  const Lease lease = far->renew();
  const std::vector<Row> rows = far->ready(lease.shards, 0, 1'000).rows;
  ASSERT_EQ(rows.size(), 1'000u);
  // So that the statements are prepared.
  EXPECT_FALSE(far->apply(lease.epoch, large_batch({rows.begin(), rows.begin() + 4}, "no")).fenced);

  const std::string middle = "the network ends here";
  proxy_->hold_request(middle);
  const std::vector<Row> rest(rows.begin() + 4, rows.end());
  std::jthread marking(
      [&] { EXPECT_THROW(far->apply(lease.epoch, large_batch(rest, middle)), RetryableError); });
  ASSERT_TRUE(eventually([&] { return proxy_->held() == 1; }));

  const auto near_store = open_store(options());
  const auto near = near_store->join({.name = "near", .lease = 3s});
  std::size_t owned = 0;
  int most_waiting = 0;
  const auto deadline = steady_clock::now() + 25s;
  while (owned < 16 && steady_clock::now() < deadline) {
    try {
      owned = near->renew().shards.size();
    } catch (const RetryableError&) {
      // Its turn comes.
    }
    most_waiting = std::max(most_waiting, waiting());
    std::this_thread::sleep_for(100ms);
  }
  EXPECT_EQ(owned, 16u) << "the locks of the half batch are still held";
  EXPECT_LE(most_waiting, 3) << "server processes pile up";
  EXPECT_EQ(sql().value("SELECT count(*) FROM " + table() + " WHERE status <> 0"), "4")
      << "all or nothing";
  proxy_->cut();
}

TEST_P(PostgresHalfSentTest, ARenewalThatIsGivenUpLeavesTheQueueOfTheLock) {
  const auto store = open_store(options());
  const auto first = store->join({.name = "first", .lease = 60s});
  ASSERT_EQ(first->renew().shards.size(), 16u);
  const auto second = store->join({.name = "second", .lease = 3s});
  second->renew();

  // As somebody does who stops in the middle.
  test::Sql holder;
  holder.execute("BEGIN; SELECT FROM " + table() + "_shard FOR UPDATE");
  for (int i = 0; i < 3; ++i) EXPECT_THROW(second->renew(), RetryableError);
  EXPECT_TRUE(eventually([&] { return waiting() == 0; }))
      << waiting() << " server processes wait for a lock that nobody wants any more";
  holder.execute("ROLLBACK");
  EXPECT_TRUE(eventually([&] {
    try {
      return second->renew().epoch == 0;
    } catch (const RetryableError&) {
      return false;
    }
  }));
}

// Nor does the next one wait behind it.
TEST_P(PostgresHalfSentTest, ARenewalThatIsNotAnsweredInTimeIsGivenUp) {
  const auto store = open_far();
  const auto instance = store->join({.lease = 3s});
  ASSERT_NE(instance->renew().epoch, 0);
  proxy_->stall();
  const auto begin = steady_clock::now();
  EXPECT_THROW(instance->renew(), RetryableError);
  EXPECT_LT(steady_clock::now() - begin, 10s);
  proxy_->resume();
  EXPECT_TRUE(eventually([&] {
    try {
      return instance->renew().epoch != 0;
    } catch (const RetryableError&) {
      return false;
    }
  }));
}

INSTANTIATE_TEST_SUITE_P(Prepare, PostgresHalfSentTest, ::testing::Bool(),
                         [](const auto& each) { return each.param ? "Kept" : "NotKept"; });

}  // namespace
}  // namespace outbox::postgres
