// What an instance knows of a shard, without a database.
#include "store/postgres/position.h"

#include <gtest/gtest.h>

namespace outbox::postgres {
namespace {

using Numbers = std::vector<Seq>;

// Rows with these numbers, each with the same number as its event's key.
class ShardPositionTest : public testing::Test {
 protected:
  ShardPositionTest() { shard_.load({.position = 0, .snapshot = "1:1:"}, {}, 0); }

  void meet(const Numbers& numbers) {
    for (const Seq seq : numbers) {
      shard_.met(seq, static_cast<std::uint64_t>(seq), false);
      shard_.advance(seq);
    }
  }
  void finish(const Numbers& numbers) {
    for (const Seq seq : numbers) {
      EXPECT_TRUE(shard_.leave(seq, static_cast<std::uint64_t>(seq))) << seq;
    }
  }
  bool wants(Seq seq) const { return shard_.wants(seq, static_cast<std::uint64_t>(seq), false); }
  Numbers store() {
    Numbers open = shard_.begin_storing();
    shard_.stored();
    return open;
  }

  ShardPosition shard_;
};

TEST_F(ShardPositionTest, WhatIsReturnedIsOpenUntilItIsFinished) {
  meet({3, 5, 9});
  EXPECT_EQ(shard_.unstored(), 0u) << "nothing is finished: what is stored holds";
  finish({5});
  EXPECT_EQ(shard_.unstored(), 1u);
  EXPECT_EQ(shard_.cursor().position, 9);
  EXPECT_EQ(store(), (Numbers{3, 9}));
  EXPECT_EQ(shard_.unstored(), 0u);
  EXPECT_TRUE(shard_.is_behind(5));
  EXPECT_FALSE(shard_.is_behind(3));
  EXPECT_FALSE(shard_.is_behind(10)) << "nobody has read it";
}

TEST_F(ShardPositionTest, OneIsFinishedOnceAndByItsId) {
  meet({3});
  EXPECT_FALSE(shard_.leave(3, 4)) << "another event";
  EXPECT_FALSE(shard_.leave(2, 2)) << "not read";
  finish({3});
  EXPECT_FALSE(shard_.leave(3, 3));
  EXPECT_TRUE(shard_.has_finished(3, 3));
}

TEST_F(ShardPositionTest, WhatIsFinishedWhileThePositionIsStoredBelongsToTheNextStore) {
  meet({1, 2});
  finish({1});
  EXPECT_EQ(shard_.begin_storing(), Numbers{2});
  finish({2});
  shard_.stored();
  EXPECT_EQ(shard_.unstored(), 1u);
  EXPECT_EQ(store(), Numbers{});
}

TEST_F(ShardPositionTest, AStoreThatFailsIsRepeated) {
  meet({1, 2});
  finish({1});
  shard_.begin_storing();
  shard_.not_stored();
  EXPECT_EQ(shard_.unstored(), 1u);
  EXPECT_EQ(store(), Numbers{2});
}

TEST_F(ShardPositionTest, ARewindBringsBackWhatIsOpenFromThereOn) {
  meet({1, 2, 3, 4});
  finish({3});
  EXPECT_EQ(shard_.again(10), Numbers{});
  shard_.rewind(2);
  EXPECT_EQ(shard_.again(10), (Numbers{2, 4}));
  EXPECT_EQ(shard_.again(1), Numbers{2});
  meet({2});
  EXPECT_EQ(shard_.again(10), Numbers{4});
}

TEST_F(ShardPositionTest, WhatTheOwnerBeforeHadOpenIsReadFirst) {
  ShardPosition next;
  next.load({.position = 9, .snapshot = "1:1:"}, Numbers{3, 9}, 0);
  EXPECT_EQ(next.again(10), (Numbers{3, 9}));
  EXPECT_FALSE(next.has(3, 3)) << "not read yet";
  next.met(3, 3, false);
  EXPECT_TRUE(next.has(3, 3));
  next.gone(9);
  EXPECT_EQ(next.begin_storing(), Numbers{3});
}

TEST_F(ShardPositionTest, ADeliveryRowCountsInThePlaceOfItsEvent) {
  ShardPosition next;
  next.load({.position = 9, .snapshot = "1:1:"}, Numbers{3}, 12);
  EXPECT_FALSE(next.wants(3, 3, true));
  next.met(3, 3, true);
  EXPECT_FALSE(next.wants(12, 12, true));
  next.met(12, 12, true);
  next.advance(12);
  EXPECT_EQ(next.unstored(), 2u) << "the position has to pass them";
  EXPECT_EQ(next.begin_storing(), Numbers{});
  EXPECT_EQ(next.cursor().position, 12);
}

TEST_F(ShardPositionTest, AfterALostConnectionWhatWasFinishedIsNotReturnedAgain) {
  meet({1, 2, 3});
  finish({2});
  shard_.forget_cursor();
  EXPECT_FALSE(shard_.loaded());
  EXPECT_EQ(shard_.unstored(), 0u) << "the cursor that it belonged to is unknown";
  EXPECT_TRUE(shard_.leave(3, 3)) << "deliveries go on";

  shard_.load({.position = 0, .snapshot = "1:1:"}, {}, 0);
  EXPECT_EQ(shard_.begin_storing(), Numbers{}) << "the cursor speaks of none of them";
  shard_.stored();
  EXPECT_TRUE(wants(1));
  EXPECT_FALSE(wants(2));
  EXPECT_FALSE(wants(3));
  meet({1, 2, 3});
  EXPECT_EQ(shard_.unstored(), 2u);
  EXPECT_EQ(store(), Numbers{1});
}

TEST_F(ShardPositionTest, AfterALostHistoryANumberMayNameAnotherEvent) {
  meet({1});
  finish({1});
  shard_.forget_cursor();
  shard_.load({.position = 0, .snapshot = "1:1:"}, {}, 0);
  EXPECT_TRUE(shard_.wants(1, 77, false));
  shard_.met(1, 77, false);
  EXPECT_TRUE(shard_.has(1, 77));
  EXPECT_FALSE(shard_.has_finished(1, 1));
}

TEST_F(ShardPositionTest, LateRowsAreReadByPagesUpToThePosition) {
  meet({50});
  shard_.begin_late("9:9:", 10);
  shard_.late_through(40);
  EXPECT_EQ(shard_.cursor().late_after, 40);
  EXPECT_EQ(shard_.cursor().target, "9:9:");
  shard_.late_through(50);
  EXPECT_EQ(shard_.cursor().snapshot, "9:9:");
  EXPECT_EQ(shard_.cursor().target, "");
}

}  // namespace
}  // namespace outbox::postgres
