// Mode::ordered, on stores with one shard and with many.
#include <algorithm>
#include <map>
#include <set>

#include "every_store.h"

namespace outbox::testing {
namespace {

using Texts = std::vector<std::string>;

class OrderedTest : public OnEveryStore {
 protected:
  // From a failure to its retry. Not much longer than in_time() gets over: an engine that is
  // reading on a server while a test lets time pass may wait that long once more.
  static constexpr std::chrono::milliseconds kDelay = 2min;

  // The n-th event, of another aggregate than the one before.
  static Draft nth(int n) { return order_event("a" + std::to_string(n % 11), std::to_string(n)); }
  Texts write_many(int first, int last) {
    Texts ids;
    for (int n = first; n <= last; ++n) ids.push_back(write_elsewhere(nth(n)));
    return ids;
  }

  static Texts numbers(int first, int last) {
    Texts result;
    for (int n = first; n <= last; ++n) result.push_back(std::to_string(n));
    return result;
  }

  // The payloads in the order of their first deliveries.
  static Texts firsts(const RecordingListener& of) {
    Texts result;
    std::set<std::string> seen;
    for (const auto& call : of.calls()) {
      if (seen.insert(call.event.id()).second) result.emplace_back(call.event.payload());
    }
    return result;
  }

  std::shared_ptr<RecordingListener> all_but(const std::string& payload, const Outcome& outcome) {
    return std::make_shared<RecordingListener>([=](const Event& event, const Delivery&) {
      return event.payload() == payload ? outcome : Outcome::done();
    });
  }

  // The third of twenty events is given up.
  void lose_one(OnDead then) {
    const auto picky = all_but("3", Outcome::permanent("never"));
    const Texts ids = write_many(1, 20);
    auto box = open({.mode = Mode::ordered, .dead = {.then = then}}, picky);
    if (then == OnDead::skip) {
      EXPECT_TRUE(box->wait_idle(20s));
    } else {
      const std::int64_t dead = then == OnDead::park ? 18 : 1;
      ASSERT_TRUE(
          eventually([&] { return box->in_flight() == 0 && store->counts().dead == dead; }));
      EXPECT_EQ(firsts(*picky), numbers(1, 3));
      // Discarded, from the first on, they wait for nobody; replayed, they come in their order.
      ASSERT_TRUE(store->admin().discard(ids[2]));
      if (then == OnDead::park) {
        EXPECT_EQ(store->admin().replay({}, 0, 100).rows, 17);
      }
      ASSERT_TRUE(in_time([&] { return !bare_store->has_pending(); }, *box));
    }
    EXPECT_EQ(firsts(*picky), numbers(1, 20));
  }
};
OUTBOX_ON_EVERY_STORE(OrderedTest);
INSTANTIATE_TEST_SUITE_P(
    OtherMemory, OrderedTest,
    ::testing::Values(
        StoreKind{"OneShard", nullptr, memory_backend, {.shards = 1}},
        StoreKind{"ThreeShards", nullptr, memory_backend, {.shards = 3}},
        StoreKind{"Concurrent", nullptr, memory_backend, {.concurrent_transactions = true}}),
    [](const ::testing::TestParamInfo<StoreKind>& store) { return store.param.name; });

TEST_P(OrderedTest, DeliversAllEventsOneAfterTheOtherWhateverTheirAggregate) {
  Wishes wishes = GetParam().wishes;
  wishes.host_clock = true;
  use_store(wishes);
  std::atomic<int> running{0};
  std::atomic<int> most{0};
  std::atomic<int> calls{0};
  auto careful = std::make_shared<RecordingListener>([&](const Event&, const Delivery&) -> Outcome {
    most = std::max(most.load(), ++running);
    const int call = ++calls;
    --running;
    if (call % 7 == 3) return Outcome::failed("now and then");
    return Outcome::done();
  });
  auto box = open({.mode = Mode::ordered,
                   .workers = 4,
                   .poll_interval = 100ms,
                   .queue = {.cold_capacity = 16, .batch = 5},
                   .retry = {.policy = retry_every(1ms), .max_attempts = 1'000}},
                  careful);
  // Some of no aggregate.
  for (int n = 1; n <= 200; ++n) {
    const Draft draft = n % 5 == 0 ? order_event("", std::to_string(n)) : nth(n);
    n % 2 == 0 ? write(*box, draft) : write_elsewhere(draft);
  }
  ASSERT_TRUE(box->wait_idle(30s));
  EXPECT_EQ(firsts(*careful), numbers(1, 200));
  EXPECT_EQ(most, 1);
}

TEST_P(OrderedTest, EverythingWaitsForAHeadThatFails) {
  std::atomic<bool> healed{false};
  auto picky = std::make_shared<RecordingListener>([&](const Event& event, const Delivery&) {
    return event.payload() == "3" && !healed ? Outcome::failed("not yet") : Outcome::done();
  });
  write_many(1, 30);
  auto box = open({.mode = Mode::ordered,
                   .queue = {.cold_capacity = 8, .batch = 4},
                   .retry = {.policy = retry_every(kDelay)}},
                  picky);
  ASSERT_TRUE(eventually([&] { return box->in_flight() == 0 && store->counts().held == 28; }));
  EXPECT_EQ(firsts(*picky), numbers(1, 3));
  write_many(31, 40);
  healed = true;
  EXPECT_FALSE(box->wait_idle(30ms));
  EXPECT_EQ(firsts(*picky), numbers(1, 3)) << "the head waits for its retry";
  advance(kDelay);
  ASSERT_TRUE(in_time([&] { return !bare_store->has_pending(); }, *box));
  EXPECT_EQ(firsts(*picky), numbers(1, 40));
}

TEST_P(OrderedTest, ADeadEventIsSkipped) { lose_one(OnDead::skip); }
TEST_P(OrderedTest, ADeadEventBlocksAllOthers) { lose_one(OnDead::block); }
TEST_P(OrderedTest, ADeadEventParksAllOthers) { lose_one(OnDead::park); }

TEST_P(OrderedTest, ARestartBehindAFailingHeadKeepsTheOrder) {
  {
    const auto failing = all_but("5", Outcome::failed("not yet"));
    write_many(1, 25);
    auto box = open({.mode = Mode::ordered, .retry = {.policy = retry_every(kDelay)}}, failing);
    ASSERT_TRUE(eventually([&] { return box->in_flight() == 0 && store->counts().held == 21; }));
    EXPECT_EQ(firsts(*failing), numbers(1, 5));
  }
  write_many(26, 40);
  auto box = open({.mode = Mode::ordered, .queue = {.cold_capacity = 8, .batch = 3}});
  ASSERT_TRUE(eventually([&] { return box->owner(); }));
  EXPECT_FALSE(box->wait_idle(50ms));
  EXPECT_EQ(recorder->count(), 0U) << "the head waits for its retry";
  advance(kDelay);
  ASSERT_TRUE(in_time([&] { return !bare_store->has_pending(); }, *box));
  EXPECT_EQ(recorder->payloads(), numbers(5, 40));
}

TEST_P(OrderedTest, DelayedEventsHoldNobodyBack) {
  auto box = open({.mode = Mode::ordered});
  Draft later = nth(1);
  later.deliver_after = kDelay;
  write(*box, later);
  for (int n = 2; n <= 20; ++n) write(*box, nth(n));
  ASSERT_TRUE(recorder->wait_for(19));
  ASSERT_TRUE(eventually([&] { return box->in_flight() == 0; }));
  EXPECT_EQ(recorder->payloads(), numbers(2, 20));
  advance(kDelay);
  ASSERT_TRUE(in_time([&] { return !bare_store->has_pending(); }, *box));
  EXPECT_EQ(recorder->payloads().back(), "1");
}

// What was held under the other kind of order.
TEST_P(OrderedTest, AChangeBetweenOneOrderAndManyKeepsTheOrderOfWhatWaits) {
  for (const bool ordered_first : {true, false}) {
    const Options before{.mode = ordered_first ? Mode::ordered : Mode::single_node,
                         .retry = {.policy = retry_every(kDelay)}};
    const Options after{.mode = ordered_first ? Mode::single_node : Mode::ordered};
    auto failing = std::make_shared<RecordingListener>(
        [](const Event&, const Delivery&) { return Outcome::failed("not yet"); });
    {
      auto box = open(before, failing);
      const std::string head = write(*box, order_event("x", "1"));
      ASSERT_TRUE(eventually([&] { return status(head) == Status::retry; }));
      for (const char* n : {"2", "3"}) write(*box, order_event("x", n));
      ASSERT_TRUE(eventually([&] { return box->in_flight() == 0 && store->counts().held == 3; }));
    }
    for (const char* n : {"4", "5"}) write_elsewhere(order_event("x", n));
    recorder = std::make_shared<RecordingListener>();
    auto box = open(after);
    ASSERT_TRUE(eventually([&] { return box->owner(); }));
    EXPECT_FALSE(box->wait_idle(50ms));
    EXPECT_EQ(recorder->count(), 0u) << "the head waits for its retry";
    advance(kDelay);
    ASSERT_TRUE(in_time([&] { return !bare_store->has_pending(); }, *box));
    EXPECT_EQ(recorder->payloads(), numbers(1, 5)) << ordered_first;
  }
}

TEST_P(OrderedTest, AChangeBetweenOneOrderAndManyKeepsTheOrderOfEachAggregate) {
  for (const bool ordered_first : {true, false}) {
    const Options before{.mode = ordered_first ? Mode::ordered : Mode::single_node,
                         .retry = {.policy = retry_every(kDelay)}};
    const Options after{.mode = ordered_first ? Mode::single_node : Mode::ordered};
    auto failing = std::make_shared<RecordingListener>(
        [](const Event&, const Delivery&) { return Outcome::failed("not yet"); });
    {
      auto box = open(before, failing);
      const std::string head = write(*box, nth(1));
      ASSERT_TRUE(eventually([&] { return status(head) == Status::retry; }));
      for (int n = 2; n <= 40; ++n) write(*box, nth(n));
      ASSERT_TRUE(eventually([&] { return box->in_flight() == 0 && store->counts().held == 40; }));
    }
    write_many(41, 60);
    recorder = std::make_shared<RecordingListener>();
    auto box = open(after);
    ASSERT_TRUE(eventually([&] { return box->owner(); }));
    advance(kDelay);
    ASSERT_TRUE(in_time([&] { return !bare_store->has_pending(); }, *box));
    std::map<std::string, std::vector<int>> by_aggregate;
    for (const auto& call : recorder->calls()) {
      by_aggregate[call.event.aggregate_id()].push_back(std::stoi(call.event.payload()));
    }
    EXPECT_EQ(recorder->count(), 60U);
    for (const auto& [aggregate, of_it] : by_aggregate) {
      EXPECT_TRUE(std::is_sorted(of_it.begin(), of_it.end())) << aggregate << ordered_first;
    }
  }
}

}  // namespace
}  // namespace outbox::testing
