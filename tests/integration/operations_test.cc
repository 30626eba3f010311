// Operators at work on a database that is in use.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "outbox/admin/dead_events.h"
#include "outbox/admin/purge.h"
#include "outbox/outbox.h"
#include "outbox/sqlite.h"
#include "outbox/testing.h"
#include "support/temporary_directory.h"

namespace outbox {
namespace {

using namespace std::chrono_literals;

class OperationsTest : public ::testing::Test {
 protected:
  OperationsTest() {
    store_ = sqlite::open(
        directory_.file("events.db"),
        {.durability = sqlite::Durability::normal, .wait_timeout = 20s, .log = log_.log()});
  }
  std::unique_ptr<Outbox> start(std::shared_ptr<Listener> listener, Options options = {}) {
    Listeners on;
    on.add("Order", "Happened", std::move(listener));
    options.log = log_.log();
    auto box = std::make_unique<Outbox>(store_, on, std::move(options));
    box->start();
    return box;
  }

  static void write(Outbox& box, const std::string& aggregate, const std::string& payload) {
    auto tx = box.begin();
    tx.write({.type = "Happened",
              .aggregate_type = "Order",
              .aggregate_id = aggregate,
              .payload = json(payload)});
    tx.commit();
  }

  std::int64_t archived() {
    return store_->connect()
        ->query("SELECT count(*) FROM outbox_event_archive", {})
        .at(0)
        .get<std::int64_t>(0);
  }

  const test::TemporaryDirectory directory_;
  testing::RecordingLog log_;
  std::shared_ptr<Store> store_;
};

TEST_F(OperationsTest, PurgeAndReplayBesideBusyEnginesLoseNothingAndRepeatNothing) {
  constexpr int kEvents = 1'500;
  constexpr int kAggregates = 7;
  std::mutex mutex;
  std::map<std::string, int> calls;      // by payload
  std::map<std::string, int> last_good;  // by aggregate
  int order_breaks = 0;
  // Every tenth is refused the first time that it is met.
  const auto listener = std::make_shared<testing::RecordingListener>(
      [&](const Event& event, const Delivery&) -> Outcome {
        const std::lock_guard lock(mutex);
        const int number = std::stoi(event.payload());
        const bool first = ++calls[event.payload()] == 1;
        if (first) {
          int& last = last_good[event.aggregate_id()];
          if (number < last) ++order_breaks;
          last = number;
        }
        if (first && number % 10 == 0) throw PermanentError("refused at first");
        return Outcome::done();
      });
  const auto box = start(listener);
  Purger purger{store_,
                {.done_retention = 0s,
                 .dead_retention = std::nullopt,
                 .archive = true,
                 .batch = 50,
                 .interval = 5ms,
                 .log = log_.log()}};
  purger.start();
  ScheduledReplay replay{
      store_, {.interval = 5ms, .min_age = 0ms, .bulk = {.batch = 7}, .log = log_.log()}};
  replay.start();
  for (int i = 0; i < kEvents; ++i) {
    write(*box, std::to_string(i % kAggregates), std::to_string(i));
  }
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  while (archived() < kEvents && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(5ms);
  }
  purger.close();
  replay.close();
  box->close();

  EXPECT_EQ(archived(), kEvents);
  EXPECT_EQ(store_->admin().count({}), 0);
  EXPECT_EQ(calls.size(), static_cast<std::size_t>(kEvents));
  EXPECT_EQ(listener->count(), static_cast<std::size_t>(kEvents + kEvents / 10))
      << "each once, and those refused once more";
  EXPECT_EQ(order_breaks, 0);
  for (const auto& line : log_.lines()) {
    EXPECT_EQ(line.text.find(" failed: "), std::string::npos) << line.text;
  }
}

TEST_F(OperationsTest, AnEventReplayedTheMomentItIsFinishedIsDeliveredAgain) {
  constexpr std::size_t kTimes = 100;
  const auto listener = std::make_shared<testing::RecordingListener>();
  const auto box = start(listener, {.poll_interval = 200ms});
  write(*box, "1", "1");
  ASSERT_TRUE(listener->wait_for(1));
  const std::string id = listener->ids().at(0);
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  for (std::size_t replayed = 0; replayed < kTimes;) {
    if (store_->admin().replay(id)) ++replayed;
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << replayed;
  }
  ASSERT_TRUE(listener->wait_for(kTimes + 1)) << listener->count();
  ASSERT_TRUE(box->wait_idle(20s));
  EXPECT_EQ(listener->count(), kTimes + 1);
}

TEST_F(OperationsTest, ALaneWhoseDeadHeadIsDiscardedGoesOnByItself) {
  const auto listener = std::make_shared<testing::RecordingListener>(
      [](const Event& event, const Delivery&) -> Outcome {
        if (event.payload() == "0") throw PermanentError("refused");
        return Outcome::done();
      });
  const auto box = start(listener, {.poll_interval = 100ms, .dead = {.then = OnDead::block}});
  for (int i = 0; i < 3; ++i) write(*box, "1", std::to_string(i));
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  while (store_->counts().held < 2 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(2ms);
  }
  ASSERT_EQ(store_->admin().held_aggregates(10).size(), 1u);
  EXPECT_EQ(DeadEvents{store_}.discard_all({}), 1);
  EXPECT_TRUE(listener->wait_for(3)) << "nobody tells the engine; it looks now and then";
  EXPECT_EQ(listener->payloads(), (std::vector<std::string>{"0", "1", "2"}));
}

}  // namespace
}  // namespace outbox
