#include <gtest/gtest.h>

#include "model/shards.h"
#include "store/mysql/ownership.h"

namespace outbox::mysql {
namespace {

using Numbers = std::vector<int>;
using Shares = std::vector<std::size_t>;

Shares shares(const std::vector<Peer>& peers) {
  Shares all;
  for (const Peer& peer : peers) all.push_back(share_of(peer.epoch, peers));
  return all;
}

TEST(MembershipTest, SharesAreEvenAndTheOldestGetOneMore) {
  EXPECT_EQ(shares({{.epoch = 4}}), (Shares{16}));
  EXPECT_EQ(shares({{.epoch = 4}, {.epoch = 7}, {.epoch = 9}}), (Shares{6, 5, 5}));
}

TEST(MembershipTest, MoreThanThereAreShardsAndTheYoungestGetNone) {
  std::vector<Peer> peers;
  for (int i = 1; i <= kShards + 2; ++i) peers.push_back({.epoch = i});
  Shares expected(kShards, 1);
  expected.insert(expected.end(), 2, 0);
  EXPECT_EQ(shares(peers), expected);
}

TEST(MembershipTest, TheOldestThatWantsEverythingGetsIt) {
  EXPECT_EQ(
      shares({{.epoch = 1}, {.epoch = 2, .exclusive = true}, {.epoch = 3, .exclusive = true}}),
      (Shares{0, 16, 0}));
}

TEST(MembershipTest, WhileTheOldestClaimsRowsNobodyOwnsShards) {
  EXPECT_EQ(shares({{.epoch = 1, .claims = true}, {.epoch = 2}}), (Shares{0, 0}));
  EXPECT_EQ(shares({{.epoch = 1}, {.epoch = 2, .claims = true}}), (Shares{16, 0}));
}

TEST(MembershipTest, WhoIsNotAmongTheMembersHasNoShare) {
  EXPECT_EQ(share_of(5, {{.epoch = 1}}), 0);
  EXPECT_EQ(share_of(5, {}), 0);
}

TEST(MembershipTest, WhatIsFreeIsTakenUpToTheShare) {
  const std::vector<Shard> shards{{.number = 0, .epoch = 9}, {.number = 1}, {.number = 2}};
  const Changes changes = changes_for(1, 1, shards);
  EXPECT_EQ(changes.take, (Numbers{1}));
  EXPECT_TRUE(changes.leave.empty());
  EXPECT_TRUE(changes_for(1, 0, shards).empty());
}

TEST(MembershipTest, WhatExceedsTheShareIsDrainedAndNothingElseIsTaken) {
  const std::vector<Shard> shards{{.number = 0, .epoch = 1},
                                  {.number = 1, .epoch = 1, .draining = true},
                                  {.number = 2, .epoch = 1},
                                  {.number = 3}};
  const Changes changes = changes_for(1, 1, shards);
  EXPECT_EQ(changes.leave, (Numbers{2}));
  EXPECT_TRUE(changes.take.empty());
  EXPECT_TRUE(changes.stay.empty());
}

TEST(MembershipTest, WhatIsBeingDrainedStaysBeforeAnythingFreeIsTaken) {
  const std::vector<Shard> shards{
      {.number = 0}, {.number = 1, .epoch = 1, .draining = true}, {.number = 2, .epoch = 1}};
  const Changes changes = changes_for(1, 2, shards);
  EXPECT_EQ(changes.stay, (Numbers{1}));
  EXPECT_TRUE(changes.take.empty());
}

}  // namespace
}  // namespace outbox::mysql
