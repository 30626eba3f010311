// Connections of the user's own, which the library only wraps: whose transaction it is, and what is
// left alone on it.
#include "database.h"
#include "outbox/memory.h"
#include "support/stores.h"

namespace outbox::conformance {

using test::contains;
using test::message_of;
using test::simple_event;
using test::write_event;

void ExternalConnectionTest::SetUp() {
  DatabaseTest::SetUp();
  if (HasFatalFailure() || IsSkipped()) return;
  store_ = open_store();
  mine_ = database().connect(database().url());
}

void ExternalConnectionTest::insert(Connection& external, const std::string& id) {
  const Event event = simple_event(id);
  external.insert({&event, 1}, {});
}

namespace {

TEST_P(ExternalConnectionTest, TheEventLivesAndDiesWithTheOwnersTransaction) {
  const auto external = mine_->wrapped(*store_);
  EXPECT_FALSE(external->in_transaction());
  mine_->execute("BEGIN");
  EXPECT_TRUE(external->in_transaction());
  insert(*external, "lost");
  mine_->execute("ROLLBACK");
  mine_->execute(words().begin);
  const Event kept = simple_event("kept");
  const std::vector<RowRef> refs = external->insert({&kept, 1}, {});
  EXPECT_FALSE(store_->admin().find("kept")) << "not committed yet";
  mine_->execute("COMMIT");
  EXPECT_FALSE(store_->admin().find("lost"));
  EXPECT_EQ(store_->admin().find("kept")->row.ref.seq, refs.at(0).seq);
}

TEST_P(ExternalConnectionTest, OutsideATransactionItFailsAtOnceAlsoForNothing) {
  const auto external = mine_->wrapped(*store_);
  EXPECT_TRUE(
      contains(message_of<MisuseError>([&] { insert(*external, "e"); }), words().begin_hint));
  EXPECT_THROW(external->insert({}, {}), MisuseError);
  mine_->execute("BEGIN; COMMIT");
  EXPECT_THROW(insert(*external, "e"), MisuseError);
  EXPECT_FALSE(store_->admin().find("e"));
}

TEST_P(ExternalConnectionTest, TheTransactionIsItsOwners) {
  const auto external = mine_->wrapped(*store_);
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

TEST_P(ExternalConnectionTest, AStatementThatFailedLeavesTheTransactionOpenOrSaysThatItIsOver) {
  const auto external = mine_->wrapped(*store_);
  mine_->execute(words().begin);
  EXPECT_THROW(mine_->execute("SELECT nonsense"), std::runtime_error);
  if (words().failure_ends_transaction) {
    EXPECT_TRUE(
        contains(message_of<MisuseError>([&] { insert(*external, "e"); }), "roll back first"));
    mine_->execute("ROLLBACK");
  } else {
    EXPECT_TRUE(external->in_transaction());
    insert(*external, "e");
    mine_->execute("COMMIT");
    EXPECT_TRUE(store_->admin().find("e"));
  }
}

TEST_P(ExternalConnectionTest, AnEventInsideARolledBackSavepointIsGoneAndTheOthersStay) {
  const auto external = mine_->wrapped(*store_);
  mine_->execute(words().begin);
  insert(*external, "before");
  mine_->execute("SAVEPOINT part");
  insert(*external, "inside");  // where statements are prepared, there
  mine_->execute("ROLLBACK TO part");
  insert(*external, "after");
  mine_->execute("COMMIT");
  EXPECT_TRUE(store_->admin().find("before"));
  EXPECT_FALSE(store_->admin().find("inside"));
  EXPECT_TRUE(store_->admin().find("after"));
}

TEST_P(ExternalConnectionTest, ADuplicateIsNamedAndTheTransactionGoesOn) {
  write_event(*store_, simple_event("there"));
  const auto external = mine_->wrapped(*store_);
  mine_->execute(words().begin);
  insert(*external, "before");
  if (words().failure_ends_transaction) mine_->execute("SAVEPOINT part");
  const std::string message = message_of<MisuseError>([&] { insert(*external, "there"); });
  const std::string quoted[] = {"(there)", "'there'", "\"there\""};
  EXPECT_TRUE(std::any_of(std::begin(quoted), std::end(quoted), [&](const std::string& id) {
    return contains(message, id);
  })) << message;
  if (words().failure_ends_transaction) mine_->execute("ROLLBACK TO part");
  insert(*external, "after");
  mine_->execute("COMMIT");
  EXPECT_TRUE(store_->admin().find("before"));
  EXPECT_TRUE(store_->admin().find("after"));
}

TEST_P(ExternalConnectionTest, TwoOnOneConnectionDoNotDisturbEachOther) {
  const auto one = mine_->wrapped(*store_);
  {
    const auto two = mine_->wrapped(*store_);
    mine_->execute(words().begin);
    for (int i = 0; i < 3; ++i) {
      insert(*one, "one" + std::to_string(i));
      insert(*two, "two" + std::to_string(i));
    }
  }
  insert(*one, "one3");
  mine_->execute("COMMIT");
  EXPECT_EQ(value("SELECT count(*) FROM {table}"), "7");
}

TEST_P(ExternalConnectionTest, WhatIsNoOpenConnectionOrAnotherKindOfStoreIsRefused) {
  for (const auto& wrap : database().wrong_handles()) EXPECT_THROW(wrap(*store_), MisuseError);
  const auto elsewhere = memory::open();
  EXPECT_TRUE(contains(message_of<MisuseError>([&] { mine_->wrapped(*elsewhere); }), "memory"));
}

// Every setting of the owner's session that changes how values are read or written.
TEST_P(ExternalConnectionTest, TheOwnersSettingsChangeNeitherTimesNorBytesNorAreTheyChanged) {
  EventFields fields;
  fields.id = "odd";
  fields.type = "Grüße";
  fields.aggregate_type = "Straße";
  fields.aggregate_id = "日本 \\ ' \" 😀";
  fields.tenant_id = "ñ";
  fields.headers = {{"kéy", "välue\\n"}};
  fields.payload = json(R"({"a":"ü\\ \u20ac 日本 😀 it's"})");
  fields.occurred_at = Time{std::chrono::microseconds{1'700'000'000'123'456}};
  fields.available_at = fields.occurred_at;
  const Event one = Event::restore(fields);
  fields.id = "delayed";
  fields.payload = bytes(std::string("\0\xff\x80 \\ '", 7));
  fields.available_at = now() + 24h;
  const Event two = Event::restore(fields);
  const Event both[] = {one, two};

  const std::string shown = words().shown_settings;
  for (const std::string& setting : words().session_settings) {
    SCOPED_TRACE(setting);
    for (const bool together : {true, false}) {
      run("DELETE FROM {table}");
      const auto owner = database().connect(database().url());
      owner->execute(setting);
      const std::string before = owner->value(shown);
      std::vector<RowRef> refs;
      {
        const auto external = owner->wrapped(*store_);
        owner->execute(words().begin);
        if (together) {
          refs = external->insert(both, {});
        } else {
          for (const Event& event : both) refs.push_back(external->insert({&event, 1}, {}).at(0));
        }
        EXPECT_EQ(owner->value(shown), before) << "in the transaction";
        owner->execute("COMMIT");
      }
      EXPECT_EQ(owner->value(shown), before);
      for (std::size_t i = 0; i < 2; ++i) {
        const auto found = store_->admin().find(both[i].id());
        ASSERT_TRUE(found);
        EXPECT_EQ(found->row.ref.seq, refs.at(i).seq);
        EXPECT_EQ(found->row.ref.shard, refs.at(i).shard);
        const Event& event = found->row.event;
        EXPECT_EQ(event.type(), both[i].type());
        EXPECT_EQ(event.aggregate_type(), both[i].aggregate_type());
        EXPECT_EQ(event.aggregate_id(), both[i].aggregate_id());
        EXPECT_EQ(event.tenant_id(), both[i].tenant_id());
        EXPECT_EQ(event.headers(), both[i].headers());
        EXPECT_EQ(event.payload(), both[i].payload());
        EXPECT_EQ(event.occurred_at(), both[i].occurred_at());
        EXPECT_EQ(event.available_at(), both[i].available_at());
      }
    }
  }
}

}  // namespace

// Where no store with a database is built.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ExternalConnectionTest);

}  // namespace outbox::conformance
