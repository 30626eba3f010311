#include "store/mysql/rows.h"

#include <map>
#include <random>

#include "store/mysql/test_support.h"

namespace outbox::mysql {
namespace {

using MysqlRowsTest = MysqlTest;

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
  const Tenure tenure = instance->renew();
  const std::vector<Row> rows = instance->ready(tenure.shards, 0, 10).rows;
  ASSERT_EQ(rows.size(), 3U);
  for (const Row& row : rows) EXPECT_EQ(row.defect.empty(), row.event.id() != "bad");
}

}  // namespace
}  // namespace outbox::mysql
