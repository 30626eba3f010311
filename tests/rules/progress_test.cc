// An engine that cannot move gives up what it owns; one bad thing stops only itself
// (rules 39 and 40).
#include <set>

#include "every_store.h"
#include "outbox/error.h"

namespace outbox::testing {
namespace {

using Texts = std::vector<std::string>;

// Two instances: `a` behind faults, `b` on the bare store.
class ProgressTest : public OnEveryStore {
 protected:
  std::unique_ptr<Outbox> open_other(Options options = {}, std::shared_ptr<Listener> to = {}) {
    Listeners on;
    on.add("Order", "Happened", to ? to : std::static_pointer_cast<Listener>(other));
    auto box = std::make_unique<Outbox>(bare_store, on, with_defaults(std::move(options)));
    box->start();
    return box;
  }

  // Both own part of the table, and nothing is left to hand over.
  bool share(Outbox& a, Outbox& b) {
    int steps = 0;
    return soon([&] { return ++steps > 200 && a.owner() && b.owner(); }, a, b);
  }

  // Somebody has died with so many events in its hands.
  void die_with(std::size_t events) {
    {
      const auto dead = bare_store->join({.capacity = events, .lease = 1min, .exclusive = true});
      ASSERT_NE(dead->renew().epoch, 0);
    }
    advance(2min);
  }

  std::shared_ptr<RecordingListener> other = std::make_shared<RecordingListener>();
};
OUTBOX_ON_EVERY_STORE(ProgressTest);

// --- Fenced although nobody took over ---

// A connection for updates that leads to an old primary: it knows no such epoch, while the
// keeper renews that epoch on the new one.
TEST_P(ProgressTest, AnUpdateThatAnOldPrimaryFencesDoesNotStopTheEngineForGood) {
  std::atomic<int> fences{1};
  faults->on_update([&](std::span<const StatusUpdate>) -> std::optional<UpdateResult> {
    if (fences-- > 0) return UpdateResult{.fenced = true};
    return std::nullopt;
  });
  auto box = open({.lease = {.duration = 20s}});
  const std::string first = write(*box, order_event("a", "1"));
  ASSERT_TRUE(soon([&] { return is_done(first); }, *box));
  const std::string second = write(*box, order_event("a", "2"));
  ASSERT_TRUE(soon([&] { return is_done(second); }, *box));
  EXPECT_EQ(recorder->payloads(), (Texts{"1", "1", "2"}));
  EXPECT_GE(faults->calls("leave"), 1u) << "the same epoch would come back otherwise";
  EXPECT_TRUE(log.contains("giving up the lease and registering again: "));
}

TEST_P(ProgressTest, WhoIsFencedAgainAndAgainComesBackEverMoreRarely) {
  faults->on_update([](std::span<const StatusUpdate>) { return UpdateResult{.fenced = true}; });
  auto box = open({.lease = {.duration = 20s}});
  write(*box, order_event("a", "1"));
  const auto step = time_stands_still() ? 100ms : 500ms;
  for (auto time = 0ms; time < 1min; time += step) {
    advance(step);
    box->wake();
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_LE(recorder->count(), 10u) << "0, 0.25, 0.5, 1, 2, ... 30 s";
  EXPECT_TRUE(soon([&] { return recorder->count() >= 2; }, *box));
  EXPECT_TRUE(soon([&] { return !box->health().reasons.empty(); }, *box));
}

// --- A watchdog on progress ---

TEST_P(ProgressTest, AnOwnerThatCannotUpdateForLongLetsAnotherDeliver) {
  // Elsewhere nothing is won by it: who owns is not a matter of time (docs/architecture.md, I17).
  OUTBOX_NEEDS(capabilities().expiring_leases);
  faults->before(failing({"update"}));
  auto a = open({.lease = {.duration = 1h}, .timeouts = {.stalled = 59s}});
  ASSERT_TRUE(eventually([&] { return a->owner(); }));
  auto b = open_other({.lease = {.duration = 1h}});
  const auto began = steady();
  const std::string id = write(*a, order_event("a", "1"));
  ASSERT_TRUE(recorder->wait_for(1));
  EXPECT_FALSE(other->wait_for(1, 50ms));
  ASSERT_TRUE(in_time([&] { return is_done(id); }, *a, *b));
  EXPECT_EQ(other->payloads(), Texts{"1"});
  EXPECT_GE(steady() - began, 59s);
  EXPECT_TRUE(log.contains("no update has been acknowledged for "));
  EXPECT_TRUE(log.contains(" s: the database is unreachable: update"));
}

TEST_P(ProgressTest, WhoCannotReadForLongLetsAnotherDeliver) {
  // There the one that gives up may be the first to get the lock again; see docs/architecture.md,
  // I17.
  OUTBOX_NEEDS(capabilities().expiring_leases);
  auto a = open({.lease = {.duration = 1h}, .timeouts = {.stalled = 59s}});
  ASSERT_TRUE(eventually([&] { return a->owner(); }));
  ASSERT_TRUE(a->wait_idle(20s));
  faults->before(failing({"ready"}));
  auto b = open_other({.lease = {.duration = 1h}});
  const std::string id = write_elsewhere(order_event("a", "1"));
  ASSERT_TRUE(in_time([&] { return is_done(id); }, *a, *b));
  EXPECT_EQ(other->payloads(), Texts{"1"});
}

// --- Calls that hang ---

TEST_P(ProgressTest, WhoseWorkersAllHangLetsAnotherDeliverTheRest) {
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
  ASSERT_TRUE(in_time([&] { return other->count() >= 4; }, *a, *b));
  EXPECT_TRUE(in_time([&] { return b->owner() && !a->owner(); }, *a, *b));
  EXPECT_FALSE(a->health().live);
  const auto first = hanging->ids();
  for (const auto& id : other->ids()) {
    EXPECT_EQ(std::count(first.begin(), first.end(), id), 0) << "held while its call goes on";
  }
  hang.open();
  ASSERT_TRUE(in_time([&] { return !store->has_pending(); }, *a, *b));
  EXPECT_EQ(other->count(), 6u) << "nobody could update what the two calls had done";
}

// To give up would only have its event delivered twice.
TEST_P(ProgressTest, WhoseWorkersAllHangKeepsWhatItHasWhereNothingElseIsToDo) {
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
  const auto step = time_stands_still() ? 300ms : 3'000ms;
  for (auto time = 0ms; time < 5min; time += step) {
    advance(step);
    a->wake();
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_TRUE(a->owner());
  hang.open();
  ASSERT_TRUE(in_time([&] { return !store->has_pending(); }, *a, *b));
  EXPECT_EQ(hanging->count() + other->count(), 1u);
}

// Rule 37 says that nothing is delivered beside a group of candidates: but not for ever.
TEST_P(ProgressTest, APoisonCandidateThatHangsCostsItsGroupAndNotTheInstance) {
  Texts ids;
  for (int n = 0; n < 200; ++n) {
    ids.push_back(write_elsewhere(order_event(std::to_string(n % 150), std::to_string(n))));
  }
  ASSERT_NO_FATAL_FAILURE(die_with(200));

  Barrier hang;
  auto hanging = std::make_shared<RecordingListener>([&](const Event& event, const Delivery&) {
    if (event.id() == ids[3]) hang.pass();
    return Outcome::done();
  });
  auto box = open({.timeouts = {.hung = 30s}}, hanging);
  const OpenAtEnd at_end(hang);
  ASSERT_TRUE(hang.reached());
  bool told = false;
  ASSERT_TRUE(in_time(
      [&] {
        for (const auto& reason : box->health().reasons) {
          told = told || reason.find("poison candidates") != std::string::npos;
        }
        return bare_store->counts().pending ==
               2;  // the one that hangs, and the next of its aggregate
      },
      *box));
  EXPECT_TRUE(told);
  const auto health = box->health();
  EXPECT_TRUE(std::any_of(health.reasons.begin(), health.reasons.end(), [&](const auto& reason) {
    return reason.find("has been working on event " + ids[3]) != std::string::npos;
  }));
  hang.open();
  ASSERT_TRUE(in_time([&] { return !store->has_pending(); }, *box));
  const auto delivered = hanging->ids();
  EXPECT_EQ(delivered.size(), 200u) << "each once";
}

// One of them may kill the process next: the hang of another is no reason to forget that.
TEST_P(ProgressTest, BesideAPoisonCandidateThatHangsTheOthersAreStillIsolated) {
  Texts ids;
  for (int n = 0; n < 200; ++n) {
    ids.push_back(write_elsewhere(order_event(std::to_string(n), std::to_string(n))));
  }
  ASSERT_NO_FATAL_FAILURE(die_with(200));

  Barrier hang;
  std::atomic<int> innocent{0};
  auto hanging = std::make_shared<RecordingListener>([&](const Event& event, const Delivery&) {
    if (bare_store->admin().find(event.id())->row.crashes == 0) ++innocent;
    if (event.id() == ids[3]) hang.pass();
    return Outcome::done();
  });
  auto box = open({.timeouts = {.hung = 30s}}, hanging);
  const OpenAtEnd at_end(hang);
  ASSERT_TRUE(hang.reached());
  ASSERT_TRUE(in_time([&] { return bare_store->counts().pending == 1; }, *box));
  EXPECT_EQ(innocent, 0);
}

TEST_P(ProgressTest, APoisonCandidateWhoseRowSomebodyKeepsLockedStopsOnlyItself) {
  Texts ids;
  for (int n = 0; n < 200; ++n) {
    ids.push_back(write_elsewhere(order_event(std::to_string(n % 150), std::to_string(n))));
  }
  ASSERT_NO_FATAL_FAILURE(die_with(200));
  std::atomic<bool> locked{true};
  faults->on_update([&](std::span<const StatusUpdate> updates) -> std::optional<UpdateResult> {
    for (const StatusUpdate& update : updates) {
      if (locked && update.event_id == ids[3]) throw RetryableError("lock wait timeout exceeded");
    }
    return std::nullopt;
  });
  auto box = open();
  EXPECT_TRUE(in_time([&] { return bare_store->counts().pending == 1; }, *box));
  locked = false;
  EXPECT_TRUE(in_time([&] { return !store->has_pending(); }, *box));
  EXPECT_EQ(recorder->count(), 200u) << "each once";
}

// There is no other update to be acknowledged, which would show that the store is not at fault: the
// candidates behind it wait for all that is under way, and it for them.
TEST_P(ProgressTest, TheLastOfAGroupOfCandidatesWhoseRowSomebodyKeepsLockedStopsOnlyItself) {
  constexpr std::size_t kGroup = 64;
  Texts ids;
  for (std::size_t n = 0; n < 2 * kGroup; ++n) {
    ids.push_back(write_elsewhere(order_event(std::to_string(n), std::to_string(n))));
  }
  ASSERT_NO_FATAL_FAILURE(die_with(2 * kGroup));
  std::atomic<bool> locked{true};
  faults->on_update([&](std::span<const StatusUpdate> updates) -> std::optional<UpdateResult> {
    for (const StatusUpdate& update : updates) {
      if (locked && update.event_id == ids[kGroup - 1]) {
        throw RetryableError("lock wait timeout exceeded");
      }
    }
    return std::nullopt;
  });
  auto box = open({.workers = 1});  // what it delivers last is updated last
  EXPECT_TRUE(in_time([&] { return bare_store->counts().pending == 1; }, *box));
  locked = false;
  EXPECT_TRUE(in_time([&] { return !store->has_pending(); }, *box));
  EXPECT_EQ(recorder->count(), 2 * kGroup) << "each once";
}

// While a dead letter is written, what the call has delivered is still the worker's.
TEST_P(ProgressTest, AHangAfterTheCallIsSeenAsWell) {
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
  Outbox box(
      store, on,
      with_defaults({.dead = {.letter = [&](const Event&, std::string_view) { letter.pass(); }},
                     .timeouts = {.hung = 30s}}));
  const OpenAtEnd at_end(letter);
  for (int n = 0; n < 2; ++n) write_elsewhere(order_event("a", std::to_string(n)));
  box.start();
  ASSERT_TRUE(letter.reached());
  EXPECT_TRUE(in_time([&] { return log.contains("has been working on event"); }, box));
  letter.open();
  EXPECT_TRUE(in_time([&] { return !store->has_pending(); }, box));
}

// --- Shards that are given up ---

// Those of more shards than one.
class DrainTest : public ProgressTest {
 protected:
  void SetUp() override {
    ProgressTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    OUTBOX_NEEDS(capabilities().shards > 1);
  }
};
OUTBOX_ON_EVERY_STORE(DrainTest);

TEST_P(DrainTest, AShardWithACallThatHangsIsGivenUpAndTheEventIsHeld) {
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
  ASSERT_TRUE(in_time([&] { return faults->calls("renew") >= renewals + 3; }, *a, *b))
      << "it knows by now which shards to give up";
  Texts others;
  for (int n = 0; n < 32; ++n) {
    write_elsewhere(order_event(std::to_string(n), "1"));
    others.push_back(write_elsewhere(order_event("other " + std::to_string(n), "1")));
  }
  ASSERT_TRUE(in_time(
      [&] {
        return std::all_of(others.begin(), others.end(),
                           [&](const auto& id) { return is_done(id); });
      },
      *a, *b))
      << "whatever has nothing to do with what hangs";
  EXPECT_TRUE(b->owner());
  for (const auto& event : other->ids()) {
    EXPECT_EQ(std::count(hung.begin(), hung.end(), event), 0) << "held while its call goes on";
  }
  hangs = false;
  hang.open();
  ASSERT_TRUE(in_time([&] { return !store->has_pending(); }, *a, *b));
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
TEST_P(DrainTest, AShardWithARefusedUpdateIsReleased) {
  std::atomic<bool> locked{true};
  faults->on_update([&](std::span<const StatusUpdate> updates) -> std::optional<UpdateResult> {
    for (const StatusUpdate& update : updates) {
      if (locked && update.event_id.starts_with("locked"))
        throw RetryableError("lock wait timeout");
    }
    return std::nullopt;
  });
  auto a =
      open({.mode = Mode::multi_node, .lease = {.duration = 20s}, .timeouts = {.stalled = 59s}});
  ASSERT_TRUE(eventually([&] { return a->owner(); }));
  const auto refused = [&] {
    const auto reasons = a->health().reasons;
    return std::count_if(reasons.begin(), reasons.end(), [](const auto& reason) {
      return reason.find("the store has refused to update event locked") != std::string::npos;
    });
  };
  std::set<int> shards;
  for (int n = 0; shards.size() < static_cast<std::size_t>(capabilities().shards); ++n) {
    Draft draft = order_event(std::to_string(n), "0");
    if (!shards.insert(store->admin().find(write(*a, draft))->row.ref.shard).second) continue;
    draft.id = "locked " + std::to_string(n);
    write(*a, draft);
    const auto before = static_cast<std::ptrdiff_t>(shards.size());
    ASSERT_TRUE(soon(
        [&] {
          write(*a, order_event("other", "0"));  // that is acknowledged
          return refused() == before;
        },
        *a));
  }
  auto b = open_other({.mode = Mode::multi_node, .lease = {.duration = 20s}});
  Texts others;
  for (int n = 0; n < 100; ++n) {
    others.push_back(write_elsewhere(order_event("other " + std::to_string(n), "1")));
  }
  ASSERT_TRUE(soon(
      [&] {
        return b->owner() && std::all_of(others.begin(), others.end(),
                                         [&](const auto& id) { return is_done(id); });
      },
      *a, *b));
  locked = false;
  EXPECT_TRUE(soon([&] { return !store->has_pending(); }, *a, *b));
}

TEST_P(DrainTest, WhatWaitsForAPausedListenerIsGivenToTheNextOwner) {
  auto a = open({.mode = Mode::multi_node, .lease = {.duration = 20s}});
  ASSERT_TRUE(eventually([&] { return a->owner(); }));
  a->pause("Order", "Happened");
  for (int n = 0; n < 64; ++n) write(*a, order_event(std::to_string(n), "1"));
  ASSERT_TRUE(soon([&] { return a->in_flight() == 64; }, *a));
  auto b = open_other({.mode = Mode::multi_node, .lease = {.duration = 20s}});
  EXPECT_TRUE(soon([&] { return other->count() >= 16; }, *a, *b)) << "half of the shards are its";
  EXPECT_EQ(recorder->count(), 0u);
  a->resume("Order", "Happened");
  ASSERT_TRUE(soon([&] { return !store->has_pending(); }, *a, *b));
  EXPECT_EQ(recorder->count() + other->count(), 64u) << "each once";
}

// --- Updates that the store refuses ---

TEST_P(ProgressTest, ARowThatSomebodyKeepsLockedStopsOnlyItself) {
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

// --- Who delivers what ---

class InstancesTest : public DrainTest {};
OUTBOX_ON_EVERY_STORE(InstancesTest);

TEST_P(InstancesTest, EachEventIsDeliveredOnceByTwoInstancesWithoutOrder) {
  auto a = open({.mode = Mode::multi_node, .ordering = Ordering::none, .lease = {.duration = 20s}});
  auto b = open({.mode = Mode::multi_node, .ordering = Ordering::none, .lease = {.duration = 20s}});
  ASSERT_TRUE(share(*a, *b));
  const int events = many(200, 80);
  for (int n = 0; n < events; ++n) {
    write(n % 2 ? *a : *b, order_event(std::to_string(n), std::to_string(n)));
  }
  ASSERT_TRUE(eventually([&] {
    // Slowly: a keeper that stands still must not lose its lease.
    if (time_stands_still()) advance(5ms);
    a->wake();
    b->wake();
    return !store->has_pending();
  }));
  const auto ids = recorder->ids();
  EXPECT_EQ(std::set(ids.begin(), ids.end()).size(), static_cast<std::size_t>(events));
  EXPECT_EQ(ids.size(), static_cast<std::size_t>(events))
      << "the owner of a shard delivers, not the one that wrote";
  EXPECT_EQ((*metrics)[Counter::stale_updates], 0u);
}

TEST_P(InstancesTest, AShardIsNotHandedOverWhileItsOldOwnerReadsIt) {
  Barrier read;
  std::atomic<bool> stop_here{false};
  faults->after([&](std::string_view call) {
    if (call == "ready" && stop_here.exchange(false)) read.pass();
  });
  auto first_faults = std::exchange(faults, std::make_shared<Faults>());
  auto a = open({.mode = Mode::multi_node, .lease = {.duration = 20s}});
  store = faulty(bare_store, faults);
  ASSERT_TRUE(eventually([&] { return a->owner(); }));
  ASSERT_TRUE(a->wait_idle(20s));

  for (int n = 0; n < 40; ++n) write_elsewhere(order_event(std::to_string(n), std::to_string(n)));
  stop_here = true;
  a->wake();
  ASSERT_TRUE(read.reached());
  auto b = open({.mode = Mode::multi_node, .lease = {.duration = 20s}});
  int steps = 0;
  ASSERT_TRUE(in_time([&] { return ++steps == 10; }, *a, *b));
  read.open();
  ASSERT_TRUE(eventually([&] {
    // Slowly: a keeper that stands still must not lose its lease.
    if (time_stands_still()) advance(5ms);
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
