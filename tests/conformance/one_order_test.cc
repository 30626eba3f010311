// Rule 30 over all shards: what InstanceOptions::total_order promises, and lanes that lie in
// several of them.
#include <algorithm>
#include <atomic>
#include <iterator>
#include <set>
#include <thread>

#include "base/mutex.h"
#include "store_conformance.h"

namespace outbox::conformance {

using Ids = std::vector<std::string>;

void OneOrderTest::SetUp() {
  StoreTest::SetUp();
  if (IsSkipped()) return;
  OUTBOX_NEEDS(capabilities().total_order);
}

Ids OneOrderTest::write_spread(const Spread& spread) {
  Ids written;
  std::vector<Event> events;
  for (int n = spread.first; n < spread.first + spread.count; ++n) {
    written.push_back("e" + std::to_string(n));
    const int aggregate = n % 3 == 0 ? 0 : n % 40;
    events.push_back(event({.id = written.back(),
                            .aggregate_type = "Order",
                            .aggregate_id = std::to_string(aggregate)}));
  }
  write(events);
  return written;
}

Ids OneOrderTest::read_on(const Owner& owner, std::size_t limit) {
  Ids found;
  for (bool more = true; more;) {
    const Rows rows = owner->ready(owner.shards(), known_.size(), limit);
    for (const Row& row : rows.rows) {
      if (known_.insert(row.event.id()).second) found.push_back(row.event.id());
    }
    more = rows.more;
  }
  return found;
}

void OneOrderTest::finish(const Owner& owner, const Ids& finished) {
  std::vector<StatusUpdate> updates;
  for (const std::string& id : finished) {
    updates.push_back(update(id, StatusUpdate::Kind::done));
    known_.erase(id);
  }
  apply(owner, updates);
}

namespace {

using Kind = StatusUpdate::Kind;

const InstanceOptions kInOneOrder{.exclusive = true, .total_order = true};

TEST_P(OneOrderTest, ReadyRowsComeInOneOrderHoweverTheReadsAreCut) {
  const Ids all = write_spread({.count = 400});
  for (const std::size_t limit : {std::size_t{3}, std::size_t{50}, std::size_t{1000}}) {
    const Owner owner = own_everything(kInOneOrder);
    EXPECT_EQ(read_on(owner, limit), all) << limit;
    owner->leave();
    forget();
  }
}

TEST_P(OneOrderTest, AReadHasNoRowWithoutThoseBeforeIt) {
  const Ids all = write_spread({.count = 200});
  const Owner owner = own_everything(kInOneOrder);
  const Rows first = owner->ready(owner.shards(), 0, 20);
  EXPECT_EQ(ids(first.rows), Ids(all.begin(), all.begin() + 20));
  EXPECT_TRUE(first.more);
}

TEST_P(OneOrderTest, WhatIsFinishedBetweenReadsChangesNothing) {
  const Owner owner = own_everything(kInOneOrder);
  for (int n = 0; n < 2'000; n += 200) {
    const Ids written = write_spread({.first = n, .count = 200});
    EXPECT_EQ(read_on(owner, 30), written);
    finish(owner, written);
  }
}

TEST_P(OneOrderTest, RewindBringsBackWhatWasReadFromThatRowOn) {
  const Ids all = write_spread({.count = 60});
  const Owner owner = own_everything(kInOneOrder);
  EXPECT_EQ(read_on(owner, 100), all);
  owner->rewind(ref(all[40]).seq);
  forget();
  const Ids again = read_on(owner, 100);
  ASSERT_GE(again.size(), 20U);
  EXPECT_EQ(Ids(again.end() - 20, again.end()), Ids(all.begin() + 40, all.end()));
  EXPECT_TRUE(std::is_sorted(again.begin(), again.end(), [&](const auto& a, const auto& b) {
    return ref(a).seq < ref(b).seq;
  }));
}

TEST_P(OneOrderTest, AReadEndsWithTheRowThatReachesItsBytes) {
  std::vector<Event> events;
  Ids all;
  for (int n = 0; n < 6; ++n) {
    all.push_back("e" + std::to_string(n));
    events.push_back(event({.id = all.back(),
                            .aggregate_id = std::to_string(n),
                            .payload = bytes(std::string(20'000, 'x'))}));
  }
  write(events);
  const Owner owner = own_everything(kInOneOrder);
  const Rows two = owner->ready(owner.shards(), 0, {100, 20'001, {}});
  EXPECT_EQ(ids(two.rows), Ids(all.begin(), all.begin() + 2));
  EXPECT_TRUE(two.more);
  const auto has = [&](std::string_view id) { return id == all[0] || id == all[1]; };
  const Rows third = owner->ready(owner.shards(), 2, {100, 1, has});
  ASSERT_FALSE(third.rows.empty());
  EXPECT_EQ(third.rows.back().event.id(), all[2]);
}

// It overlaps with those that were committed before it.
TEST_P(OneOrderTest, ATransactionThatCommitsLateIsNotPassedOver) {
  OUTBOX_NEEDS(!capabilities().one_writer);
  const Owner owner = own_everything(kInOneOrder);
  const auto late = store().connect();
  late->begin();
  const std::vector<Event> events{event({.id = "late-1", .aggregate_id = "x"}),
                                  event({.id = "late-2", .aggregate_id = "y"}),
                                  event({.id = "late-3", .aggregate_id = "z"})};
  late->insert(events, {});
  // So many that a reader which keeps a floor looks after it meanwhile.
  for (int n = 0; n < 1'200; n += 300) {
    const Ids written = write_spread({.first = n, .count = 300});
    EXPECT_EQ(read_on(owner, 100), written);
    finish(owner, written);
  }
  late->commit();
  const Ids after = write_spread({.first = 2'000, .count = 5});
  Ids expected{"late-1", "late-2", "late-3"};
  expected.insert(expected.end(), after.begin(), after.end());
  EXPECT_EQ(read_on(owner, 100), expected);
}

// Two writers take turns: each transaction begins when the one before it has committed.
TEST_P(OneOrderTest, WhatWasCommittedBeforeAnotherTransactionIsReadBeforeIt) {
  constexpr int kTurns = 150;
  const Owner owner = own_everything(kInOneOrder);
  store();
  Mutex turn;
  std::atomic<int> written{0};
  Ids order;
  const auto write_in_turn = [&] {
    for (;;) {
      const MutexLock lock(turn);
      const int n = written;
      if (n == kTurns) return;
      std::vector<Event> events;
      for (int i = 0; i <= n % 3; ++i) {
        order.push_back("e" + std::to_string(n) + "-" + std::to_string(i));
        events.push_back(
            event({.id = order.back(), .aggregate_id = std::to_string((n * 7 + i) % 50)}));
      }
      write(events);
      ++written;
    }
  };
  Ids found;
  {
    std::jthread one(write_in_turn);
    std::jthread other(write_in_turn);
    while (written < kTurns) {
      const Ids more = read_on(owner, 5);
      found.insert(found.end(), more.begin(), more.end());
    }
  }
  const Ids rest = read_on(owner, 5);
  found.insert(found.end(), rest.begin(), rest.end());
  EXPECT_EQ(found, order);
}

TEST_P(OneOrderTest, LanesOfSeveralShardsAreReadAsOne) {
  const Ids all = write_spread({.count = 60});
  const Owner owner = own_everything(kInOneOrder);
  std::vector<StatusUpdate> updates;
  for (std::size_t n = 0; n < all.size(); ++n) {
    updates.push_back(update(all[n], n == 0 ? Kind::retry : n == 7 ? Kind::dead : Kind::hold));
    updates.back().lane = 100 + updates.back().row.shard;
    updates.back().delay = n == 0 ? 1h : 0h;
  }
  apply(owner, updates);
  std::vector<LaneRef> lanes;
  for (const int shard : owner.shards()) lanes.push_back({shard, 100 + shard});
  const Rows held = owner->held(lanes, 100);
  EXPECT_EQ(ids(held.rows), all);
  EXPECT_FALSE(held.more);
  EXPECT_EQ(held.rows[0].status, Status::retry);
  EXPECT_EQ(held.rows[7].status, Status::dead);
  const Rows two = owner->held(lanes, 2);
  EXPECT_EQ(ids(two.rows), Ids(all.begin(), all.begin() + 2));
  EXPECT_TRUE(two.more);

  // Under other keys, and of some shards.
  const std::set<int> some{ref(all[0]).shard, ref(all[1]).shard};
  lanes.clear();
  for (const int shard : some) lanes.push_back({shard, 100 + shard});
  Ids expected;
  std::copy_if(all.begin(), all.end(), std::back_inserter(expected),
               [&](const auto& id) { return some.contains(ref(id).shard); });
  EXPECT_EQ(ids(owner->held(lanes, 100).rows), expected);
  for (LaneRef& lane : lanes) lane.key += 1'000;
  EXPECT_TRUE(owner->held(lanes, 100).rows.empty());
}

TEST_P(OneOrderTest, AReadOfLanesEndsWithTheRowThatReachesItsBytes) {
  std::vector<Event> events;
  for (const char letter : {'a', 'b', 'c'}) {
    events.push_back(event({.id = std::string(1, letter),
                            .aggregate_id = std::string(1, letter),
                            .payload = bytes(std::string(20'000, letter))}));
  }
  write(events);
  const Owner owner = own_everything(kInOneOrder);
  std::vector<StatusUpdate> updates;
  for (const char* id : {"a", "b", "c"}) {
    updates.push_back(update(id, Kind::hold));
    updates.back().lane = 42;
  }
  apply(owner, updates);
  std::vector<LaneRef> lanes;
  for (const int shard : owner.shards()) lanes.push_back({shard, 42});
  const Rows two = owner->held(lanes, {100, 20'001, {}});
  EXPECT_EQ(ids(two.rows), (Ids{"a", "b"}));
  EXPECT_TRUE(two.more);
  const Rows head = owner->held(lanes, {2, 1, {}});
  EXPECT_EQ(ids(head.rows), Ids{"a"});
  EXPECT_EQ(head.rows[0].event.payload(), std::string(20'000, 'a'));
}

}  // namespace
}  // namespace outbox::conformance
