#include <atomic>
#include <functional>
#include <utility>

#include "outbox/outbox.h"
#include "store/sqlite/test_support.h"

namespace outbox::sqlite {
namespace {

constexpr int kShard[] = {0};
using Ids = std::vector<std::string>;

class ReaderTest : public SqliteTest {
 protected:
  ReaderTest() { instance_->renew(); }

  void write_many(int first, int last) {
    for (int i = first; i <= last; ++i) write_event(*store_, simple_event(std::to_string(i)));
  }

  Ids ready(std::size_t in_flight, std::size_t limit) {
    Ids ids;
    for (const Row& row : instance_->ready(kShard, in_flight, limit).rows) {
      ids.push_back(row.event.id());
    }
    return ids;
  }

  const std::shared_ptr<Store> store_ = open_store();
  std::unique_ptr<Instance> instance_ = store_->join({});
};

TEST_F(ReaderTest, DoesNotReadAgainWhatItHasReturned) {
  write_many(1, 5);
  EXPECT_EQ(ready(0, 2), (Ids{"1", "2"}));
  EXPECT_EQ(ready(2, 2), (Ids{"3", "4"}));
  EXPECT_EQ(ready(4, 2), (Ids{"5"}));
  EXPECT_EQ(ready(5, 2), Ids{});
  write_many(6, 6);
  EXPECT_EQ(ready(5, 2), (Ids{"6"}));
}

TEST_F(ReaderTest, ARewindStartsAtThatRow) {
  write_many(1, 5);
  ready(0, 5);
  instance_->rewind(4);
  EXPECT_EQ(ready(0, 5), (Ids{"4", "5"}));
  instance_->rewind(9);
  EXPECT_EQ(ready(0, 5), Ids{}) << "never forward";
  instance_->rewind(0);
  EXPECT_EQ(ready(0, 5).size(), 5u);
}

TEST_F(ReaderTest, AfterARewindItReadsPastWhatIsInFlight) {
  write_many(1, 6);
  EXPECT_EQ(ready(0, 4).size(), 4u);
  instance_->rewind(0);
  EXPECT_EQ(ready(4, 1), (Ids{"1", "2", "3", "4", "5"}));
}

TEST_F(ReaderTest, ANewEpochStartsAtTheLowestRow) {
  write_many(1, 2);
  EXPECT_EQ(ready(0, 5).size(), 2u);
  instance_->leave();
  instance_->renew();
  EXPECT_EQ(ready(0, 5).size(), 2u);
}

// Writers of other programs commit in the order of their numbers, too: one that
// has the lower one has the lock.
TEST_F(ReaderTest, MissesNothingWhileOthersWrite) {
  constexpr int kEach = 200;
  std::atomic<int> writing{2};
  std::vector<std::jthread> writers;
  for (const char* name : {"a", "b"}) {
    writers.emplace_back([this, name, &writing] {
      const ForeignConnection db(path());
      for (int i = 0; i < kEach; ++i) {
        const std::string values = "('" + (name + std::to_string(i)) + "', 'T', '{}')";
        db.run("INSERT INTO outbox_event (event_id, event_type, payload) VALUES " + values);
      }
      --writing;
    });
  }
  Seq last = 0;
  std::size_t read = 0;
  for (bool final_round = false; !final_round;) {
    final_round = writing == 0;
    for (const Row& row : instance_->ready(kShard, 0, 1'000).rows) {
      EXPECT_GT(row.ref.seq, last);
      last = row.ref.seq;
      ++read;
    }
  }
  EXPECT_EQ(read, 2u * kEach);
}

// Lets something happen right after the time was asked for.
class InterruptedClock final : public Clock {
 public:
  Time now() const override {
    const Time time = host_clock().now();
    if (const auto interruption = std::exchange(next, {})) interruption();
    return time;
  }
  Steady steady() const override { return host_clock().steady(); }

  mutable std::function<void()> next{};
};

TEST_F(ReaderTest, ARowCommittedWhileTheClockWasReadPassedForADelayedOne) {
  const InterruptedClock clock;
  const auto store = open_store({.clock = &clock});
  instance_->leave();
  const auto instance = store->join({});
  instance->renew();
  write_many(1, 1);
  clock.next = [&] {
    // Not on the same tick of the clock.
    for (const Time begin = host_clock().now(); host_clock().now() == begin;) {
    }
    write_many(2, 2);
  };
  for (int read = 0; read < 2; ++read) {
    for (const Row& row : instance->ready(kShard, 0, 10).rows) {
      EXPECT_LE(row.available_in, 0us) << row.event.id();
    }
  }
}

TEST_F(ReaderTest, ManyRowsDueAtOneMomentComeInTheirOrderAndUpToTheLimit) {
  const ForeignConnection db(path());
  db.run(
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50) "
      "INSERT INTO outbox_event (event_id, event_type, payload, hold) "
      "SELECT i, 'T', '{}', CASE WHEN i > 40 THEN -5 ELSE -7 END FROM n");
  const DueRows due = instance_->due(kShard, 15);
  EXPECT_EQ(ids(due.rows), (Ids{"41", "42", "43", "44", "45", "46", "47", "48", "49", "50", "1",
                                "2", "3", "4", "5"}));
  EXPECT_TRUE(due.more);
}

// Delays, while the host's clock is set.

constexpr LaneKey kLane = 7;
using Ids = std::vector<std::string>;

class WaitsTest : public SqliteTest {
 protected:
  void open() {
    instance_.reset();
    store_ = open_store({.log = log_.log(), .clock = &clock_});
    instance_ = store_->join({});
    epoch_ = instance_->renew().epoch;
  }
  WaitsTest() { open(); }

  void write(const std::string& id, Draft draft = {}) {
    draft.id = id;
    draft.type = "Happened";
    draft.payload = json("{}");
    write_event(*store_, make_event(std::move(draft), clock_));
  }
  void update(const std::string& id, StatusUpdate::Kind kind, LaneKey lane,
              std::chrono::microseconds delay = 0us) {
    const StatusUpdate update{.row = store_->admin().find(id)->row.ref,
                              .event_id = id,
                              .kind = kind,
                              .lane = lane,
                              .delay = delay};
    EXPECT_TRUE(instance_->apply(epoch_, {&update, 1}).stale.empty());
  }

  Ids due() { return ids(instance_->due(kShard, 100).rows); }
  std::optional<std::chrono::microseconds> next() { return instance_->due(kShard, 100).next_in; }
  std::chrono::microseconds head() {
    return instance_->held({0, kLane}, 100).rows.at(0).available_in;
  }

  testing::ManualClock clock_;
  testing::RecordingLog log_;
  std::shared_ptr<Store> store_;
  std::unique_ptr<Instance> instance_;
  std::int64_t epoch_ = 0;
};

TEST_F(WaitsTest, ARetryOfASecondWaitedForADay) {
  write("e");
  due();
  update("e", StatusUpdate::Kind::retry, kNoLane, 1s);
  clock_.step(-24h);
  EXPECT_EQ(due(), Ids{});
  EXPECT_EQ(next(), 1s);
  clock_.advance(1s);
  EXPECT_EQ(due(), Ids{"e"});
  EXPECT_TRUE(log_.contains("set back by 86400000 ms: the 1 delays"));
}

TEST_F(WaitsTest, AFailingHeadAndItsAggregateWaitedForADay) {
  write("head");
  write("behind");
  due();
  update("head", StatusUpdate::Kind::retry, kLane, 1s);
  update("behind", StatusUpdate::Kind::hold, kLane);
  clock_.step(-24h);
  EXPECT_EQ(head(), 1s);
  EXPECT_EQ(instance_->held_lanes(0, 0, 10).at(0).available_in, 1s);
  EXPECT_EQ(instance_->held({0, kLane}, 10).rows.at(1).available_in, 0us)
      << "it waits for the head";
  clock_.advance(1s);
  EXPECT_LE(head(), 0us);
}

// It began in the past, by either time: nothing in the row tells that the clock was set.
TEST_F(WaitsTest, AStepThatIsShorterThanTheWaitSoFarIsMadeUpForToo) {
  write("after", {.deliver_after = 2h});
  due();
  clock_.advance(1h);
  due();
  clock_.step(-30min);
  EXPECT_EQ(next(), 1h);
  clock_.advance(1h);
  EXPECT_EQ(due(), Ids{"after"});
}

TEST_F(WaitsTest, WhatIsWrittenByTheNewTimeIsNotMoved) {
  due();
  clock_.step(-24h);
  write("after", {.deliver_after = 1h});
  EXPECT_EQ(next(), 1h);
  clock_.advance(1h - 1us);
  EXPECT_EQ(due(), Ids{});
  clock_.advance(1us);
  EXPECT_EQ(due(), Ids{"after"});
}

TEST_F(WaitsTest, ATimeOfDayIsThatOfTheHostAndMovesWithIt) {
  write("at", {.deliver_at = clock_.now() + 1h});
  due();
  clock_.step(-24h);
  EXPECT_EQ(next(), 25h);
  clock_.step(25h);
  EXPECT_EQ(due(), Ids{"at"});
}

TEST_F(WaitsTest, AfterARestartNothingWaitsForLongerThanItWasToWaitInAll) {
  write("after", {.deliver_after = 1h});
  write("retry");
  write("head");
  due();
  update("retry", StatusUpdate::Kind::defer, kNoLane, 10min);
  update("head", StatusUpdate::Kind::retry, kLane, 20min);
  clock_.step(-24h);
  open();
  EXPECT_EQ(next(), 10min);
  EXPECT_EQ(head(), 20min);
  // Restarts do not make it begin again and again.
  for (int i = 0; i < 6; ++i) {
    clock_.advance(10min);
    open();
  }
  EXPECT_EQ(due(), (Ids{"retry", "after"}));
  EXPECT_LE(head(), 0us);
}

TEST_F(WaitsTest, ClaimersDoNotWaitForADayEither) {
  instance_->leave();
  const auto claimer = store_->join({.row_claims = true});
  const auto other = store_->join({.row_claims = true});
  claimer->renew();
  other->renew();
  write("after", {.deliver_after = 10s});
  write("e");
  ASSERT_EQ(ids(claimer->claim(0ms, 10).rows), Ids{"e"});
  EXPECT_TRUE(other->claim(0ms, 10).rows.empty());
  const StatusUpdate update{.row = store_->admin().find("e")->row.ref,
                            .event_id = "e",
                            .kind = StatusUpdate::Kind::retry,
                            .delay = 10s};
  EXPECT_TRUE(claimer->apply(0, {&update, 1}).stale.empty());
  clock_.step(-24h);
  EXPECT_TRUE(claimer->claim(0ms, 10).rows.empty());
  EXPECT_TRUE(other->claim(0ms, 10).rows.empty()) << "nobody moves them twice";
  clock_.advance(10s);
  EXPECT_EQ(other->claim(0ms, 10).rows.size(), 2u);
}

TEST_F(WaitsTest, TheClaimOfADeadClaimerExpiresInTimeToo) {
  instance_->leave();
  write("e");
  auto dead = store_->join({.row_claims = true, .lock_timeout = 1min});
  dead->renew();
  ASSERT_EQ(dead->claim(0ms, 10).rows.size(), 1u);
  dead.reset();
  clock_.step(-24h);
  const auto claimer = store_->join({.row_claims = true, .lock_timeout = 1min});
  claimer->renew();
  EXPECT_TRUE(claimer->claim(0ms, 10).rows.empty());
  clock_.advance(1min);
  EXPECT_EQ(claimer->claim(0ms, 10).rows.size(), 1u);
}

TEST_F(WaitsTest, ManyAreMovedInSeveralTransactions) {
  std::vector<Event> events;
  events.reserve(2'500);
  for (int i = 0; i < 2'500; ++i) {
    events.push_back(
        make_event({.type = "T", .payload = json("{}"), .deliver_after = 1min}, clock_));
  }
  const auto connection = begun(*store_);
  connection->insert(events, {});
  connection->commit();
  due();
  clock_.step(-24h);
  EXPECT_EQ(next(), 1min);
  clock_.advance(1min);
  EXPECT_EQ(instance_->due(kShard, 10'000).rows.size(), events.size());
}

TEST_F(WaitsTest, ValuesThatCannotBeReckonedWithAreLeftAlone) {
  for (const char* since : {"'text'", "9223372036854775807", "-9223372036854775807", "0.5"}) {
    ForeignConnection(path()).run(
        "INSERT INTO outbox_event (event_id, event_type, payload, hold, locked_at, available_at) "
        "VALUES (" +
        std::string(since == std::string("'text'") ? "'t'" : since) + ", 'T', '{}', -9e17, " +
        since + ", 9223372036854775807)");
  }
  EXPECT_EQ(due(), Ids{});
  clock_.step(-24h);
  EXPECT_EQ(due(), Ids{});
}

TEST_F(WaitsTest, AnEngineGoesOnWhereTheClockWasSetBack) {
  instance_->leave();
  instance_.reset();
  std::atomic<int> calls = 0;
  const auto recorder = std::make_shared<testing::RecordingListener>(
      [&](const Event& event, const Delivery&) -> Outcome {
        if (event.payload() == "1" && calls++ == 0) throw std::runtime_error("not now");
        return Outcome::done();
      });
  Listeners on;
  on.add("Order", "Happened", recorder);
  const auto each_second = std::make_shared<ExponentialBackoff>(
      ExponentialBackoffOptions{.base = 1s, .max = 1s, .random = [] { return 0.5; }});
  Outbox box(store_, on, {.retry = {.policy = each_second}, .log = log_.log()});
  box.start();
  const auto write_order = [&](const char* payload,
                               std::optional<std::chrono::microseconds> after) {
    auto tx = box.begin();
    tx.write({.type = "Happened",
              .aggregate_type = "Order",
              .aggregate_id = "1",
              .payload = json(payload),
              .deliver_after = after});
    tx.commit();
  };
  write_order("1", {});
  ASSERT_TRUE(recorder->wait_for(1));
  ASSERT_TRUE(test::eventually([&] { return store_->counts().retry == 1; }));
  write_order("2", {});
  write_order("3", 1s);
  clock_.step(-24h);
  // Well below the day, whatever the machine does meanwhile.
  for (int seconds = 0; seconds < 600 && recorder->count() < 4; ++seconds) {
    clock_.advance(1s);
    box.wake();
    static_cast<void>(recorder->wait_for(4, 100ms));
  }
  EXPECT_EQ(recorder->count(), 4u);
  EXPECT_LT(clock_.steady().time_since_epoch(), 1h);
  box.close();
}

}  // namespace

}  // namespace outbox::sqlite
