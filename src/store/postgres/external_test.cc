#include <libpq-fe.h>

#include "outbox/memory.h"
#include "store/postgres/test_support.h"

namespace outbox::postgres {
namespace {

class PostgresExternalConnectionTest : public PostgresTest {
 protected:
  void SetUp() override {
    PostgresTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    store_ = open_store();
    mine_ = std::make_unique<test::Sql>();
  }

  void insert(Connection& external, const std::string& id) {
    const Event event = simple_event(id);
    external.insert({&event, 1}, {});
  }
  std::string prepared_statements() {
    return mine_->value("SELECT count(*) FROM pg_prepared_statements");
  }

  std::shared_ptr<Store> store_;
  std::unique_ptr<test::Sql> mine_;  // the user's own connection
};

TEST_F(PostgresExternalConnectionTest, TheEventLivesAndDiesWithTheOwnersTransaction) {
  const auto external = wrap(mine_->handle(), *store_);
  EXPECT_FALSE(external->in_transaction());
  mine_->execute("BEGIN");
  EXPECT_TRUE(external->in_transaction());
  insert(*external, "lost");
  mine_->execute("ROLLBACK");
  mine_->execute("BEGIN");
  insert(*external, "kept");
  EXPECT_FALSE(store_->find("kept")) << "not committed yet";
  mine_->execute("COMMIT");
  EXPECT_FALSE(store_->find("lost"));
  EXPECT_TRUE(store_->find("kept"));
}

TEST_F(PostgresExternalConnectionTest, OutsideATransactionItFailsAtOnceAlsoForNothing) {
  const auto external = wrap(mine_->handle(), *store_);
  EXPECT_TRUE(contains(message_of<MisuseError>([&] { insert(*external, "e"); }), "run BEGIN"));
  EXPECT_THROW(external->insert({}, {}), MisuseError);
  EXPECT_FALSE(store_->find("e"));
}

TEST_F(PostgresExternalConnectionTest, InAFailedTransactionItFailsAtOnceAndSaysSo) {
  const auto external = wrap(mine_->handle(), *store_);
  mine_->execute("BEGIN");
  EXPECT_THROW(mine_->execute("SELECT 1 / 0"), std::runtime_error);
  EXPECT_TRUE(
      contains(message_of<MisuseError>([&] { insert(*external, "e"); }), "roll back first"));
  mine_->execute("ROLLBACK");
}

TEST_F(PostgresExternalConnectionTest, TheTransactionIsItsOwners) {
  const auto external = wrap(mine_->handle(), *store_);
  mine_->execute("BEGIN");
  EXPECT_TRUE(contains(message_of<MisuseError>([&] { external->commit(); }), "commit()"));
  EXPECT_THROW(external->begin(), MisuseError);
  EXPECT_THROW(external->rollback(), MisuseError);
  EXPECT_THROW(external->savepoint("a"), MisuseError);
  EXPECT_THROW(external->release("a"), MisuseError);
  EXPECT_THROW(external->rollback_to("a"), MisuseError);
  EXPECT_THROW(external->execute("COMMIT", {}), MisuseError);
  EXPECT_TRUE(external->in_transaction());
  mine_->execute("ROLLBACK");
}

TEST_F(PostgresExternalConnectionTest, AnEventInsideARolledBackSavepointIsGoneAndTheOthersStay) {
  const auto external = wrap(mine_->handle(), *store_);
  mine_->execute("BEGIN");
  insert(*external, "before");
  mine_->execute("SAVEPOINT part");
  insert(*external, "inside");  // prepares the statement there
  mine_->execute("ROLLBACK TO part");
  insert(*external, "after");
  mine_->execute("COMMIT");
  EXPECT_TRUE(store_->find("before"));
  EXPECT_FALSE(store_->find("inside"));
  EXPECT_TRUE(store_->find("after"));
}

TEST_F(PostgresExternalConnectionTest, ADuplicateInASavepointIsNamedAndTheTransactionGoesOn) {
  write_event(*store_, simple_event("there"));
  const auto external = wrap(mine_->handle(), *store_);
  mine_->execute("BEGIN; SAVEPOINT part");
  EXPECT_TRUE(contains(message_of<MisuseError>([&] { insert(*external, "there"); }), "(there)"));
  mine_->execute("ROLLBACK TO part");
  insert(*external, "new");
  mine_->execute("COMMIT");
  EXPECT_TRUE(store_->find("new"));
}

TEST_F(PostgresExternalConnectionTest, TwoOnOneConnectionDoNotDisturbEachOther) {
  const auto one = wrap(mine_->handle(), *store_);
  {
    const auto two = wrap(mine_->handle(), *store_);
    mine_->execute("BEGIN");
    for (int i = 0; i < 3; ++i) {
      insert(*one, "one" + std::to_string(i));
      insert(*two, "two" + std::to_string(i));
    }
  }
  insert(*one, "one3");
  mine_->execute("COMMIT");
  EXPECT_EQ(store_->count({}), 7);
}

TEST_F(PostgresExternalConnectionTest, NothingIsLeftPreparedBehind) {
  for (const char* end : {"COMMIT", "ROLLBACK"}) {
    const auto external = wrap(mine_->handle(), *store_);
    mine_->execute("BEGIN");
    for (int i = 0; i < 3; ++i) insert(*external, end + std::to_string(i));
    EXPECT_NE(prepared_statements(), "0");
    mine_->execute(end);
  }
  EXPECT_EQ(prepared_statements(), "0");
  {
    const auto external = wrap(mine_->handle(), *store_);
    mine_->execute("BEGIN");
    for (int i = 0; i < 3; ++i) insert(*external, "inside" + std::to_string(i));
  }
  EXPECT_EQ(prepared_statements(), "0") << "destroyed inside the transaction";
  mine_->execute("COMMIT");
}

TEST_F(PostgresExternalConnectionTest, WithoutPreparingNothingEverIsPrepared) {
  const auto store = open_store({.prepare = false});
  const auto external = wrap(mine_->handle(), *store);
  mine_->execute("BEGIN");
  for (int i = 0; i < 3; ++i) insert(*external, std::to_string(i));
  EXPECT_EQ(prepared_statements(), "0");
  mine_->execute("COMMIT");
}

// The owner, or a pool of its, may throw the prepared statement away; nobody can tell
// before it is used.
TEST_F(PostgresExternalConnectionTest,
       AfterDiscardAllOneTransactionIsToBeStartedOverAndNoneEverAfter) {
  const auto external = wrap(mine_->handle(), *store_);
  const auto transaction = [&](const std::string& id) {
    mine_->execute("BEGIN");
    insert(*external, id);
    mine_->execute("COMMIT");
  };
  transaction("1");
  transaction("2");
  mine_->execute("DISCARD ALL");
  EXPECT_TRUE(contains(message_of<RetryableError>([&] { transaction("3"); }), "start it over"));
  mine_->execute("ROLLBACK");
  for (int i = 3; i < 9; ++i) {
    transaction(std::to_string(i));
    mine_->execute("DISCARD ALL");
  }
  EXPECT_EQ(store_->count({}), 8);
}

TEST_F(PostgresExternalConnectionTest, PipelineModeIsRefused) {
  const auto external = wrap(mine_->handle(), *store_);
  mine_->execute("BEGIN");
  ASSERT_EQ(PQenterPipelineMode(mine_->handle()), 1);
  EXPECT_TRUE(contains(message_of<MisuseError>([&] { insert(*external, "e"); }), "pipeline mode"));
  ASSERT_EQ(PQexitPipelineMode(mine_->handle()), 1);
  insert(*external, "e");
  mine_->execute("COMMIT");
  EXPECT_TRUE(store_->find("e"));
}

TEST_F(PostgresExternalConnectionTest, WhatIsNoOpenConnectionOrNoPostgresStoreIsRefused) {
  EXPECT_THROW(wrap(static_cast<PGconn*>(nullptr), *store_), MisuseError);
  const auto elsewhere = memory::open();
  EXPECT_TRUE(
      contains(message_of<MisuseError>([&] { wrap(mine_->handle(), *elsewhere); }), "memory"));
  PGconn* closed = PQconnectdb("host=127.0.0.1 port=1 connect_timeout=1");
  EXPECT_THROW(wrap(closed, *store_), MisuseError);
  PQfinish(closed);
}

// Every setting of the owner's session that changes how values are read or written.
TEST_F(PostgresExternalConnectionTest,
       TheOwnersSettingsChangeNeitherTimesNorBytesNorAreTheyChanged) {
  EventFields fields;
  fields.id = "odd";
  fields.type = "Grüße";
  fields.aggregate_type = "Straße";
  fields.aggregate_id = "日本 \\ ' \"";
  fields.tenant_id = "ñ";
  fields.headers = {{"kéy", "välue\\n"}};
  fields.payload = json(R"({"a":"ü\\ \u20ac 日本"})");
  fields.occurred_at = Time{std::chrono::microseconds{1'700'000'000'123'456}};
  fields.available_at = fields.occurred_at;
  const Event one = Event::restore(fields);
  fields.id = "delayed";
  fields.payload = bytes(std::string("\0\xff\x80 \\ '", 7));
  fields.available_at = host_clock().now() + 24h;
  const Event two = Event::restore(fields);
  const Event both[] = {one, two};

  for (const char* encoding : {"UTF8", "LATIN1", "SQL_ASCII", "SJIS"}) {
    for (const bool together : {true, false}) {
      sql().execute("TRUNCATE " + table());
      mine_->execute(
          "SET TimeZone = 'Asia/Kathmandu'; SET DateStyle = 'SQL, DMY'; "
          "SET IntervalStyle = 'sql_standard'; SET bytea_output = 'escape'; "
          "SET standard_conforming_strings = off; SET escape_string_warning = off; "
          "SET array_nulls = off; SET extra_float_digits = -10; SET search_path = ''; "
          "SET client_encoding = '" +
          std::string(encoding) + "'");
      {
        const auto external = wrap(mine_->handle(), *store_);
        mine_->execute("BEGIN");
        if (together) {
          external->insert(both, {});
        } else {
          external->insert({&one, 1}, {});
          external->insert({&two, 1}, {});
        }
        EXPECT_EQ(mine_->value("SHOW client_encoding"), encoding);
        mine_->execute("COMMIT");
      }
      EXPECT_EQ(mine_->value("SHOW client_encoding"), encoding);
      EXPECT_EQ(mine_->value("SHOW TimeZone"), "Asia/Kathmandu");
      for (const Event& event : both) {
        const auto found = store_->find(event.id());
        ASSERT_TRUE(found) << encoding;
        EXPECT_EQ(found->row.event.type(), event.type()) << encoding;
        EXPECT_EQ(found->row.event.aggregate_type(), event.aggregate_type());
        EXPECT_EQ(found->row.event.aggregate_id(), event.aggregate_id());
        EXPECT_EQ(found->row.event.tenant_id(), event.tenant_id());
        EXPECT_EQ(found->row.event.headers(), event.headers());
        EXPECT_EQ(found->row.event.payload(), event.payload());
        EXPECT_EQ(found->row.event.occurred_at(), event.occurred_at());
        EXPECT_EQ(found->row.event.available_at(), event.available_at());
      }
    }
  }
}

TEST_F(PostgresExternalConnectionTest, AValueThatTheEncodingWouldChangeIsRefused) {
  const std::string names = schema() + ".names";
  sql().execute("CREATE TABLE " + names + " (name text)");
  const auto external = wrap(mine_->handle(), *store_);
  const auto insert_name = [&](const std::string& name) {
    const std::vector<Parameter> values{name};
    external->execute("INSERT INTO " + names + " VALUES ($1)", values);
  };
  mine_->execute("SET client_encoding = 'LATIN1'");
  EXPECT_TRUE(contains(message_of<MisuseError>([&] { insert_name("Zoë"); }), "is LATIN1"));
  insert_name("Zoe");
  for (const char* encoding : {"SQL_ASCII", "UTF8", "UNICODE"}) {
    mine_->execute(std::string("SET client_encoding = '") + encoding + "'");
    insert_name("Zoë");
  }
  EXPECT_EQ(sql().value("SELECT string_agg(length(name)::text, ',') FROM " + names), "3,3,3,3");
}

TEST_F(PostgresExternalConnectionTest, AnInsertThatFailsLeavesTheOwnersEncodingAsItWas) {
  write_event(*store_, simple_event("there"));
  mine_->execute("SET client_encoding = 'LATIN1'");
  const auto external = wrap(mine_->handle(), *store_);
  mine_->execute("BEGIN; SAVEPOINT part");
  EXPECT_THROW(insert(*external, "there"), MisuseError);
  mine_->execute("ROLLBACK TO part");
  EXPECT_EQ(mine_->value("SHOW client_encoding"), "LATIN1");
  insert(*external, "new");
  mine_->execute("COMMIT");
  EXPECT_EQ(mine_->value("SHOW client_encoding"), "LATIN1");
}

}  // namespace
}  // namespace outbox::postgres
