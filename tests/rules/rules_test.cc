// Rules of the facade: delays, the hot path, attempts, closing.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>

#include "every_store.h"
#include "outbox/error.h"
#include "outbox/spi/dispatcher.h"

namespace outbox::testing {
namespace {

class RulesTest : public OnEveryStore {};
OUTBOX_ON_EVERY_STORE(RulesTest);

using Texts = std::vector<std::string>;

std::shared_ptr<RecordingListener> answering(
    std::function<Outcome(const Event&, const Delivery&)> answer) {
  return std::make_shared<RecordingListener>(std::move(answer));
}

// --- Delayed events (rule 6) ---

TEST_P(RulesTest, ADelayedEventIsNotEarlyAndDoesNotHoldBackItsAggregate) {
  for (const Ordering ordering : {Ordering::per_aggregate, Ordering::none}) {
    recorder = std::make_shared<RecordingListener>();
    auto box = open({.ordering = ordering});
    Draft late = order_event("42", "\"late\"");
    late.deliver_after = 10min;
    write(*box, late);
    write(*box, order_event("42", "\"soon\""));
    ASSERT_TRUE(recorder->wait_for(1));
    advance_almost(10min);
    box->wake();
    write(*box, order_event("42", "\"next\""));
    ASSERT_TRUE(recorder->wait_for(2));
    EXPECT_EQ(recorder->payloads(), (Texts{"\"soon\"", "\"next\""}));
    advance_rest();
    box->wake();
    ASSERT_TRUE(recorder->wait_for(3));
    EXPECT_EQ(recorder->payloads().back(), "\"late\"");
    ASSERT_TRUE(box->wait_idle(20s));
  }
  EXPECT_EQ((*metrics)[Counter::hot_skipped_delayed], 2u);
}

TEST_P(RulesTest, EachOfSeveralDelayedEventsIsDeliveredWhenItIsDueNotAtTheNextSweep) {
  // By the host's clock, because that is what the timer waits by.
  use_store({.host_clock = true});
  auto box = open({.workers = 1, .poll_interval = 1h});
  const Time base = host_clock().now() + 2s;  // all are written by then
  for (int n = 5; n > 0; --n) {
    Draft late = order_event(std::to_string(n), std::to_string(n));
    late.deliver_at = base + std::chrono::milliseconds{20 * n};
    write(*box, late);
  }
  ASSERT_TRUE(recorder->wait_for(5));
  EXPECT_EQ(recorder->payloads(), (Texts{"1", "2", "3", "4", "5"}));
}

// --- The hot path (rules 10, 13) ---

TEST_P(RulesTest, WhenTheHotQueueIsFullTheReaderDeliversAndTheWriteSucceeds) {
  OUTBOX_NEEDS(capabilities().progress == Progress::row);  // for a hot path
  Barrier busy;
  auto slow = answering([&](const Event&, const Delivery&) {
    busy.pass();
    return Outcome::done();
  });
  auto box = open({.workers = 1, .ordering = Ordering::none, .queue = {.hot_capacity = 2}}, slow);
  ASSERT_TRUE(eventually([&] { return box->owner(); }));
  std::set<std::string> ids;
  for (int n = 0; n < 50; ++n) ids.insert(write(*box, order_event("1", std::to_string(n))));
  EXPECT_GE((*metrics)[Counter::hot_dropped], 40u);
  std::size_t warnings = 0;
  for (const auto& line : log.lines()) {
    if (line.code != "hot_queue_full") continue;
    EXPECT_EQ(line.level, LogLevel::warning);
    ++warnings;
  }
  EXPECT_EQ(warnings, 1u) << "rate-limited";
  busy.open();
  ASSERT_TRUE(box->wait_idle(20s));
  const auto got = slow->ids();
  EXPECT_EQ(std::set(got.begin(), got.end()), ids);
  EXPECT_EQ(got.size(), ids.size()) << "each once";
}

TEST_P(RulesTest, ACommitWithUnknownOutcomeIsLeftToTheReaderWhetherItHappenedOrNot) {
  OUTBOX_NEEDS(capabilities().progress == Progress::row);  // for a hot path
  for (const Ordering ordering : {Ordering::none, Ordering::per_aggregate}) {
    recorder = std::make_shared<RecordingListener>();
    auto box = open({.ordering = ordering});
    ASSERT_TRUE(eventually([&] { return box->owner(); }));
    const auto hot = (*metrics)[Counter::hot_enqueued];
    const auto lose = [](std::string_view call) {
      if (call == "commit") throw OutcomeUnknownError("lost");
    };
    faults->after(lose);
    EXPECT_THROW(write(*box, order_event("1", "\"happened\"")), OutcomeUnknownError);
    faults->clear();
    faults->before(lose);
    EXPECT_THROW(write(*box, order_event("1", "\"did not\"")), OutcomeUnknownError);
    faults->clear();
    ASSERT_TRUE(recorder->wait_for(1));
    write(*box, order_event("1", "\"after\""));
    ASSERT_TRUE(box->wait_idle(20s));
    EXPECT_EQ(recorder->payloads(), (Texts{"\"happened\"", "\"after\""}));
    EXPECT_EQ((*metrics)[Counter::hot_enqueued] - hot, ordering == Ordering::none ? 1u : 0u);
  }
}

TEST_P(RulesTest, NothingOfARollbackOrOfASavepointRolledBackTakesTheHotPath) {
  OUTBOX_NEEDS(capabilities().progress == Progress::row);  // for a hot path
  auto box = open({.ordering = Ordering::none});
  ASSERT_TRUE(eventually([&] { return box->owner(); }));
  {
    auto tx = box->begin();
    tx.write(order_event("1", "\"rolled back\""));
    tx.rollback();
  }
  auto tx = box->begin();
  {
    auto undone = tx.savepoint();
    tx.write(order_event("1", "\"undone\""));
  }
  tx.write(order_event("1", "\"kept\""));
  tx.commit();
  ASSERT_TRUE(box->wait_idle(20s));
  EXPECT_EQ(recorder->payloads(), Texts{"\"kept\""});
  EXPECT_EQ((*metrics)[Counter::hot_enqueued], 1u);
}

TEST_P(RulesTest, OnTheUsersOwnConnectionTheTokenStartsTheDelivery) {
  auto box = open({.poll_interval = 60min});
  const auto own = store->connect();
  own->begin();
  WriteToken token = box->writer().write(*own, order_event("1", "1"));
  own->commit();
  token.committed();
  ASSERT_TRUE(recorder->wait_for(1));
}

// --- Attempts (rules 18, 19) ---

TEST_P(RulesTest, RetryAfterSpendsNoAttemptAndWaitsItsOwnTime) {
  std::atomic<int> calls{0};
  auto patient = answering([&](const Event&, const Delivery& delivery) {
    EXPECT_EQ(delivery.attempt, 1);
    return ++calls < 4 ? Outcome::retry_after(10min) : Outcome::done();
  });
  auto box = open({.retry = {.max_attempts = 1}}, patient);
  const auto id = write(*box, order_event("1", "1"));
  for (std::size_t n = 1; n < 4; ++n) {
    ASSERT_TRUE(patient->wait_for(n));
    ASSERT_TRUE(eventually([&] { return box->in_flight() == 0; }));
    EXPECT_EQ(attempts(id), 0);
    EXPECT_EQ(status(id), Status::pending);
    advance_almost(10min);
    box->wake();
    EXPECT_FALSE(patient->wait_for(n + 1, 20ms));
    advance_rest();
    box->wake();
  }
  ASSERT_TRUE(patient->wait_for(4));
  ASSERT_TRUE(box->wait_idle(20s));
  EXPECT_EQ((*metrics)[Counter::deferred], 3u);
  EXPECT_EQ((*metrics)[Counter::failure], 0u);
}

TEST_P(RulesTest, AnErrorWithItsOwnDelayUsesThatDelayAndSpendsAnAttempt) {
  auto failing_once = answering([](const Event&, const Delivery& delivery) -> Outcome {
    if (delivery.attempt == 1) throw RetryAfterError("come back", 10min);
    return Outcome::done();
  });
  auto box = open({.retry = {.policy = retry_every(10h)}}, failing_once);
  const auto id = write(*box, order_event("1", "1"));
  ASSERT_TRUE(eventually([&] { return status(id) == Status::retry && box->in_flight() == 0; }));
  EXPECT_EQ(attempts(id), 1);
  EXPECT_EQ(store->admin().find(id)->last_error, "come back");
  advance_almost(10min);
  box->wake();
  EXPECT_FALSE(failing_once->wait_for(2, 20ms));
  advance_rest();
  box->wake();
  ASSERT_TRUE(failing_once->wait_for(2));
  ASSERT_TRUE(box->wait_idle(20s));
}

TEST_P(RulesTest, APermanentErrorIsDeadAtOnceAndTheCallbackHearsOfIt) {
  Signal told;
  auto box = open(
      {.dead = {.on_event =
                    [&](const Event& event, std::string_view error) {
                      EXPECT_EQ(event.payload(), "1");
                      EXPECT_EQ(error, "never");
                      told.raise();
                      throw 42;
                    }}},
      answering([](const Event&, const Delivery&) -> Outcome { throw PermanentError("never"); }));
  const auto id = write(*box, order_event("1", "1"));
  ASSERT_TRUE(told.wait());
  ASSERT_TRUE(box->wait_idle(20s));
  EXPECT_EQ(status(id), Status::dead);
  EXPECT_EQ(attempts(id), 1);
  EXPECT_EQ((*metrics)[Counter::dead], 1u);
  EXPECT_TRUE(eventually([&] { return log.contains("the on-dead callback failed"); }));
}

TEST_P(RulesTest, WhatNobodyListensToIsDeadAtOnce) {
  auto box = open();
  Draft draft = order_event("1", "1");
  draft.type = "Unheard";
  const auto id = write(*box, draft);
  ASSERT_TRUE(box->wait_idle(20s));
  EXPECT_EQ(status(id), Status::dead);
  EXPECT_EQ(store->admin().find(id)->last_error,
            "no listener for aggregate type \"Order\", event type \"Unheard\"");
}

TEST_P(RulesTest, WhatNobodyElseListensToGoesToTheOneForAllOthersAndNothingElseDoes) {
  const auto others = std::make_shared<RecordingListener>();
  Listeners on;
  on.add("Order", "Happened", std::static_pointer_cast<Listener>(recorder));
  on.otherwise(std::static_pointer_cast<Listener>(others));
  Outbox box{store, on, with_defaults({})};
  box.start();
  write(box, order_event("1", "1"));
  Draft draft = order_event("1", "2");
  draft.type = "Unheard";
  const auto id = write(box, draft);
  ASSERT_TRUE(box.wait_idle(20s));
  EXPECT_EQ(recorder->count(), 1u);
  EXPECT_EQ(others->count(), 1u);
  EXPECT_EQ(status(id), Status::done);
}

TEST_P(RulesTest, AnEngineWithoutAnyListenerIsRefused) {
  const auto refuses = [&](Mode mode) {
    try {
      Outbox box{store, {}, {.mode = mode, .log = log.log()}};
      return std::string();
    } catch (const MisuseError& error) {
      return std::string(error.what());
    }
  };
  for (const Mode mode : {Mode::single_node, Mode::multi_node}) {
    EXPECT_EQ(
        refuses(mode),
        "outbox: there is no listener, so every event would be DEAD: add the listeners first, "
        "or set mode = Mode::writer_only if another program delivers");
  }
  EXPECT_EQ(refuses(Mode::writer_only), "");
  const std::shared_ptr<Instance> instance = store->join({});
  EXPECT_THROW(Dispatcher(instance, {}), MisuseError);
}

// An old release, and events of a new type.
TEST_P(RulesTest, WhatNobodyListensToWaitsIfSoWishedForAnInstanceThatDoes) {
  Draft unheard = order_event("a", "1");
  unheard.type = "Unheard";
  Draft loose = unheard;
  loose.aggregate_id = "";
  loose.payload = json("\"loose\"");
  std::string head;
  {
    auto old = open({.on_unroutable = OnUnroutable::wait});
    head = write(*old, unheard);
    write(*old, order_event("a", "2"));
    write(*old, loose);
    write(*old, order_event("b", "\"other\""));
    ASSERT_TRUE(recorder->wait_for(1));
    ASSERT_TRUE(eventually([&] { return old->in_flight() == 0; }));
    EXPECT_EQ(recorder->payloads(), std::vector<std::string>{"\"other\""});
    EXPECT_TRUE(eventually([&] { return store->counts().pending == 3; }));
    EXPECT_EQ(store->counts().dead, 0);
    EXPECT_EQ(status(head), Status::pending);
    EXPECT_EQ(attempts(head), 0);
    const std::vector<HeldAggregate> held = store->admin().held_aggregates(10);
    ASSERT_EQ(held.size(), 1u);
    EXPECT_EQ(held[0].last_error,
              "no listener for aggregate type \"Order\", event type \"Unheard\"; it waits for one");
    if (time_stands_still()) {
      EXPECT_EQ((*metrics)[Counter::unroutable], 2u) << "looked at once, and left alone";
    }
    const std::vector<std::string> reasons = old->health().reasons;
    EXPECT_EQ(reasons, std::vector<std::string>{
                           "events wait for a listener of Order/Unheard, which is not here"});
    EXPECT_TRUE(old->health().ready);

    // It looks again now and then, and no more often.
    ASSERT_TRUE(in_time([&] { return (*metrics)[Counter::unroutable] >= 6; }, *old));
    pass(*old, 600s, time_stands_still() ? 1s : 5s);
    ASSERT_TRUE(eventually([&] { return old->in_flight() == 0; }));
    EXPECT_LE((*metrics)[Counter::unroutable], 60u);
    EXPECT_EQ(attempts(head), 0);
    EXPECT_EQ(recorder->count(), 1u);
  }
  Listeners on;
  on.add("Order", "Happened", std::static_pointer_cast<Listener>(recorder));
  on.add("Order", "Unheard", std::static_pointer_cast<Listener>(recorder));
  Outbox next{store, on, with_defaults({.on_unroutable = OnUnroutable::wait})};
  next.start();
  ASSERT_TRUE(in_time([&] { return !store->has_pending(); }, next));
  std::vector<std::string> of_a;
  for (const auto& call : recorder->calls()) {
    if (call.event.aggregate_id() == "a") of_a.push_back(call.event.payload());
  }
  EXPECT_EQ(of_a, (std::vector<std::string>{"1", "2"}));
  EXPECT_TRUE(next.health().reasons.empty());
}

TEST_P(RulesTest, ThrowingSomethingOddIsAFailedAttempt) {
  auto box = open({.retry = {.max_attempts = 1}},
                  answering([](const Event&, const Delivery&) -> Outcome { throw 42; }));
  const auto id = write(*box, order_event("1", "1"));
  ASSERT_TRUE(box->wait_idle(20s));
  EXPECT_EQ(status(id), Status::dead);
  EXPECT_EQ(attempts(id), 1);
}

TEST_P(RulesTest, AListenerThatHangsIsReportedOnce) {
  Barrier hang;
  auto box = open({.timeouts = {.hung = 10min}}, answering([&](const Event&, const Delivery&) {
                    hang.pass();
                    return Outcome::done();
                  }));
  write(*box, order_event("1", "1"));
  ASSERT_TRUE(hang.reached());
  advance_almost(10min);
  box->wake();
  EXPECT_FALSE(eventually([&] { return (*metrics)[Counter::hung_calls] > 0; }, 20ms));
  for (int n = 0; n < 3; ++n) {
    advance_rest();
    box->wake();
    EXPECT_TRUE(eventually([&] { return (*metrics)[Counter::hung_calls] == 1; }));
  }
  EXPECT_TRUE(eventually(
      [&] { return log.contains("the listener of Order/Happened has been working on event"); }));
  hang.open();
  ASSERT_TRUE(box->wait_idle(20s));
}

// --- Closing (rule 23) ---

TEST_P(RulesTest, ClosingWaitsForWhatRunsAndLeavesTheRestPendingWithAllItsAttempts) {
  Barrier running;
  std::atomic<bool> asked_to_stop{false};
  auto slow = answering([&](const Event&, const Delivery& delivery) {
    running.pass();
    asked_to_stop = eventually([&] { return delivery.stop.stop_requested(); });
    return Outcome::done();
  });
  auto box = open({.workers = 1, .timeouts = {.drain = 0ms}}, slow);
  Texts ids;
  for (int n = 0; n < 5; ++n) ids.push_back(write(*box, order_event(std::to_string(n), "1")));
  ASSERT_TRUE(running.reached());
  std::jthread closer([&] { box->close(); });
  running.open();
  closer.join();
  EXPECT_TRUE(asked_to_stop);
  EXPECT_EQ(slow->count(), 1u);
  EXPECT_EQ(store->counts().pending, 4);
  for (const auto& id : ids) EXPECT_EQ(attempts(id), 0);
  auto next = open();
  ASSERT_TRUE(next->wait_idle(20s)) << "a clean close hands over at once";
  EXPECT_EQ(recorder->count(), 4u);
}

TEST_P(RulesTest, ClosingWithADeadlineEndsByThenAndLeavesTheRestPending) {
  Barrier running;
  std::atomic<bool> asked_to_stop{false};
  auto slow = answering([&](const Event&, const Delivery& delivery) {
    running.pass();
    asked_to_stop = eventually([&] { return delivery.stop.stop_requested(); });
    return Outcome::done();
  });
  auto box = open({.workers = 1, .timeouts = {.drain = 10min}}, slow);
  Texts ids;
  for (int n = 0; n < 5; ++n) ids.push_back(write(*box, order_event(std::to_string(n), "1")));
  ASSERT_TRUE(running.reached());
  running.open();
  box->close(20ms);
  EXPECT_TRUE(asked_to_stop) << "by the deadline, which goes before the option";
  EXPECT_EQ(slow->count(), 1u);
  EXPECT_EQ(store->counts().pending, 4) << "what was done is recorded";
  for (const auto& id : ids) EXPECT_EQ(attempts(id), 0);
}

TEST_P(RulesTest, ClosingWithADeadlineReturnsAsSoonAsEverythingIsDone) {
  auto box = open({.workers = 1, .timeouts = {.drain = 0ms}});
  ASSERT_TRUE(eventually([&] { return box->owner(); }));
  for (int n = 0; n < 100; ++n) write(*box, order_event(std::to_string(n), "1"));
  ASSERT_TRUE(box->wait_idle(20s));
  const auto begin = std::chrono::steady_clock::now();
  box->close(10min);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 60s);
  EXPECT_EQ(store->counts().pending, 0);
  EXPECT_NO_THROW(box->close(10min)) << "idempotent";
}

TEST_P(RulesTest, ClosingWithANegativeDeadlineIsRefusedAndClosesNothing) {
  auto box = open();
  EXPECT_THROW(box->close(-1ms), MisuseError);
  write(*box, order_event("1", "1"));
  EXPECT_TRUE(box->wait_idle(20s));
}

TEST_P(RulesTest, ClosingDrainsWhatIsQueued) {
  OUTBOX_NEEDS(capabilities().progress == Progress::row);  // for a hot path
  auto box = open({.workers = 1, .ordering = Ordering::none});
  ASSERT_TRUE(eventually([&] { return box->owner(); }));
  for (int n = 0; n < 100; ++n) write(*box, order_event("1", "1"));
  box->close();
  EXPECT_EQ(recorder->count(), 100u);
  EXPECT_EQ(store->counts().pending, 0) << "updates are flushed";
}

TEST_P(RulesTest, CloseTwiceOrWithoutStartIsFineAndStartAfterCloseIsNot) {
  auto box = make();
  box->close();
  box->close();
  EXPECT_THROW(box->start(), MisuseError);
  auto started = open();
  EXPECT_THROW(started->start(), MisuseError);
  started->close();
  started->close();
}

TEST_P(RulesTest, WaitIdleWaitsForDelayedEventsToo) {
  auto box = open();
  Draft late = order_event("42", "1");
  late.deliver_after = 10min;
  write(*box, late);
  EXPECT_FALSE(box->wait_idle(30ms));
  advance(10min);
  box->wake();
  EXPECT_TRUE(box->wait_idle(20s));
}

// --- Row claims (rule 26) ---

TEST_P(RulesTest, RowClaimsShareTheWorkWithoutDuplicates) {
  OUTBOX_NEEDS(capabilities().row_claims);
  const Options claims{.mode = Mode::multi_node, .ordering = Ordering::none, .row_claims = true};
  auto a = open(claims);
  auto b = open(claims);
  ASSERT_TRUE(eventually([&] { return a->owner() && b->owner(); }));
  for (int n = 0; n < 300; ++n) {
    if (n % 3 == 0) write(*a, order_event("1", std::to_string(n)));
    if (n % 3 == 1) write(*b, order_event("1", std::to_string(n)));
    if (n % 3 == 2) write_elsewhere(order_event("1", std::to_string(n)));
  }
  ASSERT_TRUE(a->wait_idle(20s));
  const auto ids = recorder->ids();
  EXPECT_EQ(ids.size(), 300u);
  EXPECT_EQ(std::set(ids.begin(), ids.end()).size(), 300u);
}

TEST_P(RulesTest, WhatIsWrittenThroughAClosedOutboxIsNotClaimedByIt) {
  const Options claims{.mode = Mode::multi_node, .ordering = Ordering::none, .row_claims = true};
  auto a = open(claims);
  ASSERT_TRUE(eventually([&] { return a->owner(); }));
  a->close();
  write(*a, order_event("1", "1"));
  auto b = open(claims);
  EXPECT_TRUE(b->wait_idle(5s)) << "nobody would deliver it before the lock times out";
}

TEST_P(RulesTest, RowClaimsNeedOrderingNone) {
  EXPECT_THROW(make({.mode = Mode::multi_node, .row_claims = true}), MisuseError);
  EXPECT_THROW(make({.ordering = Ordering::none, .dead = {.then = OnDead::block}}), MisuseError);
}

// --- Fork (rule 38) ---

TEST_P(RulesTest, AfterAForkTheChildIsRefused) {
  auto box = open();
  ASSERT_TRUE(eventually([&] { return box->owner(); }));
  const pid_t child = fork();
  if (child == 0) {
    const auto refused = [](auto call) {
      try {
        call();
      } catch (const MisuseError&) {
        return true;
      }
      return false;
    };
    int failures = 0;
    failures += !refused([&] { static_cast<void>(box->begin()); });
    failures += !refused([&] { box->wake(); });
    failures += !refused([&] { box->wait_idle(1s); });
    failures += !refused([&] { box->close(); });
    box.reset();  // must not wait for threads that are not here
    _exit(failures);
  }
  int state = -1;
  if (!eventually([&] { return waitpid(child, &state, WNOHANG) == child; }, 10s)) {
    kill(child, SIGKILL);
    waitpid(child, &state, 0);
    ADD_FAILURE() << "the child hung";
  }
  EXPECT_EQ(state, 0);
  write(*box, order_event("1", "1"));
  EXPECT_TRUE(box->wait_idle(20s)) << "the parent goes on";
}

// --- The log (rule 35) ---

// What goes wrong is at the level that the specification asks for, and no record, nor any of its
// fields, shows what is in an event.
TEST_P(RulesTest, TheLogTellsTheDeadAndTheFailingAndShowsNoPayloadAndNoHeader) {
  std::mutex mutex;
  std::map<std::string, LogLevel, std::less<>> levels;
  std::string said;
  Options options = with_defaults(
      {.retry = {.max_attempts = 2},
       .dead = {.on_event = [](const Event&, std::string_view) { throw std::runtime_error("no"); }},
       .interceptors = {after([](const Event&, const std::exception_ptr&) { throw 42; })}});
  options.log = [&](const LogRecord& record) {
    const std::lock_guard lock(mutex);
    levels.emplace(record.code, record.level);
    said.append(record.message).append("\n");
    for (const LogField& field : record.fields) {
      const auto* text = std::get_if<std::string_view>(&field.value);
      if (text != nullptr) said.append(*text).append("\n");
    }
  };
  Listeners on;
  on.add("Order", "Happened",
         answering([calls = std::make_shared<std::atomic<int>>(0)](const Event&,
                                                                   const Delivery&) -> Outcome {
           if ((*calls)++ == 0) return Outcome::unavailable("no broker");
           return Outcome::failed("refused");
         }));
  Outbox box(store, on, options);
  box.start();
  Draft secret = order_event("1", R"({"card":"s3cret"})");
  secret.headers = {{"authorization", "s3cret"}};
  const std::string id = write(box, secret);
  ASSERT_TRUE(in_time([&] { return status(id) == Status::dead; }, box));
  faults->before(failing({"ready"}));
  write_elsewhere(secret);
  ASSERT_TRUE(in_time(
      [&] {
        const std::lock_guard lock(mutex);
        return levels.contains("read_failed") && levels.contains("on_dead_failed");
      },
      box));
  faults->clear();
  box.close();

  const std::lock_guard lock(mutex);
  EXPECT_EQ(levels["event_dead"], LogLevel::error);
  EXPECT_EQ(levels["read_failed"], LogLevel::error);
  EXPECT_EQ(levels["on_dead_failed"], LogLevel::error);
  EXPECT_EQ(levels["interceptor_failed"], LogLevel::error);
  EXPECT_EQ(levels["listener_unavailable"], LogLevel::warning);
  EXPECT_EQ(levels["lease_acquired"], LogLevel::info);
  EXPECT_NE(said.find(id), std::string::npos);
  EXPECT_EQ(said.find("s3cret"), std::string::npos) << said;
}

}  // namespace
}  // namespace outbox::testing
