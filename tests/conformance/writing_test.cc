// Rules 2, 6 to 8, 10 and 12: what a transaction inserts, and when it is seen.
#include <algorithm>
#include <set>
#include <thread>

#include "outbox/error.h"
#include "store_conformance.h"

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
  EXPECT_FALSE(store().find("e"));
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
  EXPECT_FALSE(store().find("e"));
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
  EXPECT_FALSE(store().find("e"));
  write(event({.id = "e"}));
  EXPECT_TRUE(store().find("e")) << "its id is free again";
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
  EXPECT_FALSE(store().find("e"));
}

TEST_P(WritingTest, ANestedBeginIsRefusedAndTheTransactionGoesOn) {
  const auto connection = store().connect();
  connection->begin();
  connection->insert(std::vector{event({.id = "e"})}, {});
  EXPECT_THROW(connection->begin(), MisuseError);
  EXPECT_TRUE(connection->in_transaction());
  connection->commit();
  EXPECT_TRUE(store().find("e"));
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
  EXPECT_FALSE(store().find("e"));
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
  open({.remove_done = true});
  const RowRef first = write(event({.id = "a"}));
  const Owner owner = own_everything();
  apply(owner, {update("a", StatusUpdate::Kind::done)});
  ASSERT_FALSE(store().find("a"));
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
  EXPECT_FALSE(store().find("f"));
}

TEST_P(WritingTest, IdsThatDifferInCaseOrTrailingSpacesAreDifferent) {
  write({event({.id = "abc"}), event({.id = "ABC"}), event({.id = "abc "})});
  EXPECT_NE(ref("abc").seq, ref("ABC").seq);
  EXPECT_NE(ref("abc").seq, ref("abc ").seq);
}

TEST_P(WritingTest, ADelayedEventIsNotReadyButDueWhenItsTimeComes) {
  write(event({.id = "e", .available_at = now() + 10s}));
  const Owner owner = own_everything();
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
    EXPECT_NE(text.find("connections"), std::string::npos) << text;
    EXPECT_NE(text.find('2'), std::string::npos) << text;
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

}  // namespace
}  // namespace outbox::conformance
