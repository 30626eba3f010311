// Rules 6, 25, 28 and 29: what is read, in which order, and where it starts.
#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "base/time_text.h"
#include "network.h"
#include "support/stores.h"

namespace outbox::conformance {
namespace {

using Ids = std::vector<std::string>;

TEST_P(ReadingTest, ReadyRowsComeInTheOrderOfTheirSeqWithinEachShard) {
  std::vector<Event> events;
  for (int i = 0; i < 60; ++i) {
    // Neither ids nor times grow with the seq.
    events.push_back(event({.id = "e" + std::to_string(997 * i % 100),
                            .aggregate_id = std::to_string(i % 7),
                            .occurred_at = now() - 1s * (i % 5)}));
  }
  write(events);
  const Owner owner = own_everything();
  const std::vector<Row> rows = owner->ready(owner.shards(), 0, 100).rows;
  EXPECT_EQ(rows.size(), 60u);
  for (const int shard : owner.shards()) {
    Seq last = 0;
    for (const Row& row : rows) {
      if (row.ref.shard != shard) continue;
      EXPECT_GT(row.ref.seq, last);
      last = row.ref.seq;
    }
  }
}

// In nanoseconds, which clocks count, a few centuries overflow.
TEST_P(ReadingTest, HowLongAnEventOfTheYear9999WaitsFitsEveryClock) {
  constexpr auto kAYear = 365 * 24h;
  write({event({.id = "far", .occurred_at = now(), .available_at = kLatestTime})});
  const Owner owner = own_everything();
  hold_delayed(owner);
  const DueRows due = owner->due(owner.shards(), 10);
  EXPECT_TRUE(due.rows.empty());
  ASSERT_TRUE(due.next_in);
  EXPECT_EQ(*due.next_in, kAYear);
  const auto record = store().admin().find("far");
  ASSERT_TRUE(record);
  EXPECT_EQ(record->row.available_in, kAYear);
  EXPECT_EQ(record->row.event.available_at(), kLatestTime);
}

TEST_P(ReadingTest, ALimitCutsTheResultAndSaysSo) {
  write_aggregate("1", {"a", "b", "c"});
  const Owner owner = own_everything();
  const Rows cut = owner->ready(owner.shards(), 0, 2);
  EXPECT_EQ(ids(cut.rows), (Ids{"a", "b"}));
  EXPECT_TRUE(cut.more);
  owner->rewind(0);
  const Rows whole = owner->ready(owner.shards(), 0, 100);
  EXPECT_EQ(ids(whole.rows), (Ids{"a", "b", "c"}));
  EXPECT_FALSE(whole.more);
}

// Small ones come with their rows; some stores fetch large ones apart.
TEST_P(ReadingTest, AReadEndsWithTheRowThatReachesItsBytes) {
  std::map<std::string, std::string> payloads;
  std::vector<Event> events;
  for (const std::size_t size : {std::size_t{10}, std::size_t{20'000}}) {
    for (const char letter : {'a', 'b', 'c', 'd', 'e'}) {
      const std::string id = letter + std::to_string(size);
      payloads[id] =
          letter % 2 == 0 ? std::string(size, letter) : "\"" + std::string(size - 2, letter) + "\"";
      events.push_back(
          event({.id = id,
                 .aggregate_id = "1",
                 .payload = letter % 2 == 0 ? bytes(payloads[id]) : json(payloads[id])}));
    }
  }
  write(events);
  const Owner owner = own_everything();
  std::set<std::string, std::less<>> taken;
  bool more = false;
  const auto read_on = [&](std::size_t most_bytes) {
    const auto has = [&](std::string_view id) { return taken.contains(id); };
    const Rows read = owner->ready(owner.shards(), taken.size(), {100, most_bytes, has});
    std::vector<std::string> found;
    for (const Row& row : read.rows) {
      if (taken.contains(row.event.id())) continue;
      EXPECT_FALSE(row.without_payload);
      EXPECT_EQ(row.event.payload(), payloads[row.event.id()]);
      EXPECT_EQ(row.event.is_json(), row.event.id()[0] % 2 != 0);
      found.push_back(row.event.id());
    }
    taken.insert(found.begin(), found.end());
    more = read.more;
    return found;
  };
  EXPECT_EQ(read_on(25), (Ids{"a10", "b10", "c10"}));
  EXPECT_TRUE(more);
  EXPECT_EQ(read_on(1), Ids{"d10"}) << "one at least";
  EXPECT_EQ(read_on(20'011), (Ids{"e10", "a20000", "b20000"}));
  EXPECT_EQ(read_on(1), Ids{"c20000"}) << "however large it is";
  EXPECT_TRUE(more);
  owner->rewind(0);
  EXPECT_EQ(read_on(20'000), Ids{"d20000"}) << "what is taken does not count";
  owner->rewind(0);
  EXPECT_EQ(read_on(1'000'000), Ids{"e20000"});
  EXPECT_FALSE(more);
}

TEST_P(ReadingTest, AReadOfDueRowsEndsWithTheRowThatReachesItsBytes) {
  std::vector<Event> events;
  for (const char letter : {'a', 'b', 'c', 'd'}) {
    // The later it is written, the earlier it is due.
    events.push_back(event({.id = std::string(1, letter),
                            .aggregate_id = "1",
                            .payload = bytes(std::string(20'000, letter)),
                            .available_at = now() + 1h - (letter - 'a') * 1s}));
  }
  write(events);
  const Owner owner = own_everything();
  hold_delayed(owner);
  advance(2h);
  const DueRows two = owner->due(owner.shards(), {100, 20'001, {}});
  EXPECT_EQ(ids(two.rows), (Ids{"d", "c"}));
  EXPECT_TRUE(two.more);
  const auto has = [](std::string_view id) { return id == "d" || id == "c"; };
  const DueRows next = owner->due(owner.shards(), {100, 1, has});
  ASSERT_FALSE(next.rows.empty());
  EXPECT_EQ(next.rows.back().event.id(), "b");
  EXPECT_EQ(next.rows.back().event.payload(), std::string(20'000, 'b'));
  EXPECT_TRUE(next.more);
  EXPECT_EQ(ids(owner->due(owner.shards(), 100).rows), (Ids{"d", "c", "b", "a"}));
}

TEST_P(ReadingTest, RowsBeyondThoseInFlightAreReached) {
  Ids expected;
  std::vector<Event> events;
  for (int i = 0; i < 40; ++i) {
    expected.push_back("e" + std::to_string(i));
    events.push_back(event({.id = expected.back()}));
  }
  write(events);
  const Owner owner = own_everything();
  // As an engine does that updates nothing: it knows what it has.
  std::set<std::string> known;
  Ids admitted;
  for (int round = 0; round < 20 && known.size() < 40; ++round) {
    for (const std::string& id : ids(owner->ready(owner.shards(), known.size(), 5).rows)) {
      if (known.insert(id).second) admitted.push_back(id);
    }
  }
  std::sort(admitted.begin(), admitted.end());
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(admitted, expected);
}

TEST_P(ReadingTest, WhatIsCommittedBeforeAReadIsInIt) {
  const Owner owner = own_everything();
  EXPECT_TRUE(owner->ready(owner.shards(), 0, 10).rows.empty());
  for (int i = 0; i < 20; ++i) {
    const std::string id = "e" + std::to_string(i);
    write(event({.id = id}));
    const Ids read = ids(owner->ready(owner.shards(), static_cast<std::size_t>(i), 10).rows);
    EXPECT_NE(std::find(read.begin(), read.end(), id), read.end()) << id;
  }
}

TEST_P(ReadingTest, RewindBringsBackWhatWasReadFromThatRowOn) {
  const auto refs = write_aggregate("1", {"a", "b", "c", "d"});
  const Owner owner = own_everything();
  EXPECT_EQ(owner->ready(owner.shards(), 0, 10).rows.size(), 4u);

  owner->rewind(refs[2].seq);
  const Ids from_third = ids(owner->ready(owner.shards(), 0, 10).rows);
  EXPECT_NE(std::find(from_third.begin(), from_third.end(), "c"), from_third.end());
  EXPECT_NE(std::find(from_third.begin(), from_third.end(), "d"), from_third.end());

  owner->rewind(0);
  EXPECT_EQ(ids(owner->ready(owner.shards(), 0, 10).rows), (Ids{"a", "b", "c", "d"}));
}

TEST_P(ReadingTest, RewindingForwardSkipsNothing) {
  const auto refs = write_aggregate("1", {"a", "b"});
  const Owner owner = own_everything();
  owner->rewind(refs[1].seq + 100);
  EXPECT_EQ(ids(owner->ready(owner.shards(), 0, 10).rows), (Ids{"a", "b"}));
}

TEST_P(ReadingTest, WhatIsDelayedHeldOrFinishedIsNotReady) {
  write_aggregate("1", {"ready", "done", "dead", "retry", "hold"});
  write(event({.id = "delayed", .available_at = now() + 1h}));
  const Owner owner = own_everything();
  StatusUpdate retry = update("retry", StatusUpdate::Kind::retry);
  retry.delay = 1s;
  hold_delayed(owner);
  StatusUpdate held = update("hold", StatusUpdate::Kind::hold);
  held.lane = 5;
  apply(owner, {update("done", StatusUpdate::Kind::done), update("dead", StatusUpdate::Kind::dead),
                retry, held});
  EXPECT_EQ(ids(ready(owner)), Ids{"ready"});
}

TEST_P(ReadingTest, EachShardIsReadAlone) {
  std::set<std::string> expected;
  for (int i = 0; i < 100; ++i) {
    expected.insert("e" + std::to_string(i));
    write(event({.id = "e" + std::to_string(i)}));
  }
  const Owner owner = own_everything();
  std::set<std::string> read;
  for (const int shard : owner.shards()) {
    for (const Row& row : owner->ready(std::vector{shard}, 0, 1'000).rows) {
      EXPECT_EQ(row.ref.shard, shard);
      EXPECT_TRUE(read.insert(row.event.id()).second) << row.event.id() << " in two shards";
    }
  }
  EXPECT_EQ(read, expected);
  EXPECT_TRUE(owner->ready({}, 0, 10).rows.empty());
}

TEST_P(ReadingTest, DueRowsComeEarliestFirstAndInSeqOrderWhenDueTogether) {
  write({event({.id = "late", .available_at = now() + 3s}),
         event({.id = "same-1", .available_at = now() + 2s}),
         event({.id = "early", .available_at = now() + 1s}),
         event({.id = "same-2", .available_at = now() + 2s}),
         event({.id = "same-3", .available_at = now() + 2s})});
  const Owner owner = own_everything();
  hold_delayed(owner);
  advance(10s);
  const DueRows due = owner->due(owner.shards(), 10);
  EXPECT_EQ(ids(due.rows), (Ids{"early", "same-1", "same-2", "same-3", "late"}));
  EXPECT_FALSE(due.more);
  EXPECT_FALSE(due.next_in);
  EXPECT_LE(due.rows[0].available_in, 0us);

  const DueRows cut = owner->due(owner.shards(), 2);
  EXPECT_EQ(ids(cut.rows), (Ids{"early", "same-1"}));
  EXPECT_TRUE(cut.more);
}

TEST_P(ReadingTest, TheNextDueTimeIsKnownBeforeItComes) {
  const Owner owner = own_everything();
  EXPECT_FALSE(owner->due(owner.shards(), 10).next_in) << "nothing waits";
  write({event({.id = "b", .available_at = now() + 20s}),
         event({.id = "a", .available_at = now() + 5s})});
  hold_delayed(owner);
  DueRows due = owner->due(owner.shards(), 10);
  EXPECT_TRUE(due.rows.empty());
  ASSERT_TRUE(due.next_in);
  expect_time(*due.next_in, 5s);

  advance(6s);
  due = owner->due(owner.shards(), 10);
  EXPECT_EQ(ids(due.rows), Ids{"a"});
  ASSERT_TRUE(due.next_in);
  expect_time(*due.next_in, 14s);
}

TEST_P(ReadingTest, RowsThatAreReadSayHowLongUntilTheyAreAvailable) {
  write_aggregate("1", {"a"});
  const Owner owner = own_everything();
  StatusUpdate retry = update("a", StatusUpdate::Kind::retry);
  retry.lane = 9;
  retry.delay = 30s;
  apply(owner, {retry});
  advance(10s);
  const Rows held = owner->held({ref("a").shard, 9}, 10);
  ASSERT_EQ(held.rows.size(), 1u);
  expect_time(held.rows[0].available_in, 20s);
}

TEST_P(ReadingTest, ARowOfAnotherProgramIsServedLikeAnyOther) {
  OUTBOX_NEEDS(backend().insert_raw(store(), {.id = "raw", .headers = R"({"a":"b"})"}));
  const Owner owner = own_everything();
  const std::vector<Row> rows = ready(owner);
  ASSERT_EQ(ids(rows), Ids{"raw"});
  EXPECT_EQ(rows[0].defect, "");
  EXPECT_EQ(rows[0].event.headers(), (Headers{{"a", "b"}}));
  apply(owner, {update("raw", StatusUpdate::Kind::done)});
}

TEST_P(ReadingTest, NullBlankAndNullTextHeadersAreNoHeaders) {
  OUTBOX_NEEDS(backend().insert_raw(store(), {.id = "null"}));
  backend().insert_raw(store(), {.id = "blank", .headers = ""});
  backend().insert_raw(store(), {.id = "spaces", .headers = " \n"});
  backend().insert_raw(store(), {.id = "text", .headers = "null"});
  backend().insert_raw(store(), {.id = "object", .headers = "{}"});
  for (const char* id : {"null", "blank", "spaces", "text", "object"}) {
    EXPECT_EQ(record(id).row.event.headers(), Headers{}) << id;
    EXPECT_EQ(record(id).row.defect, "") << id;
  }
}

TEST_P(ReadingTest, ARowThatCannotBeDecodedSaysSoAndTheOthersComeThrough) {
  OUTBOX_NEEDS(backend().insert_raw(store(), {.id = "a"}));
  backend().insert_raw(store(), {.id = "bad", .headers = "{\"a\":"});
  backend().insert_raw(store(), {.id = "b"});
  const Owner owner = own_everything();
  const std::vector<Row> rows = ready(owner);
  ASSERT_EQ(ids(rows), (Ids{"a", "bad", "b"}));
  EXPECT_EQ(rows[0].defect, "");
  EXPECT_NE(rows[1].defect, "");
  EXPECT_EQ(rows[2].defect, "");
  StatusUpdate dead = update("bad", StatusUpdate::Kind::dead);
  dead.error = rows[1].defect;
  apply(owner, {dead});
  EXPECT_EQ(record("bad").last_error, rows[1].defect);
}

// The host's clocks, its time of day wrong.
class WrongClock final : public Clock {
 public:
  explicit WrongClock(std::chrono::microseconds error) : error_(error) {}
  Time now() const override { return host_clock().now() + error_; }
  Steady steady() const override { return host_clock().steady(); }

 private:
  const std::chrono::microseconds error_;
};

// Events with a delay wait for it by the database's clock.
TEST_P(ServersClockTest, ADelayIsCountedByItWhateverTheWritersClockSays) {
  for (const auto error : {-24h, 24h}) {
    const WrongClock clock(error);
    const std::shared_ptr<Store> store = open_store({.clock = &clock});
    for (const int count : {1, 3, 64, 600}) {
      std::vector<Event> events;
      events.reserve(static_cast<std::size_t>(count));
      for (int i = 0; i < count; ++i) {
        events.push_back(
            make_event({.type = "Happened", .payload = json("{}"), .deliver_after = 1h}, clock));
      }
      const auto connection = test::begun(*store);
      connection->insert(events, {});
      connection->commit();
    }
    const auto instance = store->join({});
    const DueRows due = instance->due(instance->renew().shards, 10);
    EXPECT_TRUE(due.rows.empty()) << "delivered at once";
    ASSERT_TRUE(due.next_in);
    EXPECT_GT(*due.next_in, 50min);
    EXPECT_LE(*due.next_in, 1h);
    const auto records = store->admin().list({}, 0, 10'000);
    EXPECT_EQ(records.size() % 668, 0u);
    for (const EventRecord& record : records) {
      EXPECT_GT(record.row.available_in, 50min);
      EXPECT_LE(record.row.available_in, 1h);
    }
    instance->leave();
  }
}

// Notes take their numbers when they are written, and are seen when they are committed.
TEST_P(LateCommitTest, ANoteOfAFreedLaneIsNotForgotten) {
  const auto store = open_store();
  const auto instance = store->join({.lease = 60s});
  const std::vector<int> shards = instance->renew().shards;
  const auto freed = [&] {
    std::vector<LaneKey> lanes;
    for (const LaneRef& lane : instance->unblocked(shards, 10)) lanes.push_back(lane.key);
    return lanes;
  };
  const std::string note = "INSERT INTO {table}_unblocked (shard, lane) VALUES (0, ";
  for (const bool looks_in_between : {false, true}) {
    const auto late = database().connect(database().url());
    late->execute("BEGIN; " + named(note) + "7)");
    run(note + "8)");
    EXPECT_EQ(freed(), std::vector<LaneKey>{8});
    if (looks_in_between) {
      EXPECT_EQ(freed(), std::vector<LaneKey>{}) << "it does not wait for the other note";
    }
    late->execute("COMMIT");
    EXPECT_EQ(freed(), std::vector<LaneKey>{7}) << "its lane waits until somebody sweeps";
    EXPECT_EQ(freed(), std::vector<LaneKey>{});
  }
}

}  // namespace

// Where no store with a server is built.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ServersClockTest);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(LateCommitTest);

}  // namespace outbox::conformance
