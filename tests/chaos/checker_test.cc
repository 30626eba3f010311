// The checker is tested too: with a broken store it must report the fault, and
// without one, in the same scenario, nothing. On every database of the run.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <thread>

#include "database.h"
#include "faulty_store.h"
#include "harness/verdict.h"
#include "observer.h"
#include "outbox/outbox.h"
#include "outbox/spi/poller.h"
#include "outbox/testing.h"
#include "support/services.h"
#include "workload.h"

namespace outbox::chaos {
namespace {

using namespace std::chrono_literals;

// A ledger in memory. Thread-safe.
class Arrivals {
 public:
  void add(const Event& event, const Delivery& delivery) {
    const Movement movement = parse_payload(event.payload());
    const std::lock_guard lock(mutex_);
    arrivals_.push_back({.id = event.id(),
                         .aggregate = event.aggregate_id(),
                         .number = movement.number,
                         .epoch = delivery.epoch,
                         .attempt = delivery.attempt,
                         .at = host_clock().now().time_since_epoch().count()});
    arrived_.raise();
  }
  bool wait_for(std::size_t n) { return arrived_.wait(n); }
  std::vector<harness::Message> all() const {
    const std::lock_guard lock(mutex_);
    return arrivals_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<harness::Message> arrivals_;
  testing::Signal arrived_;
};

// The application and one engine after the other in this process, on a faulty
// store over a sound one.
class CheckerTest : public ::testing::TestWithParam<TemporaryDatabase> {
 protected:
  void SetUp() override {
    if (GetParam().server != nullptr) OUTBOX_NEEDS_SERVICE(GetParam().server);
    database_ = GetParam().make();
    observer_.emplace(*database_);
  }

  void open(const Faults& faults) {
    sound_ = database_->open();
    store_ = std::make_shared<FaultyStore>(sound_, faults);
  }

  Listeners listeners() {
    Listeners on;
    on.add(kAggregateType, kEventType, [this](const Event& event, const Delivery& delivery) {
      arrivals_->add(event, delivery);
    });
    return on;
  }

  // Writes so many events, each with its business row.
  static void write(Writer& writer, int events, const std::string& aggregate = "a0") {
    for (int n = 0; n < events; ++n) {
      auto tx = writer.begin();
      const std::int64_t number = next_numbers(tx.connection(), aggregate);
      const std::string id =
          tx.write({.type = kEventType,
                    .aggregate_type = kAggregateType,
                    .aggregate_id = aggregate,
                    .payload = json(to_payload({.aggregate = aggregate, .number = number}))});
      record(tx.connection(), {.id = id, .aggregate = aggregate, .number = number});
      tx.commit();
    }
  }

  harness::Verdict verdict(const harness::Expected& expected = {}) {
    harness::Verdict result = harness::judge(observer_->committed(), arrivals_->all(), expected);
    result.dead = observer_->dead();
    result.pending = observer_->pending();
    return result;
  }

  testing::RecordingLog log_;
  std::unique_ptr<Database> database_;
  std::optional<Observer> observer_;
  std::shared_ptr<Store> sound_;
  std::shared_ptr<FaultyStore> store_;
  std::shared_ptr<Arrivals> arrivals_ = std::make_shared<Arrivals>();
};

// --- An update before the delivery ---

void wait_for_stop(const std::stop_token& stop) {
  testing::Signal stopped;
  const std::stop_callback raise(stop, [&] { stopped.raise(); });
  EXPECT_TRUE(stopped.wait());
}

class UpdateBeforeDelivery : public CheckerTest {
 protected:
  // Engines that are closed with events in their queues, like killed ones but
  // at a known place: inside the first call.
  harness::Verdict run(const Faults& faults) {
    open(faults);
    {
      Writer writer{sound_};
      write(writer, 20);
    }
    {
      testing::Signal inside;
      Listeners on;
      on.add(kAggregateType, kEventType, [&](const Event& event, const Delivery& delivery) {
        inside.raise();
        wait_for_stop(delivery.stop);
        arrivals_->add(event, delivery);
      });
      Outbox box{store_, on, {.timeouts = {.drain = 0ms}, .log = log_.log()}};
      box.start();
      EXPECT_TRUE(inside.wait());
      box.close();
    }
    Outbox box{store_, listeners(), {.log = log_.log()}};
    box.start();
    EXPECT_TRUE(box.wait_idle(20s));
    box.close();
    return verdict();
  }
};

TEST_P(UpdateBeforeDelivery, LosesEventsAndIsReported) {
  const harness::Verdict found = run({.update_before_delivery = true});
  EXPECT_EQ(found.lost, 19u) << found;
  EXPECT_FALSE(found.clean());
}

TEST_P(UpdateBeforeDelivery, LosesNothingWithoutTheFault) {
  const harness::Verdict found = run({});
  EXPECT_TRUE(found.clean()) << found;
  EXPECT_EQ(found.delivered, 20u);
}

// --- A hook that runs on rollback ---

class HookOnRollback : public CheckerTest {
 protected:
  harness::Verdict run(const Faults& faults, Ordering ordering) {
    open(faults);
    Outbox box{store_, listeners(), {.ordering = ordering, .log = log_.log()}};
    box.start();
    // The direct hot path is for owners only.
    write(box.writer(), 1, "a1");
    EXPECT_TRUE(arrivals_->wait_for(1));
    write(box.writer(), 29);
    EXPECT_TRUE(box.wait_idle(20s));
    box.close();
    return verdict({.ordered = ordering == Ordering::per_aggregate});
  }
};

TEST_P(HookOnRollback, DeliversGhostsAndIsReported) {
  const harness::Verdict found = run({.hook_on_rollback = true}, Ordering::none);
  EXPECT_EQ(found.committed, 20u);
  EXPECT_EQ(found.ghosts, 10u) << found;
  EXPECT_FALSE(found.clean());
}

TEST_P(HookOnRollback, DeliversNoGhostWithoutTheFault) {
  const harness::Verdict found = run({}, Ordering::none);
  EXPECT_TRUE(found.clean()) << found;
  EXPECT_EQ(found.committed, 30u);
}

// With order a commit merely wakes the reader, which finds no row.
TEST_P(HookOnRollback, DoesNoHarmWithOrder) {
  const harness::Verdict found = run({.hook_on_rollback = true}, Ordering::per_aggregate);
  EXPECT_TRUE(found.clean()) << found;
  EXPECT_EQ(found.committed, 20u);
}

// --- An update that is lost ---

class LostUpdate : public CheckerTest {
 protected:
  harness::Verdict run(const Faults& faults) {
    open(faults);
    Outbox box{store_, listeners(), {.poll_interval = 20ms, .log = log_.log()}};
    box.start();
    write(box.writer(), 30);
    EXPECT_TRUE(box.wait_idle(20s));
    box.close();
    return verdict();
  }
};

TEST_P(LostUpdate, RepeatsEventsAndIsReported) {
  const harness::Verdict found = run({.lose_updates = true});
  EXPECT_GE(found.duplicates, 30u) << found;
  EXPECT_FALSE(found.clean());
}

TEST_P(LostUpdate, RepeatsNothingWithoutTheFault) {
  const harness::Verdict found = run({});
  EXPECT_TRUE(found.clean()) << found;
}

// --- Rows that are read again while they are in flight ---

// Forgets what it was told.
class NoTracker final : public InFlightTracker {
 public:
  bool try_acquire(std::string_view /*event_id*/) override { return true; }
  void release(std::string_view /*event_id*/) override {}
};

class RereadRows : public CheckerTest {
 protected:
  // A poller that sees each row again until it is updated; the first call does
  // not return before the reader has come round several times.
  harness::Verdict run(std::shared_ptr<InFlightTracker> tracker) {
    open({.reread = true});
    testing::Signal polled;
    testing::Signal inside;
    Listeners on;
    on.add(kAggregateType, kEventType, [&](const Event& event, const Delivery& delivery) {
      inside.raise();
      EXPECT_TRUE(polled.wait(3));
      arrivals_->add(event, delivery);
    });
    const std::shared_ptr<Instance> instance = store_->join({});
    Dispatcher dispatcher{instance, on, {.tracker = std::move(tracker), .log = log_.log()}};
    Poller poller{instance, dispatcher.poll_handler(), {.log = log_.log()}};
    dispatcher.start();
    Writer writer{sound_};
    write(writer, 5);
    poller.poll();
    EXPECT_TRUE(inside.wait());
    for (int round = 0; round < 3; ++round) {
      poller.poll();
      polled.raise();
    }
    const auto deadline = std::chrono::steady_clock::now() + 20s;
    while (dispatcher.in_flight() > 0 && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::yield();
    }
    dispatcher.close();
    poller.close();
    return verdict();
  }
};

TEST_P(RereadRows, AreRepeatedWithoutATrackerAndThatIsReported) {
  const harness::Verdict found = run(std::make_shared<NoTracker>());
  EXPECT_GT(found.duplicates, 0u) << found;
  EXPECT_FALSE(found.clean());
}

TEST_P(RereadRows, AreRecognisedByTheGate) {
  const harness::Verdict found = run(nullptr);
  EXPECT_TRUE(found.clean()) << found;
  EXPECT_EQ(found.delivered, 5u);
}

// Those on a server are named after it.
const auto kOnSqlite = ::testing::Values(kSqlite);
INSTANTIATE_TEST_SUITE_P(Sqlite, UpdateBeforeDelivery, kOnSqlite);
INSTANTIATE_TEST_SUITE_P(Sqlite, HookOnRollback, kOnSqlite);
INSTANTIATE_TEST_SUITE_P(Sqlite, LostUpdate, kOnSqlite);
INSTANTIATE_TEST_SUITE_P(Sqlite, RereadRows, kOnSqlite);
#ifdef OUTBOX_WITH_POSTGRES
const auto kOnPostgres = ::testing::Values(kPostgres);
INSTANTIATE_TEST_SUITE_P(Postgres, UpdateBeforeDelivery, kOnPostgres);
INSTANTIATE_TEST_SUITE_P(Postgres, HookOnRollback, kOnPostgres);
INSTANTIATE_TEST_SUITE_P(Postgres, LostUpdate, kOnPostgres);
INSTANTIATE_TEST_SUITE_P(Postgres, RereadRows, kOnPostgres);
#endif
#ifdef OUTBOX_WITH_MYSQL
const auto kOnMysql = ::testing::Values(kMysql);
INSTANTIATE_TEST_SUITE_P(Mysql, UpdateBeforeDelivery, kOnMysql);
INSTANTIATE_TEST_SUITE_P(Mysql, HookOnRollback, kOnMysql);
INSTANTIATE_TEST_SUITE_P(Mysql, LostUpdate, kOnMysql);
INSTANTIATE_TEST_SUITE_P(Mysql, RereadRows, kOnMysql);
#endif

// What the checker goes by: a workload's ledger.

using harness::Told;

TEST(Attempts, GiveBackWhatWasTriedAndWhatItsWriterWasTold) {
  const auto attempts =
      parse_attempts({to_line(std::vector<std::string>{"01A", "01B"}), to_line(Told::committed),
                      to_line(std::vector<std::string>{"01C"}), to_line(Told::failed),
                      to_line(std::vector<std::string>{"01D"}), to_line(Told::unknown),
                      to_line(std::vector<std::string>{"01E"})});
  ASSERT_EQ(attempts.size(), 4u);
  EXPECT_EQ(attempts[0].ids, (std::vector<std::string>{"01A", "01B"}));
  EXPECT_EQ(attempts[0].told, Told::committed);
  EXPECT_EQ(attempts[1].told, Told::failed);
  EXPECT_EQ(attempts[2].told, Told::unknown);
  EXPECT_EQ(attempts[3].told, Told::unknown) << "whose writer died before it heard";
  EXPECT_THROW(parse_attempts({"committed"}), std::runtime_error);
  EXPECT_THROW(parse_attempts({"tries 01A ", "perhaps"}), std::runtime_error);
}

}  // namespace
}  // namespace outbox::chaos
