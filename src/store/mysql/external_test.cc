#include <functional>
#include <future>
#include <vector>

#include "client/mysql/libmariadb.h"
#include "outbox/memory.h"
#include "outbox/writer.h"
#include "store/mysql/test_support.h"
#include "support/tcp_proxy.h"

namespace outbox::mysql {
namespace {

class MysqlExternalConnectionTest : public MysqlTest {
 protected:
  void SetUp() override {
    MysqlTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    store_ = open_store();
    mine_ = std::make_unique<test::Mysql>(url());
  }

  static void insert(Connection& external, const std::string& id) {
    const Event event = simple_event(id);
    external.insert({&event, 1}, {});
  }

  std::shared_ptr<Store> store_;
  std::unique_ptr<test::Mysql> mine_;  // the user's own connection
};

TEST_F(MysqlExternalConnectionTest, TheEventLivesAndDiesWithTheOwnersTransaction) {
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

TEST_F(MysqlExternalConnectionTest, OutsideATransactionItFailsAtOnceAlsoForNothing) {
  const auto external = wrap(mine_->handle(), *store_);
  EXPECT_TRUE(contains(message_of<MisuseError>([&] { insert(*external, "e"); }), "run BEGIN"));
  EXPECT_THROW(external->insert({}, {}), MisuseError);
  mine_->execute("BEGIN; COMMIT");
  EXPECT_THROW(insert(*external, "e"), MisuseError);
  EXPECT_FALSE(store_->find("e"));
}

TEST_F(MysqlExternalConnectionTest, WithoutAutocommitEveryStatementIsInATransaction) {
  mine_->execute("SET autocommit = 0");
  const auto external = wrap(mine_->handle(), *store_);
  EXPECT_TRUE(external->in_transaction());
  insert(*external, "lost");
  mine_->execute("ROLLBACK");
  insert(*external, "kept");
  EXPECT_FALSE(store_->find("kept")) << "not committed yet";
  mine_->execute("COMMIT");
  EXPECT_FALSE(store_->find("lost"));
  EXPECT_TRUE(store_->find("kept"));
}

TEST_F(MysqlExternalConnectionTest, AStatementThatFailedLeavesTheTransactionOpen) {
  const auto external = wrap(mine_->handle(), *store_);
  mine_->execute("BEGIN");
  EXPECT_THROW(mine_->execute("SELECT nonsense"), std::runtime_error);
  EXPECT_TRUE(external->in_transaction());
  insert(*external, "e");
  mine_->execute("COMMIT");
  EXPECT_TRUE(store_->find("e"));
}

// What would follow would be committed by itself.
TEST_F(MysqlExternalConnectionTest, AfterADeadlockTheTransactionIsOverAndAWriteIsRefused) {
  sql().execute("CREATE TABLE accounts (id int PRIMARY KEY, cents int)");
  sql().execute("INSERT INTO accounts VALUES (1, 0), (2, 0)");
  sql().execute("CREATE TABLE ballast (id int)");
  const auto external = wrap(mine_->handle(), *store_);
  const auto by_hand = [&] { mine_->execute("UPDATE accounts SET cents = 1 WHERE id = 2"); };
  const auto by_ours = [&] {
    const std::vector<Parameter> two{std::int64_t{2}};
    external->execute("UPDATE accounts SET cents = 1 WHERE id = ?", two);
  };
  for (const std::function<void()>& victim : {std::function<void()>(by_hand), {by_ours}}) {
    mine_->execute("BEGIN; UPDATE accounts SET cents = 1 WHERE id = 1");
    // The server rolls back whoever has changed less.
    sql().execute("BEGIN; INSERT INTO ballast VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9)");
    sql().execute("UPDATE accounts SET cents = 2 WHERE id = 2");
    auto other = std::async(std::launch::async,
                            [&] { sql().execute("UPDATE accounts SET cents = 2 WHERE id = 1"); });
    EXPECT_THROW(victim(), std::runtime_error);
    other.get();
    EXPECT_TRUE(contains(message_of<MisuseError>([&] { insert(*external, "e"); }), "deadlock"));
    EXPECT_FALSE(external->in_transaction());
    sql().execute("COMMIT");
    EXPECT_FALSE(store_->find("e"));
  }
  mine_->execute("BEGIN");
  insert(*external, "e");
  mine_->execute("COMMIT");
  EXPECT_TRUE(store_->find("e"));
}

TEST_F(MysqlExternalConnectionTest, AValueThatTheCharacterSetWouldChangeIsRefused) {
  sql().execute("CREATE TABLE names (name varchar(10) CHARACTER SET utf8mb4)");
  const auto external = wrap(mine_->handle(), *store_);
  const auto insert_name = [&](const std::string& name) {
    const std::vector<Parameter> values{name};
    external->execute("INSERT INTO names VALUES (?)", values);
  };
  mine_->execute("SET NAMES latin1");
  EXPECT_TRUE(contains(message_of<MisuseError>([&] { insert_name("Zoë"); }), "latin1"));
  insert_name("Zoe");
  mine_->execute("SET NAMES utf8mb3");
  EXPECT_TRUE(contains(message_of<MisuseError>([&] { insert_name("😀"); }), "four bytes"));
  insert_name("Zoë");
  mine_->execute("SET NAMES utf8mb4");
  mine_->execute("SET character_set_connection = latin1");
  EXPECT_TRUE(contains(message_of<MisuseError>([&] { insert_name("日本"); }), "latin1"));
  mine_->execute("SET NAMES utf8mb4");
  insert_name("😀日本");
  EXPECT_EQ(sql().value("SELECT group_concat(char_length(name)) FROM names"), "3,3,3");
  EXPECT_EQ(sql().value("SELECT count(*) FROM names WHERE name LIKE '%?%'"), "0");
}

TEST_F(MysqlExternalConnectionTest, TheTransactionIsItsOwners) {
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
}

TEST_F(MysqlExternalConnectionTest, AnEventInsideARolledBackSavepointIsGoneAndTheOthersStay) {
  const auto external = wrap(mine_->handle(), *store_);
  mine_->execute("BEGIN");
  insert(*external, "before");
  mine_->execute("SAVEPOINT part");
  insert(*external, "inside");
  mine_->execute("ROLLBACK TO part");
  insert(*external, "after");
  mine_->execute("COMMIT");
  EXPECT_TRUE(store_->find("before"));
  EXPECT_FALSE(store_->find("inside"));
  EXPECT_TRUE(store_->find("after"));
}

TEST_F(MysqlExternalConnectionTest, ADuplicateIsNamedAndTheTransactionGoesOn) {
  write_event(*store_, simple_event("there"));
  const auto external = wrap(mine_->handle(), *store_);
  mine_->execute("BEGIN");
  insert(*external, "before");
  EXPECT_TRUE(contains(message_of<MisuseError>([&] { insert(*external, "there"); }), "'there'"));
  insert(*external, "after");
  mine_->execute("COMMIT");
  EXPECT_EQ(store_->count({}), 3);
}

TEST_F(MysqlExternalConnectionTest, NothingIsLeftPreparedBehind) {
  const auto prepared = [&] {
    return mine_->query("SHOW SESSION STATUS LIKE 'Com_stmt_prepare'").at(0).at(1);
  };
  const auto before = prepared();
  {
    const auto external = wrap(mine_->handle(), *store_);
    mine_->execute("BEGIN");
    for (int i = 0; i < 3; ++i) insert(*external, std::to_string(i));
    mine_->execute("COMMIT");
  }
  EXPECT_EQ(prepared(), before);
}

TEST_F(MysqlExternalConnectionTest, WhatIsNoOpenConnectionOrNoMysqlStoreIsRefused) {
  EXPECT_THROW(wrap(static_cast<MYSQL*>(nullptr), *store_), MisuseError);
  const auto elsewhere = memory::open();
  EXPECT_TRUE(
      contains(message_of<MisuseError>([&] { wrap(mine_->handle(), *elsewhere); }), "memory"));
  const ConnectionHandle closed(mysql_init(nullptr));
  EXPECT_THROW(wrap(closed.get(), *store_), MisuseError);
}

// Whoever loses the connection in a COMMIT does not know what became of it. What is
// written after that says so, and does not go elsewhere.
TEST_F(MysqlExternalConnectionTest, AfterALostCommitTheRowMayExistAndNothingElseIsWritten) {
  test::TcpProxy network("127.0.0.1", test::port_of(test::mysql_url()));
  test::Mysql lossy(test::with_port(url(), network.port()));
  const auto ssl = lossy.query("SHOW SESSION STATUS LIKE 'Ssl_cipher'").at(0).at(1);
  ASSERT_EQ(ssl, "") << "the network could not see the COMMIT";
  const auto external = wrap(lossy.handle(), *store_);
  Writer writer(store_);
  lossy.execute("BEGIN");
  const WriteToken token = writer.write(*external, {.type = "T", .payload = json("{}"), .id = "e"});
  network.drop_reply("COMMIT");
  EXPECT_THROW(lossy.execute("COMMIT"), std::runtime_error);
  EXPECT_TRUE(store_->find("e"));
  EXPECT_THROW(insert(*external, "later"), RetryableError);
  EXPECT_FALSE(store_->find("later"));
}

// Every setting of the owner's session that changes how values are read or written.
TEST_F(MysqlExternalConnectionTest, TheOwnersSettingsChangeNeitherTimesNorBytesNorAreTheyChanged) {
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
  fields.available_at = host_clock().now() + 24h;
  const Event two = Event::restore(fields);
  const Event both[] = {one, two};

  for (const char* setting :
       {"SET NAMES latin1", "SET NAMES sjis", "SET sql_mode = 'NO_BACKSLASH_ESCAPES'",
        "SET sql_mode = 'ANSI'", "SET sql_mode = ''", "SET time_zone = '+05:45'",
        "SET auto_increment_increment = 7", "SET collation_connection = utf8mb4_general_ci"}) {
    const std::string all =
        "SELECT concat_ws('|', @@character_set_client, @@character_set_results, @@sql_mode, "
        "@@collation_connection, @@time_zone, @@autocommit, @@auto_increment_increment)";
    for (const bool together : {true, false}) {
      sql().execute("TRUNCATE outbox_event");
      test::Mysql owner(url());
      owner.execute(setting);
      const std::string before = owner.value(all);
      std::vector<RowRef> refs;
      {
        const auto external = wrap(owner.handle(), *store_);
        owner.execute("BEGIN");
        if (together) {
          refs = external->insert(both, {});
        } else {
          for (const Event& event : both) refs.push_back(external->insert({&event, 1}, {}).at(0));
        }
        owner.execute("COMMIT");
      }
      EXPECT_EQ(owner.value(all), before);
      for (std::size_t i = 0; i < 2; ++i) {
        const Event& event = both[i];
        const auto found = store_->find(event.id());
        ASSERT_TRUE(found) << setting;
        EXPECT_EQ(found->row.ref.seq, refs.at(i).seq) << setting;
        EXPECT_EQ(found->row.ref.shard, refs.at(i).shard) << setting;
        EXPECT_EQ(found->row.event.type(), event.type()) << setting;
        EXPECT_EQ(found->row.event.aggregate_type(), event.aggregate_type()) << setting;
        EXPECT_EQ(found->row.event.aggregate_id(), event.aggregate_id()) << setting;
        EXPECT_EQ(found->row.event.tenant_id(), event.tenant_id()) << setting;
        EXPECT_EQ(found->row.event.headers(), event.headers()) << setting;
        EXPECT_EQ(found->row.event.payload(), event.payload()) << setting;
        EXPECT_EQ(found->row.event.occurred_at(), event.occurred_at()) << setting;
        EXPECT_EQ(found->row.event.available_at(), event.available_at()) << setting;
      }
    }
  }
}

}  // namespace
}  // namespace outbox::mysql
