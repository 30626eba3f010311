#include <mutex>
#include <set>
#include <thread>

#include "outbox/outbox.h"
#include "store/mysql/ownership.h"
#include "store/mysql/test_support.h"

namespace outbox::mysql {
namespace {

class MysqlClaimsTest : public MysqlTest {
 protected:
  void SetUp() override {
    MysqlTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    store_ = open_store();
  }

  void write(int number) {
    std::vector<Event> events;
    for (int i = 0; i < number; ++i) events.push_back(simple_event(std::to_string(i)));
    const auto connection = begun(*store_);
    connection->insert(events, {});
    connection->commit();
  }
  std::unique_ptr<Instance> claimer() {
    auto instance = store_->join({.row_claims = true});
    EXPECT_NE(instance->renew().epoch, 0);
    return instance;
  }

  std::shared_ptr<Store> store_;
};

TEST_F(MysqlClaimsTest, ClaimersAtTheSameMomentNeverGetTheSameRows) {
  constexpr int kRows = 2'000;
  write(kRows);
  std::mutex mutex;
  std::set<std::string> claimed;
  int twice = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&, instance = claimer()] {
        while (true) {
          const Rows rows = instance->claim(0ms, 50);
          const std::lock_guard lock(mutex);
          for (const Row& row : rows.rows) {
            if (!claimed.insert(row.event.id()).second) ++twice;
          }
          if (claimed.size() == kRows || twice > 0) return;
        }
      });
    }
  }
  EXPECT_EQ(twice, 0);
  EXPECT_EQ(claimed.size(), std::size_t{kRows});
}

TEST_F(MysqlClaimsTest, AClaimPassesOverWhatOthersHaveLocked) {
  write(10);
  const auto instance = claimer();
  test::Mysql other(url());
  other.execute(
      "BEGIN; SELECT * FROM outbox_event FORCE INDEX (PRIMARY) WHERE seq IN (1, 2, 3, 4) FOR "
      "UPDATE");
  other.execute("INSERT INTO outbox_event (event_id, event_type, payload) VALUES ('x', 'T', '{}')");
  const auto begin = std::chrono::steady_clock::now();
  const Rows rows = instance->claim(0ms, 100);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
  EXPECT_EQ(rows.rows.size(), 6U);
  std::vector<RowRef> refs;
  for (const Row& row : rows.rows) refs.push_back(row.ref);
  instance->unclaim(refs);
  other.execute("COMMIT");
  EXPECT_EQ(instance->claim(0ms, 100).rows.size(), 11U);
}

// Polls without a pause claim retries before the engine hears that their updates landed.
TEST_F(MysqlClaimsTest, ARetryThatIsClaimedBeforeItsMarkIsKnownDoesNotWaitForTheLockToExpire) {
  const auto listener =
      std::make_shared<testing::RecordingListener>([](const Event&, const Delivery& delivery) {
        if (delivery.attempt < 4) throw RetryAfterError("not yet", 1ms);
        return Outcome::done();
      });
  Listeners listeners;
  listeners.add(kGlobalAggregate, "Happened", listener);
  outbox::Options options{
      .mode = Mode::multi_node, .ordering = Ordering::none, .row_claims = true, .log = log_.log()};
  options.poll_interval = 1ms;
  Outbox box(store_, listeners, std::move(options));
  box.start();
  for (int i = 0; i < 50; ++i) write_event(*store_, simple_event(std::to_string(i)));
  EXPECT_TRUE(box.wait_idle(60s));
  EXPECT_EQ(listener->count(), 200U);
}

}  // namespace
}  // namespace outbox::mysql
