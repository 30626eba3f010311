#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "database.h"
#include "outbox/consumer/inbox.h"
#include "outbox/error.h"
#include "outbox/memory.h"
#include "support/stores.h"

namespace outbox::patterns {
namespace {

using test::contains;
using test::message_of;

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

TEST_P(VersionGuardTest, WhatMakesNoSenseIsRefused) {
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
