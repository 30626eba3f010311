// Rules 2, 6 to 8, 10 and 12: what a transaction inserts, and when it is seen.
#include <algorithm>
#include <set>
#include <thread>

#include "database.h"
#include "outbox/error.h"
#include "support/stores.h"

namespace outbox::conformance {
namespace {

std::string every_byte() {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all.push_back(static_cast<char>(byte));
  return all;
}

TEST_P(WritingTest, EveryFieldComesBackAsItWentIn) {
  const Time occurred = now() - 90s;
  write(event({.id = "01ARZ3NDEKTSV4RRFFQ69G5FAV",
               .type = "OrderPlaced",
               .aggregate_type = "Bestellung \xC3\xA4",
               .aggregate_id = "a'b\"c %_\\ ",
               .tenant_id = "tenant \xF0\x9F\x9A\x80",
               .headers = {{"trace", "1-2-3"},
                           {"empty", ""},
                           {"quote\"d", "back\\slash"},
                           {"umlaut", "\xC3\xA4\xF0\x9F\x9A\x80\t/"}},
               .payload = json("{}", "application/vnd.shop+json"),
               .occurred_at = occurred,
               .available_at = occurred + 1us}));

  const Owner owner = own_everything();
  const std::vector<Row> rows = ready(owner);
  ASSERT_EQ(rows.size(), 1u);
  const Event& read = rows[0].event;
  EXPECT_EQ(read.id(), "01ARZ3NDEKTSV4RRFFQ69G5FAV");
  EXPECT_EQ(read.type(), "OrderPlaced");
  EXPECT_EQ(read.aggregate_type(), "Bestellung \xC3\xA4");
  EXPECT_EQ(read.aggregate_id(), "a'b\"c %_\\ ");
  EXPECT_EQ(read.tenant_id(), "tenant \xF0\x9F\x9A\x80");
  EXPECT_EQ(read.headers(), (Headers{{"trace", "1-2-3"},
                                     {"empty", ""},
                                     {"quote\"d", "back\\slash"},
                                     {"umlaut", "\xC3\xA4\xF0\x9F\x9A\x80\t/"}}));
  EXPECT_EQ(read.content_type(), "application/vnd.shop+json");
  EXPECT_EQ(read.occurred_at(), occurred);
  EXPECT_EQ(read.available_at(), occurred + 1us);
  EXPECT_EQ(rows[0].status, Status::pending);
  EXPECT_EQ(rows[0].attempts, 0);
  EXPECT_EQ(rows[0].crashes, 0);
  EXPECT_EQ(rows[0].progress, "");
  EXPECT_EQ(rows[0].defect, "");
}

TEST_P(WritingTest, FieldsThatAreEmptyStayEmpty) {
  write(event({.id = "e"}));
  const Event read = record("e").row.event;
  EXPECT_EQ(read.aggregate_type(), kGlobalAggregate);
  EXPECT_EQ(read.aggregate_id(), "");
  EXPECT_EQ(read.tenant_id(), "");
  EXPECT_EQ(read.headers(), Headers{});
}

TEST_P(WritingTest, JsonTextKeepsItsSpacesItsDuplicateKeysAndItsNumbers) {
  const std::string text = " {\"b\" : 1.0e0,\r\n\t\"a\":[ ],\"b\":\"\\u0041\",\"c\":1E400 } \n";
  write(event({.id = "e", .payload = json(text)}));
  const Event read = record("e").row.event;
  EXPECT_TRUE(read.is_json());
  EXPECT_EQ(read.payload(), text);
}

TEST_P(WritingTest, BytesKeepNulAndWhatIsNotUtf8) {
  write(event({.id = "e", .payload = bytes(every_byte(), "image/x-any")}));
  const Event read = record("e").row.event;
  EXPECT_FALSE(read.is_json());
  EXPECT_EQ(read.payload(), every_byte());
  EXPECT_EQ(read.content_type(), "image/x-any");
}

TEST_P(WritingTest, NoBytesAreAPayloadToo) {
  write(event({.id = "e", .payload = bytes(std::string{})}));
  const EventRecord read = record("e");
  EXPECT_EQ(read.row.defect, "");
  EXPECT_FALSE(read.row.event.is_json());
  EXPECT_EQ(read.row.event.payload(), "");
}

TEST_P(WritingTest, TheLargestPayloadFits) {
  std::string large;
  while (large.size() < kMaxPayloadBytes) large += every_byte();
  large.resize(kMaxPayloadBytes);
  write(event({.id = "e", .payload = bytes(large)}));
  EXPECT_TRUE(record("e").row.event.payload() == large);
}

TEST_P(WritingTest, TheLongestFieldsFitCountedInCodePoints) {
  const auto repeated = [](std::size_t times) {
    std::string text;
    for (std::size_t i = 0; i < times; ++i) text += "\xF0\x9F\x9A\x80";
    return text;
  };
  write(event({.id = std::string(kMaxIdLength, 'i'),
               .type = repeated(kMaxTypeLength),
               .aggregate_type = repeated(kMaxAggregateTypeLength),
               .aggregate_id = repeated(kMaxAggregateIdLength),
               .tenant_id = repeated(kMaxTenantIdLength)}));
  const Event read = record(std::string(kMaxIdLength, 'i')).row.event;
  EXPECT_EQ(read.type(), repeated(kMaxTypeLength));
  EXPECT_EQ(read.aggregate_type(), repeated(kMaxAggregateTypeLength));
  EXPECT_EQ(read.aggregate_id(), repeated(kMaxAggregateIdLength));
  EXPECT_EQ(read.tenant_id(), repeated(kMaxTenantIdLength));
}

TEST_P(WritingTest, NothingIsSeenBeforeTheCommit) {
  const Owner owner = own_everything();
  const auto connection = store().connect();
  connection->begin();
  connection->insert(std::vector{event({.id = "e"})}, {});
  EXPECT_EQ(ids(ready(owner)), std::vector<std::string>{});
  EXPECT_FALSE(store().admin().find("e"));
  EXPECT_FALSE(store().has_pending());
  connection->commit();
  EXPECT_EQ(ids(ready(owner)), std::vector<std::string>{"e"});
  EXPECT_TRUE(store().has_pending());
}

TEST_P(WritingTest, InsertingOutsideATransactionIsRefusedAlsoForNoEvents) {
  const auto connection = store().connect();
  EXPECT_FALSE(connection->in_transaction());
  EXPECT_THROW(connection->insert(std::vector{event({.id = "e"})}, {}), MisuseError);
  EXPECT_THROW(connection->insert({}, {}), MisuseError);
  connection->begin();
  connection->commit();
  EXPECT_THROW(connection->insert({}, {}), MisuseError) << "after a transaction has ended";
  EXPECT_FALSE(store().admin().find("e"));
}

TEST_P(WritingTest, InsertingNothingInATransactionIsFine) {
  const auto connection = store().connect();
  connection->begin();
  EXPECT_TRUE(connection->insert({}, {}).empty());
  connection->commit();
  EXPECT_FALSE(store().has_pending());
}

TEST_P(WritingTest, ARollbackLeavesNothing) {
  const auto connection = store().connect();
  connection->begin();
  EXPECT_TRUE(connection->in_transaction());
  connection->insert(std::vector{event({.id = "e"})}, {});
  connection->rollback();
  EXPECT_FALSE(connection->in_transaction());
  EXPECT_FALSE(store().admin().find("e"));
  write(event({.id = "e"}));
  EXPECT_TRUE(store().admin().find("e")) << "its id is free again";
}

TEST_P(WritingTest, AConnectionGivenBackInATransactionIsRolledBack) {
  open({.connections = 1});
  {
    const auto connection = store().connect();
    connection->begin();
    connection->insert(std::vector{event({.id = "e"})}, {});
  }
  const auto again = store().connect();
  EXPECT_FALSE(again->in_transaction());
  again->begin();
  again->commit();
  EXPECT_FALSE(store().admin().find("e"));
}

TEST_P(WritingTest, ANestedBeginIsRefusedAndTheTransactionGoesOn) {
  const auto connection = store().connect();
  connection->begin();
  connection->insert(std::vector{event({.id = "e"})}, {});
  EXPECT_THROW(connection->begin(), MisuseError);
  EXPECT_TRUE(connection->in_transaction());
  connection->commit();
  EXPECT_TRUE(store().admin().find("e"));
}

TEST_P(WritingTest, CommittingWithoutATransactionIsRefused) {
  const auto connection = store().connect();
  EXPECT_THROW(connection->commit(), Error);
}

TEST_P(WritingTest, ASavepointRolledBackTakesOnlyWhatCameAfterIt) {
  const auto connection = store().connect();
  connection->begin();
  connection->insert(std::vector{event({.id = "before"})}, {});
  connection->savepoint("one");
  connection->insert(std::vector{event({.id = "inside"})}, {});
  connection->rollback_to("one");
  connection->insert(std::vector{event({.id = "after"})}, {});
  connection->commit();
  EXPECT_EQ(ids(ready(own_everything())), (std::vector<std::string>{"before", "after"}));
}

TEST_P(WritingTest, NestedSavepointsAreUndoneOneInsideTheOther) {
  const auto connection = store().connect();
  connection->begin();
  connection->savepoint("outer");
  connection->insert(std::vector{event({.id = "a"})}, {});
  connection->savepoint("inner");
  connection->insert(std::vector{event({.id = "b"})}, {});
  connection->rollback_to("inner");
  connection->insert(std::vector{event({.id = "c"})}, {});
  connection->release("inner");
  connection->savepoint("second");
  connection->insert(std::vector{event({.id = "d"})}, {});
  connection->release("second");
  connection->commit();
  EXPECT_EQ(ids(ready(own_everything())), (std::vector<std::string>{"a", "c", "d"}));
}

TEST_P(WritingTest, RollingBackTheOuterSavepointTakesReleasedInnerOnesAlong) {
  const auto connection = store().connect();
  connection->begin();
  connection->savepoint("outer");
  connection->savepoint("inner");
  connection->insert(std::vector{event({.id = "a"})}, {});
  connection->release("inner");
  connection->rollback_to("outer");
  // It is still there, and can be rolled back to again.
  connection->insert(std::vector{event({.id = "b"})}, {});
  connection->rollback_to("outer");
  connection->release("outer");
  connection->insert(std::vector{event({.id = "a"})}, {});
  connection->commit();
  EXPECT_EQ(ids(ready(own_everything())), std::vector<std::string>{"a"});
}

TEST_P(WritingTest, ARollbackTakesReleasedSavepointsAlong) {
  const auto connection = store().connect();
  connection->begin();
  connection->savepoint("one");
  connection->insert(std::vector{event({.id = "e"})}, {});
  connection->release("one");
  connection->rollback();
  EXPECT_FALSE(store().admin().find("e"));
}

TEST_P(WritingTest, AddressesComeInOrderAndAreThoseThatAreRead) {
  std::vector<Event> events;
  for (int i = 0; i < 50; ++i) {
    events.push_back(event({.id = "e" + std::to_string(i), .aggregate_id = std::to_string(i)}));
  }
  events.push_back(event({.id = "late", .available_at = now() + 1h}));
  const std::vector<RowRef> refs = write(events);
  ASSERT_EQ(refs.size(), events.size());
  for (std::size_t i = 0; i < refs.size(); ++i) {
    const RowRef read = ref(events[i].id());
    EXPECT_EQ(refs[i].seq, read.seq) << events[i].id();
    EXPECT_EQ(refs[i].shard, read.shard) << events[i].id();
    EXPECT_EQ(refs[i].hold, read.hold) << events[i].id();
    if (i > 0) {
      EXPECT_LT(refs[i - 1].seq, refs[i].seq);
    }
  }
}

TEST_P(WritingTest, ThousandsOfEventsGoInAtOnceInOrder) {
  std::vector<Event> events;
  std::vector<std::string> expected;
  for (int i = 0; i < 2'500; ++i) {
    expected.push_back("e" + std::to_string(i));
    events.push_back(event({.id = expected.back()}));
  }
  EXPECT_EQ(write(events).size(), events.size());
  EXPECT_EQ(ids(ready(own_everything())), expected);
}

TEST_P(WritingTest, ALaterTransactionGetsHigherNumbersAlsoAfterRowsAreGone) {
  OUTBOX_NEEDS(backend().removes_done());
  open({.remove_done = true});
  const RowRef first = write(event({.id = "a"}));
  const Owner owner = own_everything();
  apply(owner, {update("a", StatusUpdate::Kind::done)});
  ASSERT_FALSE(store().admin().find("a"));
  EXPECT_GT(write(event({.id = "b"})).seq, first.seq);
}

TEST_P(WritingTest, AnIdThatIsTakenIsRefusedAndTheFirstEventStays) {
  write(event({.id = "e", .payload = json("1")}));
  // At once, or at the commit if the store puts inserts off.
  const auto insert = [this](const std::vector<Event>& events) {
    const auto connection = store().connect();
    connection->begin();
    connection->insert(events, {});
    connection->commit();
  };
  EXPECT_THROW(insert({event({.id = "e", .payload = json("2")})}), Error);
  EXPECT_THROW(insert({event({.id = "f"}), event({.id = "f"})}), Error);
  EXPECT_EQ(record("e").row.event.payload(), "1");
  EXPECT_FALSE(store().admin().find("f"));
}

TEST_P(WritingTest, IdsThatDifferInCaseOrTrailingSpacesAreDifferent) {
  const char* const alike[] = {"abc", "ABC", "abc ", "äbc"};
  std::set<Seq> numbers;
  for (const char* id : alike) numbers.insert(write(event({.id = id})).seq);
  EXPECT_EQ(numbers.size(), 4u);
  for (const char* id : alike) EXPECT_EQ(record(id).row.event.id(), id);
}

TEST_P(WritingTest, ADelayedEventIsNotReadyButDueWhenItsTimeComes) {
  write(event({.id = "e", .available_at = now() + 10s}));
  const Owner owner = own_everything();
  hold_delayed(owner);
  EXPECT_TRUE(ready(owner).empty());
  expect_due_in(record("e"), 10s);
  EXPECT_TRUE(owner->due(owner.shards(), 10).rows.empty());

  const auto margin = backend().clock_error() + 1us;
  advance(10s - margin);
  EXPECT_TRUE(owner->due(owner.shards(), 10).rows.empty()) << "a moment too early";
  advance(margin);
  EXPECT_EQ(ids(owner->due(owner.shards(), 10).rows), std::vector<std::string>{"e"});
}

TEST_P(WritingTest, AnEventAvailableNowOrEarlierIsReady) {
  write({event({.id = "now"}), event({.id = "past", .occurred_at = now() - 1h})});
  EXPECT_EQ(record("now").hold, 0);
  EXPECT_EQ(record("past").hold, 0);
}

TEST_P(WritingTest, EventsOfOneAggregateShareAShardAndAggregatesAreSpread) {
  std::set<int> used;
  for (int aggregate = 0; aggregate < 200; ++aggregate) {
    const std::string id = std::to_string(aggregate);
    const auto refs = write_aggregate(id, {id + "a", id + "b"});
    EXPECT_EQ(refs[0].shard, refs[1].shard);
    used.insert(refs[0].shard);
  }
  EXPECT_EQ(used.size(), static_cast<std::size_t>(capabilities().shards));
}

TEST_P(WritingTest, EventsWithoutAnAggregateAreSpreadByTheirOwnId) {
  std::set<int> used;
  for (int i = 0; i < 200; ++i) used.insert(write(event({.id = std::to_string(i)})).shard);
  EXPECT_EQ(used.size(), static_cast<std::size_t>(capabilities().shards));
}

TEST_P(WritingTest, AnExhaustedPoolSaysWhichLimitWasHit) {
  open({.connections = 2, .wait_timeout = 1ms});
  const auto first = store().connect();
  auto second = store().connect();
  try {
    store().connect();
    FAIL() << "a third connection from a pool of two";
  } catch (const RetryableError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find(" 1 ms"), std::string::npos) << text;
    EXPECT_NE(text.find("connections"), std::string::npos) << text;
    EXPECT_NE(text.find('2'), std::string::npos) << text;
    if (Database* database = backend().database()) {
      EXPECT_NE(text.find("all 2 are in use"), std::string::npos) << text;
      const std::string option = database->words().options + "::Options::connections";
      EXPECT_NE(text.find(option), std::string::npos) << text;
    }
  }
  second.reset();
  EXPECT_TRUE(store().connect()) << "one was given back";
}

TEST_P(WritingTest, ConnectionsOfManyThreadsLoseNothingAndMixNothingUp) {
  open({.connections = 3});
  constexpr int kThreads = 6;
  constexpr int kTransactions = 20;
  store();  // opened before the threads start
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([this, t] {
        for (int i = 0; i < kTransactions; ++i) {
          const std::string id = std::to_string(t) + "-" + std::to_string(i);
          write({event({.id = id + "a"}), event({.id = id + "b"})});
        }
      });
    }
  }
  const std::vector<std::string> read = ids(ready(own_everything()));
  EXPECT_EQ(read.size(), kThreads * kTransactions * 2u);
  for (int t = 0; t < kThreads; ++t) {
    std::vector<std::string> expected;
    for (int i = 0; i < kTransactions; ++i) {
      const std::string id = std::to_string(t) + "-" + std::to_string(i);
      expected.push_back(id + "a");
      expected.push_back(id + "b");
    }
    std::vector<std::string> of_thread;
    std::copy_if(read.begin(), read.end(), std::back_inserter(of_thread),
                 [&](const std::string& id) { return id[0] == '0' + t; });
    EXPECT_EQ(of_thread, expected) << "in the order in which the thread committed";
  }
}

// What goes in comes out.

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
  rows.push_back(store.admin().find("alone")->row);
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
  OUTBOX_NEEDS(backend().removes_done());
  Store& store = open(kRemoveDone);
  expect_same(store, json(R"({"b":1.10, "a":2,"a":3,  "n":"\u0000","e":1e400,"z":-0})"));
  expect_same(store, json(R"("just text")"));
  expect_same(store, json(R"("it's 😀 日本, and \"quoted\"")"));
  expect_same(store, json("{}", "application/vnd.shop+json"));
  expect_same(store, json(std::string(20'000, '[') + std::string(20'000, ']')));
}

TEST_P(PayloadsTest, BytesAreAnyBytes) {
  OUTBOX_NEEDS(backend().removes_done());
  Store& store = open(kRemoveDone);
  std::string all;
  for (int i = 0; i < 256; ++i) all.push_back(static_cast<char>(i));
  expect_same(store, bytes(all));
  expect_same(store, bytes(std::string(1, '\0')));
  expect_same(store, bytes(""));
  expect_same(store, bytes("{}", "text/plain"));
}

TEST_P(PayloadsTest, TheLargestPayloadsFit) {
  OUTBOX_NEEDS(backend().removes_done());
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
  OUTBOX_NEEDS(backend().removes_done());
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
    const auto found = store().admin().find(fields.id);
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
