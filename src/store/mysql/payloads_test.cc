// What goes in comes out.
#include "store/mysql/test_support.h"

namespace outbox::mysql {
namespace {

class MysqlPayloadsTest : public MysqlTest {
 protected:
  void SetUp() override {
    MysqlTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    store_ = open_store();
  }

  static Event event(const std::string& id, Payload payload, Headers headers = {}) {
    Draft draft{.type = "Happened", .payload = std::move(payload), .headers = std::move(headers)};
    draft.id = id;
    return make_event(std::move(draft));
  }

  // Written alone and together, found and read by the engine: always the same.
  void expect_same(const Payload& payload, const Headers& headers = {}) {
    sql().execute("TRUNCATE outbox_event");
    write_event(*store_, event("alone", payload, headers));
    const Event both[] = {event("first", payload, headers), event("second", payload, headers)};
    const auto connection = begun(*store_);
    connection->insert(both, {});
    connection->commit();
    const auto instance = store_->join({});
    const Lease lease = instance->renew();
    std::vector<Row> rows = instance->ready(lease.shards, 0, 10).rows;
    EXPECT_EQ(rows.size(), 3U);
    rows.push_back(store_->find("alone")->row);
    for (const Row& row : rows) {
      EXPECT_TRUE(row.event.payload() == payload.data()) << row.event.id();
      EXPECT_EQ(row.event.is_json(), payload.kind() == Payload::Kind::json);
      EXPECT_EQ(row.event.content_type(), payload.content_type());
      EXPECT_EQ(row.event.headers(), headers);
      EXPECT_EQ(row.defect, "");
    }
    instance->leave();
  }

  std::shared_ptr<Store> store_;
};

TEST_F(MysqlPayloadsTest, JsonTextIsNotRewritten) {
  expect_same(json(R"({"b":1.10, "a":2,"a":3,  "n":"\u0000","e":1e400,"z":-0})"));
  expect_same(json(R"("it's 😀 日本, and \"quoted\"")"));
  expect_same(json("{}", "application/vnd.shop+json"));
  expect_same(json(std::string(20'000, '[') + std::string(20'000, ']')));
}

TEST_F(MysqlPayloadsTest, BytesAreAnyBytes) {
  std::string all;
  for (int i = 0; i < 256; ++i) all.push_back(static_cast<char>(i));
  expect_same(bytes(all));
  expect_same(bytes(std::string(1, '\0')));
  expect_same(bytes(""));
  expect_same(bytes("{}", "text/plain"));
}

TEST_F(MysqlPayloadsTest, TheLargestPayloadsFit) {
  expect_same(json("\"" + std::string(kMaxPayloadBytes - 2, 'x') + "\""));
  std::string noise(kMaxPayloadBytes, '\0');
  std::uint32_t state = 1;
  for (char& byte : noise) {
    state = state * 1'664'525 + 1'013'904'223;
    byte = static_cast<char>(state >> 24);
  }
  expect_same(bytes(std::move(noise)));
}

TEST_F(MysqlPayloadsTest, HeadersComeBackAsTheyWere) {
  expect_same(json("{}"), {{"a", ""}, {"Ä \" \\", "日本 😀 \\u0000 \"x\" \t"}, {"ab", "{}"}});
}

TEST_F(MysqlPayloadsTest, TimesAreUtcMicrosecondsWhateverTheSessionsTimeZone) {
  for (const Time time :
       {Time{std::chrono::microseconds{1'700'000'000'123'456}}, Time{std::chrono::microseconds{-1}},
        Time{std::chrono::sys_days{std::chrono::year{1000} / 1 / 1}},
        Time{std::chrono::sys_days{std::chrono::year{2026} / 3 / 29}} + 90min}) {
    sql().execute("TRUNCATE outbox_event");
    EventFields fields;
    fields.id = "e";
    fields.type = "Happened";
    fields.payload = json("{}");
    fields.occurred_at = fields.available_at = time;
    const Event event = Event::restore(fields);
    const auto connection = begun(*store_);
    connection->execute("SET time_zone = '-03:30'", {});
    connection->insert({&event, 1}, {});
    connection->commit();
    const auto found = store_->find("e");
    EXPECT_EQ(found->row.event.occurred_at(), time);
    EXPECT_EQ(found->row.event.available_at(), time);
    EXPECT_EQ(sql().value(
                  "SELECT timestampdiff(MICROSECOND, '1970-01-01', created_at) FROM outbox_event"),
              std::to_string(time.time_since_epoch().count()));
  }
}

TEST_F(MysqlPayloadsTest, JsonPayloadsCanBeAskedWithTheDatabasesFunctions) {
  write_event(*store_, event("1", json(R"({"x":"one","n":{"deep":[1,2]}})")));
  write_event(*store_, event("2", json(R"({"x":"two"})")));
  EXPECT_EQ(
      sql().value("SELECT event_id FROM outbox_event WHERE json_value(payload, '$.x') = 'two'"),
      "2");
  EXPECT_EQ(
      sql().value("SELECT json_extract(payload, '$.n.deep[1]') FROM outbox_event WHERE event_id = "
                  "'1'"),
      "2");
}

}  // namespace
}  // namespace outbox::mysql
