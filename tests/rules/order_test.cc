// Order within an aggregate, and what happens behind a dead event.
#include <set>

#include "every_store.h"
#include "outbox/error.h"

namespace outbox::testing {
namespace {

using Texts = std::vector<std::string>;

// Fails events by their payload until told otherwise.
class OrderTest : public OnEveryStore {
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
    return eventually([&] { return delivered() == all; });
  }
  // Until nothing can happen any more without a new fact.
  bool wait_pending(Outbox& box, std::int64_t n) {
    return eventually([&] { return box.in_flight() == 0 && store->counts().pending == n; });
  }

 private:
  std::mutex mutex_;
  std::map<std::string, Outcome> bad_;
  Texts good_;
};
OUTBOX_ON_EVERY_STORE(OrderTest);

TEST_P(OrderTest, TheLaterOnesWaitWhileTheHeadWaitsForItsRetry) {
  answer("1", Outcome::failed("not yet"));
  auto box = open({.retry = {.policy = retry_every(10min)}}, picky);
  for (const char* n : {"1", "2", "3"}) write(*box, order_event("a", n));
  write(*box, order_event("b", "\"other\""));
  ASSERT_TRUE(wait_delivered({"\"other\""}));
  ASSERT_TRUE(picky->wait_for(2));
  ASSERT_TRUE(wait_pending(*box, 3));
  advance_almost(10min);
  box->wake();
  write(*box, order_event("a", "4"));
  ASSERT_TRUE(wait_pending(*box, 4));
  EXPECT_EQ(picky->count(), 2u);
  ASSERT_EQ(store->admin().held_aggregates(10).size(), 1u);
  EXPECT_EQ(store->admin().held_aggregates(10)[0].aggregate_id, "a");
  heal();
  advance_rest();
  box->wake();
  ASSERT_TRUE(box->wait_idle(20s));
  EXPECT_EQ(delivered(), (Texts{"\"other\"", "1", "2", "3", "4"}));
}

// As a crash leaves it while a lane is too long and still has rows in memory that it
// has read back: some held, then ready ones, then some held again.
TEST_P(OrderTest, RowsBetweenThoseThatAreHeldAreNotPassed) {
  use_store({.shards = 1});
  std::vector<StatusUpdate> held;
  for (const char* n : {"1", "2", "3", "4", "5"}) {
    const bool between = n[0] == '2' || n[0] == '3';
    const std::string id = write_elsewhere(order_event(between ? "b" : "a", n));
    if (n[0] != '1' && n[0] != '5') continue;
    held.push_back({.row = store->admin().find(id)->row.ref,
                    .event_id = id,
                    .kind = StatusUpdate::Kind::hold,
                    .lane = lane_of("a")});
  }
  const auto before = store->join({});
  ASSERT_TRUE(before->apply(renewed_and_read(*before).epoch, held).stale.empty());
  before->leave();
  auto box = open({.queue = {.batch = 2}}, picky);
  ASSERT_TRUE(box->wait_idle(20s));
  Texts of_a = delivered();
  std::erase_if(of_a, [](const std::string& n) { return n == "2" || n == "3"; });
  EXPECT_EQ(of_a, (Texts{"1", "4", "5"}));
}

TEST_P(OrderTest, ARestartInBetweenKeepsTheOrder) {
  answer("1", Outcome::failed("not yet"));
  {
    auto box = open({.retry = {.policy = retry_every(10min)}}, picky);
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
  advance(10min);
  box->wake();
  ASSERT_TRUE(box->wait_idle(20s));
  EXPECT_EQ(delivered(), (Texts{"\"other\"", "1", "2", "3", "4"}));
}

// Rule 43: memory is bounded in bytes on every path.
TEST_P(OrderTest, LargeEventsBehindAFailingHeadAreReadBackNoFasterThanTheyFit) {
  constexpr std::size_t kEvents = 300;
  constexpr std::size_t kSize = 20'000;
  constexpr std::size_t kCapacity = 10 * kSize;
  const auto payload = [](std::size_t n) {
    std::string text = std::to_string(n);
    return "\"" + std::string(kSize - 2 - text.size(), 'x') + text + "\"";
  };
  answer(payload(0), Outcome::failed("not yet"));
  auto box = open({.queue = {.capacity_bytes = kCapacity}, .retry = {.policy = retry_every(10min)}},
                  picky);
  for (std::size_t n = 0; n < kEvents; ++n) write(*box, order_event("a", payload(n)));
  const auto all_held = [&] { return box->in_flight() == 0 && store->counts().held == kEvents; };
  ASSERT_TRUE(eventually(all_held));
  const std::size_t before = faults->bytes_read();

  constexpr std::size_t kRetries = 5;
  for (std::size_t retry = 1; retry <= kRetries; ++retry) {
    advance(10min);
    box->wake();
    ASSERT_TRUE(picky->wait_for(1 + retry));
    ASSERT_TRUE(eventually(all_held));
  }
  EXPECT_LE(faults->bytes_read() - before, kRetries * 2 * kSize) << "the head, and not the others";

  heal();
  advance(10min);
  box->wake();
  ASSERT_TRUE(box->wait_idle(20s));
  EXPECT_LE(faults->largest_read(), kCapacity + kSize);
  EXPECT_LE(faults->bytes_read() - before, (kEvents + 2 * kRetries + 20) * kSize)
      << "nothing is fetched to be thrown away";
  const Texts got = delivered();
  ASSERT_EQ(got.size(), kEvents);
  for (std::size_t n = 0; n < kEvents; ++n) ASSERT_TRUE(got[n] == payload(n)) << n;
}

TEST_P(OrderTest, SkipGoesOnWithTheNext) {
  answer("1", Outcome::permanent("bad"));
  auto box = open({.dead = {.then = OnDead::skip}}, picky);
  for (const char* n : {"1", "2", "3"}) write(*box, order_event("a", n));
  ASSERT_TRUE(box->wait_idle(20s));
  EXPECT_EQ(delivered(), (Texts{"2", "3"}));
}

TEST_P(OrderTest, BlockWaitsForAnOperatorWhoReplays) {
  answer("1", Outcome::permanent("bad"));
  auto box = open({.dead = {.then = OnDead::block}}, picky);
  const auto head = write(*box, order_event("a", "1"));
  for (const char* n : {"2", "3"}) write(*box, order_event("a", n));
  ASSERT_TRUE(wait_pending(*box, 2));
  pass(*box, 60s);
  EXPECT_TRUE(delivered().empty());
  ASSERT_EQ(store->admin().held_aggregates(10).size(), 1u);
  EXPECT_EQ(store->admin().held_aggregates(10)[0].head_status, Status::dead);

  heal();
  ASSERT_TRUE(store->admin().replay(head));
  box->wake();
  ASSERT_TRUE(in_time([&] { return !store->has_pending(); }, *box));
  EXPECT_EQ(delivered(), (Texts{"1", "2", "3"}));
}

TEST_P(OrderTest, BlockWaitsForAnOperatorWhoDiscardsAlsoAfterARestart) {
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
  ASSERT_TRUE(store->admin().discard(head));
  ASSERT_TRUE(in_time([&] { return !store->has_pending(); }, *box));
  EXPECT_EQ(delivered(), (Texts{"\"other\"", "2", "3", "4"}));
}

TEST_P(OrderTest, AFreedHeadIsFoundAtOnceHoweverManyAreBlocked) {
  const int blocked = many(2'000, 200);
  answer("1", Outcome::permanent("bad"));
  std::map<std::string, std::string> heads;
  auto box = open({.poll_interval = 1h, .dead = {.then = OnDead::block}}, picky);
  for (int n = 0; n < blocked; ++n) {
    const std::string aggregate = std::to_string(n);
    heads[aggregate] = write(*box, order_event(aggregate, "1"));
    write(*box, order_event(aggregate, "\"behind " + aggregate + "\""));
  }
  ASSERT_TRUE(wait_pending(*box, blocked));
  heal();

  // No poll interval ends.
  ASSERT_TRUE(store->admin().replay(heads["150"]));
  EXPECT_TRUE(wait_delivered({"1", "\"behind 150\""}));
  ASSERT_TRUE(store->admin().discard(heads["70"]));
  EXPECT_FALSE(store->admin().replay(heads["70"]));
  ASSERT_TRUE(store->admin().replay(heads["71"]));
  EXPECT_TRUE(eventually([&] { return store->counts().pending == blocked - 3; }));
  EXPECT_EQ(delivered().size(), 5u);
}

TEST_P(OrderTest, AFreedHeadIsFoundSoonWithoutNewsOfCommits) {
  answer("1", Outcome::permanent("bad"));
  auto box = open({.poll_interval = std::chrono::hours{1}, .dead = {.then = OnDead::block}}, picky);
  const auto head = write(*box, order_event("a", "1"));
  write(*box, order_event("a", "2"));
  ASSERT_TRUE(wait_pending(*box, 1));
  ASSERT_TRUE(store->admin().discard(head));  // which this store tells nobody
  advance(1s);
  EXPECT_TRUE(wait_delivered({"2"}));
}

TEST_P(OrderTest, AfterABlockASwitchToSkipLetsTheOthersGo) {
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

TEST_P(OrderTest, ParkHoldsTheLaterOnesUntilTheyAreReplayedInOrder) {
  answer("1", Outcome::permanent("bad"));
  auto box = open({.dead = {.then = OnDead::park}}, picky);
  Texts ids;
  for (const char* n : {"1", "2", "3"}) ids.push_back(write(*box, order_event("a", n)));
  ASSERT_TRUE(wait_pending(*box, 0));
  ids.push_back(write(*box, order_event("a", "4")));
  ASSERT_TRUE(wait_pending(*box, 0));
  for (const auto& id : ids) EXPECT_EQ(status(id), Status::dead);
  EXPECT_EQ(attempts(ids[1]), 0);
  EXPECT_EQ(store->admin().find(ids[1])->last_error,
            "parked: an earlier event of its aggregate is dead");
  EXPECT_TRUE(delivered().empty());

  heal();
  ASSERT_TRUE(store->admin().replay(ids[0]));
  ASSERT_TRUE(in_time([&] { return delivered() == Texts{"1"}; }, *box));
  EXPECT_EQ(status(ids[1]), Status::dead) << "only what was replayed";
  for (std::size_t n : {1u, 2u, 3u}) ASSERT_TRUE(store->admin().replay(ids[n]));
  ASSERT_TRUE(in_time([&] { return !store->has_pending(); }, *box));
  EXPECT_EQ(delivered(), (Texts{"1", "2", "3", "4"})) << "in the order of their rows";
}

TEST_P(OrderTest, AfterAParkASwitchToSkipFreesAllDeadOnesHoweverMany) {
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
  EXPECT_TRUE(store->admin().held_aggregates(10).empty());
  for (std::size_t n = 0; n < 30; ++n)
    EXPECT_EQ(store->admin().find(ids[n])->hold, std::nullopt) << n;

  // They are found again when they are replayed.
  ASSERT_TRUE(store->admin().replay(ids[20]));
  box->wake();
  ASSERT_TRUE(box->wait_idle(20s));
  EXPECT_EQ(delivered(), (Texts{"99", "20"}));
}

TEST_P(OrderTest, TinyQueuesAndBatchesKeepTheOrder) {
  use_store({.host_clock = true});
  const int a_round = many(60, 20);
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
    for (int n = 0; n < a_round; ++n) {
      for (const char* a : {"a", "b", "c"}) {
        write(*box, order_event(a, std::to_string(round * a_round + n)));
      }
    }
    if (round == 2) {
      ASSERT_TRUE(box->wait_idle(60s));
    }
  }
  for (const auto& [aggregate, numbers] : seen) {
    ASSERT_EQ(numbers.size(), static_cast<std::size_t>(3 * a_round)) << aggregate;
    for (int n = 0; n < 3 * a_round; ++n)
      ASSERT_EQ(numbers[static_cast<std::size_t>(n)], n) << aggregate;
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

TEST_P(OrderTest, BatchesKeepTheOrderOverFailures) {
  use_store({.host_clock = true});
  const int transactions = many(200, 60);
  auto batches = std::make_shared<FlakyBatches>();
  Listeners on;
  on.add_batch("Order", "Happened", batches, {.max_batch = 7});
  Outbox box{store, on,
             with_defaults({.poll_interval = 60s,
                            .retry = {.policy = retry_every(1ms), .max_attempts = 1'000'000}})};
  box.start();
  for (int n = 0; n < transactions; ++n) {
    auto tx = box.begin();
    for (const char* a : {"a", "b", "c"}) tx.write(order_event(a, std::to_string(n)));
    tx.commit();
  }
  ASSERT_TRUE(box.wait_idle(60s));
  for (const auto& [aggregate, numbers] : batches->seen) {
    ASSERT_EQ(numbers.size(), static_cast<std::size_t>(transactions)) << aggregate;
    for (int n = 0; n < transactions; ++n)
      ASSERT_EQ(numbers[static_cast<std::size_t>(n)], n) << aggregate;
  }
}

}  // namespace
}  // namespace outbox::testing
