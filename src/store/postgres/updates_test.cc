// The fence of an update against a take-over at the same moment. Each statement has its own.
#include "store/postgres/updates.h"

#include <atomic>
#include <future>
#include <thread>

#include "store/postgres/test_support.h"

namespace outbox::postgres {
namespace {

struct Case {
  std::string name;
  StatusUpdate::Kind kind = StatusUpdate::Kind::done;
  OnDone on_done = OnDone::keep;
};

class PostgresUpdatesTest : public PostgresTest, public ::testing::WithParamInterface<Case> {
 protected:
  void SetUp() override {
    PostgresTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    store_ = open_store({.on_done = GetParam().on_done, .notify = false});
    instance_ = store_->join({.lease = 60s});
    lease_ = instance_->renew();
    write_event(*store_, simple_event("e"));
    mark_ = {.row = store_->find("e")->row.ref,
             .event_id = "e",
             .kind = GetParam().kind,
             .attempts = 1,
             .delay = 1h,
             .error = "not yet"};
  }

  // As an engine does: until it is known what became of it.
  UpdateResult apply_patiently() {
    for (;;) {
      try {
        return instance_->apply(lease_.epoch, {&mark_, 1});
      } catch (const RetryableError&) {
        // It waits for a lock for two seconds at most.
      }
    }
  }

  // What the one who took over finds.
  bool is_pending(test::Sql& sql) {
    return sql.value("SELECT count(*) FROM " + table() + " WHERE status = 0") == "1";
  }

  std::shared_ptr<Store> store_;
  std::unique_ptr<Instance> instance_;
  Lease lease_;
  StatusUpdate mark_;
};

TEST_P(PostgresUpdatesTest, ATakeOverThatWasQuickerFencesAMarkThatWaitedForIt) {
  test::Sql heir;
  heir.execute("BEGIN; DELETE FROM " + table() + "_instance");
  auto marking = std::async(std::launch::async, [&] { return apply_patiently(); });
  EXPECT_TRUE(eventually([&] {
    return test::is_waited_for(sql(), heir) || marking.wait_for(0s) == std::future_status::ready;
  }));
  heir.execute("COMMIT");
  EXPECT_TRUE(marking.get().fenced);
  EXPECT_TRUE(is_pending(sql())) << "changed by one who does not own it any more";
}

// Else the update could land after it.
TEST_P(PostgresUpdatesTest, ATakeOverWaitsForAMarkThatIsUnderWay) {
  test::Sql stranger;
  stranger.execute("BEGIN; SELECT FROM " + table() + " FOR UPDATE");
  auto marking = std::async(std::launch::async, [&] { return apply_patiently(); });
  EXPECT_TRUE(eventually([&] { return test::is_waited_for(sql(), stranger); }));

  test::Sql heir;
  const std::string heirs_pid = heir.value("SELECT pg_backend_pid()");
  std::atomic<bool> taken{false};
  bool found = false;
  std::jthread taking_over([&] {
    heir.execute("DELETE FROM " + table() + "_instance");
    found = is_pending(heir);
    taken = true;
  });
  EXPECT_TRUE(eventually([&] {
    return taken || sql().value("SELECT cardinality(pg_blocking_pids(" + heirs_pid + "))") != "0";
  }));
  stranger.execute("ROLLBACK");
  const UpdateResult result = marking.get();
  taking_over.join();
  EXPECT_EQ(result.fenced, found) << "delivered again by the heir, and finished by the old owner";
  EXPECT_EQ(is_pending(sql()), found);
}

INSTANTIATE_TEST_SUITE_P(
    Each, PostgresUpdatesTest,
    ::testing::Values(Case{"Done"}, Case{"Removed", StatusUpdate::Kind::done, OnDone::remove},
                      Case{"Retry", StatusUpdate::Kind::retry},
                      Case{"Dead", StatusUpdate::Kind::dead}),
    [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace outbox::postgres
