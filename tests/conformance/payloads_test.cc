// What goes in comes out.
#include "store_conformance.h"
#include "support/stores.h"

namespace outbox::conformance {
namespace {

std::string text_of(const Value& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value)) return std::to_string(*number);
  return std::get<std::string>(value);
}

Event event_of(const std::string& id, Payload payload, Headers headers = {}) {
  Draft draft{.type = "Happened", .payload = std::move(payload), .headers = std::move(headers)};
  draft.id = id;
  return make_event(std::move(draft));
}

// Written alone and together, found and read by the engine: always the same.
void expect_same(Store& store, const Payload& payload, const Headers& headers = {}) {
  test::write_event(store, event_of("alone", payload, headers));
  const Event both[] = {event_of("first", payload, headers), event_of("second", payload, headers)};
  const auto connection = test::begun(store);
  connection->insert(both, {});
  connection->commit();
  const auto instance = store.join({});
  const Lease lease = instance->renew();
  std::vector<Row> rows = instance->ready(lease.shards, 0, 10).rows;
  EXPECT_EQ(rows.size(), 3U);
  std::vector<StatusUpdate> done;
  for (const Row& row : rows) done.push_back({.row = row.ref, .event_id = row.event.id()});
  rows.push_back(store.find("alone")->row);
  for (const Row& row : rows) {
    EXPECT_TRUE(row.event.payload() == payload.data()) << row.event.id();
    EXPECT_EQ(row.event.is_json(), payload.kind() == Payload::Kind::json);
    EXPECT_EQ(row.event.content_type(), payload.content_type());
    EXPECT_EQ(row.event.headers(), headers);
    EXPECT_EQ(row.defect, "");
  }
  // They are removed, so that the next ones may have their ids.
  const UpdateResult result = instance->apply(lease.epoch, done);
  EXPECT_FALSE(result.fenced);
  EXPECT_TRUE(result.stale.empty());
  instance->leave();
}

constexpr Wishes kRemoveDone{.remove_done = true};

TEST_P(PayloadsTest, JsonTextIsNotRewritten) {
  Store& store = open(kRemoveDone);
  expect_same(store, json(R"({"b":1.10, "a":2,"a":3,  "n":"\u0000","e":1e400,"z":-0})"));
  expect_same(store, json(R"("just text")"));
  expect_same(store, json(R"("it's 😀 日本, and \"quoted\"")"));
  expect_same(store, json("{}", "application/vnd.shop+json"));
  expect_same(store, json(std::string(20'000, '[') + std::string(20'000, ']')));
}

TEST_P(PayloadsTest, BytesAreAnyBytes) {
  Store& store = open(kRemoveDone);
  std::string all;
  for (int i = 0; i < 256; ++i) all.push_back(static_cast<char>(i));
  expect_same(store, bytes(all));
  expect_same(store, bytes(std::string(1, '\0')));
  expect_same(store, bytes(""));
  expect_same(store, bytes("{}", "text/plain"));
}

TEST_P(PayloadsTest, TheLargestPayloadsFit) {
  Store& store = open(kRemoveDone);
  expect_same(store, json("\"" + std::string(kMaxPayloadBytes - 2, 'x') + "\""));
  std::string noise(kMaxPayloadBytes, '\0');
  std::uint32_t state = 1;
  for (char& byte : noise) {
    state = state * 1'664'525 + 1'013'904'223;
    byte = static_cast<char>(state >> 24);
  }
  expect_same(store, bytes(std::move(noise)));
}

TEST_P(PayloadsTest, HeadersComeBackAsTheyWere) {
  Store& store = open(kRemoveDone);
  expect_same(store, json("{}"), {{"a", ""}, {"Ä \" \\", "日本 \\u0000 \"x\" \t"}, {"ab", "{}"}});
  expect_same(store, json("{}"), {{"emoji", "日本 😀 \\u0000"}});
}

TEST_P(PayloadsTest, TimesAreUtcMicrosecondsWhateverTheSessionsTimeZone) {
  const std::optional<SqlWords> words = backend().sql_words();
  for (const Time time :
       {Time{std::chrono::microseconds{1'700'000'000'123'456}}, Time{std::chrono::microseconds{-1}},
        Time{std::chrono::sys_days{std::chrono::year{1000} / 1 / 1}},
        Time{std::chrono::sys_days{std::chrono::year{2026} / 3 / 29}} + 90min}) {
    EventFields fields;
    fields.id = "at " + std::to_string(time.time_since_epoch().count());
    fields.type = "Happened";
    fields.payload = json("{}");
    fields.occurred_at = fields.available_at = time;
    const Event event = Event::restore(fields);
    const auto connection = test::begun(store());
    if (words && !words->set_time_zone.empty()) connection->execute(words->set_time_zone, {});
    connection->insert({&event, 1}, {});
    connection->commit();
    const auto found = store().find(fields.id);
    EXPECT_EQ(found->row.event.occurred_at(), time);
    EXPECT_EQ(found->row.event.available_at(), time);
    if (!words) continue;
    EXPECT_EQ(text_of(store()
                          .connect()
                          ->query("SELECT " + words->micros_of_created_at + " FROM " +
                                      words->table + " WHERE event_id = '" + fields.id + "'",
                                  {})
                          .at(0)
                          .at(0)),
              std::to_string(time.time_since_epoch().count()));
  }
}

TEST_P(PayloadsTest, JsonPayloadsCanBeAskedWithTheDatabasesFunctions) {
  const std::optional<SqlWords> words = backend().sql_words();
  OUTBOX_NEEDS(words);
  test::write_event(store(), event_of("1", json(R"({"x":"one","n":{"deep":[1,2]}})")));
  test::write_event(store(), event_of("2", json(R"({"x":"two"})")));
  const auto ask = [&](const std::string& what, const std::string& where) {
    return text_of(store()
                       .connect()
                       ->query("SELECT " + what + " FROM " + words->table + " WHERE " + where, {})
                       .at(0)
                       .at(0));
  };
  EXPECT_EQ(ask("event_id", words->json_x + " = 'two'"), "2");
  EXPECT_EQ(ask(words->json_n_deep_1, "event_id = '1'"), "2");
}

}  // namespace
}  // namespace outbox::conformance
