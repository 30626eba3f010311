#include <functional>
#include <future>
#include <vector>

#include "client/mysql/libmariadb.h"
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

TEST_F(MysqlExternalConnectionTest, WithoutAutocommitEveryStatementIsInATransaction) {
  mine_->execute("SET autocommit = 0");
  const auto external = wrap(mine_->handle(), *store_);
  EXPECT_TRUE(external->in_transaction());
  insert(*external, "lost");
  mine_->execute("ROLLBACK");
  insert(*external, "kept");
  EXPECT_FALSE(store_->admin().find("kept")) << "not committed yet";
  mine_->execute("COMMIT");
  EXPECT_FALSE(store_->admin().find("lost"));
  EXPECT_TRUE(store_->admin().find("kept"));
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
    // The server rolls back the transaction that has changed less.
    sql().execute("BEGIN; INSERT INTO ballast VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9)");
    sql().execute("UPDATE accounts SET cents = 2 WHERE id = 2");
    auto other = std::async(std::launch::async,
                            [&] { sql().execute("UPDATE accounts SET cents = 2 WHERE id = 1"); });
    EXPECT_THROW(victim(), std::runtime_error);
    other.get();
    EXPECT_TRUE(contains(message_of<MisuseError>([&] { insert(*external, "e"); }), "deadlock"));
    EXPECT_FALSE(external->in_transaction());
    sql().execute("COMMIT");
    EXPECT_FALSE(store_->admin().find("e"));
  }
  mine_->execute("BEGIN");
  insert(*external, "e");
  mine_->execute("COMMIT");
  EXPECT_TRUE(store_->admin().find("e"));
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

// After a connection lost in a COMMIT nobody knows what became of it. What is
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
  EXPECT_TRUE(store_->admin().find("e"));
  EXPECT_THROW(insert(*external, "later"), RetryableError);
  EXPECT_FALSE(store_->admin().find("later"));
}

// With another default database, events go to the store's table all the same.
TEST_F(MysqlExternalConnectionTest, AnotherDefaultDatabaseDoesNotLeadEventsAstray) {
  const test::Database other;
  migrate(other.url());
  const auto store = open_store();
  {
    test::Mysql own(other.url());
    const auto external = wrap(own.handle(), *store);
    const Event event = simple_event("external");
    own.execute("BEGIN");
    external->insert({&event, 1}, {});
    own.execute("COMMIT");
  }
  {
    const Event event = simple_event("pooled");
    const auto connection = begun(*store);
    connection->execute("USE " + other.name(), {});
    connection->insert({&event, 1}, {});
    connection->commit();
  }
  EXPECT_TRUE(store->admin().find("external"));
  EXPECT_TRUE(store->admin().find("pooled"));
  EXPECT_EQ(test::Mysql(other.url()).value("SELECT count(*) FROM outbox_event"), "0");
}

class MysqlOtherAddressTest : public MysqlTest {
 protected:
  // Of the same server.
  std::string other_address() const {
    std::string address = url();
    return address.replace(address.find("127.0.0.1"), 9, "127.1");
  }
  void insert(test::Mysql& own, Store& store, const std::string& id) {
    const Event event = simple_event(id);
    const auto external = wrap(own.handle(), store);
    own.execute("BEGIN");
    external->insert({&event, 1}, {});
    own.execute("COMMIT");
  }
};

TEST_F(MysqlOtherAddressTest, TheSameServerIsTaken) {
  const auto store = open_store();
  test::Mysql own(other_address());
  for (const char* id : {"1", "2"}) {
    EXPECT_NO_THROW(insert(own, *store, id));
    EXPECT_TRUE(store->admin().find(id));
  }
}

TEST_F(MysqlOtherAddressTest, OtherTablesOfThatNameAreRefused) {
  const auto store = open_store();
  // As if they had been made by another migration, on another server.
  sql().execute("UPDATE outbox_event_migration SET applied_at = '2020-02-02 20:20:20.202020'");
  test::Mysql own(other_address());
  EXPECT_TRUE(contains(message_of<MisuseError>([&] { insert(own, *store, "e"); }),
                       "connect to the same server"));
  own.execute("ROLLBACK");
  EXPECT_FALSE(store->admin().find("e"));
}

TEST_F(MysqlOtherAddressTest, WhoMayNotLookIsTakenAtHisWord) {
  const auto store = open_store();
  sql().execute("DROP TABLE outbox_event_migration");
  test::Mysql own(other_address());
  EXPECT_NO_THROW(insert(own, *store, "e"));
  EXPECT_TRUE(store->admin().find("e"));
}

}  // namespace
}  // namespace outbox::mysql
