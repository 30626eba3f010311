#include "engine/one_shard.h"

#include <algorithm>
#include <set>

#include "engine/test_fixture.h"
#include "model/job.h"

namespace outbox::testing {
namespace {

using Texts = std::vector<std::string>;

// --- What an engine sees of the shards ---

constexpr int kShards = 4;

class OneShardTest : public ::testing::Test {
 protected:
  std::shared_ptr<Instance> join() {
    return internal::as_one_shard(
        store->join({.capacity = 3, .lease = 10s, .exclusive = true, .total_order = true}),
        kShards);
  }

  // Events of many aggregates, hence in all shards.
  Texts write_many(int first, int last) {
    Writer writer{store};
    Texts ids;
    for (int n = first; n <= last; ++n) {
      ids.push_back(write(writer, order_event(std::to_string(n), std::to_string(n))));
    }
    return ids;
  }

  static Texts ids(const Rows& rows) {
    Texts result;
    for (const Row& row : rows.rows) result.push_back(row.event.id());
    return result;
  }

  static std::vector<StatusUpdate> updates(const Rows& rows, StatusUpdate::Kind kind,
                                           LaneKey lane = kNoLane) {
    std::vector<StatusUpdate> result;
    for (const Row& row : rows.rows) {
      result.push_back(
          {.row = row.ref, .event_id = row.event.id(), .kind = kind, .lane = lane, .attempts = 1});
    }
    return result;
  }

  ManualClock clock;
  std::shared_ptr<Store> store = memory::open({.shards = kShards, .clock = &clock});
  const std::vector<int> one{0};
};

TEST_F(OneShardTest, TheOneShardIsOwnedWhenAllAre) {
  const auto shared = store->join({.lease = 10s});
  ASSERT_EQ(shared->renew().shards.size(), 4U);
  const auto instance = join();
  EXPECT_EQ(instance->renew().epoch, 0) << "it is a standby";

  const Lease shrunk = shared->renew();
  ASSERT_EQ(shrunk.draining.size(), 4U);
  for (int gone = 0; gone < 4; ++gone) {
    const Lease lease = instance->renew();
    EXPECT_EQ(lease.epoch, 0) << gone;
    EXPECT_TRUE(lease.shards.empty());
    EXPECT_TRUE(lease.draining.empty());
    shared->release(shrunk.draining[static_cast<std::size_t>(gone)]);
  }
  const Lease lease = instance->renew();
  EXPECT_NE(lease.epoch, 0);
  EXPECT_EQ(lease.shards, one);
  EXPECT_EQ(lease.epoch, instance->epoch());
}

// Told once by the store, with the lease of a part.
TEST_F(OneShardTest, CandidatesOfOwnersThatDiedAreInheritedWithTheShard) {
  const auto dies = store->join({.capacity = 7, .lease = 5s});
  ASSERT_EQ(dies->renew().shards.size(), 4U);
  const auto shared = store->join({.lease = 1h});
  static_cast<void>(shared->renew());
  for (const int shard : dies->renew().draining) dies->release(shard);
  ASSERT_EQ(shared->renew().shards.size(), 2U);
  const auto instance = join();
  clock.advance(6s);
  EXPECT_EQ(instance->renew().epoch, 0) << "two shards of the dead one, and two are missing";
  for (const int shard : shared->renew().draining) shared->release(shard);
  const Lease lease = instance->renew();
  ASSERT_EQ(lease.shards, one);
  std::size_t candidates = 0;
  for (const Lease::Inherited& each : lease.inherited) {
    EXPECT_EQ(each.shard, 0);
    candidates += each.candidates;
  }
  EXPECT_EQ(candidates, 14U);
  EXPECT_TRUE(instance->renew().inherited.empty());
}

// A store whose instance has to give up one of its shards.
class Shrinking final : public WholeInstance {
 public:
  Lease renew() override { return next; }
  std::int64_t epoch() const override { return next.epoch; }
  std::optional<std::chrono::milliseconds> lease_duration() const override { return 1s; }
  void release(int shard) override { released.push_back(shard); }
  void leave() override {}
  Rows ready(std::span<const int> shards, std::size_t, const ReadLimit&) override {
    EXPECT_TRUE(shards.empty() || shards.size() == 4U);
    return {};
  }
  void rewind(Seq) override {}
  DueRows due(std::span<const int>, const ReadLimit&) override { return {}; }
  Rows held(std::span<const LaneRef>, const ReadLimit&) override { return {}; }
  std::vector<HeldLane> held_lanes(int, LaneKey, std::size_t) override { return {}; }
  Rows claim(std::chrono::milliseconds, const ReadLimit&) override { return {}; }
  void unclaim(std::span<const RowRef>) override {}
  UpdateResult apply(std::int64_t, std::span<const StatusUpdate>) override { return {}; }
  const std::string& owner() const override { return name; }

  Lease next;
  std::vector<int> released;
  std::string name = "shrinking";
};

TEST_F(OneShardTest, ToGiveUpOneOfThemIsToDrainTheOneFirst) {
  const auto shrinking = std::make_shared<Shrinking>();
  const auto instance = internal::as_one_shard(shrinking, kShards);
  shrinking->next = {.epoch = 5, .shards = {0, 1, 2, 3}};
  EXPECT_EQ(instance->renew().shards, one);
  shrinking->next = {.epoch = 5, .shards = {0, 1, 3}, .draining = {2}};
  for (int n = 0; n < 2; ++n) {
    const Lease lease = instance->renew();
    EXPECT_EQ(lease.epoch, 5);
    EXPECT_TRUE(lease.shards.empty());
    EXPECT_EQ(lease.draining, one);
    EXPECT_TRUE(shrinking->released.empty()) << "events are still in flight";
  }
  instance->release(0);
  EXPECT_EQ(shrinking->released, std::vector<int>{2});
  shrinking->next = {.epoch = 5, .shards = {0, 1, 3}};
  EXPECT_EQ(instance->renew().epoch, 0);
  shrinking->next = {.epoch = 5, .shards = {0, 1, 2, 3}};
  EXPECT_EQ(instance->renew().shards, one) << "all are back";
}

TEST_F(OneShardTest, RowsComeInOneOrderAndAreUpdatedWhereTheyAre) {
  const Texts all = write_many(1, 20);
  const auto instance = join();
  const Lease lease = instance->renew();
  ASSERT_EQ(lease.shards, one);
  const Rows rows = instance->ready(lease.shards, 0, 100);
  EXPECT_EQ(ids(rows), all);
  std::set<int> stored;
  for (const Row& row : rows.rows) {
    EXPECT_EQ(row.ref.shard, 0);
    stored.insert(row.ref.stored_in);
  }
  EXPECT_EQ(stored.size(), 4U);
  const UpdateResult result = instance->apply(lease.epoch, updates(rows, StatusUpdate::Kind::done));
  EXPECT_FALSE(result.fenced);
  EXPECT_TRUE(result.stale.empty());
  EXPECT_FALSE(store->has_pending());
}

TEST_F(OneShardTest, TheLaneOfAllEventsLiesInAllShardsUnderAKeyOfEach) {
  const Texts all = write_many(1, 20);
  const auto instance = join();
  const Lease lease = instance->renew();
  const Rows rows = instance->ready(lease.shards, 0, 100);
  static_cast<void>(
      instance->apply(lease.epoch, updates(rows, StatusUpdate::Kind::hold, internal::kOnlyLane)));
  for (const std::string& id : all) {
    const EventRecord record = *store->admin().find(id);
    EXPECT_EQ(record.hold, internal::only_lane(record.row.ref.shard));
  }
  const std::vector<HeldLane> lanes = instance->held_lanes(0, 0, 10);
  ASSERT_EQ(lanes.size(), 1U);
  EXPECT_EQ(lanes[0].key, internal::kOnlyLane);
  EXPECT_EQ(lanes[0].shard, 0);
  EXPECT_EQ(lanes[0].first, rows.rows[0].ref.seq) << "the first of all shards";
  EXPECT_TRUE(instance->held_lanes(0, internal::kOnlyLane, 10).empty());

  const Rows first = instance->held({0, internal::kOnlyLane}, 7);
  EXPECT_EQ(ids(first), Texts(all.begin(), all.begin() + 7));
  EXPECT_TRUE(first.more);
  const Rows held = instance->held({0, internal::kOnlyLane}, 100);
  EXPECT_EQ(ids(held), all);
  EXPECT_FALSE(held.more);
  EXPECT_EQ(held.rows[3].ref.hold, internal::kOnlyLane);
  EXPECT_TRUE(instance->apply(lease.epoch, updates(held, StatusUpdate::Kind::done)).stale.empty());
  EXPECT_FALSE(store->has_pending());
}

TEST_F(OneShardTest, LanesOfAggregatesAreListedWithIt) {
  write_many(1, 8);
  const auto instance = join();
  const Lease lease = instance->renew();
  const Rows rows = instance->ready(lease.shards, 0, 100);
  std::vector<StatusUpdate> hold = updates(rows, StatusUpdate::Kind::hold);
  for (std::size_t n = 0; n < hold.size(); ++n) {
    hold[n].lane = n < 4 ? static_cast<LaneKey>(1'000 + n) : internal::kOnlyLane;
  }
  static_cast<void>(instance->apply(lease.epoch, hold));
  std::vector<LaneKey> keys;
  for (LaneKey after = 0;;) {
    const std::vector<HeldLane> lanes = instance->held_lanes(0, after, 2);
    for (const HeldLane& lane : lanes) keys.push_back(lane.key);
    if (lanes.size() < 2) break;
    after = lanes.back().key;
  }
  EXPECT_EQ(keys, (std::vector<LaneKey>{internal::kOnlyLane, 1'000, 1'001, 1'002, 1'003}));
  EXPECT_EQ(ids(instance->held({0, 1'002}, 10)), Texts{rows.rows[2].event.id()});
}

TEST_F(OneShardTest, AnOperatorsActIsToldOfTheOneLane) {
  const Texts all = write_many(1, 4);
  const auto instance = join();
  const Lease lease = instance->renew();
  const Rows rows = instance->ready(lease.shards, 0, 100);
  static_cast<void>(
      instance->apply(lease.epoch, updates(rows, StatusUpdate::Kind::dead, internal::kOnlyLane)));
  store->admin().replay(all[2]);
  const LaneRef lane{.shard = 0, .key = internal::kOnlyLane};
  EXPECT_EQ(instance->unblocked(lease.shards, 10), std::vector{lane});
}

// --- Mode::ordered ---

class BesideOthersTest : public EngineTest {};

// It dies with a failing head, some of those behind it held, in whatever shard, and others not.
TEST_F(BesideOthersTest, ATakeOverFromTheDeadKeepsTheOrder) {
  for (const memory::Options& options :
       {memory::Options{.shards = 3, .clock = &clock}, memory::Options{.clock = &clock},
        memory::Options{.concurrent_transactions = true, .clock = &clock}}) {
    bare_store = store = memory::open(options);
    Texts all;
    for (int n = 1; n <= 60; ++n) {
      all.push_back(write_elsewhere(order_event("a" + std::to_string(n % 11), std::to_string(n))));
    }
    {
      const auto instance = internal::as_one_shard(
          store->join({.capacity = 5, .lease = 1s, .exclusive = true, .total_order = true}),
          options.shards);
      const Lease lease = instance->renew();
      const Rows rows = instance->ready(lease.shards, 0, 20);
      std::vector<StatusUpdate> updates;
      for (const Row& row : rows.rows) {
        const bool head = updates.empty();
        updates.push_back({.row = row.ref,
                           .event_id = row.event.id(),
                           .kind = head ? StatusUpdate::Kind::retry : StatusUpdate::Kind::hold,
                           .lane = internal::kOnlyLane,
                           .attempts = 1,
                           .delay = head ? 3s : 0s});
      }
      ASSERT_TRUE(instance->apply(lease.epoch, updates).stale.empty());
    }
    recorder = std::make_shared<RecordingListener>();
    auto box = open({.mode = Mode::ordered, .queue = {.cold_capacity = 16, .batch = 4}});
    ASSERT_TRUE(eventually([&] {
      clock.advance(100ms);
      box->wake();
      return !store->has_pending();
    }));
    Texts firsts;
    std::set<std::string> seen;
    for (const std::string& id : recorder->ids()) {
      if (seen.insert(id).second) firsts.push_back(id);
    }
    EXPECT_EQ(firsts, all) << options.shards;
  }
}

// Its owner gives up the shards one by one.
TEST_F(BesideOthersTest, AnOrderedInstanceDeliversNothingWhileAPartOfTheShardsIsAnothers) {
  bare_store = store = memory::open({.clock = &clock});
  Barrier barrier;
  auto slow = std::make_shared<RecordingListener>([&](const Event&, const Delivery&) {
    barrier.pass();
    return Outcome::done();
  });
  auto shared = open({.mode = Mode::multi_node, .workers = 2}, slow);
  write(*shared, order_event("1", "1"));
  ASSERT_TRUE(barrier.reached());
  auto ordered = open({.mode = Mode::ordered});
  const OpenAtEnd opened(barrier);
  const auto soon = [&](const std::function<bool()>& condition) {
    return eventually([&] {
      clock.advance(100ms);
      shared->wake();
      ordered->wake();
      return condition();
    });
  };
  // Of the younger one.
  const auto shards = [&] {
    const std::vector<Member> members = store->admin().members();
    return members.size() == 2 ? members[1].shards.size() : 0;
  };
  ASSERT_TRUE(soon([&] { return shards() == 15; })) << "of one shard a call is running";
  Texts rest;
  for (int n = 2; n <= 30; ++n) {
    rest.push_back(std::to_string(n));
    write_elsewhere(order_event(rest.back(), rest.back()));
  }
  int looks = 0;
  ASSERT_TRUE(soon([&] { return ++looks == 20; }));
  EXPECT_FALSE(ordered->owner());
  EXPECT_EQ(recorder->count(), 0U);
  barrier.open();
  ASSERT_TRUE(soon([&] { return ordered->owner() && !store->has_pending(); }));
  EXPECT_EQ(slow->payloads(), Texts{"1"});
  EXPECT_EQ(recorder->payloads(), rest);
}

}  // namespace
}  // namespace outbox::testing
