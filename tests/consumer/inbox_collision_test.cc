// Two transactions with the same event at the same moment.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "database.h"
#include "outbox/consumer/inbox.h"
#include "outbox/error.h"
#include "support/stores.h"

namespace outbox::patterns {
namespace {

using test::message_of;

constexpr const char* kGroup = "billing";
constexpr const char* kEvent = "e1";

class InboxCollisionTest : public PatternTest {
 protected:
  void SetUp() override {
    PatternTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    execute("CREATE TABLE effect (event_id VARCHAR(128) NOT NULL)");
    inbox_ = std::make_unique<Inbox>(store());
  }

  std::int64_t effects() { return number("SELECT count(*) FROM effect"); }

  // Of isolation, and with them transactions that write side by side: not on SQLite.
  bool has_levels() const { return dialect() != Dialect::sqlite; }

  void begin(chaos::OwnConnection& own, const std::string& level) {
    if (!level.empty() && dialect() == Dialect::postgres) {
      return own.execute("BEGIN ISOLATION LEVEL " + level);
    }
    if (!level.empty()) own.execute("SET TRANSACTION ISOLATION LEVEL " + level);
    own.begin();
  }

  // Delivers on a connection of its own until it is neither deadlocked nor refused; whether
  // it had the effect.
  bool deliver(chaos::OwnConnection& own, const std::string& level) {
    for (;;) {
      try {
        begin(own, level);
        const bool first = inbox_->first(own.connection(), kGroup, kEvent);
        if (first) own.execute("INSERT INTO effect VALUES ('e')");
        own.commit();
        return first;
      } catch (const RetryableError&) {
        ++retries_;
        own.recover();
      }
    }
  }

  // One transaction has the effect and ends while so many others wait; how many of those
  // had it too.
  int collide(const std::string& level, bool commit, int others) {
    const auto one = database().connect(*store());
    std::vector<std::unique_ptr<chaos::OwnConnection>> connections;
    connections.resize(static_cast<std::size_t>(others));
    for (auto& own : connections) own = database().connect(*store());
    begin(*one, level);
    EXPECT_TRUE(inbox_->first(one->connection(), kGroup, kEvent));
    one->execute("INSERT INTO effect VALUES ('e')");
    std::atomic<int> firsts{0};
    {
      std::vector<std::jthread> threads;
      threads.reserve(connections.size());
      for (const auto& own : connections) {
        threads.emplace_back([&] { firsts += deliver(*own, level) ? 1 : 0; });
      }
      EXPECT_TRUE(wait_for_waiters(others));
      one->execute(commit ? "COMMIT" : "ROLLBACK");
    }
    return firsts;
  }

  std::unique_ptr<Inbox> inbox_;
  std::atomic<int> retries_{0};
};

INSTANTIATE_TEST_SUITE_P(Sqlite, InboxCollisionTest, ::testing::Values(chaos::kSqlite));
#ifdef OUTBOX_WITH_POSTGRES
INSTANTIATE_TEST_SUITE_P(Postgres, InboxCollisionTest, ::testing::Values(chaos::kPostgres));
#endif
#ifdef OUTBOX_WITH_MYSQL
INSTANTIATE_TEST_SUITE_P(Mysql, InboxCollisionTest, ::testing::Values(chaos::kMysql));
#endif

TEST_P(InboxCollisionTest, TheSecondWaitsForTheFirstAndIsNone) {
  EXPECT_EQ(collide("", true, 1), 0);
  EXPECT_EQ(effects(), 1);
  EXPECT_EQ(retries_, 0);
}

TEST_P(InboxCollisionTest, ARollbackOfTheFirstMakesTheSecondTheFirst) {
  EXPECT_EQ(collide("", false, 1), 1);
  EXPECT_EQ(effects(), 1);
  EXPECT_EQ(retries_, 0);
}

TEST_P(InboxCollisionTest, ARollbackWhileSeveralWaitLeavesOneEffect) {
  EXPECT_EQ(collide("", false, 4), 1);
  EXPECT_EQ(effects(), 1);
}

TEST_P(InboxCollisionTest, SoItIsAtTheOtherLevels) {
  if (!has_levels()) GTEST_SKIP() << "there is one level only";
  for (const std::string level : {"READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"}) {
    SCOPED_TRACE(level);
    EXPECT_EQ(collide(level, true, 2), 0);
    EXPECT_EQ(effects(), 1);
    execute("DELETE FROM effect");
    EXPECT_TRUE(inbox_->forget(kGroup, kEvent));
    EXPECT_EQ(collide(level, false, 2), 1);
    EXPECT_EQ(effects(), 1);
    execute("DELETE FROM effect");
    EXPECT_TRUE(inbox_->forget(kGroup, kEvent));
  }
}

// The snapshot of the second cannot show what the first committed meanwhile.
TEST_P(InboxCollisionTest, PostgresRefusesTheSecondAtRepeatableRead) {
  if (dialect() != Dialect::postgres) GTEST_SKIP() << "of PostgreSQL";
  EXPECT_EQ(collide("REPEATABLE READ", true, 1), 0);
  EXPECT_EQ(retries_, 1);
}

// InnoDB rolls back only the statement: the rest must not be committed without it.
TEST_P(InboxCollisionTest, AWaitThatTakesTooLongEndsTheTransaction) {
  if (!has_levels()) GTEST_SKIP() << "the second waits to begin";
  const auto one = database().connect(*store());
  one->begin();
  EXPECT_TRUE(inbox_->first(one->connection(), kGroup, kEvent));
  Writer writer{store()};
  {
    auto tx = writer.begin();
    tx.execute(dialect() == Dialect::postgres ? "SET LOCAL lock_timeout = '50ms'"
                                              : "SET innodb_lock_wait_timeout = 1");
    tx.execute("INSERT INTO effect VALUES ('before')");
    message_of<RetryableError>(
        [&] { inbox_->once(tx, kGroup, kEvent, [] { ADD_FAILURE() << "had the effect"; }); });
    EXPECT_THROW(tx.execute("INSERT INTO effect VALUES ('after')"), Error);
    EXPECT_THROW(tx.commit(), RetryableError);
  }
  one->commit();
  EXPECT_EQ(effects(), 0);
}

// Each has what the other waits for.
TEST_P(InboxCollisionTest, OfTwoThatWaitForEachOtherOneStartsOver) {
  if (!has_levels()) GTEST_SKIP() << "one transaction writes at a time";
  const auto one = database().connect(*store());
  const auto other = database().connect(*store());
  one->begin();
  other->begin();
  EXPECT_TRUE(inbox_->first(one->connection(), kGroup, "a"));
  EXPECT_TRUE(inbox_->first(other->connection(), kGroup, "b"));
  std::atomic<int> refused{0};
  const auto finish = [&](chaos::OwnConnection& own, const std::string& event) {
    try {
      static_cast<void>(inbox_->first(own.connection(), kGroup, event));
      own.commit();
    } catch (const RetryableError&) {
      ++refused;
      own.recover();
    }
  };
  std::jthread thread([&] { finish(*one, "b"); });
  finish(*other, "a");
  thread.join();
  EXPECT_EQ(refused, 1);
}

}  // namespace
}  // namespace outbox::patterns
