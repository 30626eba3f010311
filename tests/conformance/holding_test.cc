// Rules 30 and 31: lanes, in which an aggregate waits behind its head.
#include <limits>
#include <utility>

#include "store_conformance.h"

namespace outbox::conformance {
namespace {

using Ids = std::vector<std::string>;
using Kind = StatusUpdate::Kind;

// in_lane(42)(update) is the update with lane 42.
auto in_lane(LaneKey key) {
  return [key](StatusUpdate update) {
    update.lane = key;
    return update;
  };
}

TEST_P(HoldingTest, ALaneIsReadInTheOrderOfItsRows) {
  write_aggregate("1", {"a", "b", "c", "d"});
  const Owner owner = own_everything();
  const auto lane = in_lane(42);
  // Held in any order; the head waits for its retry.
  apply(owner, {lane(update("c", Kind::hold)), lane(update("b", Kind::hold))});
  StatusUpdate retry = lane(update("a", Kind::retry));
  retry.delay = 1h;
  apply(owner, {lane(update("d", Kind::hold)), retry});

  const int shard = ref("a").shard;
  const Rows all = owner->held({shard, 42}, 10);
  EXPECT_EQ(ids(all.rows), (Ids{"a", "b", "c", "d"}));
  EXPECT_FALSE(all.more);
  EXPECT_EQ(all.rows[0].status, Status::retry);
  EXPECT_EQ(all.rows[0].ref.hold, 42);

  const Rows two = owner->held({shard, 42}, 2);
  EXPECT_EQ(ids(two.rows), (Ids{"a", "b"}));
  EXPECT_TRUE(two.more);
  EXPECT_TRUE(owner->held({shard, 43}, 10).rows.empty());
}

TEST_P(HoldingTest, AReadOfALaneEndsWithTheRowThatReachesItsBytes) {
  std::vector<Event> events;
  for (const char letter : {'a', 'b', 'c'}) {
    events.push_back(event({.id = std::string(1, letter),
                            .aggregate_id = "1",
                            .payload = bytes(std::string(20'000, letter))}));
  }
  write(events);
  const Owner owner = own_everything();
  const auto lane = in_lane(42);
  apply(owner, {lane(update("a", Kind::retry)), lane(update("b", Kind::hold)),
                lane(update("c", Kind::hold))});
  const int shard = ref("a").shard;
  const Rows two = owner->held({shard, 42}, {100, 20'001, {}});
  EXPECT_EQ(ids(two.rows), (Ids{"a", "b"}));
  EXPECT_TRUE(two.more);
  const Rows head = owner->held({shard, 42}, {2, 1, {}});
  EXPECT_EQ(ids(head.rows), Ids{"a"});
  EXPECT_EQ(head.rows[0].event.payload(), std::string(20'000, 'a'));
  EXPECT_TRUE(head.more);
  const auto has = [](std::string_view id) { return id == "a"; };
  const Rows behind = owner->held({shard, 42}, {100, 1, has});
  EXPECT_EQ(ids(behind.rows), (Ids{"a", "b"})) << "what is taken does not count";
  EXPECT_EQ(behind.rows[1].event.payload(), std::string(20'000, 'b'));
  EXPECT_TRUE(behind.more);
  apply(owner, {update("b", Kind::done), update("c", Kind::done)});
  const Rows last = owner->held({shard, 42}, {2, 1, {}});
  EXPECT_EQ(ids(last.rows), Ids{"a"});
  EXPECT_FALSE(last.more) << "it is told from a lane with more";
}

TEST_P(HoldingTest, FinishingTheHeadUncoversTheNext) {
  write_aggregate("1", {"a", "b"});
  const Owner owner = own_everything();
  const auto lane = in_lane(42);
  apply(owner, {lane(update("a", Kind::retry)), lane(update("b", Kind::hold))});
  const int shard = ref("a").shard;
  apply(owner, {update("a", Kind::done)});
  EXPECT_EQ(ids(owner->held({shard, 42}, 10).rows), Ids{"b"});
  apply(owner, {update("b", Kind::done)});
  EXPECT_TRUE(owner->held({shard, 42}, 10).rows.empty());
  EXPECT_TRUE(owner->held_lanes(shard, 0, 10).empty());
}

TEST_P(HoldingTest, ADeadHeadThatDoesNotBlockLeavesTheLane) {
  write_aggregate("1", {"a", "b"});
  const Owner owner = own_everything();
  const auto lane = in_lane(42);
  apply(owner, {lane(update("a", Kind::retry)), lane(update("b", Kind::hold))});
  apply(owner, {update("a", Kind::dead)});
  EXPECT_EQ(ids(owner->held({ref("a").shard, 42}, 10).rows), Ids{"b"});
}

TEST_P(HoldingTest, ADeadRowThatIsUnblockedLeavesTheLaneAndStaysDead) {
  write_aggregate("1", {"a", "b"});
  const Owner owner = own_everything();
  const auto lane = in_lane(42);
  StatusUpdate dead = lane(update("a", Kind::dead));
  dead.error = "broken";
  apply(owner, {dead, lane(update("b", Kind::hold))});
  const int shard = ref("a").shard;
  ASSERT_EQ(ids(owner->held({shard, 42}, 10).rows), (Ids{"a", "b"}));

  const std::vector updates{update("a", Kind::unblock), update("b", Kind::unblock)};
  EXPECT_EQ(owner.apply(updates).stale, std::vector<std::size_t>{1}) << "only DEAD ones";
  EXPECT_EQ(ids(owner->held({shard, 42}, 10).rows), Ids{"b"});
  const EventRecord record = *store().admin().find("a");
  EXPECT_EQ(record.row.status, Status::dead);
  EXPECT_EQ(record.hold, std::nullopt);
  EXPECT_EQ(record.last_error, "broken");
  EXPECT_TRUE(owner.apply(std::span(updates).first(1)).stale.empty()) << "a repeat does no harm";
}

TEST_P(HoldingTest, TheOwnerOfALaneIsToldThatItIsFree) {
  write_aggregate("1", {"a", "b", "c", "d"});
  write_aggregate("2", {"alone", "done"});
  const Owner owner = own_everything();
  const std::vector<int>& shards = owner.shards();
  apply(owner, {in_lane(42)(update("a", Kind::dead)), in_lane(43)(update("b", Kind::dead)),
                in_lane(44)(update("c", Kind::dead)), in_lane(44)(update("d", Kind::dead)),
                update("alone", Kind::dead), update("done", Kind::done)});
  const int shard = ref("a").shard;
  using Lanes = std::vector<LaneRef>;
  EXPECT_EQ(owner->unblocked(shards, 10), Lanes{});

  ASSERT_TRUE(store().admin().replay("a"));
  ASSERT_TRUE(store().admin().replay("alone"));
  ASSERT_TRUE(store().admin().replay("done"));
  EXPECT_EQ(owner->unblocked(shards, 10), (Lanes{{shard, 42}})) << "only what blocked a lane";
  EXPECT_EQ(owner->unblocked(shards, 10), Lanes{}) << "the next call forgets it";

  ASSERT_TRUE(store().admin().discard("b"));
  EXPECT_EQ(owner->unblocked({}, 10), Lanes{}) << "another's shard";
  EXPECT_EQ(owner->unblocked(shards, 10), (Lanes{{shard, 43}}));
  ASSERT_EQ(store().admin().replay(EventFilter{}, ref("c").seq - 1, 1).rows, 1);
  ASSERT_EQ(store().admin().discard(EventFilter{}, 0, 10).rows, 1) << "that is d";
  EXPECT_EQ(owner->unblocked(shards, 1), (Lanes{{shard, 44}})) << "a page of one";
  EXPECT_EQ(owner->unblocked(shards, 1), (Lanes{{shard, 44}})) << "one for each change";
  EXPECT_EQ(owner->unblocked(shards, 1), Lanes{});
  EXPECT_FALSE(store().admin().replay("a"));
  EXPECT_FALSE(store().admin().discard("b"));
  EXPECT_EQ(owner->unblocked(shards, 1), Lanes{}) << "nothing has changed";
}

TEST_P(HoldingTest, AFreedLaneThatNobodyWasToldOfWaitsForTheNextOwner) {
  write_aggregate("1", {"a"});
  {
    Owner owner = own_everything();
    apply(owner, {in_lane(42)(update("a", Kind::dead))});
    ASSERT_TRUE(store().admin().replay("a"));
    ASSERT_EQ(owner->unblocked(owner.shards(), 10).size(), 1u);
    owner->leave();  // and does not forget it
  }
  const Owner next = own_everything();
  EXPECT_EQ(next->unblocked(next.shards(), 10), (std::vector<LaneRef>{{ref("a").shard, 42}}));
}

TEST_P(HoldingTest, LanesAreListedByKeyInPagesWithWhatStandsFirst) {
  write_aggregate("1", {"a", "b", "c", "d", "e"});
  const Owner owner = own_everything();
  StatusUpdate head = in_lane(30)(update("a", Kind::retry));
  head.delay = 8s;
  StatusUpdate blocking = in_lane(std::numeric_limits<LaneKey>::max())(update("e", Kind::dead));
  apply(owner, {in_lane(20)(update("d", Kind::hold)), in_lane(30)(update("c", Kind::hold)), head,
                in_lane(20)(update("b", Kind::hold)), blocking});
  const int shard = ref("a").shard;

  const std::vector<HeldLane> all = owner->held_lanes(shard, 0, 10);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].key, 20);
  EXPECT_EQ(all[0].shard, shard);
  EXPECT_EQ(all[0].first, ref("b").seq);
  EXPECT_EQ(all[0].status, Status::pending);
  EXPECT_LE(all[0].available_in, 0us);
  EXPECT_EQ(all[1].key, 30);
  EXPECT_EQ(all[1].first, ref("a").seq);
  EXPECT_EQ(all[1].status, Status::retry);
  expect_time(all[1].available_in, 8s);
  EXPECT_EQ(all[2].key, std::numeric_limits<LaneKey>::max());
  EXPECT_EQ(all[2].first, ref("e").seq);
  EXPECT_EQ(all[2].status, Status::dead);

  const std::vector<HeldLane> page = owner->held_lanes(shard, 0, 1);
  ASSERT_EQ(page.size(), 1u);
  EXPECT_EQ(page[0].key, 20);
  const std::vector<HeldLane> next = owner->held_lanes(shard, 20, 1);
  ASSERT_EQ(next.size(), 1u);
  EXPECT_EQ(next[0].key, 30);
  EXPECT_TRUE(owner->held_lanes(shard, std::numeric_limits<LaneKey>::max(), 10).empty());
}

TEST_P(HoldingTest, DelayedAndReadyRowsAreInNoLane) {
  write({event({.id = "ready"}), event({.id = "delayed", .available_at = now() + 1h})});
  const Owner owner = own_everything();
  for (const int shard : owner.shards()) EXPECT_TRUE(owner->held_lanes(shard, 0, 10).empty());
}

TEST_P(HoldingTest, HeldAggregatesAreListedWithTheirHeads) {
  write_aggregate("1", {"a", "b", "c"});
  write_aggregate("2", {"x"});
  const Owner owner = own_everything();
  EXPECT_TRUE(store().admin().held_aggregates(10).empty());
  StatusUpdate retry = in_lane(42)(update("a", Kind::retry));
  retry.attempts = 4;
  retry.error = "the shop is closed";
  apply(owner, {retry, in_lane(42)(update("b", Kind::hold)), in_lane(42)(update("c", Kind::hold))});

  const std::vector<HeldAggregate> held = store().admin().held_aggregates(10);
  ASSERT_EQ(held.size(), 1u);
  EXPECT_EQ(held[0].aggregate_type, "Order");
  EXPECT_EQ(held[0].aggregate_id, "1");
  EXPECT_EQ(held[0].head_id, "a");
  EXPECT_EQ(held[0].head_status, Status::retry);
  EXPECT_EQ(held[0].attempts, 4);
  EXPECT_EQ(held[0].last_error, "the shop is closed");
  EXPECT_EQ(held[0].waiting, 2);

  StatusUpdate dead = in_lane(43)(update("x", Kind::dead));
  dead.error = "for ever";
  apply(owner, {dead});
  EXPECT_EQ(store().admin().held_aggregates(10).size(), 2u);
  EXPECT_EQ(store().admin().held_aggregates(1).size(), 1u);
}

TEST_P(HoldingTest, AggregatesThatShareALaneAreListedEachWithItsOwnHead) {
  // Two aggregates in one shard, and then, by an unlucky hash, in one lane.
  const int shard = write_aggregate("0", {"0a", "0b"}).at(0).shard;
  std::string other;
  for (int i = 1; other.empty(); ++i) {
    const std::string id = std::to_string(i);
    if (write_aggregate(id, {id + "a", id + "b"}).at(0).shard == shard) other = id;
  }
  const Owner owner = own_everything();
  const auto lane = in_lane(42);
  apply(owner, {lane(update("0a", Kind::retry)), lane(update("0b", Kind::hold)),
                lane(update(other + "a", Kind::dead)), lane(update(other + "b", Kind::hold))});
  std::vector<HeldAggregate> held = store().admin().held_aggregates(10);
  ASSERT_EQ(held.size(), 2u);
  if (held[0].aggregate_id != "0") std::swap(held[0], held[1]);
  EXPECT_EQ(held[0].aggregate_id, "0");
  EXPECT_EQ(held[0].head_id, "0a");
  EXPECT_EQ(held[0].waiting, 1);
  EXPECT_EQ(held[1].aggregate_id, other);
  EXPECT_EQ(held[1].head_id, other + "a");
  EXPECT_EQ(held[1].head_status, Status::dead);
  EXPECT_EQ(held[1].waiting, 1);
}

}  // namespace
}  // namespace outbox::conformance
