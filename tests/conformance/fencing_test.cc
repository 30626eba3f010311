// Rule 22: updates that come too late, in each of the ways in which that happens. Often two fences
// stand in the way of such an update; these tests leave it only one.
#include <atomic>
#include <functional>
#include <future>
#include <map>
#include <thread>

#include "network.h"
#include "support/stores.h"

namespace outbox::conformance {
namespace {

using Kind = StatusUpdate::Kind;
using Stale = std::vector<std::size_t>;

constexpr Kind kAll[] = {Kind::done, Kind::retry,   Kind::defer,  Kind::dead,
                         Kind::hold, Kind::crashes, Kind::unblock};

// That would change every column if it were applied.
StatusUpdate filled(StatusUpdate update) {
  update.lane = update.kind == Kind::unblock ? kNoLane : 3;
  update.attempts = 4;
  update.crashes = 4;
  update.delay = 1h;
  update.error = "late";
  update.progress = "late";
  return update;
}

// An event for updates of that kind: a dead one that blocks its lane, to be unblocked.
const std::string& subject_of(Kind kind) {
  static const std::string pending = "pending";
  static const std::string blocking = "blocking";
  return kind == Kind::unblock ? blocking : pending;
}

TEST_P(FencingTest, AnInstanceThatRegisteredAgainIsFencedWithItsOldEpoch) {
  write({event({.id = "pending"}), event({.id = "blocking"})});
  Owner owner = own_everything();
  apply(owner, {dead("blocking", "no", 5)});
  const std::int64_t old = owner.lease.epoch;
  owner->leave();
  owner.lease = owner->renew();
  ASSERT_GT(owner.lease.epoch, old);
  for (const Kind kind : kAll) {
    const EventRecord before = record(subject_of(kind));
    const std::vector late{filled(update(subject_of(kind), kind))};
    EXPECT_TRUE(owner->apply(old, late).fenced) << static_cast<int>(kind);
    expect_same(record(subject_of(kind)), before);
  }
  apply(owner, {update("pending", Kind::done), update("blocking", Kind::unblock)});
}

TEST_P(FencingTest, AnInstanceThatWasDeclaredDeadAndIsBackIsFencedWithItsOldEpoch) {
  OUTBOX_NEEDS(capabilities().expiring_leases);
  write({event({.id = "pending"}), event({.id = "blocking"})});
  Owner back = own_everything({.name = "back", .lease = 15s});
  apply(back, {dead("blocking", "no", 5)});
  const std::int64_t old = back.lease.epoch;
  advance(16s);
  own_everything({.name = "heir", .lease = 15s})->leave();
  back.lease = back->renew();
  ASSERT_GT(back.lease.epoch, old);
  for (const Kind kind : kAll) {
    const EventRecord before = record(subject_of(kind));
    const std::vector late{filled(update(subject_of(kind), kind))};
    EXPECT_TRUE(back->apply(old, late).fenced) << static_cast<int>(kind);
    expect_same(record(subject_of(kind)), before);
  }
  apply(back, {update("pending", Kind::done), update("blocking", Kind::unblock)});
}

TEST_P(FencingTest, AnOldEpochRemovesNothingEither) {
  OUTBOX_NEEDS(backend().removes_done());
  open({.remove_done = true});
  write(event({.id = "e"}));
  Owner owner = own_everything();
  const std::int64_t old = owner.lease.epoch;
  owner->leave();
  owner.lease = owner->renew();
  EXPECT_TRUE(owner->apply(old, std::vector{update("e", Kind::done)}).fenced);
  EXPECT_TRUE(store().admin().find("e"));
  apply(owner, {update("e", Kind::done)});
  EXPECT_FALSE(store().admin().find("e"));
}

TEST_P(FencingTest, UpdatesForAShardThatWasReleasedWithinTheEpochAreStale) {
  OUTBOX_NEEDS(capabilities().shards > 1);
  std::map<int, std::vector<std::string>> in_shard;
  for (int i = 0; i < 300; ++i) {
    const std::string id = "e" + std::to_string(i);
    in_shard[write(event({.id = id})).shard].push_back(id);
  }
  Owner first = own_everything();
  Owner heir{.instance = store().join({}), .lease = {}};
  heir->renew();
  const Lease shrunk = first.lease = first->renew();
  ASSERT_FALSE(shrunk.draining.empty());
  const int released = shrunk.draining[0];
  const std::string& pending = in_shard.at(released).at(0);
  const std::string& blocking = in_shard.at(released).at(1);
  const std::string& kept = in_shard.at(shrunk.shards.at(0)).at(0);
  apply(first, {dead(blocking, "no", 5)});
  first.release(released);
  heir.lease = heir->renew();
  ASSERT_EQ(heir.shards(), std::vector{released});

  for (const Kind kind : kAll) {
    const std::string& id = kind == Kind::unblock ? blocking : pending;
    const EventRecord before = record(id);
    StatusUpdate own = update(kept, Kind::crashes);
    own.crashes = 1 + static_cast<int>(kind);
    const UpdateResult result = first.apply(std::vector{own, filled(update(id, kind))});
    EXPECT_FALSE(result.fenced);
    EXPECT_EQ(result.stale, Stale{1}) << static_cast<int>(kind);
    expect_same(record(id), before);
    EXPECT_EQ(record(kept).row.crashes, own.crashes);
  }
  apply(heir, {update(pending, Kind::done)});
  EXPECT_EQ(record(pending).row.status, Status::done);
}

TEST_P(FencingTest, NothingIsRemovedOfAShardThatWasReleasedWithinTheEpoch) {
  OUTBOX_NEEDS(backend().removes_done());
  open({.remove_done = true});
  OUTBOX_NEEDS(capabilities().shards > 1);
  std::map<int, std::string> in_shard;
  for (int i = 0; i < 200; ++i) {
    const std::string id = "e" + std::to_string(i);
    in_shard[write(event({.id = id})).shard] = id;
  }
  const Owner first = own_everything();
  const auto second = store().join({});
  second->renew();
  const Lease shrunk = first->renew();
  ASSERT_FALSE(shrunk.draining.empty());
  const std::string released = in_shard.at(shrunk.draining[0]);
  const std::string kept = in_shard.at(shrunk.shards.at(0));
  first->release(shrunk.draining[0]);
  second->renew();
  const UpdateResult result =
      first.apply(std::vector{update(released, Kind::done), update(kept, Kind::done)});
  EXPECT_FALSE(result.fenced);
  EXPECT_EQ(result.stale, Stale{0});
  EXPECT_TRUE(store().admin().find(released))
      << "an event that its new owner has not delivered is gone";
  EXPECT_FALSE(store().admin().find(kept));
}

TEST_P(FencingTest, EveryUpdateOfAClaimerWhoseLockExpiredIsStale) {
  OUTBOX_NEEDS(capabilities().row_claims);
  write({event({.id = "a"}), event({.id = "b"})});
  const InstanceOptions options{.row_claims = true, .lock_timeout = 5min};
  const auto late = store().join(options);
  const auto next = store().join(options);
  late->renew();
  next->renew();
  ASSERT_EQ(late->claim(0ms, 10).rows.size(), 2u);
  advance(5min + backend().clock_error() + 1ms);
  ASSERT_EQ(next->claim(0ms, 10).rows.size(), 2u);
  for (const Kind kind : kAll) {
    if (kind == Kind::unblock) continue;  // nobody claims what is dead
    const EventRecord before = record("a");
    // Alone, and with another one: a store may send those in another way.
    const std::vector both{filled(update("a", kind)), filled(update("b", kind))};
    EXPECT_EQ(late->apply(0, std::span(both).first(1)).stale, Stale{0}) << static_cast<int>(kind);
    EXPECT_EQ(late->apply(0, both).stale, (Stale{0, 1})) << static_cast<int>(kind);
    expect_same(record("a"), before);
    expect_same(record("b"), before);
  }
  EXPECT_TRUE(
      next->apply(0, std::vector{update("a", Kind::done), update("b", Kind::done)}).stale.empty());
}

TEST_P(FencingTest, AClaimerWhoseLockExpiredRemovesNothing) {
  OUTBOX_NEEDS(backend().removes_done());
  open({.remove_done = true});
  OUTBOX_NEEDS(capabilities().row_claims);
  write({event({.id = "a"}), event({.id = "b"})});
  const InstanceOptions options{.row_claims = true, .lock_timeout = 5min};
  const auto late = store().join(options);
  const auto next = store().join(options);
  late->renew();
  next->renew();
  ASSERT_EQ(late->claim(0ms, 10).rows.size(), 2u);
  advance(5min + backend().clock_error() + 1ms);
  ASSERT_EQ(next->claim(0ms, 10).rows.size(), 2u);
  const std::vector both{update("a", Kind::done), update("b", Kind::done)};
  EXPECT_EQ(late->apply(0, std::span(both).first(1)).stale, Stale{0});
  EXPECT_EQ(late->apply(0, both).stale, (Stale{0, 1}));
  EXPECT_TRUE(store().admin().find("a"));
  EXPECT_TRUE(store().admin().find("b"));
}

// Updates and take-overs at the same moment. Each statement has a fence of its own.

using test::eventually;

struct Late {
  Kind kind;
  bool remove_done = false;
};

class Race {
 public:
  Race(std::shared_ptr<Store> store, Kind kind)
      : store_(std::move(store)), instance_(store_->join({.lease = 60s})) {
    lease_ = instance_->renew();
    EXPECT_EQ(lease_.shards.size(), 16u);
    for (const char* id : {"free", "locked"}) {
      test::write_event(*store_, test::simple_event(id));
      updates_.push_back({.row = store_->admin().find(id)->row.ref,
                          .event_id = id,
                          .kind = kind,
                          .attempts = 1,
                          .delay = 1h,
                          .error = "not yet"});
    }
  }

  // As an engine does: until it is known what became of them.
  std::future<UpdateResult> apply() {
    return std::async(std::launch::async, [this] {
      for (;;) {
        try {
          return instance_->apply(lease_.epoch, updates_);
        } catch (const RetryableError&) {
          // It waits for a lock for a while only.
        }
      }
    });
  }

 private:
  std::shared_ptr<Store> store_;
  std::unique_ptr<Instance> instance_;
  Lease lease_;
  std::vector<StatusUpdate> updates_;
};

constexpr Late kLate[] = {{Kind::done}, {Kind::done, true}, {Kind::retry}, {Kind::dead}};
constexpr const char* kTakeOver = "DELETE FROM {table}_instance";
constexpr const char* kPending = "SELECT count(*) FROM {table} WHERE status = 0";

TEST_P(TakeOverTest, ATakeOverThatWasQuickerFencesAnUpdateThatWaitedForIt) {
  for (const auto& [kind, remove_done] : kLate) {
    SCOPED_TRACE(static_cast<int>(kind));
    database().drop_objects();  // and with them who owned what
    const auto store = open_store({.remove_done = remove_done});
    Race late(store, kind);
    const auto heir = database().connect(database().url());
    heir->execute("BEGIN; " + named(kTakeOver));
    auto applying = late.apply();
    EXPECT_TRUE(eventually([&] {
      return remote().are_waiting(1) || applying.wait_for(0s) == std::future_status::ready;
    }));
    heir->execute("COMMIT");
    EXPECT_TRUE(applying.get().fenced);
    EXPECT_EQ(value(kPending), "2") << "changed by one who does not own it any more";
  }
}

// Else the update could take effect after it.
TEST_P(TakeOverTest, ATakeOverWaitsForAnUpdateThatIsUnderWay) {
  for (const auto& [kind, remove_done] : kLate) {
    SCOPED_TRACE(static_cast<int>(kind));
    database().drop_objects();  // and with them who owned what
    const auto store = open_store({.remove_done = remove_done});
    Race early(store, kind);
    const auto stranger = database().connect(database().url());
    stranger->execute(
        named("BEGIN; SELECT event_id FROM {table} WHERE event_id = 'locked' FOR UPDATE"));
    auto applying = early.apply();
    EXPECT_TRUE(eventually([&] { return remote().are_waiting(1); }));

    std::atomic<bool> taken{false};
    std::string found;
    std::jthread taking_over([&] {
      const auto heir = database().connect(database().url());
      heir->execute(named(kTakeOver));
      found = heir->value(named(kPending));
      taken = true;
    });
    EXPECT_TRUE(eventually([&] { return taken || remote().are_waiting(2); }));
    EXPECT_FALSE(taken);
    stranger->execute("ROLLBACK");
    const UpdateResult result = applying.get();
    taking_over.join();
    EXPECT_FALSE(result.fenced);
    EXPECT_TRUE(result.stale.empty());
    EXPECT_EQ(found, "0") << "delivered again by the heir, and finished by the old owner";
    EXPECT_EQ(value(kPending), "0");
  }
}

}  // namespace

// Where no store with a server is built.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TakeOverTest);

}  // namespace outbox::conformance
