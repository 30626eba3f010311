// What the facade adds to the engine: modes, health, pause and resume, dead letters.
#include <algorithm>
#include <set>

#include "every_store.h"
#include "outbox/admin/dead_events.h"
#include "outbox/error.h"
#include "outbox/memory.h"

namespace outbox::testing {
namespace {

using Texts = std::vector<std::string>;

class FacadeTest : public OnEveryStore {
 protected:
  // Options that are refused; what the message says.
  std::string refusal(Options options, Listeners on = {}) {
    options.log = log.log();
    try {
      const Outbox box{store, std::move(on), std::move(options)};
    } catch (const MisuseError& error) {
      return error.what();
    }
    return "";
  }
};
OUTBOX_ON_EVERY_STORE(FacadeTest);

// --- Modes ---

TEST_P(FacadeTest, ASecondSingleNodeIsAStandbyUntilTheFirstIsGone) {
  auto a = open();
  ASSERT_TRUE(eventually([&] { return a->owner(); }));
  auto b = open();
  for (int n = 0; n < 20; ++n) write(*b, order_event(std::to_string(n), "1"));
  ASSERT_TRUE(a->wait_idle(20s));
  EXPECT_FALSE(b->owner());
  a->close();
  EXPECT_TRUE(in_time([&] { return b->owner(); }));
}

TEST_P(FacadeTest, ASingleNodeThatJoinsOthersGetsEverything) {
  OUTBOX_NEEDS(capabilities().shards > 1);
  auto shared = open({.mode = Mode::multi_node, .lease = {.duration = 20s}});
  ASSERT_TRUE(eventually([&] { return shared->owner(); }));
  auto single = open({.lease = {.duration = 20s}});
  EXPECT_TRUE(soon([&] { return single->owner() && !shared->owner(); }, *shared, *single));
}

TEST_P(FacadeTest, AWriterOnlyWritesAndDeliversNothing) {
  Outbox box{store, {}, {.mode = Mode::writer_only, .log = log.log()}};
  box.start();
  const std::string id = write(box, order_event("1", "1"));
  EXPECT_EQ(status(id), Status::pending);
  EXPECT_FALSE(box.owner());
  EXPECT_TRUE(box.health().ready);
  EXPECT_THROW(box.wait_idle(1ms), MisuseError);
  EXPECT_THROW(box.pause(), MisuseError);
  box.close();

  auto other = open();
  EXPECT_TRUE(other->wait_idle(20s));
  EXPECT_EQ(recorder->ids(), Texts{id});
}

TEST_P(FacadeTest, InvalidCombinationsAreRefusedWithTheReason) {
  EXPECT_NE(refusal({.ordering = Ordering::none, .row_claims = true}).find("Mode::multi_node"),
            std::string::npos);
  EXPECT_NE(refusal({.ordering = Ordering::total}).find("Mode::ordered"), std::string::npos);
  Listeners on;
  on.add("A", "B", [](const Event&) {});
  EXPECT_NE(refusal({.mode = Mode::writer_only}, on).find("never be called"), std::string::npos);
  EXPECT_THROW(on.add("A", "C", [](const Event&) {}, {.ordering = Ordering::total}), MisuseError);

  EXPECT_NE(refusal({.mode = Mode::ordered, .ordering = Ordering::none}).find("contradict"),
            std::string::npos);
  Listeners loose;
  loose.add("A", "B", [](const Event&) {}, {.ordering = Ordering::none});
  EXPECT_NE(refusal({.mode = Mode::ordered}, loose).find("A/B"), std::string::npos);

  Capabilities less = bare_store->capabilities();
  less.shards = 16;
  less.total_order = false;
  faults->claim(less);
  EXPECT_NE(refusal({.mode = Mode::ordered}, on).find("cannot read its 16 shards in one order"),
            std::string::npos);
  less.shards = 1;
  faults->claim(less);
  EXPECT_EQ(refusal({.mode = Mode::ordered}, on), "");
}

TEST_P(FacadeTest, NeverMayBeWrittenAsTheLongestTime) {
  constexpr auto kNever = std::chrono::milliseconds::max();
  std::atomic<int> calls{0};
  auto later = listener([&](const Event&) -> Outcome {
    ++calls;
    return Outcome::retry_after(kNever);
  });
  use_store({.host_clock = true});
  auto box = open({.poll_interval = kNever,
                   .breaker = {.max_pause = kNever},
                   .lease = {.duration = kNever},
                   .timeouts = {.drain = kNever, .hung = kNever}},
                  later);
  write(*box, order_event("1", "1"));
  ASSERT_TRUE(eventually([&] { return calls == 1 && box->in_flight() == 0; }));
  EXPECT_FALSE(box->wait_idle(50ms));
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(box->health().live);
}

// --- Housekeeping ---

TEST_P(FacadeTest, PurgesAndReplaysOnScheduleWhileItRuns) {
  std::atomic<bool> healed{false};
  auto sick = std::make_shared<RecordingListener>([&](const Event&, const Delivery&) {
    return healed ? Outcome::done() : Outcome::permanent("not now");
  });
  auto box = open({.purge = PurgeOptions{.done_retention = 1h, .interval = 10ms},
                   .replay_dead = ReplaySchedule{.interval = 10ms, .min_age = 1min}},
                  sick);
  const std::string id = write(*box, order_event("1", "1"));
  ASSERT_TRUE(eventually([&] { return status(id) == Status::dead; }));
  healed = true;
  advance(2min);
  ASSERT_TRUE(eventually([&] {
    box->wake();
    return status(id) == Status::done;
  }));
  advance(2h);
  EXPECT_TRUE(eventually([&] { return !store->admin().find(id); }));
}

TEST_P(FacadeTest, ACloseInACallbackOfTheHousekeepingIsRefusedAndChangesNothing) {
  std::atomic<int> refused{0};
  std::unique_ptr<Outbox> box;  // last: its callback uses the rest
  const auto close_it = [&](std::int64_t) {
    try {
      box->close();
    } catch (const MisuseError&) {
      ++refused;
    }
    return true;
  };
  box = make({.replay_dead = ReplaySchedule{.interval = 1ms, .bulk = {.progress = close_it}}});
  box->start();
  ASSERT_TRUE(eventually([&] { return refused > 0; }));
  write(*box, order_event("1", "1"));
  EXPECT_TRUE(box->wait_idle(20s)) << "it is still at work";
  box->close();
  EXPECT_FALSE(box->health().ready);
}

TEST_P(FacadeTest, APurgeByAgeIsForThoseWhoOnlyWrite) {
  const PurgeOptions by_age{.age = 24h};
  EXPECT_NE(refusal({.purge = by_age}).find("writer_only"), std::string::npos);
  EXPECT_NE(refusal({.mode = Mode::writer_only, .replay_dead = ReplaySchedule{}}).find("nobody"),
            std::string::npos);
  EXPECT_EQ(refusal({.mode = Mode::writer_only, .purge = by_age}), "");
}

// --- Health ---

TEST_P(FacadeTest, HealthSaysWhetherItIsStartedClosedOrAStandby) {
  auto box = make();
  EXPECT_FALSE(box->health().ready);
  EXPECT_TRUE(says(box->health(), "not started"));
  EXPECT_TRUE(box->health().live);
  box->start();
  ASSERT_TRUE(eventually([&] { return box->owner(); }));
  EXPECT_TRUE(box->health().ready);
  EXPECT_TRUE(box->health().reasons.empty());

  auto second = open();
  EXPECT_TRUE(second->health().ready);
  EXPECT_TRUE(says(second->health(), "standby: "));
  box->close();
  EXPECT_FALSE(box->health().ready);
  EXPECT_TRUE(says(box->health(), "closed"));
}

TEST_P(FacadeTest, HealthNamesWhatTheDatabaseRefusesUntilItIsBack) {
  auto box = open();
  ASSERT_TRUE(eventually([&] { return box->owner(); }));
  faults->before(failing({"update"}));
  write(*box, order_event("1", "1"));
  ASSERT_TRUE(eventually([&] { return !box->health().ready; }));
  EXPECT_TRUE(says(box->health(), "events could not be updated"));
  faults->clear();
  EXPECT_TRUE(box->wait_idle(20s));
  EXPECT_TRUE(eventually([&] { return box->health().ready; }));

  faults->before(failing({"ready"}));
  box->wake();
  EXPECT_TRUE(eventually([&] { return says(box->health(), "events could not be read"); }));
  faults->clear();
  EXPECT_TRUE(in_time([&] { return box->health().ready; }, *box));
}

TEST_P(FacadeTest, ACallThatHangsIsNamedAndAllWorkersHungIsNotAlive) {
  Barrier barrier;
  auto hanging = listener([&](const Event&) { barrier.pass(); });
  auto box = open({.workers = 2, .timeouts = {.hung = 10min}}, hanging);
  const std::string id = write(*box, order_event("1", "1"));
  ASSERT_TRUE(barrier.reached(1));
  EXPECT_TRUE(box->health().reasons.empty());
  advance(11min);
  EXPECT_TRUE(says(box->health(), id));
  EXPECT_TRUE(box->health().live);
  EXPECT_TRUE(box->health().ready);

  write(*box, order_event("2", "1"));
  ASSERT_TRUE(barrier.reached(2));
  advance(11min);
  EXPECT_FALSE(box->health().live);
  EXPECT_FALSE(box->health().ready);
  barrier.open();
  EXPECT_TRUE(box->wait_idle(20s));
  EXPECT_TRUE(box->health().live);
}

// --- Pause and resume ---

TEST_P(FacadeTest, WhilePausedNothingIsDeliveredAndNothingIsLost) {
  for (const Ordering ordering : {Ordering::per_aggregate, Ordering::none}) {
    recorder = std::make_shared<RecordingListener>();
    auto box = open({.ordering = ordering, .queue = {.hot_capacity = 4, .cold_capacity = 4}});
    ASSERT_TRUE(eventually([&] { return box->owner(); }));
    box->pause();
    box->pause();
    for (int n = 0; n < 20; ++n) write(*box, order_event(std::to_string(n % 3), "1"));
    EXPECT_FALSE(box->wait_idle(50ms));
    EXPECT_EQ(recorder->count(), 0u);
    EXPECT_TRUE(says(box->health(), "paused by an operator"));
    EXPECT_TRUE(box->health().ready);
    box->resume();
    EXPECT_TRUE(box->wait_idle(20s));
    EXPECT_EQ(recorder->count(), 20u);
    EXPECT_TRUE(box->health().reasons.empty());
  }
}

TEST_P(FacadeTest, APausedOutboxClosesAtOnceAndLeavesItsEventsPending) {
  auto box = open({.timeouts = {.drain = 60s}});
  ASSERT_TRUE(eventually([&] { return box->owner(); }));
  box->pause();
  const std::string id = write(*box, order_event("1", "1"));
  const auto begin = std::chrono::steady_clock::now();
  box->close();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 30s);
  EXPECT_EQ(status(id), Status::pending);
  EXPECT_EQ(attempts(id), 0);
}

class TwoListenersTest : public FacadeTest {
 protected:
  // Not started.
  std::unique_ptr<Outbox> make_two(Options options) {
    Listeners on;
    on.add("Order", "Happened", std::static_pointer_cast<Listener>(recorder));
    on.add("Order", "Mailed", std::static_pointer_cast<Listener>(mail));
    return std::make_unique<Outbox>(store, on, with_defaults(std::move(options)));
  }
  std::unique_ptr<Outbox> open_two(Options options) {
    auto box = make_two(std::move(options));
    box->start();
    return box;
  }
  Draft mail_event(const std::string& aggregate_id) {
    Draft draft = order_event(aggregate_id, "1");
    draft.type = "Mailed";
    return draft;
  }

  std::shared_ptr<RecordingListener> mail = std::make_shared<RecordingListener>();
};
OUTBOX_ON_EVERY_STORE(TwoListenersTest);

TEST_P(TwoListenersTest, OneCanBePausedAndTheOtherOneGoesOn) {
  auto box = open_two({});
  ASSERT_TRUE(eventually([&] { return box->owner(); }));
  box->pause("Order", "Mailed");
  EXPECT_TRUE(says(box->health(), "Order/Mailed"));
  write(*box, mail_event("1"));
  write(*box, order_event("1", "1"));  // behind it, of the same aggregate
  write(*box, order_event("2", "1"));
  ASSERT_TRUE(recorder->wait_for(1));
  EXPECT_FALSE(box->wait_idle(50ms));
  EXPECT_EQ(recorder->calls()[0].event.aggregate_id(), "2");
  EXPECT_EQ(recorder->count(), 1u) << "the other one waits for its aggregate's earlier event";
  EXPECT_EQ(mail->count(), 0u);
  box->resume("Order", "Mailed");
  EXPECT_TRUE(box->wait_idle(20s));
  EXPECT_EQ(recorder->count(), 2u);
  EXPECT_EQ(mail->count(), 1u);
  EXPECT_THROW(box->pause("Order", "Nothing"), MisuseError);
}

TEST_P(TwoListenersTest, ABacklogOfThePausedOneDoesNotKeepTheOtherOneOut) {
  for (const Ordering ordering : {Ordering::per_aggregate, Ordering::none}) {
    recorder = std::make_shared<RecordingListener>();
    mail = std::make_shared<RecordingListener>();
    auto box = open_two(
        {.ordering = ordering, .queue = {.hot_capacity = 8, .cold_capacity = 8, .batch = 4}});
    ASSERT_TRUE(eventually([&] { return box->owner(); }));
    box->pause("Order", "Mailed");
    Texts mails;
    for (int n = 0; n < 50; ++n) mails.push_back(write(*box, mail_event("m" + std::to_string(n))));
    for (int n = 0; n < 10; ++n) write(*box, order_event("o" + std::to_string(n), "1"));
    EXPECT_TRUE(recorder->wait_for(10)) << "kept out by events that cannot be delivered";
    EXPECT_EQ(mail->count(), 0u);
    box->resume("Order", "Mailed");
    EXPECT_TRUE(in_time([&] { return mail->count() == 50; }, *box));
    EXPECT_TRUE(box->wait_idle(20s));
    for (const auto& id : mails) EXPECT_EQ(attempts(id), 0) << "no attempt is spent";
  }
}

TEST_P(TwoListenersTest, WhatIsPostponedKeepsItsCountOfDeaths) {
  const std::string id = write_elsewhere(mail_event("1"));
  {
    const auto instance = bare_store->join({.lease = 1min, .exclusive = true});
    const Lease lease = renewed_and_read(*instance);
    const EventRecord record = *bare_store->admin().find(id);
    const StatusUpdate candidate{
        .row = record.row.ref, .event_id = id, .kind = StatusUpdate::Kind::crashes, .crashes = 2};
    ASSERT_TRUE(instance->apply(lease.epoch, std::span(&candidate, 1)).stale.empty());
  }
  advance(2min);
  auto box = make_two({});
  box->pause("Order", "Mailed");
  box->start();
  ASSERT_TRUE(in_time([&] { return bare_store->admin().find(id)->hold.value_or(0) != 0; }, *box));
  EXPECT_EQ(bare_store->admin().find(id)->row.crashes, 2) << "it has not answered";
}

TEST_P(TwoListenersTest, APoisonCandidateOfAPausedListenerDoesNotKeepTheOthersWaiting) {
  write_elsewhere(mail_event("1"));
  {
    // An owner that dies with the event in its hands.
    const auto instance = bare_store->join({.lease = 1min, .exclusive = true});
    ASSERT_FALSE(instance->renew().shards.empty());
  }
  advance(2min);
  write_elsewhere(order_event("2", "1"));
  auto box = make_two({});
  box->pause("Order", "Mailed");
  box->start();
  EXPECT_TRUE(in_time([&] { return recorder->count() == 1; }, *box));
  box->resume("Order", "Mailed");
  EXPECT_TRUE(in_time([&] { return mail->count() == 1; }, *box));
}

// --- Dead letters ---

TEST_P(FacadeTest, AnEventIsDeadOnlyOnceItsDeadLetterIsTaken) {
  std::atomic<int> letters{0};
  std::atomic<int> evicted{0};
  std::string reason;
  auto failing = std::make_shared<RecordingListener>(
      [](const Event&, const Delivery&) { return Outcome::failed("broken"); });
  auto box = open({.retry = {.policy = retry_every(1s), .max_attempts = 2},
                   .dead = {.on_event = [&](const Event&, std::string_view) { ++evicted; },
                            .letter =
                                [&](const Event&, std::string_view error) {
                                  if (++letters < 3)
                                    throw RetryableError("no room for dead letters");
                                  reason = error;
                                }}},
                  failing);
  const std::string id = write(*box, order_event("1", "1"));
  ASSERT_TRUE(eventually([&] {
    advance(1s);
    box->wake();
    // The last letter is counted before the event is dead, so what was read before this
    // count was three was read of an event whose letter was still refused.
    const bool refused = letters > 0;
    const Status seen = status(id);
    const int counted = attempts(id);
    if (refused && letters < 3) {
      EXPECT_NE(seen, Status::dead);
      EXPECT_EQ(counted, 1) << "the last one is repeated, and not counted before";
    }
    return evicted == 1;
  }));
  EXPECT_EQ(status(id), Status::dead);
  EXPECT_EQ(attempts(id), 2);
  EXPECT_EQ(letters, 3);
  EXPECT_EQ(reason, "broken");
  EXPECT_EQ(failing->count(), 4u);
}

TEST_P(FacadeTest, ADeadLetterThatHangsIsACallThatHangs) {
  Barrier barrier;
  auto failing = listener([](const Event&) -> Outcome { return Outcome::permanent("broken"); });
  auto box = open({.workers = 1,
                   .dead = {.letter = [&](const Event&, std::string_view) { barrier.pass(); }},
                   .timeouts = {.hung = 10min}},
                  failing);
  write(*box, order_event("1", "1"));
  ASSERT_TRUE(barrier.reached());
  advance(11min);
  EXPECT_FALSE(box->health().live);
  barrier.open();
}

TEST_P(FacadeTest, APausedInstanceGivesShardsToNewcomers) {
  OUTBOX_NEEDS(capabilities().shards > 1);
  auto first = open({.mode = Mode::multi_node, .lease = {.duration = 20s}});
  ASSERT_TRUE(eventually([&] { return first->owner(); }));
  first->pause();
  auto second = open({.mode = Mode::multi_node, .lease = {.duration = 20s}});
  EXPECT_TRUE(soon([&] { return second->owner(); }, *first, *second));
}

TEST_P(FacadeTest, ManyBlockedAggregatesGoOnAtOnceWhenTheyAreReplayed) {
  std::atomic<bool> healed{false};
  auto sick = std::make_shared<RecordingListener>([&](const Event&, const Delivery&) {
    return healed ? Outcome::done() : Outcome::permanent("not now");
  });
  auto box = open({.dead = {.then = OnDead::block}}, sick);
  for (int n = 0; n < 200; ++n) write(*box, order_event(std::to_string(n), "1"));
  ASSERT_TRUE(eventually([&] { return store->counts().dead == 200; }));
  healed = true;
  EXPECT_EQ(DeadEvents{store}.replay_all({}), 200);
  box->wake();
  EXPECT_TRUE(box->wait_idle(20s)) << "one look at a few of them must do";
}

// Calls close() and wait_idle() where they would wait for themselves.
class OwnThreadTest : public OnEveryStore {
 protected:
  // Nothing changes by it.
  void try_to_close(const std::string& where) {
    for (const auto& call : {std::function<void()>([&] { box->close(); }),
                             std::function<void()>([&] { box->wait_idle(1h); })}) {
      try {
        call();
        ADD_FAILURE() << where << ": it came back";
      } catch (const MisuseError& error) {
        const std::lock_guard lock(mutex);
        refused[where] = error.what();
      }
    }
  }
  bool was_refused(const std::string& where) {
    return eventually([&] {
      const std::lock_guard lock(mutex);
      return refused.contains(where);
    });
  }

  std::mutex mutex;
  std::map<std::string, std::string> refused;
  std::unique_ptr<Outbox> box;
};
OUTBOX_ON_EVERY_STORE(OwnThreadTest);

TEST_P(OwnThreadTest, ClosingInAnyCallbackIsRefusedAndChangesNothing) {
  struct Policy final : RetryPolicy {
    explicit Policy(std::function<void()> hook) : hook_(std::move(hook)) {}
    std::chrono::milliseconds delay(int /*attempt*/) const override {
      hook_();
      return 1ms;
    }

   private:
    const std::function<void()> hook_;
  };
  const auto listener = std::make_shared<RecordingListener>(
      [&](const Event& event, const Delivery& delivery) -> Outcome {
        try_to_close("listener");
        if (event.payload() == "2" && delivery.attempt == 1) throw std::runtime_error("once more");
        if (event.payload() == "3") return Outcome::permanent("bad");
        return Outcome::done();
      });
  box = make(
      {.retry = {.policy = std::make_shared<Policy>([&] { try_to_close("retry policy"); })},
       .dead = {.on_event = [&](const Event&, std::string_view) { try_to_close("on dead"); },
                .letter = [&](const Event&, std::string_view) { try_to_close("dead letter"); }},
       .interceptors = {before([&](const Event&) { try_to_close("before"); }),
                        after([&](const Event&, const std::exception_ptr&) {
                          try_to_close("after");
                        })}},
      listener);
  box->start();
  for (const char* payload : {"1", "2", "3"}) write(*box, order_event(payload, payload));
  for (const char* where :
       {"listener", "before", "after", "retry policy", "on dead", "dead letter"}) {
    EXPECT_TRUE(was_refused(where)) << where;
  }
  ASSERT_TRUE(in_time([&] { return !store->has_pending(); }, *box));
  {
    const std::lock_guard lock(mutex);
    EXPECT_EQ(refused["on dead"].substr(0, 42), "outbox: wait_idle() in a listener or anoth");
  }

  EXPECT_TRUE(box->owner());
  write(*box, order_event("4", "4"));
  EXPECT_TRUE(eventually([&] { return !store->has_pending(); })) << "it goes on delivering";
  box->close();
  EXPECT_FALSE(box->owner());
}

TEST_P(OwnThreadTest, AListenerMayCloseAnotherOutbox) {
  const auto elsewhere = memory::open();
  Listeners on;
  on.add("Order", "Happened", [](const Event&) {});
  auto other = std::make_unique<Outbox>(elsewhere, on, Options{.log = log.log()});
  other->start();
  box = open({}, std::make_shared<RecordingListener>([&](const Event&, const Delivery&) -> Outcome {
               EXPECT_TRUE(other->wait_idle(20s));
               other.reset();
               return Outcome::done();
             }));
  write(*box, order_event("1", "1"));
  EXPECT_TRUE(box->wait_idle(20s));
  box->close();  // the fixture's box would outlive the other one
  EXPECT_EQ(other, nullptr);
}

}  // namespace
}  // namespace outbox::testing
