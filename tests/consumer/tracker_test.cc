// The suite of all trackers, on the one in memory and on that on every database, and what is their
// own.
#include <atomic>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "consumer/memory_tracker.h"
#include "consumer/tracker_conformance.h"
#include "database.h"
#include "outbox/error.h"
#include "outbox/memory.h"
#include "outbox/testing.h"
#include "outbox/writer.h"
#include "support/stores.h"

namespace outbox::test {
namespace {

using namespace std::chrono_literals;
using State = ConsumptionTracker::State;

constexpr TrackerOptions kOptions{.lease = 60s, .retention = 3600s};

TEST_P(TrackerTest, OneBeginsAndTheOthersHearThatItIsInProgress) {
  const auto tracker = open(kOptions);
  const auto first = tracker->start("billing", "e1");
  EXPECT_EQ(first.state, State::started);
  EXPECT_GT(first.fence, 0);
  const auto second = tracker->start("billing", "e1");
  EXPECT_EQ(second.state, State::in_progress);
  EXPECT_GT(second.expires_in, 50s);
  EXPECT_LE(second.expires_in, 60s);
}

TEST_P(TrackerTest, WhatIsDoneIsNotBegunAgain) {
  const auto tracker = open(kOptions);
  const auto start = tracker->start("billing", "e1");
  EXPECT_TRUE(tracker->finish("billing", "e1", start.fence));
  EXPECT_EQ(tracker->start("billing", "e1").state, State::done);
  backend_->advance(120s);  // its lease is over, and does not matter
  EXPECT_EQ(tracker->start("billing", "e1").state, State::done);
}

TEST_P(TrackerTest, WhatIsAbandonedIsBegunAgainAtOnceWithAHigherFence) {
  const auto tracker = open(kOptions);
  const auto first = tracker->start("billing", "e1");
  EXPECT_TRUE(tracker->abandon("billing", "e1", first.fence));
  const auto second = tracker->start("billing", "e1");
  EXPECT_EQ(second.state, State::started);
  EXPECT_GT(second.fence, first.fence);
}

TEST_P(TrackerTest, AfterTheLeaseAnotherBeginsAndTheStaleOwnerIsRefused) {
  const auto tracker = open(kOptions);
  const auto stale = tracker->start("billing", "e1");
  backend_->advance(59s);
  ASSERT_EQ(tracker->start("billing", "e1").state, State::in_progress);
  backend_->advance(2s);
  const auto owner = tracker->start("billing", "e1");
  ASSERT_EQ(owner.state, State::started);
  EXPECT_GT(owner.fence, stale.fence);

  EXPECT_FALSE(tracker->finish("billing", "e1", stale.fence));
  EXPECT_FALSE(tracker->abandon("billing", "e1", stale.fence));
  EXPECT_EQ(tracker->start("billing", "e1").state, State::in_progress) << "the owner is at it";
  EXPECT_TRUE(tracker->finish("billing", "e1", owner.fence));
  EXPECT_FALSE(tracker->finish("billing", "e1", stale.fence));
  EXPECT_FALSE(tracker->abandon("billing", "e1", stale.fence));
  EXPECT_EQ(tracker->start("billing", "e1").state, State::done);
}

TEST_P(TrackerTest, AStaleOwnerIsRefusedAlsoWhenTheNextOneHasGivenUp) {
  const auto tracker = open(kOptions);
  const auto stale = tracker->start("billing", "e1");
  backend_->advance(61s);
  const auto owner = tracker->start("billing", "e1");
  ASSERT_TRUE(tracker->abandon("billing", "e1", owner.fence));
  EXPECT_FALSE(tracker->finish("billing", "e1", stale.fence));
  EXPECT_EQ(tracker->start("billing", "e1").state, State::started);
}

TEST_P(TrackerTest, AnOwnerWhoseLeaseIsOverMayFinishWhileNobodyHasBegun) {
  const auto tracker = open(kOptions);
  const auto late = tracker->start("billing", "e1");
  backend_->advance(61s);
  EXPECT_TRUE(tracker->finish("billing", "e1", late.fence));
  EXPECT_EQ(tracker->start("billing", "e1").state, State::done);
}

TEST_P(TrackerTest, FinishAndAbandonMayBeRepeated) {
  const auto tracker = open(kOptions);
  const auto failed = tracker->start("billing", "e1");
  EXPECT_TRUE(tracker->abandon("billing", "e1", failed.fence));
  EXPECT_TRUE(tracker->abandon("billing", "e1", failed.fence));
  const auto done = tracker->start("billing", "e1");
  EXPECT_TRUE(tracker->finish("billing", "e1", done.fence));
  EXPECT_TRUE(tracker->finish("billing", "e1", done.fence));
}

TEST_P(TrackerTest, WhatIsDoneCannotBeAbandoned) {
  const auto tracker = open(kOptions);
  const auto start = tracker->start("billing", "e1");
  ASSERT_TRUE(tracker->finish("billing", "e1", start.fence));
  EXPECT_FALSE(tracker->abandon("billing", "e1", start.fence));
  EXPECT_EQ(tracker->start("billing", "e1").state, State::done);
}

TEST_P(TrackerTest, TheRecordOfAnEventLastsForTheRetention) {
  const auto tracker = open(kOptions);
  const auto first = tracker->start("billing", "e1");
  ASSERT_TRUE(tracker->finish("billing", "e1", first.fence));
  backend_->advance(3500s);
  EXPECT_EQ(tracker->start("billing", "e1").state, State::done);
  backend_->advance(101s);
  const auto again = tracker->start("billing", "e1");
  EXPECT_EQ(again.state, State::started);
  EXPECT_GT(again.fence, first.fence) << "fences grow for what was forgotten as well";
}

TEST_P(TrackerTest, AnEffectIsRecordedAlsoIfItsBeginningWasForgotten) {
  const auto tracker = open(kOptions);
  const auto start = tracker->start("billing", "e1");
  backend_->advance(3601s);
  EXPECT_TRUE(tracker->abandon("billing", "e1", start.fence));
  EXPECT_TRUE(tracker->finish("billing", "e1", start.fence));
  EXPECT_EQ(tracker->start("billing", "e1").state, State::done);
}

TEST_P(TrackerTest, GroupsAndEventsAreKeptApart) {
  const auto tracker = open(kOptions);
  const std::vector<std::pair<std::string, std::string>> pairs{
      {"a", "b"},   {"a", "c"},        {"b", "a"},    {"a:b", "c"},  {"a", "b:c"}, {"ab", "c"},
      {"a", "bc"},  {"a%3ab", "c"},    {"a{b}", "c"}, {"a", "{b}c"}, {"A", "b"},   {"a ", "b"},
      {"1:a", "b"}, {"\xc3\xa4", "b"}, {"a\n", "b"},  {"a", "\nb"},  {"a*", "?"},  {"}:{", ":"}};
  for (const auto& [group, id] : pairs) {
    const auto start = tracker->start(group, id);
    EXPECT_EQ(start.state, State::started) << group << ' ' << id;
    EXPECT_TRUE(tracker->finish(group, id, start.fence));
  }
  for (const auto& [group, id] : pairs) {
    EXPECT_EQ(tracker->start(group, id).state, State::done) << group << ' ' << id;
  }
}

TEST_P(TrackerTest, InvalidGroupsAndIdsAreRefused) {
  const auto tracker = open(kOptions);
  const std::string longest(128, 'x');
  EXPECT_EQ(tracker->start(std::string(64, 'g'), longest).state, State::started);
  EXPECT_TRUE(contains(message_of<MisuseError>([&] { tracker->start(std::string(65, 'g'), "e"); }),
                       "group"));
  EXPECT_TRUE(contains(message_of<MisuseError>([&] { tracker->start("g", longest + "x"); }),
                       "id of a consumed event is 129 characters long"));
  EXPECT_THROW(tracker->start("", "e"), MisuseError);
  EXPECT_THROW(tracker->finish("g", "", 1), MisuseError);
  EXPECT_THROW(tracker->abandon("g", "\xff", 1), MisuseError);
  EXPECT_THROW(tracker->start("g", std::string("a\0b", 3)), MisuseError);
}

TEST_P(TrackerTest, InvalidOptionsAreRefused) {
  EXPECT_TRUE(contains(message_of<MisuseError>([&] { open({.lease = 0ms}); }), "lease is 0 ms"));
  EXPECT_TRUE(contains(message_of<MisuseError>([&] { open({.lease = 2s, .retention = 1s}); }),
                       "less than the lease of 2000 ms"));
  EXPECT_THROW(open({.retention = std::chrono::seconds::min()}), MisuseError);
  EXPECT_THROW(open({.retention = std::chrono::seconds::max()}), MisuseError);
  EXPECT_NO_THROW(open({.lease = 1s, .retention = 1s}));
}

TEST_P(TrackerTest, OfManyThreadsExactlyOneBeginsEachEvent) {
  constexpr int kThreads = 4;
  constexpr int kEvents = 200;
  const auto tracker = open(kOptions);
  const auto other = backend_->shared() ? open(kOptions) : tracker;
  std::vector<std::atomic<int>> started(kEvents);
  std::atomic<int> waiting{0};
  const auto work = [&](ConsumptionTracker& mine) {
    ++waiting;
    while (waiting < kThreads) std::this_thread::yield();
    for (int i = 0; i < kEvents; ++i) {
      if (mine.start("race", std::to_string(i)).state == State::started) {
        ++started[static_cast<std::size_t>(i)];
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] { work(i % 2 == 0 ? *tracker : *other); });
    }
  }
  for (const auto& count : started) EXPECT_EQ(count, 1);
}

class MemoryBackend final : public TrackerBackend {
 public:
  std::shared_ptr<ConsumptionTracker> open(TrackerOptions options) override {
    return memory_tracker(options, clock_);
  }
  void advance(std::chrono::milliseconds by) override { clock_.advance(by); }
  bool shared() const override { return false; }

 private:
  testing::ManualClock clock_;
};

TEST(MemoryTrackerTest, KeepsNoMoreThanTheEventsOfTheRetention) {
  testing::ManualClock clock;
  internal::MemoryTracker tracker({.lease = 1s, .retention = 100s}, clock);
  std::size_t most = 0;
  for (int i = 0; i < 10'000; ++i) {
    const std::string id = std::to_string(i);
    const auto start = tracker.start("g", id);
    switch (i % 3) {
      case 0:
        tracker.finish("g", id, start.fence);
        break;
      case 1:
        tracker.abandon("g", id, start.fence);
        break;
      default:  // it died
        break;
    }
    clock.advance(1s);
    most = std::max(most, tracker.size());
  }
  EXPECT_LE(most, 101U);
  EXPECT_GE(most, 99U);
}

TEST(MemoryTrackerTest, TheTimeOfDayMayStep) {
  testing::ManualClock clock;
  const auto tracker = memory_tracker({.lease = 60s, .retention = 3600s}, clock);
  tracker->start("g", "e");
  clock.step(24h);
  EXPECT_EQ(tracker->start("g", "e").state, ConsumptionTracker::State::in_progress);
}

OUTBOX_TRACKER_CONFORMANCE(Memory, [] { return std::make_unique<MemoryBackend>(); });

class DatabaseBackend final : public TrackerBackend {
 public:
  explicit DatabaseBackend(const chaos::TemporaryDatabase& kind) : kind_(kind) {}

  const char* service() const override { return kind_.server; }
  std::shared_ptr<ConsumptionTracker> open(TrackerOptions options) override {
    if (!database_) {
      database_ = kind_.make();
      store_ = database_->open();
    }
    return database_tracker(store_, options);
  }
  void advance(std::chrono::milliseconds by) override {
    const std::string microseconds = std::to_string(std::chrono::microseconds(by).count());
    std::string change = " - " + microseconds;
    if (dialect() == Dialect::postgres) change += " * interval '1 microsecond'";
    if (dialect() == Dialect::mysql) change = " - INTERVAL " + microseconds + " MICROSECOND";
    store_->connect()->execute("UPDATE " + store_->side_table("consumption") +
                                   " SET lease_until = lease_until" + change +
                                   ", changed_at = changed_at" + change,
                               {});
  }
  bool shared() const override { return true; }

 private:
  Dialect dialect() const { return store_->capabilities().dialect; }

  const chaos::TemporaryDatabase kind_;
  std::unique_ptr<chaos::Database> database_;
  std::shared_ptr<Store> store_;
};

OUTBOX_TRACKER_CONFORMANCE(Sqlite,
                           [] { return std::make_unique<DatabaseBackend>(chaos::kSqlite); });
#ifdef OUTBOX_WITH_POSTGRES
OUTBOX_TRACKER_CONFORMANCE(Postgres,
                           [] { return std::make_unique<DatabaseBackend>(chaos::kPostgres); });
#endif
#ifdef OUTBOX_WITH_MYSQL
OUTBOX_TRACKER_CONFORMANCE(Mysql, [] { return std::make_unique<DatabaseBackend>(chaos::kMysql); });
#endif

class DatabaseTrackerTest : public patterns::PatternTest {
 protected:
  std::int64_t rows() {
    return number("SELECT count(*) FROM " + store()->side_table("consumption"));
  }
};

OUTBOX_ON_EVERY_DATABASE(DatabaseTrackerTest);

TEST_P(DatabaseTrackerTest, RemovesRecordsWhoseRetentionIsOver) {
  testing::RecordingLog log;
  const auto tracker = database_tracker(
      store(), kOptions, {.purge_interval = 20ms, .purge_batch = 2, .log = log.log()});
  for (int i = 0; i < 5; ++i) {
    const std::string id = std::to_string(i);
    ASSERT_TRUE(tracker->finish("g", id, tracker->start("g", id).fence));
  }
  shift("consumption", "changed_at", 3601s);
  const auto kept = tracker->start("g", "new");
  EXPECT_TRUE(eventually([&] { return rows() == 1; }));
  EXPECT_TRUE(tracker->finish("g", "new", kept.fence));
  EXPECT_TRUE(eventually([&] { return log.contains("purge of the tracker: removed"); }));
}

TEST_P(DatabaseTrackerTest, ARecordIsNoPartOfTheTransactionOfItsCaller) {
  if (store()->capabilities().one_writer) return;  // which would wait for itself
  const auto tracker = database_tracker(store(), kOptions);
  Writer writer{store()};
  auto tx = writer.begin();
  tx.execute("DELETE FROM " + store()->side_table("inbox"));
  const auto start = tracker->start("g", "e");
  ASSERT_TRUE(tracker->finish("g", "e", start.fence));
  tx.rollback();
  EXPECT_EQ(tracker->start("g", "e").state, State::done);
}

TEST_P(DatabaseTrackerTest, ADatabaseThatIsNotAsItShouldBeIsNoFaultOfTheEvent) {
  const auto tracker = database_tracker(store(), kOptions);
  const auto inner = std::make_shared<testing::RecordingListener>();
  testing::RecordingLog log;
  const auto listener = idempotent(tracker, "g", inner, {.log = log.log()});
  execute("DROP TABLE " + store()->side_table("consumption"));
  EXPECT_EQ(listener->on_event(simple_event("e"), {}).kind(), Outcome::Kind::unavailable);
  EXPECT_EQ(inner->count(), 0U);
}

// What docs/patterns shows.
TEST_P(DatabaseTrackerTest, AnEventHasItsEffectOnce) {
  std::atomic<int> mails{0};
  const auto send_mail = [&](const Event&) { ++mails; };
  const std::shared_ptr<Store>& store = this->store();
  // [tracker]
  auto tracker = outbox::database_tracker(store, {.lease = 2min, .retention = 24h});
  auto once = outbox::idempotent(tracker, "mail", send_mail);
  // [/tracker]
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(once->on_event(simple_event("e"), {}).kind(), Outcome::Kind::done);
  }
  EXPECT_EQ(mails, 1);
}

TEST(DatabaseTrackerOptionsTest, InvalidOptionsAreRefused) {
  EXPECT_THROW(database_tracker(nullptr), MisuseError);
  EXPECT_TRUE(contains(message_of<MisuseError>([] { database_tracker(memory::open()); }),
                       "the tracker needs a store with SQL"));
}

}  // namespace
}  // namespace outbox::test
