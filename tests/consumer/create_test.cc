// IdempotentCreate::run(), as its users see it.
#include <gtest/gtest.h>

#include <future>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "creations.h"
#include "outbox/error.h"
#include "outbox/memory.h"
#include "outbox/outbox.h"
#include "support/stores.h"

namespace outbox::patterns {
namespace {

struct OrderId {
  int year = 0;
  int number = 0;

  friend bool operator==(const OrderId&, const OrderId&) = default;
};

}  // namespace
}  // namespace outbox::patterns

template <>
struct outbox::ResultText<outbox::patterns::OrderId> {
  static std::string to_text(const outbox::patterns::OrderId& id) {
    return std::to_string(id.year) + "/" + std::to_string(id.number);
  }
  static outbox::patterns::OrderId from_text(std::string_view text) {
    const auto slash = text.find('/');
    return {.year = std::stoi(std::string(text.substr(0, slash))),
            .number = std::stoi(std::string(text.substr(slash + 1)))};
  }
};

namespace outbox::patterns {
namespace {

using namespace std::chrono_literals;
using test::contains;
using test::eventually;
using test::message_of;

class CreateTest : public CreationTest {
 protected:
  // The error of the record with this key.
  std::string last_error(const std::string& key) {
    return query("SELECT last_error FROM " + table() + " WHERE request_key = '" + key + "'")
        .at(0)
        .get<std::string>(0);
  }
};

OUTBOX_ON_EVERY_DATABASE(CreateTest);

TEST_P(CreateTest, TheSameRequestAgainGetsTheFirstResult) {
  IdempotentCreate create{*writer_, quiet({.public_id_prefix = "ord"})};
  const Creation first = create.run(request("k"), make);
  EXPECT_TRUE(first.created());
  EXPECT_EQ(first.ids.internal_id.size(), 26u);
  EXPECT_EQ(first.ids.public_id.substr(0, 4), "ord_");
  const Creation second = create.run(request("k"), never);
  EXPECT_TRUE(second.repeated());
  EXPECT_EQ(second.result, first.result);
  EXPECT_EQ(second.ids.internal_id, first.ids.internal_id);
  EXPECT_EQ(second.ids.public_id, first.ids.public_id);
  expect_one(first);
  EXPECT_EQ(record("k"), "1 1 " + *first.result + " -");
}

TEST_P(CreateTest, TheSameKeyWithAnotherBodyIsAnErrorThatNamesIt) {
  IdempotentCreate create{*writer_, quiet()};
  const Creation first = create.run(request("k", "one"), make);
  const std::string message =
      message_of<KeyReusedError>([&] { create.run(request("k", "another"), never); });
  EXPECT_TRUE(contains(message, "\"k\""));
  EXPECT_TRUE(contains(message, "\"acme\""));
  EXPECT_THROW(create.run(request("k", ""), never), KeyReusedError) << "an empty body is a body";
  EXPECT_TRUE(create.run(request("k", "one"), never).repeated());
  expect_one(first);
}

// Also while it is in progress, and when it has failed: else a mistake would be found
// out only sometimes.
TEST_P(CreateTest, AnotherBodyIsAnErrorInEveryState) {
  IdempotentCreate create{*writer_, quiet()};
  leave_claim("k");
  EXPECT_THROW(create.run(request("k", "another"), never), KeyReusedError);
  end_leases();
  EXPECT_THROW(create.run(request("k", "another"), never), KeyReusedError);
  execute("UPDATE " + table() + " SET state = 2");
  EXPECT_THROW(create.run(request("k", "another"), never), KeyReusedError);
}

TEST_P(CreateTest, AHashOfTheUsersOwnIsComparedAsItIs) {
  IdempotentCreate create{*writer_, quiet()};
  const auto with_hash = [](const std::string& hash) {
    return CreateRequest{.key = "k", .hash = hash};
  };
  EXPECT_TRUE(create.run(with_hash("order of 3"), make).created());
  EXPECT_TRUE(create.run(with_hash("order of 3"), never).repeated());
  EXPECT_THROW(create.run(with_hash("Order of 3"), never), KeyReusedError);
  EXPECT_THROW(create.run(with_hash("order of 3 "), never), KeyReusedError);
}

// A collation would take some of these for the same.
TEST_P(CreateTest, KeysThatLookAlikeAreDifferentRequests) {
  IdempotentCreate create{*writer_, quiet()};
  const std::vector<std::string> keys{"a", "A", "a ", " a", "ä", "a\u0308", "ß", "ss", "1", "01"};
  std::set<std::string> results;
  for (const char* tenant : {"", "acme", "Acme", "acme "}) {
    for (const std::string& key : keys) {
      const Creation made = create.run({.tenant_id = tenant, .key = key, .body = "b"}, make);
      EXPECT_TRUE(made.created()) << tenant << " " << key;
      results.insert(*made.result);
    }
  }
  EXPECT_EQ(results.size(), 4 * keys.size());
}

TEST_P(CreateTest, AFailureRollsBackIsRecordedAndMayBeRetriedWithTheSameIds) {
  IdempotentCreate create{*writer_, quiet()};
  struct NoPaper : std::runtime_error {
    using std::runtime_error::runtime_error;
  };
  NewIds first;
  const auto fail = [&](Transaction& tx, const NewIds& ids) -> std::string {
    first = ids;
    make(tx, ids);
    throw NoPaper("no paper");
  };
  EXPECT_EQ(message_of<NoPaper>([&] { create.run(request("k"), fail); }), "no paper");
  EXPECT_EQ(things(), 0);
  EXPECT_EQ(events(), 0);
  EXPECT_EQ(record("k"), "2 1 - no paper");
  EXPECT_THROW(create.run(request("k"), fail), NoPaper);
  EXPECT_EQ(record("k"), "2 2 - no paper");

  const Creation made = create.run(request("k"), make);
  EXPECT_TRUE(made.created());
  EXPECT_EQ(made.ids.internal_id, first.internal_id);
  EXPECT_EQ(made.ids.public_id, first.public_id);
  expect_one(made);
  EXPECT_EQ(record("k"), "1 3 " + *made.result + " no paper");
}

TEST_P(CreateTest, WhateverIsThrownCanBeRecorded) {
  IdempotentCreate create{*writer_, quiet()};
  const auto failing = [&](const std::string& key, const std::function<void()>& fail) {
    try {
      create.run(request(key), [&](Transaction&, const NewIds&) -> std::string {
        fail();
        return "";
      });
      ADD_FAILURE() << "nothing was thrown";
    } catch (...) {
    }
  };
  failing("long", [] { throw std::runtime_error(std::string(10'000, 'x')); });
  EXPECT_EQ(last_error("long"), std::string(4'000, 'x'));
  failing("bytes", [] { throw std::runtime_error("a\xff\xfe"); });
  EXPECT_EQ(last_error("bytes"), "a\uFFFD\uFFFD");
  failing("number", [] { throw 42; });
  EXPECT_TRUE(contains(last_error("number"), "not a std::exception"));
  // Not our commit's: nothing has happened for sure.
  failing("unknown", [] { throw OutcomeUnknownError("of another database"); });
  EXPECT_EQ(record("unknown"), "2 1 - of another database");
  EXPECT_TRUE(log_.lines().empty());
}

TEST_P(CreateTest, ASecondCallIsToldThatTheFirstIsAtItAndWhenToAskAgain) {
  IdempotentCreate create{*writer_, quiet({.lease = 30s})};
  StoppedCall first(create, request("k"), make);
  const Creation second = create.run(request("k"), never);
  EXPECT_TRUE(second.in_progress());
  EXPECT_FALSE(second.result);
  EXPECT_GT(second.retry_after, 10s);
  EXPECT_LE(second.retry_after, 30s);
  first.go_on();
  const Creation made = first.result();
  EXPECT_TRUE(made.created());
  EXPECT_EQ(create.run(request("k"), never).result, made.result);
  expect_one(made);
}

TEST_P(CreateTest, ASecondCallWaitsForTheFirstOnesResult) {
  IdempotentCreate create{*writer_, quiet({.wait = 20s})};
  StoppedCall first(create, request("k"), make);
  auto second = std::async(std::launch::async, [&] { return create.run(request("k"), never); });
  EXPECT_EQ(second.wait_for(100ms), std::future_status::timeout) << "it does not wait";
  first.go_on();
  const Creation made = first.result();
  const Creation repeated = second.get();
  EXPECT_TRUE(repeated.repeated());
  EXPECT_EQ(repeated.result, made.result);
  expect_one(made);
}

TEST_P(CreateTest, WhoWaitsTriesAgainWhenTheFirstFails) {
  IdempotentCreate create{*writer_, quiet({.wait = 20s})};
  StoppedCall first(create, request("k"), [&](Transaction&, const NewIds&) -> std::string {
    throw std::runtime_error("no paper");
  });
  auto second = std::async(std::launch::async, [&] { return create.run(request("k"), make); });
  first.go_on();
  EXPECT_THROW(first.result(), std::runtime_error);
  const Creation made = second.get();
  EXPECT_TRUE(made.created());
  expect_one(made);
}

TEST_P(CreateTest, WhoWaitsGivesUpInTimeAndTakesOverAsSoonAsTheLeaseIsOver) {
  leave_claim("k");
  IdempotentCreate impatient{*writer_, quiet({.wait = 50ms})};
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_TRUE(impatient.run(request("k"), never).in_progress());
  EXPECT_GE(std::chrono::steady_clock::now() - begun, 50ms);

  IdempotentCreate patient{*writer_, quiet({.wait = 20s})};
  auto waiting = std::async(std::launch::async, [&] { return patient.run(request("k"), make); });
  end_leases();
  const Creation made = waiting.get();
  EXPECT_TRUE(made.created());
  expect_one(made);
  EXPECT_EQ(record("k"), "1 2 " + *made.result + " -");
}

TEST_P(CreateTest, EventsOfWhatWasCreatedAreDeliveredOnceAndOthersNotAtAll) {
  const auto recorder = std::make_shared<testing::RecordingListener>();
  Listeners on;
  on.add(std::string(kGlobalAggregate), "ThingMade", recorder);
  Outbox box{store(), on, {.log = log_.log()}};
  box.start();
  IdempotentCreate create{box.writer(), quiet()};
  EXPECT_THROW(create.run(request("k"),
                          [](Transaction& tx, const NewIds& ids) -> std::string {
                            make(tx, ids);
                            throw std::runtime_error("no paper");
                          }),
               std::runtime_error);
  const Creation made = create.run(request("k"), make);
  for (int n = 0; n < 3; ++n) EXPECT_TRUE(create.run(request("k"), never).repeated());
  ASSERT_TRUE(box.wait_idle(20s));
  EXPECT_EQ(recorder->payloads(), std::vector<std::string>{"\"" + made.ids.public_id + "\""});
}

TEST_P(CreateTest, ItRunsBesideAnOpenTransactionWhereTheDatabaseCan) {
  IdempotentCreate create{*writer_, quiet()};
  auto outer = writer_->begin();
  if (dialect() == Dialect::sqlite) {
    const std::string message = message_of<MisuseError>([&] { create.run(request("k"), never); });
    EXPECT_TRUE(contains(message, "one writer at a time: use join()"));
    outer.rollback();
    EXPECT_EQ(records(), 0);
    return;
  }
  const std::string undone = writer_->write({.type = "Undone", .payload = json("1")});
  const Creation made = create.run(request("k"), [&](Transaction& tx, const NewIds& ids) {
    tx.execute("INSERT INTO thing VALUES ('" + ids.internal_id + "', '" + ids.public_id + "')");
    // By the thread's open transaction, which is the new one.
    writer_->write({.type = "ThingMade", .payload = json("1")});
    return ids.public_id;
  });
  outer.rollback();
  EXPECT_FALSE(store()->admin().find(undone));
  expect_one(made);
  EXPECT_TRUE(create.run(request("k"), never).repeated());
}

TEST_P(CreateTest, WhatIsTooLongOrNotTextIsRefusedBeforeAnythingHappens) {
  IdempotentCreate create{*writer_, quiet()};
  const auto refusal = [&](const CreateRequest& bad) {
    return message_of<MisuseError>([&] { create.run(bad, never); });
  };
  const std::string nul("a\0b", 3);
  EXPECT_TRUE(contains(refusal({.body = "b"}), "CreateRequest::key is \"\""));
  EXPECT_TRUE(contains(refusal({.key = std::string(129, 'k'), .body = "b"}), "key is 129"));
  EXPECT_TRUE(contains(refusal({.key = nul, .body = "b"}), "key must not contain NUL"));
  EXPECT_TRUE(contains(refusal({.key = "\xff", .body = "b"}), "key must be UTF-8"));
  EXPECT_TRUE(contains(refusal({.tenant_id = std::string(65, 't'), .key = "k", .body = "b"}),
                       "tenant_id is 65"));
  EXPECT_TRUE(contains(refusal({.key = "k", .hash = std::string(65, 'h')}), "hash is 65"));
  EXPECT_TRUE(contains(refusal({.key = "k"}), "both missing"));
  EXPECT_TRUE(contains(refusal({.key = "k", .body = "", .hash = "h"}), "both given"));
  EXPECT_THROW(create.run(request("k"), Work{}), MisuseError);
  EXPECT_EQ(records(), 0);

  std::string longest;
  for (std::size_t n = 0; n < kMaxRequestKeyLength; ++n) longest += "\U0001F980";
  const CreateRequest full{.tenant_id = longest.substr(0, 4 * kMaxTenantIdLength),
                           .key = longest,
                           .hash = longest.substr(0, 4 * kMaxRequestHashLength)};
  EXPECT_TRUE(create.run(full, make).created());
  EXPECT_TRUE(create.run(full, never).repeated());
}

TEST_P(CreateTest, AResultThatCannotBeKeptFailsBeforeTheCommit) {
  IdempotentCreate create{*writer_, quiet({.public_id_prefix = std::string(32, 'p')})};
  for (const std::string& bad :
       {std::string(256, 'r'), std::string("a\0b", 3), std::string("\xff")}) {
    const std::string message = message_of<MisuseError>([&] {
      create.run(request("k"), [&](Transaction& tx, const NewIds& ids) {
        make(tx, ids);
        return bad;
      });
    });
    EXPECT_TRUE(contains(message, "result"));
    EXPECT_EQ(things(), 0);
  }
  for (const std::string& good : {std::string(255, 'r'), std::string()}) {
    const std::string key = "k" + std::to_string(good.size());
    create.run(request(key), [&](Transaction&, const NewIds&) { return good; });
    EXPECT_EQ(create.run(request(key), never).result, good);
  }
}

TEST_P(CreateTest, AResultIsWhatTheWorkReturns) {
  IdempotentCreate create{*writer_, quiet()};
  const auto number = [](Transaction& tx, const NewIds& ids) {
    make(tx, ids);
    return std::int64_t{-42};
  };
  const Creation<std::int64_t> created = create.run(request("number"), number);
  EXPECT_TRUE(created.created());
  EXPECT_EQ(created.result, -42);
  const Creation<std::int64_t> repeated = create.run(request("number"), number);
  EXPECT_TRUE(repeated.repeated());
  EXPECT_EQ(repeated.result, -42);
  EXPECT_EQ(things(), 1);

  const auto id = [](Transaction&, const NewIds&) { return OrderId{.year = 2026, .number = 7}; };
  EXPECT_EQ(create.run(request("id"), id).result, (OrderId{.year = 2026, .number = 7}));
  EXPECT_EQ(create.run(request("id"), id).result, (OrderId{.year = 2026, .number = 7}));
  EXPECT_EQ(record("id"), "1 1 2026/7 -");

  const auto literal = [](Transaction&, const NewIds&) { return "ours"; };
  EXPECT_EQ(create.run(request("literal"), literal).result, "ours");
}

TEST_P(CreateTest, AResultOfAnotherTypeIsAnErrorThatShowsIt) {
  IdempotentCreate create{*writer_, quiet({.public_id_prefix = "ord"})};
  const Creation made = create.run(request("k"), make);
  const std::string message = message_of<MisuseError>(
      [&] { create.run(request("k"), [](Transaction&, const NewIds&) { return 1; }); });
  EXPECT_TRUE(contains(message, "\"" + *made.result + "\"")) << message;
  expect_one(made);
}

TEST_P(CreateTest, AWorkThatEndsTheTransactionIsToldWhatIsWrong) {
  IdempotentCreate create{*writer_, quiet()};
  for (const auto end : {&Transaction::commit, &Transaction::rollback}) {
    const std::string message = message_of<MisuseError>([&] {
      create.run(request("k"), [&](Transaction& tx, const NewIds& ids) {
        (tx.*end)();
        return ids.public_id;
      });
    });
    EXPECT_TRUE(contains(message, "the work for the key \"k\" ended the transaction")) << message;
  }
  EXPECT_EQ(record("k").substr(0, 3), "2 2");
}

TEST_P(CreateTest, RecordsGoOnceTheirRetentionIsOverButNotWhileInProgress) {
  IdempotentCreate create{*writer_, quiet({.lease = 48h, .retention = 24h, .purge_batch = 2})};
  leave_claim("live");
  execute("UPDATE " + table() + " SET lease_until = created_at");
  shift("creation", "lease_until", -48h);
  for (int n = 0; n < 5; ++n) create.run(request("old" + std::to_string(n)), make);
  shift("creation", "changed_at", 1h);
  create.run(request("young"), make);
  shift("creation", "changed_at", 23h + 30min);
  EXPECT_EQ(create.purge(), 5);
  EXPECT_EQ(records(), 2);
  EXPECT_TRUE(create.run(request("young"), never).repeated());
  EXPECT_TRUE(create.run(request("live"), never).in_progress());
  EXPECT_TRUE(create.run(request("old0"), make).created()) << "forgotten";
  shift("creation", "lease_until", 100h);
  EXPECT_EQ(create.purge(), 1);
}

TEST_P(CreateTest, RecordsGoByThemselvesOnceItIsStarted) {
  IdempotentCreate create{*writer_, quiet({.retention = 24h, .purge_interval = 10ms})};
  create.run(request("k"), make);
  shift("creation", "changed_at", 25h);
  create.start();
  EXPECT_TRUE(eventually([&] { return records() == 0; }));
  create.close();
  EXPECT_THROW(create.start(), MisuseError);
}

TEST(CreateOptionsTest, InvalidOptionsAreRefusedByName) {
  const auto memory = memory::open();
  Writer in_memory{memory};
  EXPECT_TRUE(contains(message_of<MisuseError>([&] { IdempotentCreate create{in_memory}; }),
                       "IdempotentCreate needs a store with SQL"));
  const auto database = chaos::kSqlite.make();
  Writer writer{database->open()};
  const auto refusal = [&](const CreateOptions& options) {
    return message_of<MisuseError>([&] { IdempotentCreate create(writer, options); });
  };
  EXPECT_TRUE(contains(refusal({.public_id_prefix = "a b"}), "public_id_prefix"));
  EXPECT_TRUE(contains(refusal({.lease = 0ms}), "CreateOptions::lease must be positive"));
  EXPECT_TRUE(contains(refusal({.wait = -1ms}), "CreateOptions::wait must not be negative"));
  EXPECT_TRUE(contains(refusal({.retention = 0s}), "CreateOptions::retention"));
  EXPECT_TRUE(contains(refusal({.purge_interval = 0ms}), "CreateOptions::purge_interval"));
  EXPECT_TRUE(contains(refusal({.purge_batch = 0}), "CreateOptions::purge_batch"));
  IdempotentCreate longest{writer,
                           {.lease = std::chrono::milliseconds::max(),
                            .wait = std::chrono::milliseconds::max(),
                            .retention = std::chrono::seconds::max(),
                            .purge_interval = std::chrono::milliseconds::max()}};
  EXPECT_TRUE(longest
                  .run({.key = "k", .body = ""},
                       [](Transaction&, const NewIds& ids) { return ids.public_id; })
                  .created());
  EXPECT_EQ(longest.purge(), 0);
}

}  // namespace
}  // namespace outbox::patterns
