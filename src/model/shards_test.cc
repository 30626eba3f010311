#include "model/shards.h"

#include <gtest/gtest.h>

#include "outbox/error.h"

namespace outbox {
namespace {

using Writers = std::vector<Floor::Writer>;

TEST(OwnedShards, WhatWasOwnedAllTheTimeIsNotGained) {
  ShardGenerations generations;
  OwnedShards owned(generations);
  owned.set({.shards = {1, 2}});
  owned.set({.shards = {2}, .draining = {3}});
  for (const int shard : {1, 2, 3}) EXPECT_EQ(generations.of(shard), 1U) << shard;
  owned.erase(2);
  owned.set({.shards = {2}, .draining = {3}});
  EXPECT_EQ(generations.of(2), 2U);
  EXPECT_EQ(generations.of(3), 1U);
}

TEST(OwnedShards, AnotherShardCannotBeReleased) {
  ShardGenerations generations;
  OwnedShards owned(generations);
  owned.set({.draining = {3}});
  EXPECT_NO_THROW(owned.check(3));
  EXPECT_THROW(owned.check(4), MisuseError);
}

TEST(FloorTest, StaysAtTheBottomUntilSomethingIsSettled) {
  Floor floor;
  floor.read(3, std::nullopt);
  floor.read(4, 100);
  EXPECT_EQ(floor.of(3), 0);
  EXPECT_EQ(floor.of(4), 0);
}

TEST(FloorTest, RisesWithACompleteReadWhenNobodyWrites) {
  Floor floor;
  floor.observe(100, {});
  floor.read(3, std::nullopt);
  floor.read(4, 60);
  floor.read(5, 120);
  EXPECT_EQ(floor.of(3), 100);
  EXPECT_EQ(floor.of(4), 60) << "the rest of it was not read";
  EXPECT_EQ(floor.of(5), 100) << "beyond, others may still appear";
  EXPECT_EQ(floor.of(6), 0) << "it was not read at all";
}

TEST(FloorTest, WaitsForThoseWhoWroteWhenTheNumberWasTaken) {
  Floor floor;
  floor.observe(100, Writers{{"1/1"}, {"2/7"}});
  floor.read(3, std::nullopt);
  EXPECT_EQ(floor.of(3), 0);
  // Others came; one of the two is left.
  floor.observe(200, Writers{{"2/7"}, {"3/1"}});
  floor.read(3, std::nullopt);
  EXPECT_EQ(floor.of(3), 0);
  floor.observe(300, Writers{{"3/1"}, {"2/8"}});
  floor.read(3, std::nullopt);
  EXPECT_EQ(floor.of(3), 100) << "2/8 began after the number was taken";
  floor.observe(400, Writers{{"4/4"}});
  floor.observe(500, {});
  floor.read(3, std::nullopt);
  EXPECT_EQ(floor.of(3), 500);
}

TEST(FloorTest, APreparedTransactionHasAnotherNameThanBefore) {
  Floor floor;
  floor.observe(100, Writers{{"1/1"}});
  floor.observe(200, Writers{{"-1/77", true}});
  floor.read(3, std::nullopt);
  EXPECT_EQ(floor.of(3), 0) << "1/1 may be what is prepared now";
  floor.observe(300, {});
  floor.read(3, std::nullopt);
  EXPECT_EQ(floor.of(3), 300);
}

TEST(FloorTest, GoesBackWhenTold) {
  Floor floor;
  floor.observe(100, {});
  floor.read(3, std::nullopt);
  floor.read(4, std::nullopt);
  floor.rewind(50);
  EXPECT_EQ(floor.of(3), 49);
  floor.reset(3);
  EXPECT_EQ(floor.of(3), 0);
  EXPECT_EQ(floor.of(4), 49);
  floor.rewind(0);
  EXPECT_EQ(floor.of(4), 0);
  floor.read(4, std::nullopt);
  EXPECT_EQ(floor.of(4), 100);
}

}  // namespace
}  // namespace outbox
