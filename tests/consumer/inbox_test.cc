#include "outbox/consumer/inbox.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "database.h"
#include "outbox/error.h"
#include "outbox/memory.h"
#include "outbox/testing.h"
#include "support/stores.h"

namespace outbox::patterns {
namespace {

using namespace std::chrono_literals;
using test::contains;
using test::eventually;
using test::message_of;

class InboxTest : public PatternTest {
 protected:
  void SetUp() override {
    PatternTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    execute("CREATE TABLE effect (event_id VARCHAR(128) NOT NULL)");
    writer_ = std::make_unique<Writer>(store());
    inbox_ = std::make_unique<Inbox>(store(), InboxOptions{.retention = 24h, .log = log_.log()});
  }

  static void act(Transaction& tx) { tx.execute("INSERT INTO effect VALUES ('e')"); }

  // A delivery; whether it had an effect.
  bool deliver(const std::string& group, const std::string& event_id) {
    auto tx = writer_->begin();
    const bool first = inbox_->once(tx, group, event_id, [&] { act(tx); });
    tx.commit();
    return first;
  }
  std::int64_t effects() { return number("SELECT count(*) FROM effect"); }
  std::int64_t records() { return number("SELECT count(*) FROM " + store()->side_table("inbox")); }

  testing::RecordingLog log_;
  std::unique_ptr<Writer> writer_;
  std::unique_ptr<Inbox> inbox_;
};

OUTBOX_ON_EVERY_DATABASE(InboxTest);

TEST_P(InboxTest, AnEventHasOneEffectForEachGroup) {
  EXPECT_TRUE(deliver("billing", "e1"));
  EXPECT_FALSE(deliver("billing", "e1"));
  EXPECT_TRUE(deliver("search", "e1"));
  EXPECT_TRUE(deliver("billing", "e2"));
  EXPECT_EQ(effects(), 3);
  EXPECT_EQ(records(), 3);
}

TEST_P(InboxTest, AnEventThatComesTwiceInOneTransactionHasOneEffect) {
  auto tx = writer_->begin();
  EXPECT_TRUE(inbox_->once(tx, "billing", "e1", [&] { act(tx); }));
  EXPECT_FALSE(inbox_->once(tx, "billing", "e1", [&] { act(tx); }));
  tx.commit();
  EXPECT_EQ(effects(), 1);
}

// A collation would take some of these for the same.
TEST_P(InboxTest, IdsThatLookAlikeAreDifferentEvents) {
  const std::vector<std::string> ids{"a", "A", "a ", " a", "ä", "a\u0308", "ß", "ss", "1", "01"};
  for (const std::string& id : ids) EXPECT_TRUE(deliver("billing", id)) << id;
  for (const std::string& id : ids) EXPECT_TRUE(deliver("Billing", id)) << id;
  for (const std::string& id : ids) EXPECT_FALSE(deliver("billing", id)) << id;
}

TEST_P(InboxTest, AnEffectThatFailsEndsTheTransactionAndLeavesNoRecord) {
  {
    auto tx = writer_->begin();
    const auto fail = [&] {
      act(tx);
      throw std::runtime_error("no paper");
    };
    EXPECT_EQ(message_of<std::runtime_error>([&] { inbox_->once(tx, "billing", "e1", fail); }),
              "no paper");
    EXPECT_THROW(tx.commit(), MisuseError);
  }
  EXPECT_EQ(effects(), 0);
  EXPECT_EQ(records(), 0);
  EXPECT_TRUE(deliver("billing", "e1"));
  EXPECT_EQ(effects(), 1);
}

TEST_P(InboxTest, AnEffectThatEndsTheTransactionAndFailsIsReportedByItsOwnError) {
  auto tx = writer_->begin();
  EXPECT_EQ(message_of<std::runtime_error>([&] {
              inbox_->once(tx, "billing", "e1", [&] {
                tx.rollback();
                throw std::runtime_error("no paper");
              });
            }),
            "no paper");
  EXPECT_EQ(records(), 0);
}

TEST_P(InboxTest, ARollbackTakesTheRecordAlong) {
  {
    auto tx = writer_->begin();
    EXPECT_TRUE(inbox_->once(tx, "billing", "e1", [&] { act(tx); }));
    tx.rollback();
  }
  EXPECT_TRUE(deliver("billing", "e1"));
  EXPECT_EQ(effects(), 1);
}

TEST_P(InboxTest, ASavepointThatIsRolledBackTakesTheRecordAlong) {
  {
    auto tx = writer_->begin();
    EXPECT_TRUE(inbox_->once(tx, "billing", "kept", [&] { act(tx); }));
    auto savepoint = tx.savepoint();
    EXPECT_TRUE(inbox_->once(tx, "billing", "undone", [&] { act(tx); }));
    savepoint.rollback();
    tx.commit();
  }
  EXPECT_EQ(effects(), 1);
  EXPECT_FALSE(deliver("billing", "kept"));
  EXPECT_TRUE(deliver("billing", "undone"));
}

// Cut to fit, two of them would be one.
TEST_P(InboxTest, TextsAreTakenUpToTheirLengthInCharactersAndRefusedBeyond) {
  std::string group;
  for (std::size_t n = 0; n < kMaxConsumerLength; ++n) group += "\U0001F980";
  std::string id;
  for (std::size_t n = 0; n < kMaxConsumedIdLength; ++n) id += "\U0001F4E6";
  EXPECT_TRUE(deliver(group, id));
  EXPECT_FALSE(deliver(group, id));
  const auto refusal = [&](const std::string& consumer, const std::string& event) {
    return message_of<MisuseError>([&] { deliver(consumer, event); });
  };
  EXPECT_TRUE(contains(refusal(group + "x", "e1"), "consumer group is 65 characters long"));
  EXPECT_TRUE(contains(refusal("billing", id + "x"), "event id is 129 characters long"));
  EXPECT_TRUE(contains(refusal("", "e1"), "consumer group is \"\""));
  EXPECT_TRUE(contains(refusal("billing", ""), "event id is \"\""));
  EXPECT_TRUE(contains(refusal("billing", "\xff"), "event id must be UTF-8"));
  EXPECT_TRUE(contains(refusal("billing", std::string("a\0b", 3)), "NUL"));
  EXPECT_EQ(records(), 1);
}

TEST_P(InboxTest, OnAConnectionOfTheUsersOwnItIsThatTransactionThatDecides) {
  const auto own = database().connect(*store());
  const auto deliver_on_own = [&](bool commit) {
    own->begin();
    const bool first = inbox_->first(own->connection(), "billing", "e1");
    if (first) own->execute("INSERT INTO effect VALUES ('e')");
    own->execute(commit ? "COMMIT" : "ROLLBACK");
    return first;
  };
  EXPECT_TRUE(deliver_on_own(false));
  EXPECT_EQ(effects(), 0);
  EXPECT_TRUE(deliver_on_own(true));
  EXPECT_FALSE(deliver_on_own(true));
  EXPECT_FALSE(deliver("billing", "e1"));
  EXPECT_EQ(effects(), 1);
}

// It would be committed at once, and the effect be lost with the process.
TEST_P(InboxTest, ARecordOutsideATransactionIsRefused) {
  const auto own = database().connect(*store());
  const auto message = message_of<MisuseError>(
      [&] { static_cast<void>(inbox_->first(own->connection(), "billing", "e1")); });
  EXPECT_TRUE(contains(message, "outside a transaction"));
  EXPECT_EQ(records(), 0);
}

TEST_P(InboxTest, WhatIsForgottenHasItsEffectAgain) {
  deliver("billing", "e1");
  deliver("search", "e1");
  EXPECT_TRUE(inbox_->forget("billing", "e1"));
  EXPECT_FALSE(inbox_->forget("billing", "e1"));
  EXPECT_TRUE(deliver("billing", "e1"));
  EXPECT_FALSE(deliver("search", "e1"));
}

TEST_P(InboxTest, RecordsGoOnceTheirRetentionIsOver) {
  deliver("billing", "old");
  shift("inbox", "consumed_at", 1h);
  deliver("billing", "young");
  shift("inbox", "consumed_at", 23h + 30min);
  EXPECT_EQ(inbox_->purge(), 1);
  EXPECT_TRUE(deliver("billing", "old"));
  EXPECT_FALSE(deliver("billing", "young"));
}

TEST_P(InboxTest, RecordsGoByThemselvesOnceItIsStarted) {
  deliver("billing", "old");
  shift("inbox", "consumed_at", 25h);
  inbox_->start();
  EXPECT_TRUE(eventually([&] { return records() == 0; }));
  inbox_->close();
  EXPECT_THROW(inbox_->start(), MisuseError);
}

TEST_P(InboxTest, InvalidArgumentsAreRefused) {
  EXPECT_THROW(Inbox(nullptr), MisuseError);
  EXPECT_TRUE(contains(message_of<MisuseError>([] { Inbox{memory::open()}; }), "the inbox needs"));
  EXPECT_TRUE(contains(message_of<MisuseError>([&] { Inbox(store(), {.retention = 0s}); }),
                       "InboxOptions::retention"));
  EXPECT_THROW(inbox_->listener(*writer_, "", [](Transaction&, const Event&) {}), MisuseError);
  EXPECT_THROW(inbox_->listener(*writer_, "billing", nullptr), MisuseError);
  Writer elsewhere{memory::open()};
  EXPECT_TRUE(contains(message_of<MisuseError>([&] {
                         inbox_->listener(elsewhere, "billing", [](Transaction&, const Event&) {});
                       }),
                       "give both the same store"));
}

constexpr const char* kGroup = "billing";
constexpr const char* kEvent = "e1";

// Two transactions with the same event at the same moment.
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

OUTBOX_ON_EVERY_DATABASE(InboxCollisionTest);

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

class VersionGuardTest : public PatternTest {
 protected:
  void SetUp() override {
    PatternTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    writer_ = std::make_unique<Writer>(store());
    guard_ = std::make_unique<VersionGuard>(store());
  }

  bool advance(const std::string& id, std::int64_t version, const std::string& group = "search",
               const std::string& type = "Article") {
    auto tx = writer_->begin();
    const bool newer = guard_->advance(tx, group, type, id, version);
    tx.commit();
    return newer;
  }

  // One transaction advances to `first` and ends while a second one waits to advance to
  // `second`; whether that was let through.
  bool second_after(std::int64_t first, bool commit, std::int64_t second) {
    const auto one = database().connect(*store());
    one->begin();
    EXPECT_TRUE(guard_->advance(one->connection(), "search", "Article", "a1", first));
    std::optional<bool> newer;
    std::jthread other([&] { newer = advance("a1", second); });
    EXPECT_TRUE(wait_for_waiters());
    one->execute(commit ? "COMMIT" : "ROLLBACK");
    other.join();
    return newer.value();
  }

  std::unique_ptr<Writer> writer_;
  std::unique_ptr<VersionGuard> guard_;
};

OUTBOX_ON_EVERY_DATABASE(VersionGuardTest);

TEST_P(VersionGuardTest, OnlyWhatIsNewerIsLetThrough) {
  EXPECT_TRUE(advance("a1", 5));
  EXPECT_FALSE(advance("a1", 4));
  EXPECT_FALSE(advance("a1", 5));
  EXPECT_TRUE(advance("a1", 7));
  EXPECT_FALSE(advance("a1", 6));
  EXPECT_EQ(number("SELECT version FROM " + store()->side_table("version")), 7);
}

TEST_P(VersionGuardTest, EachGroupAndAggregateHasItsOwn) {
  EXPECT_TRUE(advance("a1", 5));
  EXPECT_TRUE(advance("a2", 4));
  EXPECT_TRUE(advance("a1", 4, "cache"));
  EXPECT_TRUE(advance("a1", 4, "search", "Author"));
  EXPECT_TRUE(advance("A1", 4));
  EXPECT_TRUE(advance("a1 ", 4));
}

TEST_P(VersionGuardTest, VersionsMayBeBelowZeroAndAsHighAsThereAre) {
  EXPECT_TRUE(advance("a1", std::numeric_limits<std::int64_t>::min() + 1));
  EXPECT_TRUE(advance("a1", -1));
  EXPECT_TRUE(advance("a1", 0));
  EXPECT_TRUE(advance("a1", std::numeric_limits<std::int64_t>::max()));
  EXPECT_FALSE(advance("a1", std::numeric_limits<std::int64_t>::max()));
  EXPECT_TRUE(contains(
      message_of<MisuseError>([&] { advance("a2", std::numeric_limits<std::int64_t>::min()); }),
      "version -9223372036854775808"));
}

TEST_P(VersionGuardTest, ARollbackForgetsTheVersion) {
  {
    auto tx = writer_->begin();
    EXPECT_TRUE(guard_->advance(tx, "search", "Article", "a1", 5));
  }
  EXPECT_TRUE(advance("a1", 3));
  {
    auto tx = writer_->begin();
    EXPECT_TRUE(guard_->advance(tx, "search", "Article", "a1", 5));
  }
  EXPECT_TRUE(advance("a1", 4));
}

TEST_P(VersionGuardTest, OfTwoAtTheSameMomentTheNewerOneStays) {
  EXPECT_FALSE(second_after(7, true, 6));  // neither had a row before
  EXPECT_FALSE(second_after(9, true, 8));
  EXPECT_TRUE(second_after(10, true, 11));
  EXPECT_TRUE(second_after(13, false, 12));
  EXPECT_EQ(number("SELECT version FROM " + store()->side_table("version")), 12);
}

TEST_P(VersionGuardTest, ARollbackOfTheVeryFirstLetsTheSecondThrough) {
  EXPECT_TRUE(second_after(7, false, 6));
  EXPECT_EQ(number("SELECT version FROM " + store()->side_table("version")), 6);
}

TEST_P(VersionGuardTest, NewAggregatesDoNotWaitForEachOther) {
  if (dialect() == Dialect::sqlite) GTEST_SKIP() << "one transaction writes at a time";
  const auto one = database().connect(*store());
  const auto other = database().connect(*store());
  one->begin();
  other->begin();
  EXPECT_TRUE(guard_->advance(one->connection(), "search", "Article", "a1", 1));
  EXPECT_TRUE(guard_->advance(other->connection(), "search", "Article", "a2", 1));
  EXPECT_TRUE(guard_->advance(one->connection(), "search", "Article", "a3", 1));
  EXPECT_TRUE(guard_->advance(other->connection(), "search", "Article", "a4", 1));
  one->commit();
  other->commit();
  EXPECT_EQ(number("SELECT count(*) FROM " + store()->side_table("version")), 4);
}

TEST_P(VersionGuardTest, InvalidArgumentsAreRefused) {
  EXPECT_THROW(VersionGuard(nullptr), MisuseError);
  EXPECT_TRUE(contains(message_of<MisuseError>([] { VersionGuard{memory::open()}; }),
                       "the version guard needs"));
  const std::string longest_id(kMaxAggregateIdLength, 'x');
  EXPECT_TRUE(advance(longest_id, 1));
  EXPECT_TRUE(contains(message_of<MisuseError>([&] { advance(longest_id + "x", 1); }),
                       "aggregate id is 129 characters long"));
  EXPECT_TRUE(contains(message_of<MisuseError>([&] { advance("a1", 1, ""); }), "consumer group"));
  EXPECT_TRUE(
      contains(message_of<MisuseError>([&] { advance("a1", 1, "search", ""); }), "aggregate type"));
  const auto own = database().connect(*store());
  EXPECT_TRUE(contains(message_of<MisuseError>([&] {
                         static_cast<void>(
                             guard_->advance(own->connection(), "search", "Article", "a1", 1));
                       }),
                       "outside a transaction"));
}

}  // namespace
}  // namespace outbox::patterns
