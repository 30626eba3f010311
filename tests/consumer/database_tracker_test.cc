// The suite on the tracker on every database, and what is its own.
#include <atomic>
#include <optional>

#include "consumer/tracker_conformance.h"
#include "database.h"
#include "outbox/error.h"
#include "outbox/memory.h"
#include "outbox/testing.h"
#include "outbox/writer.h"

namespace outbox::test {
namespace {

using namespace std::chrono_literals;
using State = ConsumptionTracker::State;

constexpr TrackerOptions kOptions{.lease = 60s, .retention = 3600s};

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

INSTANTIATE_TEST_SUITE_P(Sqlite, DatabaseTrackerTest, ::testing::Values(chaos::kSqlite));
#ifdef OUTBOX_WITH_POSTGRES
INSTANTIATE_TEST_SUITE_P(Postgres, DatabaseTrackerTest, ::testing::Values(chaos::kPostgres));
#endif
#ifdef OUTBOX_WITH_MYSQL
INSTANTIATE_TEST_SUITE_P(Mysql, DatabaseTrackerTest, ::testing::Values(chaos::kMysql));
#endif

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

TEST(DatabaseTrackerOptionsTest, WhatMakesNoSenseIsRefused) {
  EXPECT_THROW(database_tracker(nullptr), MisuseError);
  EXPECT_TRUE(contains(message_of<MisuseError>([] { database_tracker(memory::open()); }),
                       "the tracker needs a database that speaks SQL"));
}

}  // namespace
}  // namespace outbox::test
