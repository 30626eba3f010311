#include "store/sqlite/rows.h"

#include <algorithm>

#include "outbox/outbox.h"
#include "store/sqlite/test_support.h"

namespace outbox::sqlite {
namespace {

constexpr int kShard[] = {0};

class RowsTest : public SqliteTest {
 protected:
  std::vector<Row> ready() {
    const auto instance = store_->join({});
    return instance->ready(kShard, 0, 10'000).rows;
  }

  const std::shared_ptr<Store> store_ = open_store();
  const ForeignConnection db_{path()};
};

TEST_F(RowsTest, APlainInsertOfThreeColumnsIsAnEvent) {
  const Time before = host_clock().now();
  db_.run(
      "INSERT INTO outbox_event (event_id, event_type, payload) "
      "VALUES ('plain', 'OrderPlaced', '{\"a\" : 1.10}')");
  const auto rows = ready();
  ASSERT_EQ(rows.size(), 1u);
  const Row& row = rows[0];
  EXPECT_EQ(row.defect, "");
  EXPECT_EQ(row.event.id(), "plain");
  EXPECT_EQ(row.event.type(), "OrderPlaced");
  EXPECT_EQ(row.event.aggregate_type(), kGlobalAggregate);
  EXPECT_EQ(row.event.aggregate_id(), "");
  EXPECT_EQ(row.event.payload(), "{\"a\" : 1.10}");
  EXPECT_TRUE(row.event.is_json());
  EXPECT_EQ(row.event.content_type(), "application/json");
  EXPECT_TRUE(row.event.headers().empty());
  EXPECT_EQ(row.event.occurred_at(), row.event.available_at());
  EXPECT_GT(row.event.occurred_at(), before - 10s) << "the default is the time in UTC";
  EXPECT_LT(row.event.occurred_at(), host_clock().now() + 10s);
  EXPECT_LE(row.available_in, 0us);
}

TEST_F(RowsTest, TheStorageClassTellsJsonFromBytes) {
  db_.run(
      "INSERT INTO outbox_event (event_id, event_type, payload, content_type) VALUES "
      "('a', 'T', x'00ff', NULL), ('b', 'T', x'', 'image/png'), ('c', 'T', '1', 'text/x')");
  const auto rows = ready();
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_FALSE(rows[0].event.is_json());
  EXPECT_EQ(rows[0].event.payload(), std::string("\0\xff", 2));
  EXPECT_EQ(rows[0].event.content_type(), "application/octet-stream");
  EXPECT_FALSE(rows[1].event.is_json());
  EXPECT_EQ(rows[1].event.payload(), "");
  EXPECT_EQ(rows[1].event.content_type(), "image/png");
  EXPECT_TRUE(rows[2].event.is_json());
  EXPECT_EQ(rows[2].event.content_type(), "text/x");
}

TEST_F(RowsTest, WhatCannotBeDecodedIsADefectAndTheBatchGoesOn) {
  db_.run("INSERT INTO outbox_event (event_id, event_type, payload) VALUES ('no type', '', '{}')");
  db_.run("INSERT INTO outbox_event (event_id, event_type, payload) VALUES ('number', 'T', 42)");
  db_.run(
      "INSERT INTO outbox_event (event_id, event_type, payload, headers) "
      "VALUES ('headers', 'T', '{}', '{\"a\":')");
  db_.run(
      "INSERT INTO outbox_event (event_id, event_type, payload, created_at) "
      "VALUES ('time', 'T', '{}', '2026-01-01 12:00')");
  db_.run(
      "INSERT INTO outbox_event (event_id, event_type, payload, available_at) "
      "VALUES ('time too', 'T', '{}', 1.5)");
  db_.run(
      "INSERT INTO outbox_event (event_id, event_type, payload, available_at) "
      "VALUES ('time far', 'T', '{}', -9223372036854775808)");
  db_.run("INSERT INTO outbox_event (event_id, event_type, payload) VALUES ('good', 'T', '{}')");
  const auto rows = ready();
  ASSERT_EQ(rows.size(), 7u);
  EXPECT_TRUE(contains(rows[0].defect, "event_type is empty"));
  EXPECT_TRUE(contains(rows[1].defect, "stored as INTEGER"));
  EXPECT_TRUE(contains(rows[2].defect, "headers cannot be decoded"));
  EXPECT_TRUE(contains(rows[3].defect, "created_at is stored as TEXT"));
  EXPECT_TRUE(contains(rows[4].defect, "available_at is stored as REAL"));
  EXPECT_TRUE(contains(rows[5].defect, "available_at is -9223372036854775808"));
  EXPECT_EQ(rows[6].defect, "");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].ref.seq, static_cast<Seq>(i + 1));
    EXPECT_NE(rows[i].event.id(), "");
  }
}

// They were cut to an int: 2^32 became 0, and counting on from 2^31 - 1 overflowed.
TEST_F(RowsTest, CountsThatNoIntHoldsAreADefectAndDoNotOverflow) {
  for (const char* count : {"2147483647", "4294967296", "9223372036854775807", "-1"}) {
    db_.run(
        "INSERT INTO outbox_event (event_id, event_type, payload, status, attempts, crashes) "
        "VALUES ('" +
        std::string(count) + "', 'T', '{}', 2, " + count + ", " + count + ")");
  }
  const auto rows = ready();
  ASSERT_EQ(rows.size(), 4u);
  for (const Row& row : rows) {
    EXPECT_TRUE(contains(row.defect, "attempts is " + row.event.id()));
    EXPECT_TRUE(contains(row.defect, "crashes is " + row.event.id()));
    EXPECT_EQ(row.attempts, row.event.id() == "-1" ? 0 : 1'000'000'000);
    EXPECT_EQ(row.crashes, row.attempts);
  }
}

// It was held until the year 9999, and nobody heard of it.
TEST_F(RowsTest, ATimeThatNeverComesDoesNotKeepADefectiveRowFromDying) {
  db_.run(
      "INSERT INTO outbox_event (event_id, event_type, payload, available_at) "
      "VALUES ('far', 'T', '{}', 9223372036854775807)");
  const auto rows = ready();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_TRUE(contains(rows[0].defect, "available_at is 9223372036854775807"));
  EXPECT_EQ(rows[0].available_in, 0us);
}

TEST_F(RowsTest, DefectiveRowsCanBeClaimedTooSoThatTheyCanDie) {
  db_.run(
      "INSERT INTO outbox_event (event_id, event_type, payload, created_at) "
      "VALUES ('time', 'T', '{}', 'yesterday')");
  const auto claimer = store_->join({.row_claims = true});
  claimer->renew();
  EXPECT_EQ(claimer->claim(0ms, 10).rows.size(), 1u);
}

TEST_F(RowsTest, RowsThatSomebodyFinishedByHandAreNotDelivered) {
  write_event(*store_, simple_event("a"));
  write_event(*store_, simple_event("b"));
  db_.run("UPDATE outbox_event SET status = 1, hold = NULL WHERE event_id = 'a'");
  const auto rows = ready();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].event.id(), "b");
}

// Statements hold 64, 8 or 1 rows: every number must come out whole.
TEST_F(RowsTest, ListsOfAnyLengthAreInsertedInOrder) {
  const auto connection = store_->connect();
  std::vector<std::string> expected;
  Seq last = 0;
  connection->begin();
  for (const int size : {0, 1, 7, 8, 9, 63, 64, 65, 150}) {
    std::vector<Event> events;
    for (int i = 0; i < size; ++i) {
      events.push_back(simple_event(std::to_string(size) + "/" + std::to_string(i)));
      expected.push_back(events.back().id());
    }
    for (const RowRef& ref : connection->insert(events, {})) EXPECT_EQ(ref.seq, ++last);
  }
  connection->commit();
  EXPECT_EQ(ids(ready()), expected);
}

TEST_F(RowsTest, AListWithADuplicateLeavesNothingBehindEvenIfCommitted) {
  write_event(*store_, simple_event("there"));
  for (const std::size_t at : {3u, 99u, 170u}) {
    std::vector<Event> events;
    for (std::size_t i = 0; i < 171; ++i) events.push_back(simple_event(std::to_string(i)));
    events[at] = simple_event(at == 99 ? "0" : "there");
    const auto connection = store_->connect();
    connection->begin();
    const Event kept = simple_event("kept" + std::to_string(at));
    connection->insert({&kept, 1}, {});
    const auto message = message_of<MisuseError>([&] { connection->insert(events, {}); });
    EXPECT_TRUE(contains(message, "\"" + events[at].id() + "\""));
    connection->commit();
  }
  EXPECT_EQ(db_.value("SELECT group_concat(event_id) FROM (SELECT event_id FROM outbox_event "
                      "ORDER BY seq)"),
            "there,kept3,kept99,kept170");
}

TEST_F(RowsTest, ANumberIsNeverGivenTwice) {
  write_event(*store_, simple_event("a"));
  db_.run("DELETE FROM outbox_event");
  write_event(*store_, simple_event("b"));
  EXPECT_EQ(db_.value("SELECT seq FROM outbox_event"), "2");
}

TEST_F(RowsTest, ErrorsOfAnyContentAreStored) {
  const std::vector<std::string> errors{"", std::string("nul \0 inside", 12), "broken \xc3\x28 utf",
                                        std::string(16'000, 'x')};
  const auto instance = store_->join({});
  const std::int64_t epoch = instance->renew().epoch;
  for (const std::string& error : errors) {
    const std::string id = "e" + std::to_string(error.size());
    write_event(*store_, simple_event(id));
    const StatusUpdate update{.row = store_->admin().find(id)->row.ref,
                              .event_id = id,
                              .kind = StatusUpdate::Kind::retry,
                              .attempts = 1,
                              .error = error};
    EXPECT_TRUE(instance->apply(epoch, {&update, 1}).stale.empty());
    EXPECT_EQ(store_->admin().find(id)->last_error, error);
  }
}

// An id that another program stored as a BLOB was compared with a text, and never found.
TEST_F(RowsTest, TheIdMayBeOfAnotherStorageClass) {
  const auto instance = store_->join({});
  const std::int64_t epoch = instance->renew().epoch;
  db_.run(
      "INSERT INTO outbox_event (event_id, event_type, payload) VALUES (x'6964', 'T', '{}'),"
      " (17, 'T', '{}'), ('', 'T', '{}')");
  std::vector<StatusUpdate> updates;
  for (const Row& row : instance->ready(kShard, 0, 10).rows) {
    updates.push_back({.row = row.ref, .event_id = row.event.id()});
  }
  ASSERT_EQ(updates.size(), 3u);
  EXPECT_TRUE(instance->apply(epoch, updates).stale.empty());
  EXPECT_FALSE(store_->has_pending());
}

// Rows whose status and hold contradict each other: somebody edited them past the library.

using Ids = std::vector<std::string>;

class BrokenRowsTest : public SqliteTest {
 protected:
  // As a table looks that was edited before the schema refused it.
  void write(const std::string& id, const std::string& status, const std::string& hold) const {
    db_.run("DROP TRIGGER IF EXISTS outbox_event_check_insert");
    db_.run("DROP TRIGGER IF EXISTS outbox_event_check_update");
    db_.run("INSERT INTO outbox_event (event_id, event_type, payload, status, hold) VALUES ('" +
            id + "', 'T', '{}', " + status + ", " + hold + ")");
  }

  // One of each kind.
  void write_broken() const {
    for (const char* hold : {"'text'", "x'00ff'", "0.5", "-0.5", "1e300", "-1e300", "NULL"}) {
      write("new " + std::to_string(++written_), "0", hold);
    }
    for (const char* hold : {"0", "5", "-5", "'text'"}) {
      write("done " + std::to_string(++written_), "1", hold);
    }
    for (const char* hold : {"0", "-5", "'text'", "0.5"}) {
      write("dead " + std::to_string(++written_), "3", hold);
    }
    for (const char* status : {"7", "-1", "'text'", "1.5", "9223372036854775807"}) {
      for (const char* hold : {"0", "5", "-5", "NULL"}) {
        write("unknown " + std::to_string(++written_), status, hold);
      }
    }
  }

  const std::shared_ptr<Store> store_ = open_store();
  const ForeignConnection db_{path()};
  mutable int written_ = 0;
};

constexpr int kBroken = 7 + 4 + 4 + 20;

TEST_F(BrokenRowsTest, AHoldThatIsNoIntegerMadeEveryReadLoopForEver) {
  write_broken();
  write("ready", "0", "0");
  write("due", "2", "-7");
  write("head", "2", "5");
  write("behind", "0", "5");
  const auto instance = store_->join({});
  instance->renew();
  EXPECT_EQ(ids(instance->ready(kShard, 0, 100).rows), (Ids{"ready"}));
  const DueRows due = instance->due(kShard, 100);
  EXPECT_EQ(ids(due.rows), (Ids{"due"}));
  EXPECT_FALSE(due.more);
  EXPECT_FALSE(due.next_in);
  const auto lanes = instance->held_lanes(0, 0, 100);
  ASSERT_EQ(lanes.size(), 1u);
  EXPECT_EQ(lanes[0].key, 5);
  EXPECT_EQ(lanes[0].first, store_->admin().find("head")->row.ref.seq)
      << "not the DONE row before it";
  EXPECT_EQ(lanes[0].status, Status::retry);
  EXPECT_EQ(ids(instance->held({0, 5}, 100).rows), (Ids{"head", "behind"}));
}

TEST_F(BrokenRowsTest, ClaimsTakeOnlyRowsThatMakeSense) {
  write_broken();
  write("ready", "0", "0");
  write("due", "2", "-7");
  const auto claimer = store_->join({.row_claims = true});
  claimer->renew();
  EXPECT_EQ(ids(claimer->claim(0ms, 100).rows), (Ids{"ready", "due"}));
}

TEST_F(BrokenRowsTest, OperatorsSeeHowManyThereAreAndWhatIsWrong) {
  write_broken();
  write("ready", "0", "0");
  write("head", "2", "5");
  write("dead", "3", "NULL");
  const Counts counts = store_->counts();
  EXPECT_EQ(counts.pending, 2);
  EXPECT_EQ(counts.retry, 1);
  EXPECT_EQ(counts.held, 1);
  EXPECT_EQ(counts.delayed, 0);
  EXPECT_EQ(counts.broken, kBroken);
  const auto held = store_->admin().held_aggregates(100);
  ASSERT_EQ(held.size(), 1u);
  EXPECT_EQ(held[0].head_id, "head");
  for (const char* broken : {"new 7", "unknown 16", "done 9", "dead 13"}) {
    const auto record = store_->admin().find(broken);
    ASSERT_TRUE(record) << broken;
    EXPECT_TRUE(contains(record->row.defect, "status")) << broken;
  }
  EXPECT_EQ(store_->admin().find("head")->row.defect, "");
}

TEST_F(BrokenRowsTest, NothingWaitsForARowThatIsNeverDelivered) {
  write_broken();
  EXPECT_FALSE(store_->has_pending());
  write("ready", "0", "0");
  EXPECT_TRUE(store_->has_pending());
}

TEST_F(BrokenRowsTest, AnUnknownStatusIsNoneOfThoseThatOperatorsAskFor) {
  write_broken();
  for (const Status status : {Status::pending, Status::done, Status::retry, Status::dead}) {
    for (const EventRecord& record :
         store_->admin().list({.status = {status, Status::done}}, 0, 100)) {
      EXPECT_FALSE(record.row.event.id().starts_with("unknown")) << record.row.event.id();
    }
  }
  EXPECT_EQ(store_->admin().replay({.status = {Status::done, Status::dead}}, 0, 100).rows, 8)
      << "replay repairs what is finished";
}

TEST_F(BrokenRowsTest, AnEngineDeliversTheOthersOnceAndCloses) {
  write("head", "2", "5");
  write("behind", "0", "5");
  write_broken();
  db_.run("UPDATE outbox_event SET status = 1 WHERE event_id = 'head'");
  const auto recorder = std::make_shared<testing::RecordingListener>();
  testing::RecordingLog log;
  Listeners on;
  on.add(std::string(kGlobalAggregate), "T", recorder);
  on.add(std::string(kGlobalAggregate), "Happened", recorder);
  Outbox box(store_, on, {.poll_interval = 10ms, .log = log.log()});
  box.start();
  write_event(*store_, simple_event("new"));
  EXPECT_TRUE(box.wait_idle(20s));
  // Several looks at everything later nothing has been delivered again.
  write_event(*store_, simple_event("last"));
  EXPECT_TRUE(box.wait_idle(20s));
  box.close();
  Ids delivered = recorder->ids();
  std::sort(delivered.begin(), delivered.end());
  EXPECT_EQ(delivered, (Ids{"behind", "last", "new"})) << "the head was said to be DONE";
}

// By the listener's own hand, or an operator's: the lane is not blocked by what is not DEAD.
TEST_F(BrokenRowsTest, WhatIsFinishedByHandDuringItsLastAttemptBlocksNobody) {
  const auto listener =
      std::make_shared<testing::RecordingListener>([&](const Event& event, const Delivery&) {
        if (event.id() != "first") return Outcome::done();
        db_.run("UPDATE outbox_event SET status = 1, hold = NULL WHERE event_id = 'first'");
        return Outcome::permanent("no");
      });
  testing::RecordingLog log;
  Listeners on;
  on.add("Order", "Happened", listener);
  Outbox box(store_, on,
             {.poll_interval = 10min, .dead = {.then = OnDead::block}, .log = log.log()});
  box.start();
  auto tx = box.begin();
  for (const char* id : {"first", "second"}) {
    Draft draft{.type = "Happened", .aggregate_type = "Order", .aggregate_id = "1"};
    draft.payload = json("{}");
    draft.id = id;
    tx.write(std::move(draft));
  }
  tx.commit();
  EXPECT_TRUE(box.wait_idle(20s));
  EXPECT_EQ(listener->ids(), (Ids{"first", "second"}));
}

TEST_F(BrokenRowsTest, TheSchemaRefusesThem) {
  write_event(*store_, simple_event("e"));
  const auto refused = [&](const std::string& sql) {
    return message_of<std::runtime_error>([&] { db_.run(sql); });
  };
  EXPECT_TRUE(contains(refused("UPDATE outbox_event SET status = 1"), "hold = NULL"));
  EXPECT_TRUE(contains(refused("UPDATE outbox_event SET hold = NULL"), "hold"));
  EXPECT_TRUE(contains(refused("UPDATE outbox_event SET hold = 'text'"), "hold"));
  EXPECT_TRUE(contains(refused("UPDATE outbox_event SET hold = 0.5"), "hold"));
  EXPECT_TRUE(contains(refused("UPDATE outbox_event SET status = 3"), "hold"));
  EXPECT_TRUE(contains(refused("UPDATE outbox_event SET status = 7"), "status"));
  EXPECT_TRUE(contains(refused("INSERT INTO outbox_event (event_id, event_type, payload, status) "
                               "VALUES ('x', 'T', '{}', 4)"),
                       "status"));
  db_.run("UPDATE outbox_event SET status = 3, hold = 5");
  db_.run("UPDATE outbox_event SET status = 1, hold = NULL");
  db_.run("UPDATE outbox_event SET status = 2, hold = -5");
  EXPECT_EQ(store_->counts().broken, 0);
}

TEST_F(BrokenRowsTest, AMigrationSaysWhatItFindsAndGoesOn) {
  write_broken();
  db_.run("DROP INDEX outbox_event_broken");
  db_.run("DELETE FROM outbox_event_migration WHERE version > 3");
  Ids log;
  const auto store =
      open_store({.log = [&](const LogRecord& record) { log.emplace_back(record.message); }});
  ASSERT_EQ(log.size(), 1u);
  EXPECT_TRUE(contains(log[0], std::to_string(kBroken) + " rows contradict themselves"));
  EXPECT_TRUE(contains(log[0], "outbox doctor --repair"));
  EXPECT_TRUE(contains(
      message_of<std::runtime_error>([&] { db_.run("UPDATE outbox_event SET status = 9"); }),
      "status"));
  log.clear();
  open_store({.log = [&](const LogRecord& record) { log.emplace_back(record.message); }});
  EXPECT_EQ(log, Ids{}) << "once";
}

TEST_F(BrokenRowsTest, AnOwnerSaysThatThereAreSomeWheneverThereAreMore) {
  Ids log;
  testing::ManualClock clock;
  const auto store = open_store(
      {.log = [&](const LogRecord& record) { log.emplace_back(record.message); }, .clock = &clock});
  const auto instance = store->join({});
  instance->renew();
  EXPECT_EQ(log, Ids{});
  write("a", "0", "NULL");
  for (int i = 0; i < 3; ++i) {
    clock.advance(60s);
    instance->renew();
  }
  ASSERT_EQ(log.size(), 1u) << "once";
  EXPECT_TRUE(contains(log[0], "1 row contradicts itself"));
  EXPECT_TRUE(contains(log[0], "\"a\" (status 0, hold NULL)"));
  write("b", "1", "0");
  clock.advance(60s);
  instance->renew();
  ASSERT_EQ(log.size(), 2u);
  EXPECT_TRUE(contains(log[1], "2 rows contradict themselves"));
}

}  // namespace

}  // namespace outbox::sqlite
