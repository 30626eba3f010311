#include "outbox/outbox.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>
#include <set>

#include "outbox/memory.h"
#include "outbox/testing.h"

namespace outbox {
namespace {

using namespace std::chrono_literals;
using testing::RecordingListener;
using testing::RecordingLog;
using testing::Signal;

Draft order_event(const std::string& aggregate_id, const std::string& payload) {
  return {.type = "Happened",
          .aggregate_type = "Order",
          .aggregate_id = aggregate_id,
          .payload = json(payload)};
}

void write(Outbox& box, const Draft& draft) {
  auto tx = box.begin();
  tx.write(draft);
  tx.commit();
}

std::shared_ptr<const RetryPolicy> at_once() {
  return std::make_shared<ExponentialBackoff>(
      ExponentialBackoffOptions{.base = 1ms, .max = 1ms, .random = [] { return 0.5; }});
}

// An outbox on a store in memory whose events all go to one listener.
class OutboxTest : public ::testing::Test {
 protected:
  // The test's own, and no member: it has to end before the variables that its listener uses.
  std::unique_ptr<Outbox> open(Options options = {}, std::shared_ptr<Listener> to = {}) {
    options.log = log.log();
    Listeners on;
    on.add("Order", "Happened", to ? to : std::static_pointer_cast<Listener>(recorder));
    auto box = std::make_unique<Outbox>(store, on, options);
    box->start();
    return box;
  }

  RecordingLog log;
  testing::ManualClock clock;  // for those who open a store with it
  std::shared_ptr<RecordingListener> recorder = std::make_shared<RecordingListener>();
  std::shared_ptr<Store> store = memory::open();
};

TEST_F(OutboxTest, DeliversWhatWasCommitted) {
  const auto box = open();
  write(*box, order_event("42", "1"));
  ASSERT_TRUE(recorder->wait_for(1));
  EXPECT_EQ(recorder->payloads(), std::vector<std::string>{"1"});
  EXPECT_TRUE(box->wait_idle(20s));
  EXPECT_EQ(store->find(recorder->ids().at(0))->row.status, Status::done);
}

TEST_F(OutboxTest, DeliversWithoutOrderAsWell) {
  const auto box = open({.ordering = Ordering::none});
  write(*box, order_event("42", "1"));
  ASSERT_TRUE(recorder->wait_for(1));
  EXPECT_TRUE(box->wait_idle(20s));
}

TEST_F(OutboxTest, DeliversNothingOfARollback) {
  const auto box = open();
  {
    auto tx = box->begin();
    tx.write(order_event("42", "1"));
  }
  write(*box, order_event("42", "2"));
  ASSERT_TRUE(box->wait_idle(20s));
  EXPECT_EQ(recorder->payloads(), std::vector<std::string>{"2"});
}

TEST_F(OutboxTest, DeliversWhatWasWrittenBeforeItStarted) {
  {
    Writer writer{store};
    auto tx = writer.begin();
    for (int n = 0; n < 2000; ++n) tx.write(order_event("42", std::to_string(n)));
    tx.commit();
  }
  const auto box = open();
  ASSERT_TRUE(box->wait_idle(20s));
  const auto payloads = recorder->payloads();
  ASSERT_EQ(payloads.size(), 2000u);
  for (std::size_t n = 0; n < payloads.size(); ++n) ASSERT_EQ(payloads[n], std::to_string(n));
}

TEST_F(OutboxTest, KeepsTheOrderOverFailures) {
  std::mutex mutex;
  std::map<std::string, std::vector<int>> done;
  std::atomic<int> calls{0};
  auto flaky = listener([&](const Event& event) {
    if (calls++ % 7 == 3) throw std::runtime_error("not now");
    const std::lock_guard lock(mutex);
    done[event.aggregate_id()].push_back(std::stoi(event.payload()));
  });
  const auto box =
      open({.poll_interval = 60s, .retry = {.policy = at_once(), .max_attempts = 1000}}, flaky);
  for (int n = 0; n < 300; ++n) {
    auto tx = box->begin();
    for (int a = 0; a < 5; ++a) tx.write(order_event(std::to_string(a), std::to_string(n)));
    tx.commit();
  }
  ASSERT_TRUE(box->wait_idle(60s));
  for (const auto& [aggregate, numbers] : done) {
    ASSERT_EQ(numbers.size(), 300u) << aggregate;
    for (int n = 0; n < 300; ++n) ASSERT_EQ(numbers[static_cast<std::size_t>(n)], n);
  }
}

TEST_F(OutboxTest, EventsWaitedBecauseTheClockWasSetBack) {
  store = memory::open({.clock = &clock});
  {
    Writer writer{store};
    auto tx = writer.begin();
    tx.write(order_event("42", "1"));
    tx.commit();
  }
  clock.step(-1h);
  const auto box = open();
  write(*box, order_event("42", "2"));
  ASSERT_TRUE(recorder->wait_for(2));
  EXPECT_EQ(recorder->payloads(), (std::vector<std::string>{"1", "2"}));
}

TEST_F(OutboxTest, GivesUpAfterTheLastAttempt) {
  auto failing = std::make_shared<RecordingListener>(
      [](const Event&, const Delivery&) -> Outcome { throw std::runtime_error("no way"); });
  const auto box = open({.retry = {.policy = at_once(), .max_attempts = 3}}, failing);
  write(*box, order_event("42", "1"));
  ASSERT_TRUE(box->wait_idle(20s));
  ASSERT_EQ(failing->count(), 3u);
  const auto record = store->find(failing->ids().at(0));
  EXPECT_EQ(record->row.status, Status::dead);
  EXPECT_EQ(record->row.attempts, 3);
  EXPECT_EQ(record->last_error, "no way");
  EXPECT_TRUE(log.contains("is dead after 3 attempts"));
}

}  // namespace
}  // namespace outbox
