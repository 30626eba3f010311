// What goes in comes out, by whichever path an event reaches its listener.
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "every_store.h"

namespace outbox::testing {
namespace {

std::string every_byte() {
  std::string all;
  for (int n = 0; n < 256; ++n) all += static_cast<char>(n);
  return all;
}

// All that an HTTP header could carry, and more.
std::string every_character_of_a_header() {
  std::string all = "\xC3\xA4\xE2\x82\xAC\xF0\x9F\xA6\x80\xE2\x80\xAE";
  for (char c = 1; c < '\x7f'; ++c) {
    if (c != '\n' && c != '\r') all += c;
  }
  return all + '\x7f';
}

class ContentsTest : public OnEveryStore {
 protected:
  // Text and bytes that nobody but their owner would write so.
  std::vector<Draft> odd_drafts() const {
    Draft text{.type = "Happened",
               .aggregate_type = "Order",
               .aggregate_id = "a'b\"c %_\\ \xF0\x9F\x9A\x80",
               .payload = json(" {\"b\" : 1.0e0,\r\n\t\"a\":[ ],\"b\":\"\\u0041\\u0000\","
                               "\"c\":1E400, \"\":-0 } \n",
                               "application/vnd.shop+json; v=\"1\""),
               .headers = {{" ", ""},
                           {"k\"e'y\\%_{}:=,", every_character_of_a_header()},
                           {"\xC3\xA4", " \t "},
                           {"null", "null"}},
               .tenant_id = "t'\"\\ \xC3\xA4",
               .id = new_id(),
               .occurred_at = now() - 90s};
    Draft binary = text;
    binary.aggregate_id = "";
    binary.payload = bytes(every_byte() + every_byte(), "image/x-any");
    binary.headers = {};
    binary.tenant_id = "";
    binary.id = new_id();
    return {text, binary};
  }

  // What the listener got, by id.
  std::map<std::string, Event> received() const {
    std::map<std::string, Event> events;
    for (const auto& call : recorder->calls()) {
      EXPECT_TRUE(events.emplace(call.event.id(), call.event).second) << "more than once";
    }
    return events;
  }

  void expect_as_written(const std::vector<Draft>& drafts) const {
    const std::map<std::string, Event> events = received();
    ASSERT_EQ(events.size(), drafts.size());
    for (const Draft& draft : drafts) {
      ASSERT_TRUE(events.contains(*draft.id));
      const Event& got = events.at(*draft.id);
      const Event stored = store->admin().find(*draft.id)->row.event;
      expect_same(got, draft);
      expect_same(stored, draft);
      EXPECT_EQ(got.available_at(), stored.available_at());
    }
  }

 private:
  static void expect_same(const Event& event, const Draft& draft) {
    EXPECT_EQ(event.id(), *draft.id);
    EXPECT_EQ(event.type(), draft.type.str());
    EXPECT_EQ(event.aggregate_type(), draft.aggregate_type.str());
    EXPECT_EQ(event.aggregate_id(), draft.aggregate_id.str());
    EXPECT_EQ(event.tenant_id(), draft.tenant_id.str());
    EXPECT_EQ(event.headers(), draft.headers);
    EXPECT_EQ(event.payload(), draft.payload.data());
    EXPECT_EQ(event.is_json(), draft.payload.kind() == Payload::Kind::json);
    EXPECT_EQ(event.content_type(), draft.payload.content_type());
    EXPECT_EQ(event.occurred_at(), *draft.occurred_at);
  }
};
OUTBOX_ON_EVERY_STORE(ContentsTest);

TEST_P(ContentsTest, AreTheSameByteForByteOnTheHotPath) {
  OUTBOX_NEEDS(capabilities().progress == Progress::row);  // for a hot path
  for (const bool claims : {false, true}) {
    if (claims && !capabilities().row_claims) continue;
    recorder = std::make_shared<RecordingListener>();
    metrics = std::make_shared<CountingMetrics>();
    const auto box = open({.mode = claims ? Mode::multi_node : Mode::single_node,
                           .ordering = Ordering::none,
                           .row_claims = claims});
    ASSERT_TRUE(eventually([&] { return box->owner(); }));
    const std::vector<Draft> drafts = odd_drafts();
    for (const Draft& draft : drafts) write(*box, draft);
    ASSERT_TRUE(box->wait_idle(20s));
    EXPECT_EQ((*metrics)[Counter::hot_enqueued], drafts.size());
    EXPECT_EQ((*metrics)[Counter::cold_enqueued], 0u);
    expect_as_written(drafts);
  }
}

TEST_P(ContentsTest, AreTheSameByteForByteWhenTheyAreReadFromTheTable) {
  for (const Ordering ordering : {Ordering::per_aggregate, Ordering::none}) {
    recorder = std::make_shared<RecordingListener>();
    metrics = std::make_shared<CountingMetrics>();
    const std::vector<Draft> drafts = odd_drafts();
    for (const Draft& draft : drafts) write_elsewhere(draft);
    const auto box = open({.ordering = ordering});
    ASSERT_TRUE(box->wait_idle(20s));
    EXPECT_EQ((*metrics)[Counter::hot_enqueued], 0u);
    EXPECT_EQ((*metrics)[Counter::cold_enqueued], drafts.size());
    expect_as_written(drafts);
  }
}

// Rule 5: what a short form leaves out is the default.
TEST_P(ContentsTest, OfTheShortFormsAreDeliveredWithTheDefaults) {
  const auto others = std::make_shared<RecordingListener>();
  Listeners on;
  on.add("Pinged", [to = recorder](const Event& event) { to->on_event(event, {}); });
  on.otherwise([to = others](const Event& event) { to->on_event(event, {}); });
  Outbox box{store, on, with_defaults({})};
  box.start();
  const Time before = now();
  auto tx = box.begin();
  const std::string id = box.writer().write("Pinged", R"({"n":1})");
  const std::string other = tx.write(event("Ponged").json("2"));
  tx.commit();
  const Time after = now();
  ASSERT_TRUE(box.wait_idle(20s));

  ASSERT_EQ(recorder->ids(), std::vector{id});
  ASSERT_EQ(others->ids(), std::vector{other});
  EXPECT_EQ(others->payloads(), std::vector<std::string>{"2"});
  const Event got = recorder->calls().at(0).event;
  EXPECT_EQ(got.type(), "Pinged");
  EXPECT_EQ(got.aggregate_type(), kGlobalAggregate);
  EXPECT_EQ(got.aggregate_id(), "");
  EXPECT_EQ(got.tenant_id(), "");
  EXPECT_TRUE(got.headers().empty());
  EXPECT_EQ(got.payload(), R"({"n":1})");
  EXPECT_TRUE(got.is_json());
  EXPECT_EQ(got.content_type(), "application/json");
  EXPECT_GE(got.occurred_at(), before);
  EXPECT_LE(got.occurred_at(), after);
  EXPECT_TRUE(is_done(id));
  EXPECT_TRUE(is_done(other));
}

}  // namespace
}  // namespace outbox::testing
