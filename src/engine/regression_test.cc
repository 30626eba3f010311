// What once went wrong, or could have, for those who drive dispatcher and poller by hand: parts of
// the engine, which know stores by spi/store.h alone. So the store in memory will do. What went
// wrong for an outbox is in tests/rules/regression_test.cc, on every store.
#include <gtest/gtest.h>

#include <mutex>
#include <set>

#include "engine/test_fixture.h"
#include "outbox/error.h"
#include "outbox/memory.h"
#include "outbox/spi/dispatcher.h"
#include "outbox/spi/poller.h"
#include "outbox/testing.h"

namespace outbox {
namespace {

using namespace std::chrono_literals;
using testing::eventually;
using testing::order_event;
using testing::RecordingListener;
using testing::RecordingLog;
using testing::Signal;

class RegressionTest : public ::testing::Test {
 protected:
  // By a writer that no engine hears of, except by the store's watch.
  std::vector<std::string> write(const std::vector<Draft>& drafts) {
    Writer writer{store};
    auto tx = writer.begin();
    auto ids = tx.write_all(drafts);
    tx.commit();
    return ids;
  }

  RecordingLog log;
  std::shared_ptr<RecordingListener> recorder = std::make_shared<RecordingListener>();
  std::shared_ptr<Store> store = memory::open();
};

TEST_F(RegressionTest, APollerWaitedForItsIntervalOnceTheDispatcherWasFull) {
  std::shared_ptr<Instance> instance = store->join({});
  Listeners on;
  on.add("Order", "Happened", recorder);
  std::vector<Draft> drafts;
  for (int n = 0; n < 500; ++n) drafts.push_back(order_event(std::to_string(n), "1"));
  write(drafts);
  Dispatcher dispatcher{instance, on, {.queue = {.cold_capacity = 10}, .log = log.log()}};
  Poller poller{instance, dispatcher.poll_handler(), {.interval = 10min, .log = log.log()}};
  dispatcher.start();
  poller.start();
  EXPECT_TRUE(recorder->wait_for(500, 10s)) << recorder->count();
  dispatcher.close();
}

// Releases events late: a worker that loses the processor at a bad moment.
class SlowTracker final : public InFlightTracker {
 public:
  bool try_acquire(std::string_view id) override {
    const std::lock_guard lock(mutex_);
    return ids_.emplace(id).second;
  }
  void release(std::string_view id) override {
    if (id == slow_id) static_cast<void>(go_on.wait(1, 500ms));
    const std::lock_guard lock(mutex_);
    ids_.erase(std::string(id));
  }
  std::string slow_id;
  Signal go_on;

 private:
  std::mutex mutex_;
  std::set<std::string> ids_;
};

TEST_F(RegressionTest, FollowersWereForgottenWhenTheirHeadCameBackQuickly) {
  auto tracker = std::make_shared<SlowTracker>();
  auto to = std::make_shared<RecordingListener>([&](const Event& event, const Delivery& delivery) {
    if (event.payload() != "0") return Outcome::done();
    if (delivery.attempt == 3) tracker->go_on.raise();
    return delivery.attempt < 3 ? Outcome::failed("not yet", 1ms) : Outcome::done();
  });
  std::shared_ptr<Instance> instance = store->join({});
  Listeners on;
  on.add("Order", "Happened", to);
  tracker->slow_id =
      write({order_event("1", "0"), order_event("1", "1"), order_event("1", "2")}).at(2);
  Dispatcher dispatcher{instance, on, {.tracker = tracker, .log = log.log()}};
  Poller poller{instance, dispatcher.poll_handler(), {.interval = 5ms, .log = log.log()}};
  dispatcher.start();
  poller.start();
  EXPECT_TRUE(eventually([&] { return !store->has_pending(); }));
  write({order_event("1", "3")});
  EXPECT_TRUE(eventually([&] { return !store->has_pending(); }));
  dispatcher.close();
  std::vector<std::string> done;
  for (const auto& payload : to->payloads()) {
    if (payload != "0") done.push_back(payload);
  }
  EXPECT_EQ(done, (std::vector<std::string>{"1", "2", "3"}));
}

}  // namespace
}  // namespace outbox
