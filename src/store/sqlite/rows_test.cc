#include "store/sqlite/rows.h"

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
    const StatusUpdate update{.row = store_->find(id)->row.ref,
                              .event_id = id,
                              .kind = StatusUpdate::Kind::retry,
                              .attempts = 1,
                              .error = error};
    EXPECT_TRUE(instance->apply(epoch, {&update, 1}).stale.empty());
    EXPECT_EQ(store_->find(id)->last_error, error);
  }
}

}  // namespace
}  // namespace outbox::sqlite
