#include <map>
#include <random>

#include "store/mysql/connection.h"
#include "store/mysql/test_support.h"

namespace outbox::mysql {
namespace {

using MysqlRowsTest = MysqlTest;

TEST_F(MysqlRowsTest, ADelayIsCountedByTheServersClock) {
  for (const bool prepare : {true, false}) {
    test::expect_delays_whatever_the_writers_clock_says(
        [&](const Clock& clock) { return open_store({.prepare = prepare, .clock = &clock}); });
  }
}

// The server's crc32() and ours, on texts of any alphabet.
TEST_F(MysqlRowsTest, NumbersAndShardsAreThoseOfTheTable) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto text = [&](int most) {
    static constexpr std::string_view kLetters[] = {"a", "Z", "0",  " ", "_",    "\\",
                                                    "'", "ü", "日", "😀", "\x1F", "%"};
    std::string result;
    for (auto left = random() % static_cast<unsigned>(most); left > 0; --left) {
      result += kLetters[random() % std::size(kLetters)];
    }
    return result;
  };
  const auto event = [&](int number) {
    EventFields fields;
    fields.id = std::to_string(number) + "." + text(8);
    fields.type = "T";
    if (random() % 4 != 0) fields.aggregate_type = "A" + text(20);
    if (random() % 4 != 0) fields.aggregate_id = text(40);
    fields.payload = json("{}");
    fields.occurred_at = fields.available_at = host_clock().now();
    return Event::restore(std::move(fields));
  };

  const auto store = open_store();
  const auto connection = begun(*store);
  std::map<std::string, RowRef> expected;
  int number = 0;
  const auto write = [&](int count) {
    std::vector<Event> events;
    for (int i = 0; i < count; ++i) events.push_back(event(number++));
    const std::vector<RowRef> refs = connection->insert(events, {});
    ASSERT_EQ(refs.size(), events.size());
    for (std::size_t i = 0; i < refs.size(); ++i) {
      EXPECT_EQ(refs[i].shard, shard_of(events[i]));
      expected[events[i].id()] = refs[i];
    }
  };
  for (const int count : {1, 2'000, 1, 999, 2}) write(count);
  connection->commit();

  const auto rows = sql().query("SELECT event_id, seq, shard FROM outbox_event");
  ASSERT_EQ(rows.size(), expected.size());
  for (const auto& row : rows) {
    const RowRef& ref = expected.at(row.at(0).value());
    EXPECT_EQ(row.at(1), std::to_string(ref.seq)) << row.at(0).value();
    EXPECT_EQ(row.at(2), std::to_string(ref.shard)) << row.at(0).value();
  }
}

TEST_F(MysqlRowsTest, NumbersAreRightAlsoWhereTheServerCountsInLargerSteps) {
  const auto store = open_store({.on_open = [](st_mysql* connection) {
    mysql_query(connection, "SET auto_increment_increment = 5");
  }});
  const Event three[] = {simple_event("1"), simple_event("2"), simple_event("3")};
  const auto connection = begun(*store);
  const std::vector<RowRef> refs = connection->insert(three, {});
  connection->commit();
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(store->find(three[i].id())->row.ref.seq, refs.at(i).seq);
  }
}

// Statements kept prepared, or all sent as text.
class MysqlManyRowsTest : public MysqlTest, public ::testing::WithParamInterface<bool> {
 protected:
  static std::vector<Event> events(std::size_t number, const std::string& prefix) {
    std::vector<Event> result;
    for (std::size_t i = 0; i < number; ++i) {
      result.push_back(simple_event(prefix + "." + std::to_string(i)));
    }
    return result;
  }

  static Event large_event(const std::string& id, Payload payload) {
    Draft draft{.type = "Large", .payload = std::move(payload)};
    draft.id = id;
    return make_event(std::move(draft));
  }

  std::shared_ptr<Store> store() { return open_store({.prepare = GetParam()}); }

  static std::int64_t statements(Connection& connection) {
    const auto rows = connection.query("SHOW SESSION STATUS LIKE 'Com_insert'", {});
    return std::stoll(rows.at(0).get<std::string>(1));
  }

  // The ids in the order of the numbers that the rows were said to have.
  void expect_rows(const std::map<Seq, std::string>& expected) {
    const auto rows = sql().query("SELECT seq, event_id FROM outbox_event ORDER BY seq");
    ASSERT_EQ(rows.size(), expected.size());
    auto next = expected.begin();
    for (const auto& row : rows) {
      EXPECT_EQ(row.at(0), std::to_string(next->first));
      EXPECT_EQ(row.at(1), next->second);
      ++next;
    }
  }
};

TEST_P(MysqlManyRowsTest, AnyNumberGoesInInOrderWithFewStatements) {
  struct Case {
    std::size_t rows;
    std::int64_t prepared;  // statements
    std::int64_t as_text;
  };
  const auto store = this->store();
  const auto connection = begun(*store);
  std::map<Seq, std::string> expected;
  Seq last = 0;
  for (const auto& [number, prepared, as_text] :
       {Case{0, 0, 0}, Case{1, 1, 1}, Case{2, 1, 1}, Case{3, 1, 1}, Case{4, 1, 1}, Case{19, 1, 1},
        Case{20, 1, 1}, Case{21, 2, 1}, Case{63, 4, 1}, Case{64, 4, 1}, Case{65, 4, 1},
        Case{99, 5, 1}, Case{100, 1, 1}, Case{101, 2, 1}, Case{121, 3, 1}, Case{500, 5, 1},
        Case{501, 6, 2}}) {
    SCOPED_TRACE(number);
    const std::vector<Event> events = this->events(number, std::to_string(number));
    const std::int64_t before = statements(*connection);
    const std::vector<RowRef> refs = connection->insert(events, {});
    EXPECT_EQ(statements(*connection) - before, GetParam() ? prepared : as_text);
    ASSERT_EQ(refs.size(), number);
    for (std::size_t i = 0; i < number; ++i) {
      EXPECT_GT(refs[i].seq, last);
      last = refs[i].seq;
      expected[last] = events[i].id();
    }
  }
  connection->commit();
  expect_rows(expected);
}

TEST_P(MysqlManyRowsTest, WhatDoesNotFitIntoOneStatementIsSplit) {
  open_store();  // for its table
  const auto config =
      this->config({.prepare = GetParam(), .codec = default_json_codec(), .clock = &host_clock()});
  const Link link = config->connect(Use::transactions);
  constexpr std::size_t kPacket = 64 << 10;
  Session session(link.handle.get(), config, kPacket, Session::Prepare::at_once);
  std::map<Seq, std::string> expected;
  const auto write = [&](const std::vector<Event>& events) {
    const std::vector<RowRef> refs = insert_rows(session, events, {});
    ASSERT_EQ(refs.size(), events.size());
    for (std::size_t i = 0; i < refs.size(); ++i) expected[refs[i].seq] = events[i].id();
  };
  session.run_text("BEGIN", "begin");
  // Each fits, also as text; what comes before or behind it may not fit beside it.
  int number = 0;
  for (const std::size_t size :
       {std::size_t{100}, kPacket / 100, kPacket / 40, kPacket / 4, kPacket / 2 - 2'000}) {
    for (const std::size_t rows :
         {std::size_t{1}, std::size_t{2}, std::size_t{25}, std::size_t{130}}) {
      SCOPED_TRACE(std::to_string(rows) + " of " + std::to_string(size));
      std::vector<Event> events;
      for (std::size_t i = 0; i < rows; ++i) {
        const std::string id = std::to_string(number++);
        events.push_back(i % 3 == 0 ? large_event(id, json("\"" + std::string(10, 'x') + "\""))
                                    : large_event(id, bytes(std::string(size, '\\'))));
      }
      write(events);
    }
  }
  session.run_text("COMMIT", "commit");
  expect_rows(expected);
}

TEST_P(MysqlManyRowsTest, OneThatFitsNowhereTakesTheOthersAlong) {
  const auto store = this->store();
  const std::size_t limit = std::stoull(sql().value("SELECT @@max_allowed_packet"));
  std::vector<Event> events = this->events(150, "e");
  EventFields fields;
  fields.id = "large";
  fields.type = "T";
  fields.payload = bytes(std::string(limit, 'x'));
  events.push_back(Event::restore(std::move(fields)));
  const auto connection = begun(*store);
  EXPECT_TRUE(contains(message_of<MisuseError>([&] { connection->insert(events, {}); }),
                       "max_allowed_packet"));
  connection->commit();
  EXPECT_EQ(sql().value("SELECT count(*) FROM outbox_event"), "0");
}

TEST_P(MysqlManyRowsTest, AListWithADuplicateLeavesNothingBehindEvenIfCommitted) {
  const auto store = this->store();
  write_event(*store, simple_event("there"));
  for (const std::size_t at : {3u, 120u, 599u, 630u}) {
    std::vector<Event> events = this->events(631, std::to_string(at));
    events[at] = simple_event("there");
    const auto connection = begun(*store);
    const Event before = simple_event("before" + std::to_string(at));
    const Event after = simple_event("after" + std::to_string(at));
    connection->insert({&before, 1}, {});
    EXPECT_TRUE(
        contains(message_of<MisuseError>([&] { connection->insert(events, {}); }), "'there'"));
    connection->insert({&after, 1}, {});
    connection->commit();
  }
  EXPECT_EQ(sql().value("SELECT group_concat(event_id ORDER BY seq) FROM outbox_event"),
            "there,before3,after3,before120,after120,before599,after599,before630,after630");
}

INSTANTIATE_TEST_SUITE_P(Ways, MysqlManyRowsTest, ::testing::Bool(),
                         [](const auto& way) { return way.param ? "Prepared" : "AsText"; });

TEST_F(MysqlRowsTest, AnIdThatIsTakenIsNamed) {
  const auto store = open_store();
  write_event(*store, simple_event("taken"));
  const Event both[] = {simple_event("free"), simple_event("taken")};
  for (const std::size_t number : {std::size_t{1}, std::size_t{2}}) {
    const auto connection = begun(*store);
    EXPECT_TRUE(contains(
        message_of<MisuseError>([&] { connection->insert(std::span(both).last(number), {}); }),
        "'taken'"));
  }
}

// The default collation would take these for one.
TEST_F(MysqlRowsTest, IdsThatDifferInCaseOrBlanksAreDifferentIds) {
  const auto store = open_store();
  for (const char* id : {"abc", "ABC", "abc ", "äbc"}) write_event(*store, simple_event(id));
  for (const char* id : {"abc", "ABC", "abc ", "äbc"}) {
    ASSERT_TRUE(store->find(id)) << id;
    EXPECT_EQ(store->find(id)->row.event.id(), id);
  }
}

// Other programs may write with plain SQL.
TEST_F(MysqlRowsTest, ARowThatCannotBeDecodedIsReadWithItsDefect) {
  const auto store = open_store();
  sql().execute(
      "INSERT INTO outbox_event (event_id, event_type, payload, headers) VALUES "
      "('good', 'T', '{}', NULL), ('bad', 'T', '{}', 'no json'), ('blank', 'T', '{}', ' ')");
  const auto instance = store->join({});
  const Lease lease = instance->renew();
  const std::vector<Row> rows = instance->ready(lease.shards, 0, 10).rows;
  ASSERT_EQ(rows.size(), 3U);
  for (const Row& row : rows) EXPECT_EQ(row.defect.empty(), row.event.id() != "bad");
}

}  // namespace
}  // namespace outbox::mysql
