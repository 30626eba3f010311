// What the engine does when the database or a listener is unavailable, when its lease
// is lost, and when an event kills the process.
#include <set>
#include <stop_token>

#include "every_store.h"
#include "outbox/error.h"

namespace outbox::testing {
namespace {

using Texts = std::vector<std::string>;

class FaultsTest : public OnEveryStore {};
OUTBOX_ON_EVERY_STORE(FaultsTest);

// --- Unavailable listeners (rule 36) ---

TEST_P(FaultsTest, AnUnavailableListenerCostsNoAttemptAndIsLeftAloneForAPause) {
  std::atomic<bool> unavailable{true};
  auto broker = std::make_shared<RecordingListener>([&](const Event&, const Delivery&) -> Outcome {
    if (unavailable) throw UnavailableError("no broker");
    return Outcome::done();
  });
  auto box = open(
      {.workers = 1, .retry = {.max_attempts = 1}, .breaker = {.pause = 10min, .max_pause = 40min}},
      broker);
  Texts ids;
  for (int n = 0; n < 20; ++n) ids.push_back(write(*box, order_event(std::to_string(n % 3), "1")));
  ASSERT_TRUE(broker->wait_for(1));
  std::size_t calls = 1;
  for (const auto pause : {10min, 20min, 40min, 40min}) {
    ASSERT_TRUE(eventually([&] { return (*metrics)[Counter::deferred] == calls; }));
    advance_almost(pause);
    box->wake();
    EXPECT_FALSE(broker->wait_for(calls + 1, 20ms));
    advance_rest();
    box->wake();
    ASSERT_TRUE(broker->wait_for(++calls)) << "one probe after each pause";
  }
  ASSERT_TRUE(eventually([&] { return (*metrics)[Counter::deferred] == calls; }));
  for (const auto& id : ids) EXPECT_EQ(attempts(id), 0);
  unavailable = false;
  advance(40min);
  box->wake();
  ASSERT_TRUE(box->wait_idle(20s));
  for (const auto& id : ids) EXPECT_EQ(status(id), Status::done);
  EXPECT_TRUE(log.contains("Order/Happened is unavailable, its events wait: no broker"));
  EXPECT_TRUE(eventually(
      [&] { return log.contains("the listener of Order/Happened is available again"); }));
}

// --- A database that is unreachable (rules 20, 36) ---

class DatabaseOutageTest : public FaultsTest {
 protected:
  void fail_now_and_then(std::string_view kind);
};
OUTBOX_ON_EVERY_STORE(DatabaseOutageTest);

void DatabaseOutageTest::fail_now_and_then(std::string_view kind) {
  std::atomic<int> calls{0};
  std::mutex mutex;
  std::map<std::string, int> failed;
  auto flaky =
      std::make_shared<RecordingListener>([&](const Event& event, const Delivery&) -> Outcome {
        if (calls++ % 7 == 3) {
          const std::lock_guard lock(mutex);
          ++failed[event.id()];
          throw std::runtime_error("now and then");
        }
        return Outcome::done();
      });
  // Two of three calls of this kind fail, for a while. (Before the box: its threads use them.)
  std::atomic<int> count{0};
  const auto fail = [&](std::string_view call) {
    if (call != kind) return;
    const int n = count++;
    if (n < 12 && n % 3 != 2) throw RetryableError("unreachable: " + std::string(call));
  };
  auto box = open(
      {.poll_interval = 60s, .retry = {.policy = retry_every(1ms), .max_attempts = 1000}}, flaky);
  std::set<std::string> ids;
  faults->before(fail);
  for (int n = 0; n < 60; ++n) {
    ids.insert(write(*box, order_event(std::to_string(n % 4), std::to_string(n))));
  }
  EXPECT_TRUE(box->wait_idle(30s)) << "stuck after " << kind << " failed";
  faults->clear();
  for (const auto& id : ids) {
    EXPECT_EQ(status(id), Status::done);
    // By position, what is DONE has none.
    const bool kept = capabilities().progress == Progress::row;
    EXPECT_EQ(attempts(id), kept ? failed[id] : 0) << "an attempt that was none";
  }
}

TEST_P(DatabaseOutageTest, NothingIsLostAndNoAttemptIsSpent) {
  use_store({.host_clock = true});
  for (const char* kind : {"ready", "due", "held", "held_lanes", "update", "renew"}) {
    SCOPED_TRACE(kind);
    fail_now_and_then(kind);
  }
}

TEST_P(FaultsTest, AFailedUpdateIsNeitherASuccessNorDeliveredAgain) {
  faults->before(failing({"update"}));
  auto box = open();
  write(*box, order_event("1", "1"));
  ASSERT_TRUE(recorder->wait_for(1));
  ASSERT_TRUE(eventually([&] { return faults->calls("update") > 3; }));
  EXPECT_EQ((*metrics)[Counter::success], 0u);
  EXPECT_EQ(box->in_flight(), 1u);
  faults->clear();
  ASSERT_TRUE(box->wait_idle(20s));
  EXPECT_EQ((*metrics)[Counter::success], 1u);
  EXPECT_EQ(recorder->count(), 1u);
}

// --- A lost lease (rules 22, 27) ---

TEST_P(FaultsTest, AZombiesUpdateChangesNothingAndIsCounted) {
  OUTBOX_NEEDS(capabilities().expiring_leases);
  Barrier inside;
  auto stuck = std::make_shared<RecordingListener>([&](const Event&, const Delivery&) -> Outcome {
    inside.pass();
    throw PermanentError("the zombie's opinion");
  });
  auto zombie_faults = faults;
  auto zombie = open({.lease = {.duration = 20s}}, stuck);
  const auto id = write(*zombie, order_event("1", "1"));
  ASSERT_TRUE(inside.reached());

  zombie_faults->before(failing({"renew"}));
  faults = std::make_shared<Faults>();
  store = faulty(bare_store, faults);
  auto next = make({.lease = {.duration = 20s}});
  advance(21s);
  next->start();
  ASSERT_TRUE(recorder->wait_for(1)) << "taken over";
  ASSERT_TRUE(next->wait_idle(20s));
  EXPECT_EQ(status(id), Status::done);

  ASSERT_TRUE(eventually([&] {
    zombie->wake();
    return !zombie->owner();
  })) << "it knows, before its listener returns";
  zombie_faults->clear();
  inside.open();
  ASSERT_TRUE(eventually([&] {
    zombie->wake();
    return zombie->in_flight() == 0;
  }));
  EXPECT_EQ(status(id), Status::done);
  EXPECT_EQ((*metrics)[Counter::dead], 0u);
  EXPECT_EQ((*metrics)[Counter::stale_updates], 1u);
}

TEST_P(FaultsTest, AnUpdateThatIsSentAfterTheLeaseWasLostIsCountedAsStale) {
  OUTBOX_NEEDS(capabilities().progress == Progress::row);
  OUTBOX_NEEDS(capabilities().expiring_leases);
  Barrier inside;
  auto stuck = std::make_shared<RecordingListener>([&](const Event&, const Delivery&) {
    inside.pass();
    return Outcome::done();
  });
  // The zombie slept, and does not know: its keeper sees no failure.
  Barrier asleep;
  std::atomic<bool> sleeps{false};
  faults->before([&](std::string_view call) {
    if (call == "renew" && sleeps) asleep.pass();
  });
  auto zombie = open({.lease = {.duration = 20s}}, stuck);
  const auto id = write(*zombie, order_event("1", "1"));
  ASSERT_TRUE(inside.reached());
  sleeps = true;
  store = bare_store;
  auto next = make({.lease = {.duration = 20s}});
  advance(21s);
  next->start();
  ASSERT_TRUE(next->wait_idle(20s));
  inside.open();
  ASSERT_TRUE(eventually([&] { return (*metrics)[Counter::stale_updates] == 1; }));
  EXPECT_EQ((*metrics)[Counter::success], 1u) << "the new owner's";
  EXPECT_EQ(status(id), Status::done);
  asleep.open();
}

TEST_P(FaultsTest, ASecondInstanceOnOneShardIsAStandbyAndTakesOverWhenTheFirstLeaves) {
  use_store({.shards = 1});
  auto first = open();
  ASSERT_TRUE(eventually([&] { return first->owner(); }));
  auto second = open();
  for (int n = 0; n < 50; ++n) write(*second, order_event("1", std::to_string(n)));
  ASSERT_TRUE(first->wait_idle(20s));
  EXPECT_FALSE(second->owner());
  EXPECT_EQ(recorder->count(), 50u);
  first->close();
  ASSERT_TRUE(soon([&] { return second->owner(); }, *second));
  write(*second, order_event("1", "50"));
  ASSERT_TRUE(second->wait_idle(20s));
  const auto payloads = recorder->payloads();
  ASSERT_EQ(payloads.size(), 51u);
  for (std::size_t n = 0; n < 51; ++n) EXPECT_EQ(payloads[n], std::to_string(n));
}

// The database is unreachable for longer than the engine trusts its lease, but nobody
// else takes over: while the head of an aggregate is inside its listener, the
// events behind it must not be delivered.
TEST_P(FaultsTest, AfterALapseOfTheLeaseFollowersStillWaitForAHeadThatRuns) {
  OUTBOX_NEEDS(capabilities().expiring_leases);
  Barrier inside;
  std::atomic<bool> head_runs{false};
  std::atomic<bool> overtaken{false};
  auto slow = std::make_shared<RecordingListener>([&](const Event& event, const Delivery&) {
    if (event.payload() == "1") {
      head_runs = true;
      inside.pass();
      head_runs = false;
    } else if (head_runs) {
      overtaken = true;
    }
    return Outcome::done();
  });
  auto box = open({.lease = {.duration = 20s}}, slow);
  write(*box, order_event("a", "1"));
  ASSERT_TRUE(inside.reached());
  faults->before(failing({"renew"}));
  advance(17s);
  box->wake();
  ASSERT_TRUE(eventually([&] { return !box->owner(); }));
  faults->clear();
  write_elsewhere(order_event("a", "2"));
  ASSERT_TRUE(soon([&] { return box->owner(); }, *box));
  EXPECT_FALSE(slow->wait_for(2, 100ms)) << "delivered while the head is inside its listener";
  inside.open();
  ASSERT_TRUE(soon([&] { return !store->has_pending(); }, *box));
  EXPECT_FALSE(overtaken);
}

// The same where the listener has answered, and its answer has not reached the store.
class LapseTest : public FaultsTest {
 protected:
  void lapse_during_update(bool fails);
};
OUTBOX_ON_EVERY_STORE(LapseTest);

void LapseTest::lapse_during_update(bool fails) {
  OUTBOX_NEEDS(capabilities().expiring_leases);
  std::atomic<bool> failed{false};
  auto listener = std::make_shared<RecordingListener>([&](const Event& event, const Delivery&) {
    const bool now = fails && event.payload() == "1" && !failed.exchange(true);
    return now ? Outcome::failed("not yet", 0ms) : Outcome::done();
  });
  Barrier updating;
  std::atomic<bool> unreachable{false};
  faults->before([&](std::string_view call) {
    if (call == "update") updating.pass();
    if (call == "renew" && unreachable) throw RetryableError("unreachable");
  });
  auto box = open({.lease = {.duration = 20s}}, listener);
  write(*box, order_event("a", "1"));
  ASSERT_TRUE(updating.reached());
  unreachable = true;
  advance(17s);
  ASSERT_TRUE(eventually([&] {
    box->wake();
    return !box->owner();
  }));
  unreachable = false;
  write_elsewhere(order_event("a", "2"));
  ASSERT_TRUE(soon([&] { return box->owner(); }, *box));
  EXPECT_FALSE(listener->wait_for(2, 100ms))
      << "delivered while an update of its aggregate is sent";
  updating.open();
  ASSERT_TRUE(soon([&] { return !store->has_pending(); }, *box));
  EXPECT_EQ(listener->payloads(), (Texts{"1", "1", "2"}));
}

TEST_P(LapseTest, FollowersWaitForAnUpdateThatIsUnderWay) { lapse_during_update(false); }

TEST_P(LapseTest, FollowersWaitForTheUpdateOfARetryThatIsUnderWay) { lapse_during_update(true); }

// --- Events that kill the process (rule 37) ---

class KillerTest : public FaultsTest {
 protected:
  void live_with_a_killer(const Options& options);
};
OUTBOX_ON_EVERY_STORE(KillerTest);

void KillerTest::live_with_a_killer(const Options& options) {
  Texts ids;
  for (int n = 0; n < 100; ++n) {
    ids.push_back(write_elsewhere(order_event(std::to_string(n), std::to_string(n))));
  }
  const std::string killer = ids[70];
  std::set<std::string> done;
  std::mutex mutex;
  int deaths = 0;
  bool finished = false;
  // An engine that dies: from the moment the killer is inside its listener,
  // nothing that it does reaches the store, and it never leaves.
  for (int life = 0; life < 10 && !finished; ++life) {
    auto dead = std::make_shared<std::atomic<bool>>(false);
    auto crash = std::make_shared<Faults>();
    crash->before([dead](std::string_view call) {
      if (*dead && call != "rewind")
        throw RetryableError("the process is dead: " + std::string(call));
    });
    auto killed = std::make_shared<Signal>();
    Listeners on;
    on.add("Order", "Happened", [&, dead, killed](const Event& event) {
      if (*dead) throw UnavailableError("dead");
      if (event.id() == killer) {
        *dead = true;
        killed->raise();
        throw UnavailableError("dead");
      }
      const std::lock_guard lock(mutex);
      done.insert(event.id());
    });
    Options own = options;
    own.timeouts = {.drain = 0ms, .stalled = 100'000h};
    own.log = log.log();
    Outbox box{faulty(bare_store, crash), on, own};
    box.start();
    finished = eventually(
                   [&] {
                     advance(50ms);
                     if (!*dead) box.wake();
                     return *dead || !bare_store->has_pending();
                   },
                   15s) &&
               !*dead;
    deaths += *dead ? 1 : 0;
    if (*dead) advance(11min);
  }
  EXPECT_TRUE(finished);
  EXPECT_EQ(deaths, 4 + 1) << "once innocent, then among 64, among 8, and twice alone";
  EXPECT_EQ(bare_store->admin().find(killer)->row.status, Status::dead);
  EXPECT_TRUE(bare_store->admin().find(killer)->last_error.find("the process died") == 0);
  EXPECT_EQ(done.size(), 99u);
}

TEST_P(KillerTest, AnEventThatKillsTheProcessBecomesDeadAndItsNeighboursAreDelivered) {
  live_with_a_killer({});
}

TEST_P(KillerTest, SoItIsWithRowClaims) {
  live_with_a_killer({.mode = Mode::multi_node,
                      .ordering = Ordering::none,
                      .row_claims = true,
                      .lease = {.claim = 10min}});
}

// --- Whom a crash count is held against ---

class IsolationTest : public FaultsTest {
 protected:
  // Somebody died with these events in its hands, and not for the first time.
  void die_with(const Texts& ids, int deaths_before) {
    const auto owner = bare_store->join({.lease = 1min, .exclusive = true});
    const Lease lease = renewed_and_read(*owner);
    for (const std::string& id : ids) {
      const StatusUpdate candidate{.row = bare_store->admin().find(id)->row.ref,
                                   .event_id = id,
                                   .kind = StatusUpdate::Kind::crashes,
                                   .crashes = deaths_before};
      ASSERT_TRUE(owner->apply(lease.epoch, {&candidate, 1}).stale.empty());
    }
    advance(2min);
  }
  int deaths(const std::string& id) { return bare_store->admin().find(id)->row.crashes; }

  void close_with_candidates_in_the_queue(Options options);
};
OUTBOX_ON_EVERY_STORE(IsolationTest);

// Else it would be DEAD after five answers, and none of them a death.
TEST_P(IsolationTest, AnyAnswerOfAListenerClearsTheCrashCount) {
  const std::vector<std::function<Outcome()>> answers{
      [] { return Outcome::retry_after(1h); },
      []() -> Outcome { throw UnavailableError("no broker"); },
      []() -> Outcome { throw std::runtime_error("not yet"); },
  };
  for (const auto& answer : answers) {
    const std::string id = write_elsewhere(order_event("1", "1"));
    die_with({id}, 2);
    auto listener = std::make_shared<RecordingListener>(
        [&](const Event&, const Delivery&) { return answer(); });
    auto box =
        open({.retry = {.policy = retry_every(1h)}, .breaker = {.pause = 1h, .max_pause = 1h}},
             listener);
    ASSERT_TRUE(in_time([&] { return bare_store->admin().find(id)->hold.value_or(0) != 0; }, *box));
    EXPECT_EQ(listener->count(), 1u);
    EXPECT_EQ(deaths(id), 0) << "answer " << &answer - answers.data();
    box->close();
    StatusUpdate done{.row = bare_store->admin().find(id)->row.ref, .event_id = id};
    const auto owner = bare_store->join({.exclusive = true});
    ASSERT_TRUE(owner->apply(owner->renew().epoch, {&done, 1}).stale.empty());
    owner->leave();
  }
}

// A row of its lane was held by the owner that died, so this one goes there first.
TEST_P(IsolationTest, APoisonCandidateThatHasToWaitInItsLaneIsCountedOnce) {
  const std::string first = write_elsewhere(order_event("1", "1"));
  const std::string second = write_elsewhere(order_event("1", "2"));
  {
    const auto owner = bare_store->join({.exclusive = true});
    const StatusUpdate held{.row = bare_store->admin().find(second)->row.ref,
                            .event_id = second,
                            .kind = StatusUpdate::Kind::hold,
                            .lane = lane_of("1")};
    ASSERT_TRUE(owner->apply(renewed_and_read(*owner).epoch, {&held, 1}).stale.empty());
    owner->leave();
  }
  die_with({first}, 1);
  std::atomic<int> counted{0};
  auto listener =
      std::make_shared<RecordingListener>([&](const Event& event, const Delivery&) -> Outcome {
        if (event.id() == first) counted = deaths(first);
        return Outcome::done();
      });
  auto box = open({}, listener);
  ASSERT_TRUE(in_time([&] { return listener->count() == 2; }, *box));
  EXPECT_EQ(counted, 2) << "one death before, and one that would be of this delivery";
}

// One is inside its listener when the engine is closed, the others wait behind it: their count was
// raised for a delivery that never began.
void IsolationTest::close_with_candidates_in_the_queue(Options options) {
  Texts ids;
  for (int n = 0; n < 3; ++n) ids.push_back(write_elsewhere(order_event(std::to_string(n), "1")));
  die_with(ids, 1);
  Barrier inside;
  auto listener = std::make_shared<RecordingListener>([&](const Event&, const Delivery& delivery) {
    const std::stop_callback at_close(delivery.stop, [&] { inside.open(); });
    inside.pass();
    return Outcome::done();
  });
  options.workers = 1;
  options.timeouts.drain = 0ms;
  auto box = open(options, listener);
  const OpenAtEnd at_end(inside);
  ASSERT_TRUE(inside.reached());
  for (const auto& id : ids) {
    ASSERT_TRUE(eventually([&] { return deaths(id) == 2; })) << "it is tried as a poison candidate";
  }
  // Told after all of them have been queued.
  ASSERT_TRUE(eventually([&] { return (*metrics)[Gauge::cold_depth] >= 2; }));
  box->close();
  int pending = 0;
  for (const auto& id : ids) {
    if (status(id) == Status::done) continue;
    ++pending;
    EXPECT_EQ(deaths(id), 1) << "nobody has died of it";
    EXPECT_EQ(attempts(id), 0);
  }
  EXPECT_EQ(pending, 2);
}

TEST_P(IsolationTest, ACleanCloseIsNoDeathForThoseThatWereNotStarted) {
  close_with_candidates_in_the_queue({});
}

TEST_P(IsolationTest, NorIsItWithRowClaims) {
  close_with_candidates_in_the_queue(
      {.mode = Mode::multi_node, .ordering = Ordering::none, .row_claims = true});
}

}  // namespace
}  // namespace outbox::testing
