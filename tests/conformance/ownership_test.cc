// Rule 27: who owns what, for how long, and how it changes hands.
#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "store_conformance.h"

namespace outbox::conformance {
namespace {

using Shards = std::vector<int>;

std::vector<int> sorted(std::vector<int> shards) {
  std::sort(shards.begin(), shards.end());
  return shards;
}

// What an engine with nothing in flight does with a lease.
Lease renew_and_release(Instance& instance) {
  Lease lease = instance.renew();
  for (const int shard : lease.draining) instance.release(shard);
  return lease;
}

TEST_P(OwnershipTest, TheFirstOneOwnsEverythingAndInheritsNothing) {
  const Owner owner = own_everything();
  Shards all;
  for (int shard = 0; shard < capabilities().shards; ++shard) all.push_back(shard);
  EXPECT_EQ(sorted(owner.shards()), all);
  EXPECT_TRUE(owner.lease.draining.empty());
  EXPECT_TRUE(owner.lease.inherited.empty());
  EXPECT_GT(owner.lease.epoch, 0);
}

TEST_P(OwnershipTest, ARenewalKeepsWhatIsOwnedAndTheEpoch) {
  const Owner owner = own_everything();
  for (int i = 0; i < 5; ++i) {
    advance(5s);
    const Lease again = owner->renew();
    EXPECT_EQ(again.epoch, owner.lease.epoch);
    EXPECT_EQ(sorted(again.shards), sorted(owner.shards()));
    EXPECT_TRUE(again.draining.empty());
    EXPECT_TRUE(again.inherited.empty());
  }
}

TEST_P(OwnershipTest, InstancesHaveNamesOfTheirOwn) {
  const auto first = store().join({.name = "worker"});
  const auto second = store().join({.name = "worker"});
  const auto nameless = store().join({});
  EXPECT_FALSE(nameless->owner().empty());
  EXPECT_NE(first->owner(), second->owner());
}

TEST_P(OwnershipTest, TheLeaseIsTheOneAskedForIfThereIsOne) {
  const auto instance = store().join({.lease = 7s});
  if (capabilities().expiring_leases) {
    EXPECT_EQ(instance->lease_duration(), 7s);
  } else {
    EXPECT_EQ(instance->lease_duration(), std::nullopt);
  }
}

TEST_P(OwnershipTest, ASecondOneGetsNothingThatTheFirstHasNotGivenBack) {
  const Owner first = own_everything();
  const auto second = store().join({});
  const Lease nothing = second->renew();
  EXPECT_TRUE(nothing.shards.empty());
  EXPECT_TRUE(nothing.draining.empty());
  EXPECT_EQ(nothing.epoch, 0) << "it is a standby";
}

TEST_P(OwnershipTest, LeavingHandsEverythingOverAtOnceWithoutSuspicion) {
  const Owner first = own_everything();
  first->leave();
  const Owner second = own_everything();
  EXPECT_TRUE(second.lease.inherited.empty());
  EXPECT_GT(second.lease.epoch, first.lease.epoch);
}

TEST_P(OwnershipTest, OneThatStoodByTakesOverAtItsNextRenewalAfterTheOwnerLeft) {
  const Owner first = own_everything();
  const auto second = store().join({});
  EXPECT_TRUE(second->renew().shards.empty());
  first->leave();
  const Lease lease = second->renew();
  EXPECT_EQ(lease.shards.size(), static_cast<std::size_t>(capabilities().shards));
  EXPECT_GT(lease.epoch, 0);
  EXPECT_TRUE(lease.inherited.empty());
}

TEST_P(OwnershipTest, LeavingTwiceOrWithoutHavingJoinedIsFine) {
  const auto never = store().join({});
  never->leave();
  const Owner owner = own_everything();
  owner->leave();
  owner->leave();
  own_everything();
}

TEST_P(OwnershipTest, TheHeirReadsWhatTheLeaverHadRead) {
  write_aggregate("1", {"a", "b"});
  const Owner first = own_everything();
  EXPECT_EQ(first->ready(first.shards(), 0, 10).rows.size(), 2u);
  first->leave();
  const Owner second = own_everything();
  EXPECT_EQ(second->ready(second.shards(), 0, 10).rows.size(), 2u);
}

TEST_P(OwnershipTest, TimeAloneCostsNothingWhereLeasesDoNotExpire) {
  OUTBOX_NEEDS(!capabilities().expiring_leases);
  const Owner first = own_everything({.lease = 1s});
  const auto second = store().join({.lease = 1s});
  advance(24h);
  EXPECT_TRUE(second->renew().shards.empty());
  EXPECT_EQ(first->renew().epoch, first.lease.epoch);
}

TEST_P(OwnershipTest, ADeadOnesShardsAreTakenOverWhenItsLeaseHasExpired) {
  OUTBOX_NEEDS(capabilities().expiring_leases);
  const Owner dead = own_everything({.capacity = 123, .lease = 15s});
  const auto heir = store().join({.lease = 15s});
  const auto margin = backend().clock_error() + 1ms;
  advance(15s - margin);
  EXPECT_TRUE(heir->renew().shards.empty()) << "its lease has not expired";
  advance(2 * margin);
  const Lease lease = heir->renew();
  EXPECT_EQ(sorted(lease.shards), sorted(dead.shards()));
  EXPECT_GT(lease.epoch, dead.lease.epoch);
  ASSERT_EQ(lease.inherited.size(), lease.shards.size());
  for (const Lease::Inherited& inherited : lease.inherited) {
    EXPECT_EQ(inherited.candidates, 123u);
  }
  EXPECT_TRUE(heir->renew().inherited.empty()) << "told once";
}

TEST_P(OwnershipTest, ALateRenewalKeepsEverythingIfNobodyTookOver) {
  OUTBOX_NEEDS(capabilities().expiring_leases);
  const Owner owner = own_everything({.lease = 15s});
  advance(1h);
  const Lease late = owner->renew();
  EXPECT_EQ(late.epoch, owner.lease.epoch);
  EXPECT_EQ(sorted(late.shards), sorted(owner.shards()));
}

TEST_P(OwnershipTest, OneThatWasDeclaredDeadLearnsItByItsEpoch) {
  OUTBOX_NEEDS(capabilities().expiring_leases);
  const Owner zombie = own_everything({.lease = 15s});
  advance(16s);
  const Owner heir = own_everything({.lease = 15s});
  Lease back = zombie->renew();
  EXPECT_NE(back.epoch, zombie.lease.epoch);
  EXPECT_TRUE(back.shards.empty()) << "all is owned by the heir";

  heir->leave();
  back = zombie->renew();
  EXPECT_EQ(sorted(back.shards), sorted(heir.shards()));
  EXPECT_GT(back.epoch, zombie.lease.epoch);
}

TEST_P(OwnershipTest, AShardIsDrainingUntilItIsReleased) {
  OUTBOX_NEEDS(capabilities().shards > 1);
  std::map<int, std::string> in_shard;
  for (int i = 0; i < 200; ++i) {
    const std::string id = "e" + std::to_string(i);
    in_shard[write(event({.id = id})).shard] = id;
  }
  Owner first = own_everything();
  const std::int64_t epoch = first.lease.epoch;
  const auto second = store().join({});
  EXPECT_TRUE(second->renew().shards.empty());

  const Lease shrunk = first.lease = first->renew();
  ASSERT_FALSE(shrunk.draining.empty());
  EXPECT_EQ(shrunk.epoch, epoch);
  const int draining = shrunk.draining[0];
  EXPECT_EQ(std::count(shrunk.shards.begin(), shrunk.shards.end(), draining), 0);
  EXPECT_TRUE(second->renew().shards.empty()) << "it is still being drained";

  StatusUpdate candidate = update(in_shard.at(draining), StatusUpdate::Kind::crashes);
  candidate.crashes = 1;
  apply(first, {candidate});
  first.release(draining);
  const UpdateResult result =
      first.apply(std::vector{update(in_shard.at(draining), StatusUpdate::Kind::done),
                              update(in_shard.at(shrunk.shards[0]), StatusUpdate::Kind::done)});
  EXPECT_FALSE(result.fenced);
  EXPECT_EQ(result.stale, std::vector<std::size_t>{0}) << "it belongs to nobody now";
  EXPECT_EQ(record(in_shard.at(draining)).row.status, Status::pending);
  EXPECT_EQ(record(in_shard.at(shrunk.shards[0])).row.status, Status::done);

  const Lease grown = second->renew();
  EXPECT_EQ(grown.shards, Shards{draining});
  EXPECT_TRUE(grown.inherited.empty()) << "it was drained";
}

TEST_P(OwnershipTest, OfExclusiveInstancesTheOldestOwnsEverythingAndAllOthersAreStandbys) {
  const auto shared = store().join({});
  const Shards all = shared->renew().shards;
  const auto first = store().join({.exclusive = true});
  const auto second = store().join({.exclusive = true});
  if (all.size() > 1) {
    first->renew();
    EXPECT_EQ(renew_and_release(*shared).draining.size(), all.size());
  } else {
    shared->leave();
  }
  EXPECT_EQ(sorted(first->renew().shards), sorted(all));
  EXPECT_TRUE(second->renew().shards.empty());
  const auto late = store().join({});
  EXPECT_TRUE(late->renew().shards.empty());
  EXPECT_EQ(first->renew().shards.size(), all.size());

  first->leave();
  EXPECT_EQ(sorted(second->renew().shards), sorted(all));
  second->leave();
  EXPECT_FALSE(late->renew().shards.empty());
}

TEST_P(OwnershipTest, AShardThatCameBackIsReadFromItsLowestRow) {
  OUTBOX_NEEDS(capabilities().shards > 1);
  for (int i = 0; i < 100; ++i) write(event({.id = "e" + std::to_string(i)}));
  const Owner first = own_everything();
  EXPECT_EQ(first->ready(first.shards(), 0, 1'000).rows.size(), 100u);
  const auto second = store().join({});
  second->renew();
  const Lease shrunk = renew_and_release(*first.instance);
  EXPECT_EQ(sorted(second->renew().shards), sorted(shrunk.draining));
  second->leave();

  EXPECT_EQ(first->renew().shards.size(), first.shards().size());
  // Its last owner may have finished none of its rows.
  const std::vector<Row> again = first->ready(shrunk.draining, 0, 1'000).rows;
  std::set<std::string> read;
  for (const Row& row : again) read.insert(row.event.id());
  for (int i = 0; i < 100; ++i) {
    const std::string id = "e" + std::to_string(i);
    const bool came_back =
        std::count(shrunk.draining.begin(), shrunk.draining.end(), ref(id).shard);
    EXPECT_EQ(read.contains(id), came_back) << id;
  }
}

// So many rows, and read so often, that a store that remembers how far it has read does so.
TEST_P(OwnershipTest, AShardThatCameBackWithinTheEpochIsReadFromItsLowestRowHoweverOftenRenewed) {
  OUTBOX_NEEDS(capabilities().shards > 1);
  constexpr std::size_t kRows = 400;
  std::vector<Event> events;
  for (std::size_t i = 0; i < kRows; ++i) events.push_back(event({.id = "e" + std::to_string(i)}));
  const std::vector<RowRef> rows = write(events);
  const Owner first = own_everything();
  EXPECT_EQ(first->ready(first.shards(), 0, 1'000).rows.size(), kRows);
  for (int i = 0; i < 3; ++i) first->ready(first.shards(), kRows, 1'000);

  const auto second = store().join({});
  second->renew();
  const Shards released = renew_and_release(*first.instance).draining;
  ASSERT_FALSE(released.empty());
  EXPECT_EQ(sorted(second->renew().shards), sorted(released));
  second->leave();
  EXPECT_EQ(first->renew().epoch, first.lease.epoch);
  EXPECT_EQ(first->renew().shards.size(), first.shards().size()) << "renewed twice before a read";

  std::set<std::string> expected;
  for (std::size_t i = 0; i < kRows; ++i) {
    if (std::count(released.begin(), released.end(), rows[i].shard) > 0)
      expected.insert(events[i].id());
  }
  std::set<std::string> read;
  for (const Row& row : first->ready(first.shards(), kRows, 1'000).rows) {
    if (std::count(released.begin(), released.end(), row.ref.shard) > 0)
      read.insert(row.event.id());
  }
  EXPECT_EQ(read, expected) << "what the other one read and did not finish is nobody's";
}

// Joins, leaves and deaths at random; the living renew in any order. Whatever
// happens, no shard has two owners; and when it is calm, all are shared evenly.
TEST_P(OwnershipTest, ShardsAreSharedEvenlyWhenInstancesComeAndGo) {
  OUTBOX_NEEDS(capabilities().expiring_leases);
  const std::uint64_t seed = test_seed();
  SCOPED_TRACE("OUTBOX_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto pick = [&](std::size_t below) { return static_cast<std::size_t>(random() % below); };

  struct Member {
    std::unique_ptr<Instance> instance;
    std::set<int> owned;
  };
  std::vector<Member> living;
  bool calm = false;  // nothing in flight, so what is draining is given back at once
  const auto renew = [&](Member& member) {
    const Lease lease = member.instance->renew();
    member.owned = {lease.shards.begin(), lease.shards.end()};
    member.owned.insert(lease.draining.begin(), lease.draining.end());
    for (const Member& other : living) {
      if (&other == &member) continue;
      for (const int shard : member.owned) {
        ASSERT_FALSE(other.owned.contains(shard)) << "shard " << shard << " has two owners";
      }
    }
    for (const int shard : lease.draining) {
      if (!calm && pick(2) == 0) continue;
      member.instance->release(shard);
      member.owned.erase(shard);
    }
  };

  for (int step = 0; step < 60; ++step) {
    const std::size_t what = pick(3);
    calm = false;
    if (living.empty() || (what == 0 && living.size() < 20)) {
      living.push_back({store().join({.lease = 15s}), {}});
      renew(living.back());
    } else {
      const std::size_t who = pick(living.size());
      if (what == 1) {
        living[who].instance->leave();
      }  // else it dies
      living.erase(living.begin() + static_cast<std::ptrdiff_t>(who));
    }
    if (living.empty() || HasFatalFailure()) continue;

    // A death shows when its lease has expired, while the others renew theirs;
    // then it takes them three rounds to settle.
    for (int round = 0; round < 7; ++round) {
      calm = round >= 4;
      advance(5s);
      std::shuffle(living.begin(), living.end(), random);
      for (Member& member : living) renew(member);
    }
    std::size_t least = 1'000;
    std::size_t most = 0;
    std::size_t total = 0;
    for (const Member& member : living) {
      least = std::min(least, member.owned.size());
      most = std::max(most, member.owned.size());
      total += member.owned.size();
    }
    ASSERT_LE(most - least, 1u) << "step " << step << ", " << living.size() << " living";
    ASSERT_EQ(total, static_cast<std::size_t>(capabilities().shards)) << "step " << step;
  }
}

TEST_P(OwnershipTest, ItSettlesInThreeRoundsWhenNothingIsInFlight) {
  OUTBOX_NEEDS(capabilities().expiring_leases);
  std::vector<std::unique_ptr<Instance>> living;
  for (int n = 1; n <= 5; ++n) {
    living.push_back(store().join({}));
    std::vector<std::size_t> owned(living.size());
    for (int round = 0; round < 3; ++round) {
      for (std::size_t i = 0; i < living.size(); ++i) {
        owned[i] = renew_and_release(*living[i]).shards.size();
      }
    }
    const auto [least, most] = std::minmax_element(owned.begin(), owned.end());
    EXPECT_LE(*most - *least, 1u) << n << " instances";
  }
}

}  // namespace
}  // namespace outbox::conformance
