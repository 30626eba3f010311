// Order within an aggregate, and what happens behind a dead event.
#include <set>

#include "engine/test_fixture.h"
#include "model/lane_key.h"
#include "outbox/error.h"

namespace outbox::testing {
namespace {

using Texts = std::vector<std::string>;

// Fails events by their payload until told otherwise.
class OrderTest : public EngineTest {
 protected:
  std::shared_ptr<RecordingListener> picky =
      std::make_shared<RecordingListener>([this](const Event& event, const Delivery&) -> Outcome {
        const std::lock_guard lock(mutex_);
        const auto bad = bad_.find(event.payload());
        if (bad == bad_.end()) {
          good_.push_back(event.payload());
          return Outcome::done();
        }
        return bad->second;
      });

  void answer(const std::string& payload, const Outcome& outcome) {
    const std::lock_guard lock(mutex_);
    bad_.insert_or_assign(payload, outcome);
  }
  void heal() {
    const std::lock_guard lock(mutex_);
    bad_.clear();
  }
  Texts delivered() {
    const std::lock_guard lock(mutex_);
    return good_;
  }
  bool wait_delivered(const Texts& all) {
    return eventually([&] { return delivered() == all; }, 10s);
  }
  // Wakes until nothing can happen any more without a new fact.
  bool wait_pending(Outbox& box, std::int64_t n) {
    return eventually([&] { return box.in_flight() == 0 && store->counts().pending == n; }, 10s);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, Outcome> bad_;
  Texts good_;
};

TEST_F(OrderTest, TheLaterOnesWaitWhileTheHeadWaitsForItsRetry) {
  answer("1", Outcome::failed("not yet"));
  auto box = open({.retry = {.policy = retry_every(10s)}}, picky);
  for (const char* n : {"1", "2", "3"}) write(*box, order_event("a", n));
  write(*box, order_event("b", "\"other\""));
  ASSERT_TRUE(wait_delivered({"\"other\""}));
  ASSERT_TRUE(picky->wait_for(2));
  ASSERT_TRUE(wait_pending(*box, 3));
  clock.advance(9s);
  box->wake();
  write(*box, order_event("a", "4"));
  ASSERT_TRUE(wait_pending(*box, 4));
  EXPECT_EQ(picky->count(), 2u);
  ASSERT_EQ(store->held_aggregates(10).size(), 1u);
  EXPECT_EQ(store->held_aggregates(10)[0].aggregate_id, "a");
  heal();
  clock.advance(1s);
  box->wake();
  ASSERT_TRUE(box->wait_idle(20s));
  EXPECT_EQ(delivered(), (Texts{"\"other\"", "1", "2", "3", "4"}));
}

// As a crash leaves it while a lane is too long and still has rows in memory that it
// has read back: some aside, then ready ones, then some aside again.
TEST_F(OrderTest, RowsBetweenThoseThatAreHeldAreNotPassed) {
  bare_store = store = memory::open({.shards = 1, .clock = &clock});
  std::vector<StatusUpdate> aside;
  for (const char* n : {"1", "2", "3", "4", "5"}) {
    const bool between = n[0] == '2' || n[0] == '3';
    const std::string id = write_elsewhere(order_event(between ? "b" : "a", n));
    if (n[0] != '1' && n[0] != '5') continue;
    aside.push_back({.row = store->find(id)->row.ref,
                     .event_id = id,
                     .kind = StatusUpdate::Kind::hold,
                     .lane = lane_key("Order", "a")});
  }
  const auto before = store->join({});
  ASSERT_TRUE(before->apply(before->renew().epoch, aside).stale.empty());
  before->leave();
  auto box = open({.queue = {.batch = 2}}, picky);
  ASSERT_TRUE(box->wait_idle(20s));
  Texts of_a = delivered();
  std::erase_if(of_a, [](const std::string& n) { return n == "2" || n == "3"; });
  EXPECT_EQ(of_a, (Texts{"1", "4", "5"}));
}

TEST_F(OrderTest, ARestartInBetweenKeepsTheOrder) {
  answer("1", Outcome::failed("not yet"));
  {
    auto box = open({.retry = {.policy = retry_every(10s)}}, picky);
    for (const char* n : {"1", "2", "3"}) write(*box, order_event("a", n));
    ASSERT_TRUE(picky->wait_for(1));
    ASSERT_TRUE(wait_pending(*box, 3));
  }
  write_elsewhere(order_event("a", "4"));
  heal();
  auto box = open({}, picky);
  write(*box, order_event("b", "\"other\""));
  ASSERT_TRUE(wait_delivered({"\"other\""}));
  EXPECT_FALSE(eventually([&] { return delivered().size() > 1; }, 30ms)) << "not yet due";
  clock.advance(10s);
  box->wake();
  ASSERT_TRUE(box->wait_idle(20s));
  EXPECT_EQ(delivered(), (Texts{"\"other\"", "1", "2", "3", "4"}));
}

// Rule 43: memory is bounded in bytes on every path.
TEST_F(OrderTest, LargeEventsBehindAFailingHeadAreReadBackNoFasterThanTheyFit) {
  constexpr std::size_t kEvents = 300;
  constexpr std::size_t kSize = 20'000;
  constexpr std::size_t kCapacity = 10 * kSize;
  const auto payload = [](std::size_t n) {
    std::string text = std::to_string(n);
    return "\"" + std::string(kSize - 2 - text.size(), 'x') + text + "\"";
  };
  answer(payload(0), Outcome::failed("not yet"));
  auto box =
      open({.queue = {.capacity_bytes = kCapacity}, .retry = {.policy = retry_every(10s)}}, picky);
  for (std::size_t n = 0; n < kEvents; ++n) write(*box, order_event("a", payload(n)));
  const auto all_held = [&] { return box->in_flight() == 0 && store->counts().held == kEvents; };
  ASSERT_TRUE(eventually(all_held));
  const std::size_t before = faults->bytes_read();

  constexpr std::size_t kRetries = 5;
  for (std::size_t retry = 1; retry <= kRetries; ++retry) {
    clock.advance(10s);
    box->wake();
    ASSERT_TRUE(picky->wait_for(1 + retry));
    ASSERT_TRUE(eventually(all_held));
  }
  EXPECT_LE(faults->bytes_read() - before, kRetries * 2 * kSize) << "the head, and not the others";

  heal();
  clock.advance(10s);
  box->wake();
  ASSERT_TRUE(box->wait_idle(20s));
  EXPECT_LE(faults->largest_read(), kCapacity + kSize);
  EXPECT_LE(faults->bytes_read() - before, (kEvents + 2 * kRetries + 20) * kSize)
      << "nothing is fetched to be thrown away";
  const Texts got = delivered();
  ASSERT_EQ(got.size(), kEvents);
  for (std::size_t n = 0; n < kEvents; ++n) ASSERT_TRUE(got[n] == payload(n)) << n;
}

TEST_F(OrderTest, SkipGoesOnWithTheNext) {
  answer("1", Outcome::permanent("bad"));
  auto box = open({.dead = {.then = OnDead::skip}}, picky);
  for (const char* n : {"1", "2", "3"}) write(*box, order_event("a", n));
  ASSERT_TRUE(box->wait_idle(20s));
  EXPECT_EQ(delivered(), (Texts{"2", "3"}));
}

TEST_F(OrderTest, BlockWaitsForAnOperatorWhoReplays) {
  answer("1", Outcome::permanent("bad"));
  auto box = open({.dead = {.then = OnDead::block}}, picky);
  const auto head = write(*box, order_event("a", "1"));
  for (const char* n : {"2", "3"}) write(*box, order_event("a", n));
  ASSERT_TRUE(wait_pending(*box, 2));
  pass(*box, 60s);
  EXPECT_TRUE(delivered().empty());
  ASSERT_EQ(store->held_aggregates(10).size(), 1u);
  EXPECT_EQ(store->held_aggregates(10)[0].head_status, Status::dead);

  heal();
  ASSERT_TRUE(store->replay(head));
  box->wake();
  ASSERT_TRUE(eventually([&] {
    clock.advance(1s);
    box->wake();
    return !store->has_pending();
  }));
  EXPECT_EQ(delivered(), (Texts{"1", "2", "3"}));
}

TEST_F(OrderTest, BlockWaitsForAnOperatorWhoDiscardsAlsoAfterARestart) {
  answer("1", Outcome::permanent("bad"));
  std::string head;
  {
    auto box = open({.dead = {.then = OnDead::block}}, picky);
    head = write(*box, order_event("a", "1"));
    for (const char* n : {"2", "3"}) write(*box, order_event("a", n));
    ASSERT_TRUE(wait_pending(*box, 2));
  }
  auto box = open({.dead = {.then = OnDead::block}}, picky);
  write(*box, order_event("b", "\"other\""));
  ASSERT_TRUE(wait_delivered({"\"other\""}));
  pass(*box, 20s);
  write(*box, order_event("a", "4"));
  ASSERT_TRUE(wait_pending(*box, 3));
  EXPECT_EQ(delivered(), Texts{"\"other\""});
  ASSERT_TRUE(store->discard(head));
  ASSERT_TRUE(eventually([&] {
    clock.advance(1s);
    box->wake();
    return !store->has_pending();
  }));
  EXPECT_EQ(delivered(), (Texts{"\"other\"", "2", "3", "4"}));
}

TEST_F(OrderTest, AFreedHeadIsFoundAtOnceHoweverManyAreBlocked) {
  constexpr int kBlocked = 2'000;
  answer("1", Outcome::permanent("bad"));
  std::map<std::string, std::string> heads;
  auto box = open({.dead = {.then = OnDead::block}}, picky);
  for (int n = 0; n < kBlocked; ++n) {
    const std::string aggregate = std::to_string(n);
    heads[aggregate] = write(*box, order_event(aggregate, "1"));
    write(*box, order_event(aggregate, "\"behind " + aggregate + "\""));
  }
  ASSERT_TRUE(wait_pending(*box, kBlocked));
  heal();

  // Nobody moves the clock: no poll interval ends.
  ASSERT_TRUE(store->replay(heads["1500"]));
  EXPECT_TRUE(wait_delivered({"1", "\"behind 1500\""}));
  ASSERT_TRUE(store->discard(heads["700"]));
  EXPECT_FALSE(store->replay(heads["700"]));
  ASSERT_TRUE(store->replay(heads["701"]));
  EXPECT_TRUE(eventually([&] { return store->counts().pending == kBlocked - 3; }, 10s));
  EXPECT_EQ(delivered().size(), 5u);
}

TEST_F(OrderTest, AFreedHeadIsFoundSoonWithoutNewsOfCommits) {
  answer("1", Outcome::permanent("bad"));
  auto box = open({.poll_interval = std::chrono::hours{1}, .dead = {.then = OnDead::block}}, picky);
  const auto head = write(*box, order_event("a", "1"));
  write(*box, order_event("a", "2"));
  ASSERT_TRUE(wait_pending(*box, 1));
  ASSERT_TRUE(store->discard(head));  // which this store tells nobody
  clock.advance(1s);
  EXPECT_TRUE(wait_delivered({"2"}));
}

TEST_F(OrderTest, AfterABlockASwitchToSkipLetsTheOthersGo) {
  answer("1", Outcome::permanent("bad"));
  {
    auto box = open({.dead = {.then = OnDead::block}}, picky);
    for (const char* n : {"1", "2", "3"}) write(*box, order_event("a", n));
    ASSERT_TRUE(wait_pending(*box, 2));
  }
  auto box = open({.dead = {.then = OnDead::skip}}, picky);
  ASSERT_TRUE(box->wait_idle(20s));
  EXPECT_EQ(delivered(), (Texts{"2", "3"}));
}

TEST_F(OrderTest, ParkHoldsTheLaterOnesUntilTheyAreReplayedInOrder) {
  answer("1", Outcome::permanent("bad"));
  auto box = open({.dead = {.then = OnDead::park}}, picky);
  Texts ids;
  for (const char* n : {"1", "2", "3"}) ids.push_back(write(*box, order_event("a", n)));
  ASSERT_TRUE(wait_pending(*box, 0));
  ids.push_back(write(*box, order_event("a", "4")));
  ASSERT_TRUE(wait_pending(*box, 0));
  for (const auto& id : ids) EXPECT_EQ(status(id), Status::dead);
  EXPECT_EQ(attempts(ids[1]), 0);
  EXPECT_EQ(store->find(ids[1])->last_error, "parked: an earlier event of its aggregate is dead");
  EXPECT_TRUE(delivered().empty());

  heal();
  ASSERT_TRUE(store->replay(ids[0]));
  ASSERT_TRUE(eventually([&] {
    clock.advance(1s);
    box->wake();
    return delivered() == Texts{"1"};
  }));
  EXPECT_EQ(status(ids[1]), Status::dead) << "only what was replayed";
  for (std::size_t n : {1u, 2u, 3u}) ASSERT_TRUE(store->replay(ids[n]));
  ASSERT_TRUE(eventually([&] {
    clock.advance(1s);
    box->wake();
    return !store->has_pending();
  }));
  EXPECT_EQ(delivered(), (Texts{"1", "2", "3", "4"})) << "in the order of their rows";
}

TEST_F(OrderTest, AfterAParkASwitchToSkipFreesAllDeadOnesHoweverMany) {
  answer("0", Outcome::permanent("bad"));
  Texts ids;
  {
    auto box = open({.queue = {.cold_capacity = 8}, .dead = {.then = OnDead::park}}, picky);
    for (int n = 0; n < 30; ++n) {
      ids.push_back(write(*box, order_event("a", std::to_string(n))));
      ASSERT_TRUE(wait_pending(*box, 0));
    }
  }
  heal();
  auto box = open({.queue = {.cold_capacity = 8}, .dead = {.then = OnDead::skip}}, picky);
  ids.push_back(write(*box, order_event("a", "99")));
  ASSERT_TRUE(box->wait_idle(20s)) << "nobody waits for a DEAD one";
  EXPECT_EQ(delivered(), Texts{"99"});
  EXPECT_TRUE(store->held_aggregates(10).empty());
  for (std::size_t n = 0; n < 30; ++n) EXPECT_EQ(store->find(ids[n])->hold, std::nullopt) << n;

  // They are found again when they are replayed.
  ASSERT_TRUE(store->replay(ids[20]));
  box->wake();
  ASSERT_TRUE(box->wait_idle(20s));
  EXPECT_EQ(delivered(), (Texts{"99", "20"}));
}

TEST_F(OrderTest, TinyQueuesAndBatchesKeepTheOrder) {
  bare_store = memory::open();
  store = faulty(bare_store, faults);
  std::atomic<int> calls{0};
  std::mutex mutex;
  std::map<std::string, std::vector<int>> seen;
  auto flaky = listener([&](const Event& event) -> Outcome {
    if (calls++ % 5 == 2) return Outcome::failed("now and then");
    if (calls % 11 == 3) return Outcome::retry_after(1ms);
    const std::lock_guard lock(mutex);
    seen[event.aggregate_id()].push_back(std::stoi(event.payload()));
    return Outcome::done();
  });
  const Options tiny{.workers = 3,
                     .poll_interval = 60s,
                     .queue = {.cold_capacity = 4, .batch = 2},
                     .retry = {.policy = retry_every(1ms), .max_attempts = 1'000'000}};
  for (int round = 0; round < 3; ++round) {  // with a restart after each
    auto box = open(tiny, flaky);
    for (int n = 0; n < 60; ++n) {
      for (const char* a : {"a", "b", "c"}) {
        write(*box, order_event(a, std::to_string(round * 60 + n)));
      }
    }
    if (round == 2) {
      ASSERT_TRUE(box->wait_idle(60s));
    }
  }
  for (const auto& [aggregate, numbers] : seen) {
    ASSERT_EQ(numbers.size(), 180u) << aggregate;
    for (int n = 0; n < 180; ++n) ASSERT_EQ(numbers[static_cast<std::size_t>(n)], n) << aggregate;
  }
}

// Batches of a listener that fails some of their events.
class FlakyBatches final : public BatchListener {
 public:
  std::vector<Outcome> on_events(std::span<const Item> items) override {
    std::vector<Outcome> outcomes;
    std::set<std::string> failed;
    const std::lock_guard lock(mutex);
    for (const Item& item : items) {
      const std::string& aggregate = item.event.aggregate_id();
      if (failed.contains(aggregate)) {
        outcomes.push_back(Outcome::retry_after(0ms));
      } else if (++calls % 6 == 0) {
        failed.insert(aggregate);
        outcomes.push_back(Outcome::failed("now and then"));
      } else {
        seen[aggregate].push_back(std::stoi(item.event.payload()));
        outcomes.push_back(Outcome::done());
      }
    }
    return outcomes;
  }

  std::mutex mutex;
  int calls = 0;
  std::map<std::string, std::vector<int>> seen;
};

TEST_F(OrderTest, BatchesKeepTheOrderOverFailures) {
  bare_store = memory::open();
  store = faulty(bare_store, faults);
  auto batches = std::make_shared<FlakyBatches>();
  Listeners on;
  on.add_batch("Order", "Happened", batches, {.max_batch = 7});
  Outbox box{store,
             on,
             {.poll_interval = 60s,
              .retry = {.policy = retry_every(1ms), .max_attempts = 1'000'000},
              .log = log.log()}};
  box.start();
  for (int n = 0; n < 200; ++n) {
    auto tx = box.begin();
    for (const char* a : {"a", "b", "c"}) tx.write(order_event(a, std::to_string(n)));
    tx.commit();
  }
  ASSERT_TRUE(box.wait_idle(60s));
  for (const auto& [aggregate, numbers] : batches->seen) {
    ASSERT_EQ(numbers.size(), 200u) << aggregate;
    for (int n = 0; n < 200; ++n) ASSERT_EQ(numbers[static_cast<std::size_t>(n)], n) << aggregate;
  }
}

// --- Several instances on one store: who delivers what, and that nobody else does ---

using InstancesTest = EngineTest;

// Both own part of the table, and whatever was to be handed over has been: in
// steps well below the lease, so that neither takes the other for dead.
void settle(ManualClock& clock, Outbox& a, Outbox& b) {
  int steps = 0;
  ASSERT_TRUE(eventually([&] {
    clock.advance(100ms);
    a.wake();
    b.wake();
    return ++steps > 200 && a.owner() && b.owner();
  }));
}

TEST_F(InstancesTest, EachEventIsDeliveredOnceByTwoInstancesWithoutOrder) {
  auto a = open({.mode = Mode::multi_node, .ordering = Ordering::none});
  auto b = open({.mode = Mode::multi_node, .ordering = Ordering::none});
  settle(clock, *a, *b);
  for (int n = 0; n < 200; ++n) {
    write(n % 2 ? *a : *b, order_event(std::to_string(n), std::to_string(n)));
  }
  ASSERT_TRUE(eventually([&] {
    clock.advance(5ms);  // slowly: a keeper that stands still must not lose its lease
    a->wake();
    b->wake();
    return !store->has_pending();
  }));
  const auto ids = recorder->ids();
  EXPECT_EQ(std::set(ids.begin(), ids.end()).size(), 200u);
  EXPECT_EQ(ids.size(), 200u) << "the owner of a shard delivers, not the one that wrote";
  EXPECT_EQ((*metrics)[Counter::stale_updates], 0u);
}

TEST_F(InstancesTest, AShardIsNotHandedOverWhileItsOldOwnerReadsIt) {
  Barrier read;
  std::atomic<bool> stop_here{false};
  faults->after([&](std::string_view call) {
    if (call == "ready" && stop_here.exchange(false)) read.pass();
  });
  auto first_faults = std::exchange(faults, std::make_shared<Faults>());
  auto a = open({.mode = Mode::multi_node});
  store = faulty(bare_store, faults);
  ASSERT_TRUE(eventually([&] { return a->owner(); }));
  ASSERT_TRUE(a->wait_idle(20s));

  for (int n = 0; n < 40; ++n) write_elsewhere(order_event(std::to_string(n), std::to_string(n)));
  stop_here = true;
  a->wake();
  ASSERT_TRUE(read.reached());
  auto b = open({.mode = Mode::multi_node});
  int steps = 0;
  ASSERT_TRUE(eventually([&] {
    clock.advance(1s);
    a->wake();
    b->wake();
    return ++steps == 10;
  }));
  read.open();
  ASSERT_TRUE(eventually([&] {
    clock.advance(5ms);  // slowly: a keeper that stands still must not lose its lease
    a->wake();
    b->wake();
    return !store->has_pending() && b->owner();
  }));
  const auto ids = recorder->ids();
  EXPECT_EQ(ids.size(), std::set(ids.begin(), ids.end()).size()) << "delivered twice";
  EXPECT_EQ(ids.size(), 40u);
}

}  // namespace
}  // namespace outbox::testing
