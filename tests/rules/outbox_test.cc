// The least that an outbox does: it delivers what was committed, in order, and gives up in the end.
#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "every_store.h"

namespace outbox::testing {
namespace {

class OutboxTest : public OnEveryStore {
 protected:
  void SetUp() override {
    OnEveryStore::SetUp();
    if (!IsSkipped() && !HasFatalFailure()) use_store({.host_clock = true});
  }
};
OUTBOX_ON_EVERY_STORE(OutboxTest);

TEST_P(OutboxTest, DeliversWhatWasCommitted) {
  const auto box = open();
  write(*box, order_event("42", "1"));
  ASSERT_TRUE(recorder->wait_for(1));
  EXPECT_EQ(recorder->payloads(), std::vector<std::string>{"1"});
  EXPECT_TRUE(box->wait_idle(20s));
  EXPECT_EQ(store->admin().find(recorder->ids().at(0))->row.status, Status::done);
}

TEST_P(OutboxTest, DeliversWithoutOrderAsWell) {
  const auto box = open({.ordering = Ordering::none});
  write(*box, order_event("42", "1"));
  ASSERT_TRUE(recorder->wait_for(1));
  EXPECT_TRUE(box->wait_idle(20s));
}

TEST_P(OutboxTest, DeliversNothingOfARollback) {
  const auto box = open();
  {
    auto tx = box->begin();
    tx.write(order_event("42", "1"));
  }
  write(*box, order_event("42", "2"));
  ASSERT_TRUE(box->wait_idle(20s));
  EXPECT_EQ(recorder->payloads(), std::vector<std::string>{"2"});
}

TEST_P(OutboxTest, DeliversWhatWasWrittenBeforeItStarted) {
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

TEST_P(OutboxTest, KeepsTheOrderOverFailures) {
  std::mutex mutex;
  std::map<std::string, std::vector<int>> done;
  std::atomic<int> calls{0};
  const int transactions = many(300, 60);
  auto flaky = listener([&](const Event& event) {
    if (calls++ % 7 == 3) throw std::runtime_error("not now");
    const std::lock_guard lock(mutex);
    done[event.aggregate_id()].push_back(std::stoi(event.payload()));
  });
  const auto box = open(
      {.poll_interval = 60s, .retry = {.policy = retry_every(1ms), .max_attempts = 1000}}, flaky);
  for (int n = 0; n < transactions; ++n) {
    auto tx = box->begin();
    for (int a = 0; a < 5; ++a) tx.write(order_event(std::to_string(a), std::to_string(n)));
    tx.commit();
  }
  ASSERT_TRUE(box->wait_idle(60s));
  for (const auto& [aggregate, numbers] : done) {
    ASSERT_EQ(numbers.size(), static_cast<std::size_t>(transactions)) << aggregate;
    for (int n = 0; n < transactions; ++n) ASSERT_EQ(numbers[static_cast<std::size_t>(n)], n);
  }
}

TEST_P(OutboxTest, EventsWaitedBecauseTheClockWasSetBack) {
  use_store({});
  std::vector<std::string> written;
  for (const bool claims : {false, true}) {
    if (claims && !capabilities().row_claims) continue;
    for (const char* number : {"1", "2"})
      written.push_back((claims ? "1" : "") + std::string(number));
    {
      Writer writer{store};
      auto tx = writer.begin();
      tx.write(order_event("42", written.at(written.size() - 2)));
      tx.commit();
    }
    set_clock(-1h);
    const auto box = open({.mode = claims ? Mode::multi_node : Mode::single_node,
                           .ordering = claims ? Ordering::none : Ordering::per_aggregate,
                           .row_claims = claims});
    write(*box, order_event("42", written.back()));
    ASSERT_TRUE(recorder->wait_for(written.size()));
    if (claims) {
      EXPECT_TRUE(box->wait_idle(20s));
    } else {
      EXPECT_EQ(recorder->payloads(), written);
    }
  }
}

TEST_P(OutboxTest, GivesUpAfterTheLastAttempt) {
  auto failing = std::make_shared<RecordingListener>(
      [](const Event&, const Delivery&) -> Outcome { throw std::runtime_error("no way"); });
  const auto box = open({.retry = {.policy = retry_every(1ms), .max_attempts = 3}}, failing);
  write(*box, order_event("42", "1"));
  ASSERT_TRUE(box->wait_idle(20s));
  ASSERT_EQ(failing->count(), 3u);
  const auto record = store->admin().find(failing->ids().at(0));
  EXPECT_EQ(record->row.status, Status::dead);
  EXPECT_EQ(record->row.attempts, 3);
  EXPECT_EQ(record->last_error, "no way");
  EXPECT_TRUE(log.contains("is dead after 3 attempts"));
}

// Synchronously: the worker is inside until the listener returns.
TEST_P(OutboxTest, CallsAsManyListenersAtOnceAsThereAreWorkersAndNeverMore) {
  constexpr std::size_t kWorkers = 3;
  constexpr std::size_t kEvents = 2 * kWorkers;
  for (const Ordering ordering : {Ordering::per_aggregate, Ordering::none}) {
    Barrier inside;
    std::mutex mutex;
    std::set<std::thread::id> threads;
    std::size_t calls = 0;
    std::size_t most = 0;
    auto slow = listener([&](const Event&) {
      {
        const std::lock_guard lock(mutex);
        threads.insert(std::this_thread::get_id());
        most = std::max(most, ++calls);
      }
      inside.pass();
      const std::lock_guard lock(mutex);
      --calls;
    });
    const auto box = open({.workers = kWorkers, .ordering = ordering}, slow);
    const OpenAtEnd open_at_end(inside);
    auto tx = box->begin();
    for (std::size_t n = 0; n < kEvents; ++n) tx.write(order_event(std::to_string(n), "1"));
    tx.commit();
    ASSERT_TRUE(inside.reached(kWorkers));
    ASSERT_TRUE(eventually([&] { return box->in_flight() == kEvents; })) << "the rest is queued";
    EXPECT_FALSE(inside.reached(kWorkers + 1, 50ms));
    inside.open();
    ASSERT_TRUE(box->wait_idle(20s));
    const std::lock_guard lock(mutex);
    EXPECT_EQ(most, kWorkers);
    EXPECT_EQ(threads.size(), kWorkers);
    EXPECT_FALSE(threads.contains(std::this_thread::get_id()));
  }
}

}  // namespace
}  // namespace outbox::testing
