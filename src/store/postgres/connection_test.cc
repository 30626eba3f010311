// Transactions on the pool's connections, while nothing is wrong with the network.
#include <libpq-fe.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "client/postgres/session.h"
#include "store/postgres/store_config.h"
#include "store/postgres/test_support.h"
#include "support/sockets.h"
#include "support/tcp_proxy.h"

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
TEST_F(PostgresConnectionTest, TheNextUserOfAConnectionIsInNoTransactionOfTheLastOne) {
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
  EXPECT_FALSE(store->admin().find("e"));
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
    EXPECT_EQ(store->admin().find(id)->row.event.payload(), R"({"a":"日本ü"})");
    EXPECT_EQ(store->admin().find(id + "inside")->row.event.payload(), R"({"a":"日本ü"})");
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
      EXPECT_EQ(store->admin().find(id)->row.event.payload(), R"({"a":"日本ü"})") << id;
    }
    EXPECT_EQ(
        sql().value("SELECT length(payload) FROM " + table() + " WHERE event_id = '" + id + "'"),
        "11");
  }
}

TEST_F(PostgresConnectionTest, WhatASavepointHasUndoneIsForgotten) {
  const auto store = open_store();
  const Event event = simple_event("kept");
  const auto connection = begun(*store);
  connection->insert({&event, 1}, {});
  connection->savepoint("part");
  EXPECT_THROW(connection->execute("SELECT 1 / 0", {}), DatabaseError);
  connection->rollback_to("part");
  EXPECT_NO_THROW(connection->commit());
  EXPECT_TRUE(store->admin().find("kept"));

  connection->begin();
  connection->query("SELECT 1", {});
  EXPECT_THROW(connection->execute("COMMIT", {}), MisuseError) << "refused before it was sent";
  EXPECT_NO_THROW(connection->commit());
}

// Its connection is given up, because the server waits for data.
TEST_F(PostgresConnectionTest, ARefusedCopyIsNotToBeStartedOver) {
  const auto store = open_store();
  const auto connection = begun(*store);
  EXPECT_THROW(connection->execute("COPY " + accounts() + " FROM STDIN", {}), MisuseError);
  EXPECT_THROW(connection->commit(), MisuseError);
}

// Speaks just enough of the protocol to let a client in, and complains of its first statement
// as a pooler does: by a "wrong message" that ends the connection.
class Complainer {
 public:
  Complainer() : listener_(test::listen_on_loopback(0)), thread_([this] { run(); }) {}
  std::string conninfo() const {
    return "host=127.0.0.1 sslmode=disable gssencmode=disable user=me dbname=mine port=" +
           std::to_string(test::local_port(listener_));
  }

 private:
  void run() {
    const test::Descriptor client(accept(listener_.number(), nullptr, nullptr));
    char request[1024];
    if (read(client.number(), request, sizeof request) <= 0) return;
    say(client, std::string("R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I", 15));
    if (read(client.number(), request, sizeof request) <= 0) return;
    const std::string fields("SFATAL\0VFATAL\0C08P01\0Mquery_wait_timeout\0\0", 42);
    say(client, std::string("E\0\0\0", 4) + static_cast<char>(fields.size() + 4) + fields);
  }
  static void say(const test::Descriptor& client, const std::string& text) {
    EXPECT_EQ(write(client.number(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }

  const test::Descriptor listener_;
  std::jthread thread_;
};

TEST(PostgresFailure, AWrongMessageThatEndsTheConnectionIsALostOne) {
  const Complainer pooler;
  const ConnectionHandle connection(PQconnectdb(pooler.conninfo().c_str()));
  ASSERT_EQ(PQstatus(connection.get()), CONNECTION_OK) << PQerrorMessage(connection.get());
  const auto config = std::make_shared<StoreConfig>(pooler.conninfo());
  Session session(connection.get(), config, Session::Prepare::never);
  EXPECT_THROW(session.run_script("SELECT 1", "ask"), RetryableError);
}

// Statements of the user's on a connection of the pool, of which some stay prepared.

class PostgresUserStatementsTest : public PostgresTest {
 protected:
  void SetUp() override {
    PostgresTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    sql().execute("CREATE TABLE " + entries() + " (number int, bytes bytea)");
    connect({});
  }

  void connect(Options options) {
    connection_.reset();
    store_ = open_store(std::move(options));
    connection_ = store_->connect();
  }

  std::string entries() const { return schema() + ".entries"; }
  std::string insert_text() const { return "INSERT INTO " + entries() + " (number) VALUES ($1)"; }

  std::int64_t insert(std::int64_t number) {
    return connection_->execute(insert_text(), std::vector<Parameter>{number});
  }

  // Of the user's, that this connection keeps.
  std::int64_t prepared() {
    const auto rows = connection_->query(
        "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%entries%'", {});
    return rows.at(0).get<std::int64_t>(0);
  }

  std::string numbers() {
    return sql().value("SELECT string_agg(number::text, ' ' ORDER BY number) FROM " + entries());
  }

  std::shared_ptr<Store> store_;
  std::unique_ptr<Connection> connection_;
};

TEST_F(PostgresUserStatementsTest, AnInsertThatComesAgainIsPreparedOnce) {
  for (std::int64_t number = 1; number <= 4; ++number) {
    EXPECT_EQ(insert(number), 1);
    EXPECT_EQ(prepared(), number == 1 ? 0 : 1);
  }
  EXPECT_EQ(numbers(), "1 2 3 4");
}

TEST_F(PostgresUserStatementsTest, ItMayBeTheFirstOfItsTransaction) {
  for (std::int64_t number = 1; number <= 3; ++number) {
    connection_->begin();
    insert(number);
    insert(-number);
    connection_->rollback();
    connection_->begin();
    insert(number);
    connection_->commit();
  }
  EXPECT_EQ(prepared(), 1);
  EXPECT_EQ(numbers(), "1 2 3");
}

TEST_F(PostgresUserStatementsTest, OthersAreNot) {
  const std::vector<Parameter> one{std::int64_t{1}};
  const std::string with_literals = "INSERT INTO " + entries() + " (number) VALUES (1)";
  const std::string with_result = insert_text() + " RETURNING number";
  const std::string update = "UPDATE " + entries() + " SET number = number + $1";
  const std::string select = "SELECT number FROM " + entries() + " WHERE number > $1";
  for (int round = 0; round < 3; ++round) {
    connection_->execute(with_literals, {});
    connection_->execute(with_result, one);
    EXPECT_EQ(connection_->query(with_result, one).size(), 1);
    connection_->execute(update, one);
    EXPECT_FALSE(connection_->query(select, one).empty());
  }
  EXPECT_EQ(prepared(), 0);
}

TEST_F(PostgresUserStatementsTest, NothingIsPreparedWhereThatIsSwitchedOff) {
  connect({.prepare = false});
  for (std::int64_t number = 1; number <= 3; ++number) insert(number);
  EXPECT_EQ(prepared(), 0);
  EXPECT_EQ(numbers(), "1 2 3");
}

TEST_F(PostgresUserStatementsTest, ValuesOfAnotherKindAreAnotherStatement) {
  const std::string text = "INSERT INTO " + entries() + " (bytes) VALUES ($1)";
  for (int round = 0; round < 3; ++round) {
    connection_->execute(text, std::vector<Parameter>{Blob{std::string("\0\xff", 2)}});
    connection_->execute(text, std::vector<Parameter>{std::string("\\x00ff")});
    connection_->execute(text, std::vector<Parameter>{nullptr});
  }
  EXPECT_EQ(prepared(), 2) << "one for bytes, one for texts and what is missing";
  EXPECT_EQ(sql().value("SELECT count(*) FROM " + entries() + " WHERE bytes = '\\x00ff'"), "6");
  EXPECT_EQ(sql().value("SELECT count(*) FROM " + entries() + " WHERE bytes IS NULL"), "3");
}

TEST_F(PostgresUserStatementsTest, FewStayPrepared) {
  const auto insert_as = [&](int alias) {
    const std::string text =
        "INSERT INTO " + entries() + " AS e" + std::to_string(alias) + " (number) VALUES ($1)";
    connection_->execute(text, std::vector<Parameter>{std::int64_t{alias}});
  };
  for (int alias = 0; alias < 40; ++alias) {
    connection_->begin();
    insert_as(alias);
    insert_as(alias);
    connection_->commit();
  }
  EXPECT_EQ(prepared(), 16);
  insert_as(39);
  insert_as(0);
  EXPECT_EQ(sql().value("SELECT count(*) FROM " + entries()), "82");
}

// A prepared statement has the types of its values from when it was prepared.
TEST_F(PostgresUserStatementsTest, AColumnThatHasGrownCostsOneFailureAtMost) {
  insert(1);
  insert(2);
  sql().execute("ALTER TABLE " + entries() + " ALTER COLUMN number TYPE bigint");
  constexpr std::int64_t kLarge = std::int64_t{1} << 40;
  EXPECT_THROW(insert(kLarge), Error);
  EXPECT_EQ(insert(kLarge), 1);
  EXPECT_EQ(insert(kLarge + 1), 1);
  EXPECT_EQ(prepared(), 1) << "the old one is given up";
}

TEST_F(PostgresUserStatementsTest, AFailedStatementIsPreparedAgainInTheNextTransaction) {
  sql().execute("CREATE UNIQUE INDEX ON " + entries() + " (number)");
  insert(1);
  insert(2);
  for (int round = 0; round < 2; ++round) {
    connection_->begin();
    insert(3);
    EXPECT_THROW(insert(1), Error);
    EXPECT_TRUE(contains(message_of<Error>([&] { insert(4); }), "cannot execute \"INSERT"))
        << "the transaction has failed";
    connection_->rollback();
  }
  connection_->begin();
  insert(3);
  insert(4);
  connection_->commit();
  EXPECT_EQ(numbers(), "1 2 3 4");
  EXPECT_EQ(prepared(), 1);
}

TEST_F(PostgresUserStatementsTest, TheNameMeansTheTableOfTheSearchPathOfTheMoment) {
  sql().execute("CREATE SCHEMA " + schema() + "_2");
  sql().execute("CREATE TABLE " + schema() + "_2.entries (number int)");
  const auto insert_in = [&](const std::string& path) {
    connection_->begin();
    connection_->execute("SET LOCAL search_path = " + path, {});
    connection_->execute("INSERT INTO entries (number) VALUES ($1)",
                         std::vector<Parameter>{std::int64_t{1}});
    connection_->commit();
  };
  for (int round = 0; round < 3; ++round) {
    insert_in(schema());
    insert_in(schema() + "_2");
  }
  EXPECT_EQ(prepared(), 1);
  EXPECT_EQ(sql().value("SELECT count(*) FROM " + entries()), "3");
  EXPECT_EQ(sql().value("SELECT count(*) FROM " + schema() + "_2.entries"), "3");
  sql().execute("DROP SCHEMA " + schema() + "_2 CASCADE");
}

TEST_F(PostgresUserStatementsTest, AfterDiscardAllOneIsToBeStartedOverAndNoneEverAfter) {
  insert(1);
  insert(2);
  connection_->execute("DISCARD ALL", {});
  EXPECT_TRUE(contains(message_of<RetryableError>([&] { insert(3); }), "start it over"));
  for (std::int64_t number = 3; number <= 6; ++number) {
    insert(number);
    connection_->execute("DISCARD ALL", {});
  }
  EXPECT_EQ(numbers(), "1 2 3 4 5 6");
}

// Calls that reach the server in part, and calls that are given up: neither keeps locks, or a
// place in the queue for them.

using std::chrono::steady_clock;

class PostgresHalfSentTest : public PostgresTest, public ::testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    PostgresTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    proxy_ = std::make_unique<test::TcpProxy>("127.0.0.1", test::port_of(test::postgres_url()));
  }

  // Statements are kept prepared, or not.
  Options options() const { return {.prepare = GetParam(), .notify = false}; }
  std::shared_ptr<Store> open_far() {
    return open_store_at(test::with_port(test::postgres_url(), proxy_->port()), options());
  }

  // How many server processes wait for a lock of this test's tables.
  int waiting() {
    return std::stoi(
        sql().value("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND "
                    "pid IN (SELECT pid FROM pg_locks JOIN pg_class ON pg_class.oid = relation "
                    "WHERE relnamespace = '" +
                    schema() + "'::regnamespace)"));
  }

  std::unique_ptr<test::TcpProxy> proxy_;
};

// DONE for the first half, and for the others errors as long as they may be: some megabytes.
std::vector<StatusUpdate> large_batch(const std::vector<Row>& rows,
                                      const std::string& in_the_middle) {
  std::vector<StatusUpdate> updates;
  for (const Row& row : rows) {
    StatusUpdate& update =
        updates.emplace_back(StatusUpdate{.row = row.ref, .event_id = row.event.id()});
    if (updates.size() <= rows.size() / 2) continue;
    update.kind = StatusUpdate::Kind::retry;
    update.attempts = 1;
    update.delay = 1h;
    update.error = std::string(4'000, 'x');
    if (updates.size() == rows.size() * 3 / 4) update.error = in_the_middle;
  }
  return updates;
}

TEST_P(PostgresHalfSentTest, ABatchOfUpdatesThatIsCutInTheMiddleKeepsNobodyFromTakingOver) {
  const auto store = open_far();
  sql().execute("INSERT INTO " + table() +
                " (event_id, event_type, payload) SELECT i, 'T', '{}' "
                "FROM generate_series(1, 1000) AS i");
  const auto far = store->join({.name = "far", .lease = 3s});
  const Lease lease = far->renew();
  const std::vector<Row> rows = far->ready(lease.shards, 0, 1'000).rows;
  ASSERT_EQ(rows.size(), 1'000u);
  // So that the statements are prepared.
  EXPECT_FALSE(far->apply(lease.epoch, large_batch({rows.begin(), rows.begin() + 4}, "no")).fenced);

  const std::string middle = "the network ends here";
  proxy_->hold_request(middle);
  const std::vector<Row> rest(rows.begin() + 4, rows.end());
  std::jthread updating(
      [&] { EXPECT_THROW(far->apply(lease.epoch, large_batch(rest, middle)), RetryableError); });
  ASSERT_TRUE(eventually([&] { return proxy_->held() == 1; }));

  const auto near_store = open_store(options());
  const auto near = near_store->join({.name = "near", .lease = 3s});
  std::size_t owned = 0;
  int most_waiting = 0;
  const auto deadline = steady_clock::now() + 25s;
  while (owned < 16 && steady_clock::now() < deadline) {
    try {
      owned = near->renew().shards.size();
    } catch (const RetryableError&) {
      // Its turn comes.
    }
    most_waiting = std::max(most_waiting, waiting());
    std::this_thread::sleep_for(100ms);
  }
  EXPECT_EQ(owned, 16u) << "the locks of the half batch are still held";
  EXPECT_LE(most_waiting, 3) << "server processes pile up";
  EXPECT_EQ(sql().value("SELECT count(*) FROM " + table() + " WHERE status <> 0"), "4")
      << "all or nothing";
  proxy_->cut();
}

TEST_P(PostgresHalfSentTest, ARenewalThatIsGivenUpLeavesTheQueueOfTheLock) {
  const auto store = open_store(options());
  const auto first = store->join({.name = "first", .lease = 60s});
  ASSERT_EQ(first->renew().shards.size(), 16u);
  const auto second = store->join({.name = "second", .lease = 3s});
  second->renew();

  // As somebody does who stops in the middle.
  test::Sql holder;
  holder.execute("BEGIN; SELECT FROM " + table() + "_shard FOR UPDATE");
  for (int i = 0; i < 3; ++i) EXPECT_THROW(second->renew(), RetryableError);
  EXPECT_TRUE(eventually([&] { return waiting() == 0; }))
      << waiting() << " server processes wait for a lock that nobody wants any more";
  holder.execute("ROLLBACK");
  EXPECT_TRUE(eventually([&] {
    try {
      return second->renew().epoch == 0;
    } catch (const RetryableError&) {
      return false;
    }
  }));
}

// Nor does the next one wait behind it.
TEST_P(PostgresHalfSentTest, ARenewalThatIsNotAnsweredInTimeIsGivenUp) {
  const auto store = open_far();
  const auto instance = store->join({.lease = 3s});
  ASSERT_NE(instance->renew().epoch, 0);
  proxy_->stall();
  const auto begin = steady_clock::now();
  EXPECT_THROW(instance->renew(), RetryableError);
  EXPECT_LT(steady_clock::now() - begin, 10s);
  proxy_->resume();
  EXPECT_TRUE(eventually([&] {
    try {
      return instance->renew().epoch != 0;
    } catch (const RetryableError&) {
      return false;
    }
  }));
}

INSTANTIATE_TEST_SUITE_P(Prepare, PostgresHalfSentTest, ::testing::Bool(),
                         [](const auto& each) { return each.param ? "Kept" : "NotKept"; });

}  // namespace

}  // namespace outbox::postgres
