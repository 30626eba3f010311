// A server that closes sessions for being idle: nobody who writes, waits for commits or takes
// over is to notice.
#include <thread>

#include "store/postgres/test_support.h"

namespace outbox::postgres {
namespace {

using std::chrono::steady_clock;

class PostgresIdleTest : public PostgresTest {
 protected:
  void SetUp() override {
    PostgresTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    if (sql().value("SHOW server_version_num") < "140000") GTEST_SKIP() << "from PostgreSQL 14 on";
  }

  std::shared_ptr<Store> open_impatient(Options options = {}) {
    return open_store_at(test::postgres_url() + "?application_name=" + schema() +
                             "&options=-cidle_session_timeout%3D300ms",
                         std::move(options));
  }
  int sessions(const std::string& which = "") {
    return std::stoi(
        sql().value("SELECT count(*) FROM pg_stat_activity WHERE application_name = '" + schema() +
                    "' " + which));
  }
  bool wait_until_closed() {
    return eventually([&] { return sessions() == 0; });
  }
};

class PostgresIdlePoolTest : public PostgresIdleTest, public ::testing::WithParamInterface<bool> {};

TEST_P(PostgresIdlePoolTest, AConnectionThatTheServerClosedFailsNoTransaction) {
  const auto store = open_impatient({.insert_at_commit = GetParam(), .notify = false});
  write_event(*store, simple_event("first"));
  ASSERT_TRUE(wait_until_closed());
  EXPECT_NO_THROW(write_event(*store, simple_event("between two transactions")));

  const Event event = simple_event("before the first statement");
  const auto connection = begun(*store);
  ASSERT_TRUE(wait_until_closed());
  connection->insert({&event, 1}, {});
  EXPECT_NO_THROW(connection->commit());

  const Event waiting = simple_event("before the COMMIT");
  connection->begin();
  if (GetParam()) connection->insert({&waiting, 1}, {});
  ASSERT_TRUE(wait_until_closed());
  if (!GetParam()) connection->insert({&waiting, 1}, {});
  EXPECT_NO_THROW(connection->commit());
  EXPECT_EQ(store->count({}), 4);
}

INSTANTIATE_TEST_SUITE_P(Each, PostgresIdlePoolTest, ::testing::Bool());

TEST_F(PostgresIdleTest, WhoListensHearsOfCommitsAndKeepsItsConnection) {
  const auto reads = open_impatient();
  const auto writes = open_impatient();
  testing::Signal seen;
  const auto watched = reads->watch([&] { seen.raise(); });
  ASSERT_TRUE(seen.wait());
  const auto listening = [&] {
    return sql().value(
        "SELECT string_agg(pid::text, ' ') FROM pg_stat_activity "
        "WHERE application_name = '" +
        schema() + "' AND query LIKE 'LISTEN%'");
  };
  const std::string before = listening();
  for (int i = 0; i < 3; ++i) {
    const std::size_t count = seen.count();
    std::this_thread::sleep_for(400ms);  // longer than sessions may be idle
    write_event(*writes, simple_event(std::to_string(i)));
    EXPECT_TRUE(seen.wait(count + 1, 2s)) << i;
  }
  EXPECT_EQ(listening(), before);
}

class PostgresIdleOwnerTest : public PostgresIdleTest,
                              public ::testing::WithParamInterface<bool> {};

// Renewals that failed because the server had closed the connection made each next one judge
// nobody. Also where the session cannot be set up, as for a pooler.
TEST_P(PostgresIdleOwnerTest, TheSuccessorTakesOverWhenTheLeaseIsOverAndNotLater) {
  const auto store = open_impatient({.prepare = GetParam(), .notify = false});
  const auto dies = store->join({.lease = 3s, .exclusive = true});
  const auto waits = store->join({.lease = 3s, .exclusive = true});
  ASSERT_EQ(dies->renew().shards.size(), 16U);
  EXPECT_TRUE(waits->renew().shards.empty());
  const auto died = steady_clock::now();
  std::size_t owned = 0;
  while (owned == 0 && steady_clock::now() - died < 20s) {
    std::this_thread::sleep_for(1s);  // its beat
    owned = waits->renew().shards.size();
  }
  EXPECT_EQ(owned, 16U);
  EXPECT_LT(steady_clock::now() - died, 8s) << "a lease of 3 s, and a beat";
}

INSTANTIATE_TEST_SUITE_P(Each, PostgresIdleOwnerTest, ::testing::Bool());

}  // namespace
}  // namespace outbox::postgres
