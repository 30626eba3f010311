// An engine that cannot move gives up what it owns; one bad thing stops only itself
// (rules 39 and 40).
#include <set>

#include "engine/test_fixture.h"
#include "outbox/error.h"

namespace outbox::testing {
namespace {

using Texts = std::vector<std::string>;

// Two instances: `a` behind faults, `b` on the bare store.
class ProgressTest : public EngineTest {
 protected:
  std::unique_ptr<Outbox> open_other(Options options = {}, std::shared_ptr<Listener> to = {}) {
    options.log = log.log();
    Listeners on;
    on.add("Order", "Happened", to ? to : std::static_pointer_cast<Listener>(other));
    auto box = std::make_unique<Outbox>(bare_store, on, options);
    box->start();
    return box;
  }

  // Moves the clock in steps well below the lease until it is so.
  template <class Condition>
  bool soon(Outbox& a, Outbox& b, const Condition& condition) {
    return eventually([&] {
      clock.advance(100ms);
      a.wake();
      b.wake();
      return condition();
    });
  }

  bool is_done(const std::string& id) { return status(id) == Status::done; }

  std::shared_ptr<RecordingListener> other = std::make_shared<RecordingListener>();
};

// --- Fenced although nobody took over ---

// A marking connection that leads to an old primary: it knows no such epoch, while the
// keeper renews that epoch on the new one.
TEST_F(ProgressTest, AMarkThatAnOldPrimaryFencesDoesNotStopTheEngineForGood) {
  std::atomic<int> fences{1};
  faults->on_update([&](std::span<const StatusUpdate>) -> std::optional<UpdateResult> {
    if (fences-- > 0) return UpdateResult{.fenced = true};
    return std::nullopt;
  });
  auto box = open({.lease = {.duration = 15s}});
  const std::string first = write(*box, order_event("a", "1"));
  ASSERT_TRUE(in_time(*box, [&] { return is_done(first); }));
  const std::string second = write(*box, order_event("a", "2"));
  ASSERT_TRUE(in_time(*box, [&] { return is_done(second); }));
  EXPECT_EQ(recorder->payloads(), (Texts{"1", "1", "2"}));
  EXPECT_GE(faults->calls("leave"), 1u) << "the same epoch would come back otherwise";
  EXPECT_TRUE(log.contains("giving up the lease and registering again: "));
}

TEST_F(ProgressTest, WhoIsFencedAgainAndAgainComesBackEverMoreRarely) {
  faults->on_update([](std::span<const StatusUpdate>) { return UpdateResult{.fenced = true}; });
  auto box = open({.lease = {.duration = 15s}});
  write(*box, order_event("a", "1"));
  for (int step = 0; step < 600; ++step) {  // a minute
    clock.advance(100ms);
    box->wake();
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_LE(recorder->count(), 10u) << "0, 0.25, 0.5, 1, 2, ... 30 s";
  EXPECT_TRUE(in_time(*box, [&] { return recorder->count() >= 2; }));
  EXPECT_TRUE(in_time(*box, [&] { return !box->health().reasons.empty(); }));
}

// --- A watchdog on progress ---

TEST_F(ProgressTest, WhoCannotMarkForLongLetsAnotherDeliver) {
  faults->before(failing({"update"}));
  auto a = open({.lease = {.duration = 1h}, .timeouts = {.stalled = 59s}});
  ASSERT_TRUE(eventually([&] { return a->owner(); }));
  auto b = open_other({.lease = {.duration = 1h}});
  const auto began = clock.steady();
  const std::string id = write(*a, order_event("a", "1"));
  ASSERT_TRUE(recorder->wait_for(1));
  EXPECT_FALSE(other->wait_for(1, 50ms));
  ASSERT_TRUE(soon(*a, *b, [&] { return is_done(id); }));
  EXPECT_EQ(other->payloads(), Texts{"1"});
  EXPECT_GE(clock.steady() - began, 59s);
  EXPECT_TRUE(log.contains("no update has been acknowledged for "));
  EXPECT_TRUE(log.contains(" s: the database is unreachable: update"));
}

TEST_F(ProgressTest, WhoCannotReadForLongLetsAnotherDeliver) {
  auto a = open({.lease = {.duration = 15s}, .timeouts = {.stalled = 59s}});
  ASSERT_TRUE(eventually([&] { return a->owner(); }));
  ASSERT_TRUE(a->wait_idle(20s));
  faults->before(failing({"ready"}));
  auto b = open_other({.lease = {.duration = 15s}});
  const std::string id = write_elsewhere(order_event("a", "1"));
  ASSERT_TRUE(soon(*a, *b, [&] { return is_done(id); }));
  EXPECT_EQ(other->payloads(), Texts{"1"});
}

// --- Calls that hang ---

TEST_F(ProgressTest, WhoseWorkersAllHangLetsAnotherDeliverTheRest) {
  Barrier hang;
  auto hanging = std::make_shared<RecordingListener>([&](const Event&, const Delivery&) {
    hang.pass();
    return Outcome::done();
  });
  auto a =
      open({.workers = 2, .lease = {.duration = 1h}, .timeouts = {.hung = 30s, .stalled = 59s}},
           hanging);
  ASSERT_TRUE(eventually([&] { return a->owner(); }));
  auto b = open_other({.lease = {.duration = 1h}});
  const OpenAtEnd at_end(hang);
  Texts ids;
  for (int n = 0; n < 6; ++n) {
    ids.push_back(write(*a, order_event(std::to_string(n), std::to_string(n))));
  }
  ASSERT_TRUE(hang.reached(2));
  ASSERT_TRUE(soon(*a, *b, [&] { return other->count() >= 4; }));
  EXPECT_TRUE(soon(*a, *b, [&] { return b->owner() && !a->owner(); }));
  EXPECT_FALSE(a->health().live);
  const auto first = hanging->ids();
  for (const auto& id : other->ids()) {
    EXPECT_EQ(std::count(first.begin(), first.end(), id), 0) << "held while its call goes on";
  }
  hang.open();
  ASSERT_TRUE(soon(*a, *b, [&] { return !store->has_pending(); }));
  EXPECT_EQ(other->count(), 6u) << "nobody could update what the two calls had done";
}

// To give up would only have its event delivered twice.
TEST_F(ProgressTest, WhoseWorkersAllHangKeepsWhatItHasWhereNothingElseIsToDo) {
  Barrier hang;
  auto hanging = std::make_shared<RecordingListener>([&](const Event&, const Delivery&) {
    hang.pass();
    return Outcome::done();
  });
  auto a =
      open({.workers = 1, .lease = {.duration = 1h}, .timeouts = {.hung = 30s, .stalled = 59s}},
           hanging);
  ASSERT_TRUE(eventually([&] { return a->owner(); }));
  auto b = open_other({.lease = {.duration = 1h}});
  const OpenAtEnd at_end(hang);
  write(*a, order_event("a", "1"));
  ASSERT_TRUE(hang.reached());
  for (int step = 0; step < 1'000; ++step) {  // five minutes
    clock.advance(300ms);
    a->wake();
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_TRUE(a->owner());
  hang.open();
  ASSERT_TRUE(soon(*a, *b, [&] { return !store->has_pending(); }));
  EXPECT_EQ(hanging->count() + other->count(), 1u);
}

// Rule 37 says that nothing is delivered beside a group of candidates: but not for ever.
TEST_F(ProgressTest, APoisonCandidateThatHangsCostsItsGroupAndNotTheInstance) {
  Texts ids;
  for (int n = 0; n < 200; ++n) {
    ids.push_back(write_elsewhere(order_event(std::to_string(n % 150), std::to_string(n))));
  }
  // Somebody who died with them in its hands.
  auto dead = bare_store->join({.capacity = 200, .lease = 15s, .exclusive = true});
  ASSERT_NE(dead->renew().epoch, 0);
  clock.advance(16s);

  Barrier hang;
  auto hanging = std::make_shared<RecordingListener>([&](const Event& event, const Delivery&) {
    if (event.id() == ids[3]) hang.pass();
    return Outcome::done();
  });
  auto box = open({.timeouts = {.hung = 30s}}, hanging);
  const OpenAtEnd at_end(hang);
  ASSERT_TRUE(hang.reached());
  bool told = false;
  ASSERT_TRUE(in_time(*box, [&] {
    for (const auto& reason : box->health().reasons) {
      told = told || reason.find("may have killed the process") != std::string::npos;
    }
    return bare_store->counts().pending == 2;  // the one that hangs, and the next of its aggregate
  }));
  EXPECT_TRUE(told);
  const auto health = box->health();
  EXPECT_TRUE(std::any_of(health.reasons.begin(), health.reasons.end(), [&](const auto& reason) {
    return reason.find("has been working on event " + ids[3]) != std::string::npos;
  }));
  hang.open();
  ASSERT_TRUE(in_time(*box, [&] { return !store->has_pending(); }));
  const auto delivered = hanging->ids();
  EXPECT_EQ(delivered.size(), 200u) << "each once";
}

// One of them may kill the process next: the hang of another is no reason to forget that.
TEST_F(ProgressTest, BesideAPoisonCandidateThatHangsTheOthersAreStillIsolated) {
  Texts ids;
  for (int n = 0; n < 200; ++n) {
    ids.push_back(write_elsewhere(order_event(std::to_string(n), std::to_string(n))));
  }
  auto dead = bare_store->join({.capacity = 200, .lease = 15s, .exclusive = true});
  ASSERT_NE(dead->renew().epoch, 0);
  clock.advance(16s);

  Barrier hang;
  std::atomic<int> innocent{0};
  auto hanging = std::make_shared<RecordingListener>([&](const Event& event, const Delivery&) {
    if (bare_store->find(event.id())->row.crashes == 0) ++innocent;
    if (event.id() == ids[3]) hang.pass();
    return Outcome::done();
  });
  auto box = open({.timeouts = {.hung = 30s}}, hanging);
  const OpenAtEnd at_end(hang);
  ASSERT_TRUE(hang.reached());
  ASSERT_TRUE(in_time(*box, [&] { return bare_store->counts().pending == 1; }));
  EXPECT_EQ(innocent, 0);
}

TEST_F(ProgressTest, APoisonCandidateWhoseRowSomebodyKeepsLockedStopsOnlyItself) {
  Texts ids;
  for (int n = 0; n < 200; ++n) {
    ids.push_back(write_elsewhere(order_event(std::to_string(n % 150), std::to_string(n))));
  }
  auto dead = bare_store->join({.capacity = 200, .lease = 15s, .exclusive = true});
  ASSERT_NE(dead->renew().epoch, 0);
  clock.advance(16s);
  std::atomic<bool> locked{true};
  faults->on_update([&](std::span<const StatusUpdate> updates) -> std::optional<UpdateResult> {
    for (const StatusUpdate& update : updates) {
      if (locked && update.event_id == ids[3]) throw RetryableError("lock wait timeout exceeded");
    }
    return std::nullopt;
  });
  auto box = open();
  EXPECT_TRUE(in_time(*box, [&] { return bare_store->counts().pending == 1; }));
  locked = false;
  EXPECT_TRUE(in_time(*box, [&] { return !store->has_pending(); }));
  EXPECT_EQ(recorder->count(), 200u) << "each once";
}

// While a dead letter is written, what the call has delivered is still the worker's.
TEST_F(ProgressTest, AHangAfterTheCallIsSeenAsWell) {
  class FirstOnly final : public BatchListener {
    std::vector<Outcome> on_events(std::span<const Item> items) override {
      std::vector<Outcome> result(items.size(), Outcome::permanent("no"));
      result[0] = Outcome::done();
      return result;
    }
  };
  Barrier letter;
  Listeners on;
  on.add_batch("Order", "Happened", std::make_shared<FirstOnly>());
  Outbox box(store, on,
             {.dead = {.letter = [&](const Event&, std::string_view) { letter.pass(); }},
              .timeouts = {.hung = 30s},
              .log = log.log()});
  const OpenAtEnd at_end(letter);
  for (int n = 0; n < 2; ++n) write_elsewhere(order_event("a", std::to_string(n)));
  box.start();
  ASSERT_TRUE(letter.reached());
  EXPECT_TRUE(in_time(box, [&] { return log.contains("has been working on event"); }));
  letter.open();
  EXPECT_TRUE(in_time(box, [&] { return !store->has_pending(); }));
}

// --- Shards that are given up ---

class DrainTest : public ProgressTest {
 protected:
  // Both own part of the table, and nothing is left to hand over.
  bool share(Outbox& a, Outbox& b) {
    int steps = 0;
    return soon(a, b, [&] { return ++steps > 200 && a.owner() && b.owner(); });
  }
};

TEST_F(DrainTest, AShardWithACallThatHangsIsGivenUpAndTheEventIsHeld) {
  Barrier hang;
  std::atomic<bool> hangs{true};
  std::mutex mutex;
  std::map<std::string, Texts> seen;  // by aggregate, wherever
  const auto note = [&](const Event& event) {
    const std::lock_guard lock(mutex);
    seen[event.aggregate_id()].emplace_back(event.payload());
  };
  auto hanging = std::make_shared<RecordingListener>([&](const Event& event, const Delivery&) {
    note(event);
    if (event.payload() == "0" && hangs) hang.pass();
    return Outcome::done();
  });
  other = std::make_shared<RecordingListener>([&](const Event& event, const Delivery&) {
    note(event);
    return Outcome::done();
  });
  auto a = open({.mode = Mode::multi_node,
                 .workers = 40,
                 .lease = {.duration = 2min},
                 .timeouts = {.hung = 2min}},
                hanging);
  const OpenAtEnd at_end(hang);
  ASSERT_TRUE(eventually([&] { return a->owner(); }));
  Texts hung;
  for (int n = 0; n < 32; ++n) hung.push_back(write(*a, order_event(std::to_string(n), "0")));
  ASSERT_TRUE(hang.reached(32)) << "in every shard, as good as certainly";

  auto b = open_other({.mode = Mode::multi_node, .lease = {.duration = 2min}});
  const std::size_t renewals = faults->calls("renew");
  ASSERT_TRUE(soon(*a, *b, [&] { return faults->calls("renew") >= renewals + 3; }))
      << "it knows by now which shards to give up";
  Texts others;
  for (int n = 0; n < 32; ++n) {
    write_elsewhere(order_event(std::to_string(n), "1"));
    others.push_back(write_elsewhere(order_event("other " + std::to_string(n), "1")));
  }
  ASSERT_TRUE(soon(*a, *b, [&] {
    return std::all_of(others.begin(), others.end(), [&](const auto& id) { return is_done(id); });
  })) << "whatever has nothing to do with what hangs";
  EXPECT_TRUE(b->owner());
  for (const auto& event : other->ids()) {
    EXPECT_EQ(std::count(hung.begin(), hung.end(), event), 0) << "held while its call goes on";
  }
  hangs = false;
  hang.open();
  ASSERT_TRUE(soon(*a, *b, [&] { return !store->has_pending(); }));
  int twice = 0;
  for (int n = 0; n < 32; ++n) {
    Texts order = seen[std::to_string(n)];
    if (order.size() == 3) ++twice;
    order.erase(std::unique(order.begin(), order.end()), order.end());
    EXPECT_EQ(order, (Texts{"0", "1"})) << n;
  }
  EXPECT_GE(twice, 1) << "what was handed over while its call went on comes again";
}

// Or nobody would read the shard for as long as somebody keeps that row locked.
TEST_F(DrainTest, AShardWithAMarkThatIsRefusedIsGivenUp) {
  std::atomic<bool> locked{true};
  faults->on_update([&](std::span<const StatusUpdate> updates) -> std::optional<UpdateResult> {
    for (const StatusUpdate& update : updates) {
      if (locked && update.event_id.starts_with("locked"))
        throw RetryableError("lock wait timeout");
    }
    return std::nullopt;
  });
  auto a =
      open({.mode = Mode::multi_node, .lease = {.duration = 15s}, .timeouts = {.stalled = 59s}});
  ASSERT_TRUE(eventually([&] { return a->owner(); }));
  const auto refused = [&] {
    const auto reasons = a->health().reasons;
    return std::count_if(reasons.begin(), reasons.end(), [](const auto& reason) {
      return reason.find("the store has refused to update event locked") != std::string::npos;
    });
  };
  std::set<int> shards;
  for (int n = 0; shards.size() < 16; ++n) {
    Draft draft = order_event(std::to_string(n), "0");
    if (!shards.insert(store->find(write(*a, draft))->row.ref.shard).second) continue;
    draft.id = "locked " + std::to_string(n);
    write(*a, draft);
    const auto before = static_cast<std::ptrdiff_t>(shards.size());
    ASSERT_TRUE(in_time(*a, [&] {
      write(*a, order_event("other", "0"));  // that lands
      return refused() == before;
    }));
  }
  auto b = open_other({.mode = Mode::multi_node, .lease = {.duration = 15s}});
  Texts others;
  for (int n = 0; n < 100; ++n) {
    others.push_back(write_elsewhere(order_event("other " + std::to_string(n), "1")));
  }
  ASSERT_TRUE(soon(*a, *b, [&] {
    return b->owner() &&
           std::all_of(others.begin(), others.end(), [&](const auto& id) { return is_done(id); });
  }));
  locked = false;
  EXPECT_TRUE(soon(*a, *b, [&] { return !store->has_pending(); }));
}

TEST_F(DrainTest, WhatWaitsForAPausedListenerIsGivenToTheNextOwner) {
  auto a = open({.mode = Mode::multi_node, .lease = {.duration = 15s}});
  ASSERT_TRUE(eventually([&] { return a->owner(); }));
  a->pause("Order", "Happened");
  for (int n = 0; n < 64; ++n) write(*a, order_event(std::to_string(n), "1"));
  ASSERT_TRUE(in_time(*a, [&] { return a->in_flight() == 64; }));
  auto b = open_other({.mode = Mode::multi_node, .lease = {.duration = 15s}});
  EXPECT_TRUE(soon(*a, *b, [&] { return other->count() >= 16; })) << "half of the shards are its";
  EXPECT_EQ(recorder->count(), 0u);
  a->resume("Order", "Happened");
  ASSERT_TRUE(soon(*a, *b, [&] { return !store->has_pending(); }));
  EXPECT_EQ(recorder->count() + other->count(), 64u) << "each once";
}

// --- Updates that the store refuses ---

TEST_F(ProgressTest, ARowThatSomebodyKeepsLockedStopsOnlyItself) {
  std::atomic<bool> locked{true};
  std::string held;
  faults->on_update([&](std::span<const StatusUpdate> updates) -> std::optional<UpdateResult> {
    for (const StatusUpdate& update : updates) {
      if (locked && update.event_id == held) throw RetryableError("lock wait timeout exceeded");
    }
    return std::nullopt;
  });
  Barrier begin;
  auto listener = std::make_shared<RecordingListener>([&](const Event&, const Delivery&) {
    begin.pass();
    return Outcome::done();
  });
  auto box = open({.workers = 1}, listener);
  const OpenAtEnd at_end(begin);
  Texts ids;
  for (int n = 0; n < 100; ++n) {
    ids.push_back(write(*box, order_event(std::to_string(n), std::to_string(n))));
  }
  held = ids[50];
  begin.open();
  ASSERT_TRUE(eventually([&] { return bare_store->counts().pending == 1; }));
  EXPECT_EQ(status(held), Status::pending);
  EXPECT_TRUE(eventually([&] {
    const auto reasons = box->health().reasons;
    return std::any_of(reasons.begin(), reasons.end(), [&](const auto& reason) {
      return reason.find("the store has refused to update event " + held) != std::string::npos;
    });
  }));
  locked = false;
  EXPECT_TRUE(eventually([&] { return is_done(held); }));
  EXPECT_EQ(listener->count(), 100u) << "each once";
}

}  // namespace
}  // namespace outbox::testing
