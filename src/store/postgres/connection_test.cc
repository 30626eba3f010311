// Transactions on the pool's connections, while nothing is wrong with the network.
#include <libpq-fe.h>

#include <functional>
#include <thread>

#include "outbox/writer.h"
#include "store/postgres/test_support.h"

namespace outbox::postgres {
namespace {

class PostgresConnectionTest : public PostgresTest {
 protected:
  void SetUp() override {
    PostgresTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    sql().execute("CREATE TABLE " + accounts() + " (id int PRIMARY KEY, cents int)");
    sql().execute("INSERT INTO " + accounts() + " VALUES (1, 0), (2, 0)");
  }
  std::string accounts() const { return schema() + ".accounts"; }
  std::string pay(int id) const {
    return "UPDATE " + accounts() + " SET cents = cents + 1 WHERE id = " + std::to_string(id);
  }
};

TEST_F(PostgresConnectionTest, WhatIsCommittedIsThereAndWhatIsNotIsNot) {
  const auto store = open_store();
  const Event kept = simple_event("kept");
  const Event lost = simple_event("lost");
  {
    const auto connection = begun(*store);
    connection->insert({&kept, 1}, {});
    connection->commit();
    EXPECT_FALSE(connection->in_transaction());
    connection->begin();
    connection->insert({&lost, 1}, {});
  }
  EXPECT_TRUE(store->find("kept"));
  EXPECT_FALSE(store->find("lost"));
}

TEST_F(PostgresConnectionTest, ATransactionBeginsWithItsFirstCallWhicheverThatIs) {
  const auto store = open_store();
  const Event event = simple_event("first");
  const std::function<void(Connection&)> firsts[] = {
      [&](Connection& connection) { connection.execute(pay(1), {}); },
      [&](Connection& connection) { connection.query("SELECT 1", {}); },
      [&](Connection& connection) {
        connection.insert({&event, 1}, {});
      },
      [&](Connection& connection) { connection.savepoint("first"); },
      [&](Connection& connection) { handle(connection); },
  };
  for (const auto& first : firsts) {
    const auto connection = begun(*store);
    first(*connection);
    EXPECT_EQ(PQtransactionStatus(handle(*connection)), PQTRANS_INTRANS);
    connection->execute(pay(2), {});
    connection->rollback();
    EXPECT_EQ(PQtransactionStatus(handle(*connection)), PQTRANS_IDLE);
  }
  EXPECT_EQ(sql().value("SELECT sum(cents) FROM " + accounts()), "0");
}

TEST_F(PostgresConnectionTest, ATransactionInWhichNothingIsDoneEndsWithoutTheServer) {
  const auto store = open_store();
  const auto connection = begun(*store);
  EXPECT_NO_THROW(connection->commit());
  connection->begin();
  EXPECT_NO_THROW(connection->rollback());
  EXPECT_FALSE(connection->in_transaction());
}

// Its statement was refused before the server heard of the transaction.
TEST_F(PostgresConnectionTest, WhoeverUsesTheConnectionNextIsInNoTransactionOfTheOneBefore) {
  const auto store = open_store({.connections = 1});
  sql().execute("DROP TABLE " + table());
  const Event event = simple_event("nowhere");
  EXPECT_THROW(begun(*store)->insert({&event, 1}, {}), Error);
  store->connect()->execute(pay(1), {});
  EXPECT_EQ(sql().value("SELECT sum(cents) FROM " + accounts()), "1");
}

TEST_F(PostgresConnectionTest, CopyIsRefusedRatherThanWaitedFor) {
  const auto store = open_store({.connections = 1});
  for (const char* way : {" FROM STDIN", " TO STDOUT"}) {
    const auto connection = begun(*store);
    const std::string copy = "COPY " + accounts() + way;
    EXPECT_TRUE(contains(message_of<MisuseError>([&] { connection->execute(copy, {}); }),
                         "postgres::handle()"));
  }
  EXPECT_NO_THROW(begun(*store)->execute(pay(1), {}));
}

TEST_F(PostgresConnectionTest, AnIdThatIsTakenIsNamed) {
  const auto store = open_store();
  write_event(*store, simple_event("taken"));
  const Event both[] = {simple_event("free"), simple_event("taken")};
  for (const std::size_t number : {std::size_t{1}, std::size_t{2}}) {
    const auto connection = begun(*store);
    const std::string message =
        message_of<MisuseError>([&] { connection->insert(std::span(both).last(number), {}); });
    EXPECT_TRUE(contains(message, "(taken)"));
    EXPECT_TRUE(contains(message, "unique"));
  }
}

TEST_F(PostgresConnectionTest, APoolThatIsExhaustedSaysItsLimit) {
  const auto store = open_store({.connections = 2, .wait_timeout = 50ms});
  const auto one = store->connect();
  {
    const auto two = store->connect();
    const std::string message = message_of<RetryableError>([&] { store->connect(); });
    EXPECT_TRUE(contains(message, "all 2 are in use"));
    EXPECT_TRUE(contains(message, "50 ms"));
    EXPECT_TRUE(contains(message, "postgres::Options::connections"));
  }
  EXPECT_NO_THROW(store->connect());
}

TEST_F(PostgresConnectionTest, OfTwoSerializableTransactionsThatCollideOneIsToBeStartedOver) {
  const auto store = open_store();
  const auto one = begun(*store);
  const auto two = begun(*store);
  for (const auto* each : {&one, &two}) {
    (*each)->execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", {});
    (*each)->query("SELECT sum(cents) FROM " + accounts(), {});
  }
  one->execute(pay(1), {});
  one->commit();
  EXPECT_TRUE(contains(message_of<RetryableError>([&] { two->execute(pay(1), {}); }), "40001"));
}

TEST_F(PostgresConnectionTest, ASerializationFailureInCommitIsToBeStartedOverNotUnknown) {
  const auto store = open_store();
  const auto one = begun(*store);
  const auto two = begun(*store);
  for (const auto* each : {&one, &two}) {
    (*each)->execute("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", {});
    (*each)->query("SELECT sum(cents) FROM " + accounts(), {});
  }
  one->execute(pay(1), {});
  two->execute(pay(2), {});
  one->commit();
  EXPECT_TRUE(contains(message_of<RetryableError>([&] { two->commit(); }), "40001"));
}

TEST_F(PostgresConnectionTest, TheVictimOfADeadlockIsToBeStartedOverAndTheOtherCommits) {
  const auto store = open_store();
  const auto one = begun(*store);
  const auto two = begun(*store);
  for (const auto* each : {&one, &two}) (*each)->execute("SET LOCAL deadlock_timeout = '50ms'", {});
  one->execute(pay(1), {});
  two->execute(pay(2), {});
  const auto finish = [&](Connection& connection, int other) {
    try {
      connection.execute(pay(other), {});
      connection.commit();
      return std::string("committed");
    } catch (const RetryableError& error) {
      connection.rollback();
      return std::string(error.what());
    }
  };
  std::string of_two;
  std::jthread thread([&] { of_two = finish(*two, 1); });
  const std::string of_one = finish(*one, 2);
  thread.join();
  EXPECT_EQ((of_one == "committed") + (of_two == "committed"), 1) << of_one << "\n" << of_two;
  EXPECT_TRUE(contains(of_one + of_two, "40P01"));
}

TEST_F(PostgresConnectionTest, TimeoutsAreToBeTriedAgain) {
  const auto store = open_store();
  const auto blocker = begun(*store);
  blocker->execute(pay(1), {});
  {
    const auto waits = begun(*store);
    waits->execute("SET LOCAL lock_timeout = '20ms'", {});
    EXPECT_TRUE(contains(message_of<RetryableError>([&] { waits->execute(pay(1), {}); }), "55P03"));
  }
  const auto slow = begun(*store);
  slow->execute("SET LOCAL statement_timeout = '20ms'", {});
  EXPECT_TRUE(contains(message_of<RetryableError>([&] { slow->execute("SELECT pg_sleep(9)", {}); }),
                       "57014"));
}

TEST_F(PostgresConnectionTest, ACommitAfterAFailedStatementSaysThatNothingHappened) {
  const auto store = open_store();
  const Event event = simple_event("e");
  const auto connection = begun(*store);
  connection->insert({&event, 1}, {});
  EXPECT_THROW(connection->execute("SELECT 1 / 0", {}), DatabaseError);
  EXPECT_TRUE(contains(message_of<DatabaseError>([&] { connection->commit(); }), "rolled back"));
  EXPECT_FALSE(connection->in_transaction());
  EXPECT_FALSE(store->find("e"));
}

TEST_F(PostgresConnectionTest, OnOpenSeesEachNewConnectionOnce) {
  int opened = 0;
  const auto store = open_store({.on_open = [&](pg_conn* handle) {
    ++opened;
    PQclear(PQexec(handle, "SET application_name = 'mine'"));
  }});
  for (int i = 0; i < 3; ++i) {
    const auto connection = store->connect();
    EXPECT_EQ(connection->query("SHOW application_name", {}).at(0).at(0), Value{"mine"});
  }
  EXPECT_EQ(opened, 1);
}

TEST_F(PostgresConnectionTest, AnEncodingThatTheUserSetOnAPooledConnectionChangesNoBytes) {
  for (const bool at_commit : {false, true}) {
    const auto store = open_store({.insert_at_commit = at_commit, .on_open = [](pg_conn* handle) {
                                     PQclear(PQexec(handle, "SET client_encoding = 'LATIN1'"));
                                   }});
    const std::string id = std::to_string(static_cast<int>(at_commit));
    write_event(*store, simple_event(id, R"({"a":"日本ü"})"));
    const Event inside = simple_event(id + "inside", R"({"a":"日本ü"})");
    const auto connection = begun(*store);
    connection->insert({&inside, 1}, {});
    connection->savepoint("part");
    EXPECT_EQ(connection->query("SHOW client_encoding", {}).at(0).at(0), Value{"LATIN1"});
    connection->commit();
    EXPECT_EQ(connection->query("SHOW client_encoding", {}).at(0).at(0), Value{"LATIN1"});
    EXPECT_EQ(store->find(id)->row.event.payload(), R"({"a":"日本ü"})");
    EXPECT_EQ(store->find(id + "inside")->row.event.payload(), R"({"a":"日本ü"})");
  }
}

TEST_F(PostgresConnectionTest, AnEncodingInTheUrlOrTheEnvironmentChangesNoBytes) {
  setenv("PGCLIENTENCODING", "LATIN1", 1);
  const auto by_environment = open_store();
  write_event(*by_environment, simple_event("1", R"({"a":"日本ü"})"));
  unsetenv("PGCLIENTENCODING");
  const auto by_url = open_store_at(test::postgres_url() + "?client_encoding=LATIN1");
  write_event(*by_url, simple_event("2", R"({"a":"日本ü"})"));
  for (const char* id : {"1", "2"}) {
    for (const auto& store : {by_environment, by_url}) {
      EXPECT_EQ(store->find(id)->row.event.payload(), R"({"a":"日本ü"})") << id;
    }
    EXPECT_EQ(
        sql().value("SELECT length(payload) FROM " + table() + " WHERE event_id = '" + id + "'"),
        "11");
  }
}

}  // namespace
}  // namespace outbox::postgres
