// What once went wrong, or could have, when threads, instances and faults met
// at a bad moment.
#include <atomic>
#include <map>
#include <mutex>
#include <set>

#include "every_store.h"
#include "outbox/error.h"

namespace outbox::testing {
namespace {

// Sweeps are far away here: whatever only a sweep would find counts as lost. So the clock is the
// host's, unless a test moves it.
class RegressionTest : public OnEveryStore {
 protected:
  void SetUp() override {
    OnEveryStore::SetUp();
    if (!IsSkipped() && !HasFatalFailure()) use_store({.host_clock = true});
  }

  // Behind the faults; not started.
  std::unique_ptr<Outbox> open(Options options, const std::shared_ptr<Listener>& to) {
    if (options.poll_interval == kDefaultPollInterval) options.poll_interval = 10min;
    return make(std::move(options), to);
  }

  // By a writer that no engine hears of, except by the store's watch.
  std::vector<std::string> write(const std::vector<Draft>& drafts) {
    Writer writer{bare_store};
    auto tx = writer.begin();
    auto ids = tx.write_all(drafts);
    tx.commit();
    return ids;
  }
};
OUTBOX_ON_EVERY_STORE(RegressionTest);

TEST_P(RegressionTest, ADelayedEventOfAClaimerWaitedForItsOwnLock) {
  auto box =
      open({.mode = Mode::multi_node, .ordering = Ordering::none, .row_claims = true}, recorder);
  box->start();
  ASSERT_TRUE(eventually([&] { return box->owner(); }));
  Draft later = order_event("1", "1");
  later.deliver_after = 50ms;
  auto tx = box->begin();
  tx.write(later);
  tx.commit();
  EXPECT_TRUE(recorder->wait_for(1, 10s));
}

TEST_P(RegressionTest, ADelayedEventOfAClaimerWasLookedForBeforeItWasDue) {
  // Its delay counts from here, not from when the event was made.
  faults->before([](std::string_view call) {
    if (call == "insert") std::this_thread::sleep_for(20ms);
  });
  auto box =
      open({.mode = Mode::multi_node, .ordering = Ordering::none, .row_claims = true}, recorder);
  box->start();
  ASSERT_TRUE(eventually([&] { return box->owner(); }));
  Draft later = order_event("1", "1");
  later.deliver_after = 50ms;
  auto tx = box->begin();
  tx.write(later);
  tx.commit();
  EXPECT_TRUE(recorder->wait_for(1, 10s));
}

// Polls without a pause claim retries before the engine hears that their updates are acknowledged.
TEST_P(RegressionTest, ARetryThatWasClaimedBeforeItsUpdateWasKnownWaitedForTheLockToExpire) {
  const auto listener =
      std::make_shared<RecordingListener>([](const Event&, const Delivery& delivery) {
        if (delivery.attempt < 4) throw RetryAfterError("not yet", 1ms);
        return Outcome::done();
      });
  auto box = open({.mode = Mode::multi_node,
                   .ordering = Ordering::none,
                   .poll_interval = 1ms,
                   .row_claims = true},
                  listener);
  box->start();
  for (int i = 0; i < 50; ++i) write({order_event(std::to_string(i), "1")});
  EXPECT_TRUE(box->wait_idle(60s));
  EXPECT_EQ(listener->count(), 200u);
}

TEST_P(RegressionTest, OfTheRetriesInOneBatchAClaimerRememberedOnlyTheFirst) {
  Signal updating;
  Signal both_failed;
  faults->before([&](std::string_view call) {
    if (call != "update" || updating.count() > 0) return;
    updating.raise();
    EXPECT_TRUE(both_failed.wait());
  });
  const auto listener = std::make_shared<RecordingListener>([&](const Event& event,
                                                                const Delivery& delivery) {
    if (event.aggregate_id() == "last") both_failed.raise();
    if (event.aggregate_id() == "1" && !updating.wait()) ADD_FAILURE() << "no update";
    const std::map<std::string_view, std::chrono::milliseconds> failing{{"1", 10ms}, {"2", 100ms}};
    const auto wait = failing.find(event.aggregate_id());
    if (delivery.attempt > 1 || wait == failing.end()) return Outcome::done();
    return Outcome::failed("the first time", wait->second);
  });
  auto box =
      open({.mode = Mode::multi_node, .workers = 1, .ordering = Ordering::none, .row_claims = true},
           listener);
  box->start();
  write({order_event("0", "0"), order_event("1", "1"), order_event("2", "2"),
         order_event("last", "3")});
  EXPECT_TRUE(listener->wait_for(6, 10s));
}

TEST_P(RegressionTest, ARetryThatWasClaimedBeforeItsUpdateWasAcknowledgedWaitedForItsOwnLock) {
  OUTBOX_NEEDS(capabilities().row_claims);
  Signal updated;
  Signal claimed;
  faults->after([&](std::string_view call) {
    if (call == "claim" && updated.count() > 0) claimed.raise();
    if (call != "update" || updated.count() > 0) return;
    updated.raise();
    EXPECT_TRUE(claimed.wait());
  });
  const auto first_fails = std::make_shared<RecordingListener>([&](const Event&, const Delivery&) {
    return updated.count() == 0 ? Outcome::failed("the first time", 0ms) : Outcome::done();
  });
  auto box =
      open({.mode = Mode::multi_node, .ordering = Ordering::none, .row_claims = true}, first_fails);
  box->start();
  write({order_event("1", "1")});
  ASSERT_TRUE(updated.wait());
  write({order_event("2", "2")});  // has the reader look
  EXPECT_TRUE(first_fails->wait_for(3));
}

TEST_P(RegressionTest, TheHotPathTookEventsWhoseRowsAnybodyCouldClaim) {
  // A transaction there keeps everybody else from registering.
  OUTBOX_NEEDS(capabilities().dialect != Dialect::sqlite);
  auto box =
      open({.mode = Mode::multi_node, .ordering = Ordering::none, .row_claims = true}, recorder);
  auto tx = box->begin();
  tx.write(order_event("1", "1"));  // it owns nothing yet: the row is free
  box->start();
  ASSERT_TRUE(eventually([&] { return box->owner(); }));
  tx.commit();
  EXPECT_TRUE(box->wait_idle(20s));
  EXPECT_EQ(recorder->count(), 1u);
  EXPECT_EQ((*metrics)[Counter::hot_enqueued], 0u);
}

TEST_P(RegressionTest, TheHotPathTookEventsOfShardsThatAnotherInstanceOwns) {
  OUTBOX_NEEDS(capabilities().shards > 1);
  use_store({});
  auto one = open(
      {.mode = Mode::multi_node, .ordering = Ordering::none, .lease = {.duration = 20s}}, recorder);
  auto two = open(
      {.mode = Mode::multi_node, .ordering = Ordering::none, .lease = {.duration = 20s}}, recorder);
  one->start();
  two->start();
  ASSERT_TRUE(soon([&] { return one->owner() && two->owner(); }, *one, *two));
  for (int n = 0; n < 200; ++n) {
    auto tx = one->begin();
    tx.write(order_event(std::to_string(n), std::to_string(n)));
    tx.commit();
  }
  ASSERT_TRUE(one->wait_idle(20s));
  ASSERT_TRUE(two->wait_idle(20s));
  const auto ids = recorder->ids();
  EXPECT_EQ(ids.size(), std::set(ids.begin(), ids.end()).size());
}

TEST_P(RegressionTest, IdleWorkersLeftRowsUnreadBehindABusyLane) {
  Signal release;
  Signal other;
  auto slow = listener([&](const Event& event) {
    if (event.aggregate_id() == "busy") release.wait();
    if (event.aggregate_id() == "other") other.raise();
  });
  auto box = open({.queue = {.batch = 50}}, slow);
  box->start();
  ASSERT_TRUE(eventually([&] { return box->owner(); }));
  write({order_event("first", "1")});
  ASSERT_TRUE(box->wait_idle(20s));  // the reads of the start are over
  std::vector<Draft> drafts(50, order_event("busy", "1"));
  drafts.push_back(order_event("other", "1"));
  write(drafts);
  EXPECT_TRUE(other.wait());
  for (int n = 0; n < 50; ++n) release.raise();
  box->close();
}

TEST_P(RegressionTest, AHotEventWaitedForASlowRead) {
  OUTBOX_NEEDS(capabilities().progress == Progress::row);  // for a hot path
  Signal reading;
  Signal go_on;
  std::atomic<bool> armed{false};
  faults->before([&](std::string_view call) {
    if (call != "ready" || !armed.exchange(false)) return;
    reading.raise();
    go_on.wait();
  });
  auto box = open({.ordering = Ordering::none}, recorder);
  box->start();
  ASSERT_TRUE(eventually([&] { return box->owner(); }));
  ASSERT_TRUE(box->wait_idle(5s));
  armed = true;
  box->wake();
  ASSERT_TRUE(reading.wait());
  auto tx = box->begin();
  tx.write(order_event("1", "1"));
  tx.commit();
  EXPECT_TRUE(recorder->wait_for(1, 10s));
  go_on.raise();
}

TEST_P(RegressionTest, BlockedLanesHeldUpEverybodyAfterADeath) {
  use_store({});
  for (int n = 0; n < 30; ++n) write({order_event(std::to_string(n), "0")});
  {
    auto victim = store->join({.capacity = 100, .lease = 1min});
    const Lease lease = victim->renew();
    std::vector<StatusUpdate> updates;
    for (const Row& row : victim->ready(lease.shards, 0, 100).rows) {
      updates.push_back({.row = row.ref,
                         .event_id = row.event.id(),
                         .kind = StatusUpdate::Kind::dead,
                         .lane = static_cast<LaneKey>(100 + updates.size()),
                         .attempts = 1});
    }
    ASSERT_EQ(updates.size(), 30u);
    updates.back().kind = StatusUpdate::Kind::retry;
    ASSERT_FALSE(victim->apply(lease.epoch, updates).fenced);
  }
  advance(2min);
  auto box = open({.dead = {.then = OnDead::block}}, recorder);
  box->start();
  EXPECT_TRUE(recorder->wait_for(1, 10s));
}

TEST_P(RegressionTest, SkippingRecentEventsReadInALoop) {
  std::atomic<int> reads{0};
  faults->before([&](std::string_view call) {
    if (call == "ready") ++reads;
  });
  auto box = open({.ordering = Ordering::none, .skip_recent = 500ms}, recorder);
  box->start();
  ASSERT_TRUE(eventually([&] { return box->owner(); }));
  write(std::vector<Draft>(120, order_event("1", "1")));
  EXPECT_TRUE(recorder->wait_for(120, 5s));
  EXPECT_LT(reads, 100);
}

TEST_P(RegressionTest, AShardWasReleasedWhileItWasBeingRead) {
  OUTBOX_NEEDS(capabilities().shards > 1);
  use_store({.shards = 2});
  Signal read;
  Signal go_on;
  std::atomic<bool> armed{false};
  faults->after([&](std::string_view call) {
    if (call != "ready" || !armed.exchange(false)) return;
    read.raise();
    go_on.wait();
  });
  auto one = open({.mode = Mode::multi_node, .lease = {.duration = 20s}}, recorder);
  one->start();
  ASSERT_TRUE(eventually([&] { return one->owner(); }));
  ASSERT_TRUE(one->wait_idle(5s));
  armed = true;
  std::vector<Draft> drafts;
  for (int n = 0; n < 20; ++n) drafts.push_back(order_event(std::to_string(n), std::to_string(n)));
  write(drafts);
  ASSERT_TRUE(read.wait());
  auto two = open({.mode = Mode::multi_node, .lease = {.duration = 20s}}, recorder);
  two->start();
  // Time enough to hand a shard over and deliver it.
  int steps = 0;
  ASSERT_TRUE(soon([&] { return ++steps == 100; }, *one, *two));
  go_on.raise();
  ASSERT_TRUE(soon([&] { return two->owner() && !store->has_pending(); }, *one, *two));
  EXPECT_EQ(recorder->count(), 20u);
}

TEST_P(RegressionTest, EventsWereDroppedBecauseARenewalWasLate) {
  OUTBOX_NEEDS(capabilities().expiring_leases);
  use_store({});
  std::atomic<bool> slow{false};
  Signal go_on;
  faults->before([&](std::string_view call) {
    if (call == "renew" && slow) go_on.wait();
  });
  Signal working;
  Signal release;
  auto first_waits = std::make_shared<RecordingListener>([&](const Event& event, const Delivery&) {
    if (event.payload() == "0") {
      working.raise();
      release.wait();
    }
    return Outcome::done();
  });
  auto box = open({.workers = 1, .lease = {.duration = 20s}}, first_waits);
  box->start();
  ASSERT_TRUE(eventually([&] { return box->owner(); }));
  write({order_event("1", "0"), order_event("1", "1"), order_event("1", "2")});
  ASSERT_TRUE(working.wait());
  slow = true;
  advance(17s);  // of a lease of 20 s, less its margin
  box->wake();
  release.raise();
  std::this_thread::sleep_for(100ms);  // for what must not happen
  slow = false;
  go_on.raise();
  EXPECT_TRUE(first_waits->wait_for(3, 10s));
  EXPECT_EQ(first_waits->payloads(), (std::vector<std::string>{"0", "1", "2"}));
}

TEST_P(RegressionTest, LanesWereForgottenWhenALeaseRanOutAndCameBack) {
  OUTBOX_NEEDS(capabilities().expiring_leases);
  use_store({});
  std::atomic<bool> unreachable{false};
  std::atomic<int> refused{0};
  faults->before([&](std::string_view call) {
    if (call != "renew" || !unreachable) return;
    ++refused;
    throw RetryableError("unreachable");
  });
  Signal working;
  Signal release;
  auto to = std::make_shared<RecordingListener>([&](const Event& event, const Delivery&) {
    if (event.payload() == "\"fails\"") return Outcome::failed("no", 1h);
    if (event.payload() == "\"waits\"") {
      working.raise();
      release.wait();
    }
    return Outcome::done();
  });
  auto box = open({.workers = 1, .lease = {.duration = 20s}}, to);
  box->start();
  ASSERT_TRUE(eventually([&] { return box->owner(); }));
  const auto first = write({order_event("1", "\"fails\""), order_event("1", "\"follows\"")});
  ASSERT_TRUE(eventually([&] { return store->admin().find(first[1])->hold.value_or(0) > 0; }));
  write({order_event("2", "\"waits\"")});
  ASSERT_TRUE(working.wait());  // so that nobody reads now
  unreachable = true;
  advance(17s);
  box->wake();
  ASSERT_TRUE(eventually([&] { return refused > 0 && !box->owner(); }));
  unreachable = false;
  advance(1s);
  box->wake();
  ASSERT_TRUE(eventually([&] { return box->owner(); }));
  release.raise();
  const auto late = write({order_event("1", "\"late\"")});
  EXPECT_TRUE(eventually([&] { return store->admin().find(late[0])->hold.value_or(0) > 0; }));
  EXPECT_EQ(store->admin().find(late[0])->row.status, Status::pending);
}

TEST_P(RegressionTest, ARowThatAReadFoundToBeDueLaterWaitedForTheSweep) {
  auto box = open({}, recorder);
  box->start();
  ASSERT_TRUE(eventually([&] { return box->owner(); }));
  Draft later = order_event("1", "1");
  later.deliver_after = 300ms;
  write({later});
  EXPECT_TRUE(recorder->wait_for(1, 10s));
}

TEST_P(RegressionTest, AFailureWhileEnteringALeaseWasNotMadeGood) {
  std::atomic<int> failures{1};
  faults->before([&](std::string_view call) {
    if (call == "held_lanes" && failures-- > 0) throw RetryableError("unreachable");
  });
  write({order_event("1", "1")});
  auto box = open({.lease = {.duration = 60s}}, recorder);
  box->start();
  EXPECT_TRUE(recorder->wait_for(1, 10s));
}

TEST_P(RegressionTest, ARetryPolicyThatThrowsEndedTheProcess) {
  struct Broken final : RetryPolicy {
    std::chrono::milliseconds delay(int) const override { throw std::runtime_error("oops"); }
  };
  auto failing = std::make_shared<RecordingListener>([](const Event&, const Delivery& delivery) {
    return delivery.attempt == 1 ? Outcome::failed("no") : Outcome::done();
  });
  auto box = open({.retry = {.policy = std::make_shared<Broken>()}}, failing);
  box->start();
  write({order_event("1", "1")});
  EXPECT_TRUE(failing->wait_for(2));
}

// Delivers the first event of its life in vain, for good.
class FirstIsDead final : public BatchListener {
 public:
  std::vector<Outcome> on_events(std::span<const Item> items) override {
    const std::lock_guard lock(mutex_);
    std::vector<Outcome> outcomes;
    const bool first = seen_.empty();
    for (const Item& item : items) {
      const bool waits = first && !outcomes.empty();
      outcomes.push_back(waits   ? Outcome::retry_after(0ms)
                         : first ? Outcome::permanent("the first")
                                 : Outcome::done());
      if (!waits) seen_.push_back(item.event.id());
    }
    return outcomes;
  }

  std::vector<std::string> seen() const {
    const std::lock_guard lock(mutex_);
    return seen_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> seen_;
};

TEST_P(RegressionTest, TheRestOfABatchWasOvertakenWhenItsFirstEventWasDead) {
  const auto batches = std::make_shared<FirstIsDead>();
  Listeners on;
  on.add_batch("Order", "Happened", batches, {.max_batch = 2});
  Outbox box{store, on, with_defaults({.workers = 1, .poll_interval = 10min})};
  const std::vector<std::string> ids =
      write({order_event("1", "1"), order_event("1", "2"), order_event("1", "3"),
             order_event("1", "4"), order_event("1", "5")});
  box.start();
  EXPECT_TRUE(box.wait_idle(20s));
  EXPECT_EQ(batches->seen(), ids);
}

TEST_P(RegressionTest, WhoHadAnEventOfAFanOutWasForgottenByClose) {
  std::atomic<int> mails{0};
  std::atomic<bool> unavailable{true};
  const auto run = [&](const std::function<bool()>& until) {
    Listeners on;
    on.fan_out("Order", "Happened",
               {handler("stock",
                        [&](const Event&) {
                          return unavailable ? Outcome::unavailable("unavailable")
                                             : Outcome::done();
                        }),
                handler("mail", [&](const Event&) { ++mails; })});
    Outbox box{store, on, with_defaults({.poll_interval = 10min, .breaker = {.pause = 30s}})};
    box.start();
    EXPECT_TRUE(eventually(until));
    box.close();
  };
  write({order_event("1", "1")});
  run([&] { return mails == 1; });
  unavailable = false;
  run([&] { return !store->has_pending(); });
  EXPECT_EQ(mails, 1);
}

TEST_P(RegressionTest, AnIdThatWasRolledBackDuringAReadAndWrittenAgainWasDeliveredTwice) {
  OUTBOX_NEEDS(capabilities().progress == Progress::row);  // for a hot path
  Barrier reading;
  Barrier delivering;
  std::atomic<bool> slow{false};
  faults->before([&](std::string_view call) {
    if (call == "ready" && slow) reading.pass();
  });
  const auto to = std::make_shared<RecordingListener>([&](const Event&, const Delivery&) {
    delivering.pass();
    return Outcome::done();
  });
  auto box = open({.workers = 3, .ordering = Ordering::none}, to);
  box->start();
  ASSERT_TRUE(eventually([&] { return box->owner(); }));
  slow = true;
  const OpenAtEnd at_end(delivering);
  const OpenAtEnd before_that(reading);
  box->wake();
  ASSERT_TRUE(reading.reached());

  Draft draft = order_event("1", "1");
  draft.id = "x";
  {
    auto tx = box->begin();
    tx.write(draft);
    tx.rollback();
  }
  auto tx = box->begin();
  tx.write(draft);
  tx.commit();
  ASSERT_TRUE(delivering.reached());

  slow = false;
  reading.open();
  const std::size_t reads = faults->calls("ready");
  EXPECT_TRUE(eventually([&] {
    box->wake();
    return faults->calls("ready") > reads + 2;
  }));
  EXPECT_FALSE(delivering.reached(2, 50ms));
  delivering.open();
  EXPECT_TRUE(box->wait_idle(20s));
  EXPECT_EQ(to->count(), 1u);
}

TEST_P(RegressionTest, WhoHadAnEventOfAFanOutWasForgottenWhenItsShardWasHandedOver) {
  std::atomic<int> mails{0};
  Listeners on;
  on.fan_out("Order", "Happened",
             {handler("mail", [&](const Event&) { ++mails; }),
              handler("stock", [](const Event&) { return Outcome::unavailable("unavailable"); })});
  Outbox box{store, on, with_defaults({.poll_interval = 10min})};
  box.start();
  const std::string id = write({order_event("1", "1")}).front();
  // In the store: its next owner must know.
  EXPECT_TRUE(eventually([&] { return store->admin().find(id)->row.progress == "mail"; }));
  EXPECT_TRUE(eventually([&] { return !box.health().reasons.empty(); }));
  EXPECT_EQ(mails, 1);
}

TEST_P(RegressionTest, ReservedRowsKeptOthersFromBeingReadUntilTheirCommitWasAnswered) {
  constexpr std::size_t kBatch = 5;
  Barrier answer;
  faults->after([&](std::string_view call) {
    if (call == "commit") answer.pass();
  });
  auto box = open({.ordering = Ordering::none, .queue = {.batch = kBatch}}, recorder);
  box->start();
  ASSERT_TRUE(eventually([&] { return box->owner(); }));
  std::jthread writer([&] {
    auto tx = box->begin();
    tx.write_all(std::vector<Draft>(2 * kBatch, order_event("1", "1")));
    tx.commit();
  });
  const OpenAtEnd at_end(answer);
  ASSERT_TRUE(answer.reached());
  write({order_event("2", "2")});  // behind them
  EXPECT_TRUE(recorder->wait_for(1, 20s));
  EXPECT_LT(faults->calls("ready"), 100u) << "it was read again and again";
  answer.open();
  EXPECT_TRUE(recorder->wait_for(1 + 2 * kBatch, 20s));
}

TEST_P(RegressionTest, AnEventReplayedBeforeItsDeathWasAcknowledgedWaitedForTheSweep) {
  Barrier answer;
  faults->after([&](std::string_view call) {
    if (call == "update") answer.pass();
  });
  std::atomic<bool> wrong{true};
  const auto to = std::make_shared<RecordingListener>([&](const Event&, const Delivery&) {
    return wrong.exchange(false) ? Outcome::permanent("wrong") : Outcome::done();
  });
  auto box = open({}, to);
  box->start();
  const OpenAtEnd at_end(answer);
  const std::string id = write({order_event("1", "1")}).front();
  ASSERT_TRUE(answer.reached());
  const std::size_t looks = faults->calls("due");
  ASSERT_TRUE(store->admin().replay(id));
  box->wake();  // not every store tells of a replay
  ASSERT_TRUE(eventually([&] { return faults->calls("due") > looks; }));
  answer.open();
  EXPECT_TRUE(to->wait_for(2, 20s));
}

// See the invariants of Lanes: a crash in between must not leave followers held without their
// head.
TEST_P(RegressionTest, TheHoldOfFollowersCouldBeRecordedBeforeThatOfTheirHead) {
  std::mutex mutex;
  std::vector<std::string> updated;
  faults->on_update([&](std::span<const StatusUpdate> updates) -> std::optional<UpdateResult> {
    const std::lock_guard lock(mutex);
    for (const StatusUpdate& update : updates) updated.push_back(update.event_id);
    return std::nullopt;
  });
  std::atomic<bool> failed{false};
  const auto to = std::make_shared<RecordingListener>([&](const Event&, const Delivery&) {
    return failed.exchange(true) ? Outcome::done() : Outcome::failed("once", 1ms);
  });
  const std::vector<std::string> ids =
      write({order_event("1", "1"), order_event("1", "2"), order_event("1", "3")});
  auto box = open({.workers = 1}, to);
  box->start();
  EXPECT_TRUE(box->wait_idle(20s));
  const std::lock_guard lock(mutex);
  ASSERT_GE(updated.size(), ids.size());
  updated.resize(ids.size());
  EXPECT_EQ(updated, ids);
}

TEST_P(RegressionTest, DueRowsHadAnUnreachableDatabaseAskedInALoop) {
  faults->before(failing({"ready"}));
  auto box = open({}, recorder);
  box->start();
  ASSERT_TRUE(eventually([&] { return faults->calls("ready") > 0; }));
  const auto began = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(300ms);
  const std::size_t asked = faults->calls("ready");
  const auto slept = std::chrono::steady_clock::now() - began;
  EXPECT_LT(asked, 4u + static_cast<std::size_t>(slept / 100ms));  // one in 250 ms
}

}  // namespace
}  // namespace outbox::testing
