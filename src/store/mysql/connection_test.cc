#include "store/mysql/connection.h"

#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <map>
#include <random>

#include "store/mysql/test_support.h"
#include "support/tcp_proxy.h"

namespace outbox::mysql {
namespace {

class MysqlConnectionTest : public MysqlTest {
 protected:
  void SetUp() override {
    MysqlTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    sql().execute("CREATE TABLE accounts (id int PRIMARY KEY, cents int)");
    sql().execute("INSERT INTO accounts VALUES (1, 0), (2, 0)");
    proxy_ = std::make_unique<test::TcpProxy>("127.0.0.1", test::port_of(test::mysql_url()));
  }

  static PoolLimits limits(std::size_t size) {
    return {.size = size, .wait_timeout = 50ms, .hint = "raise mysql::Options::connections"};
  }
  std::shared_ptr<Pool> pool(const std::string& url, std::size_t size = 4) const {
    return make_pool(config_at(url), Use::transactions, limits(size), 30s);
  }
  std::unique_ptr<PooledConnection> begun(const std::shared_ptr<Pool>& from) const {
    auto connection = std::make_unique<PooledConnection>(from->take());
    connection->begin();
    return connection;
  }

  // Through a network that can fail, and sees what it carries.
  std::string proxied() const {
    return test::with_port(url(), proxy_->port()) + "?ssl_mode=disabled";
  }
  test::TcpProxy& network() { return *proxy_; }

  static std::string pay(int id) {
    return "UPDATE accounts SET cents = cents + 1 WHERE id = " + std::to_string(id);
  }
  int cents(int id) {
    return std::stoi(sql().value("SELECT cents FROM accounts WHERE id = " + std::to_string(id)));
  }

 private:
  std::unique_ptr<test::TcpProxy> proxy_;
};

TEST_F(MysqlConnectionTest, SavepointsAreRolledBackToAndReleased) {
  const auto connection = begun(pool(url()));
  connection->execute(pay(1), {});
  connection->savepoint("a `quoted` one");
  connection->execute(pay(1), {});
  connection->rollback_to("a `quoted` one");
  connection->release("a `quoted` one");
  EXPECT_THROW(connection->rollback_to("a `quoted` one"), MisuseError);
  connection->execute(pay(2), {});
  connection->commit();
  EXPECT_EQ(cents(1), 1);
  EXPECT_EQ(cents(2), 1);
}

TEST_F(MysqlConnectionTest, AnErrorOfOneStatementLeavesTheOthers) {
  const auto connection = begun(pool(url()));
  connection->execute(pay(1), {});
  EXPECT_TRUE(contains(message_of<DatabaseError>(
                           [&] { connection->execute("INSERT INTO accounts VALUES (1, 0)", {}); }),
                       "'1'"));
  connection->commit();
  EXPECT_EQ(cents(1), 1);
}

TEST_F(MysqlConnectionTest, AfterADeadlockNothingIsDoneOutsideTheTransaction) {
  const auto from = pool(url());
  const auto one = begun(from);
  const auto two = begun(from);
  one->execute(pay(1), {});
  two->execute(pay(2), {});
  const auto finish = [](Connection& connection, int other) {
    std::string failure;
    try {
      connection.execute(pay(other), {});
    } catch (const RetryableError& error) {
      failure = error.what();
    }
    // The victim goes on as if nothing had been.
    try {
      connection.execute(pay(other), {});
      connection.commit();
    } catch (const RetryableError& error) {
      failure += std::string(" / ") + error.what();
    }
    return failure;
  };
  auto other = std::async(std::launch::async, [&] { return finish(*two, 1); });
  const std::string of_one = finish(*one, 2);
  const std::string of_two = other.get();
  EXPECT_NE(of_one.empty(), of_two.empty()) << of_one << "\n" << of_two;
  EXPECT_TRUE(contains(of_one + of_two, "[1213]"));
  EXPECT_TRUE(contains(of_one + of_two, "/ the transaction was rolled back"));
  for (const auto* each : {&one, &two}) {
    if ((*each)->in_transaction()) (*each)->rollback();
  }
  EXPECT_EQ(cents(1) + cents(2), 3);  // the winner's alone
}

TEST_F(MysqlConnectionTest, AfterALockWaitTheTransactionIsToBeStartedOver) {
  const auto from = pool(url());
  const auto blocker = begun(from);
  blocker->execute(pay(1), {});
  const auto waits = begun(from);
  waits->execute(pay(2), {});
  waits->execute("SET SESSION innodb_lock_wait_timeout = 1", {});
  EXPECT_TRUE(contains(message_of<RetryableError>([&] { waits->execute(pay(1), {}); }), "[1205]"));
  const std::string end = message_of<RetryableError>([&] { waits->commit(); });
  EXPECT_TRUE(contains(end, "rolled back"));
  EXPECT_TRUE(contains(end, "[1205]"));
  EXPECT_TRUE(contains(end, "start it over"));
  EXPECT_FALSE(waits->in_transaction());
  EXPECT_EQ(cents(2), 0);
}

TEST_F(MysqlConnectionTest, AStatementThatCommitsByItselfEndsTheTransaction) {
  const auto from = pool(url());
  const auto connection = begun(from);
  connection->execute(pay(1), {});
  EXPECT_TRUE(contains(
      message_of<MisuseError>([&] { connection->execute("CREATE TABLE other (id int)", {}); }),
      "committed the transaction"));
  EXPECT_FALSE(connection->in_transaction());
  EXPECT_THROW(connection->commit(), MisuseError);
}

TEST_F(MysqlConnectionTest, AChildMadeByForkLeavesTheParentsConnectionAlone) {
  const auto from = pool(url());
  constexpr Sql kOne{"read", "SELECT ?"};
  Database own(config());
  own.run(kOne, 1);
  {
    auto connection = begun(from);
    connection->execute(pay(1), {});
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      bool refused = false;
      try {
        from->take();
      } catch (const MisuseError&) {
        refused = true;
      }
      connection.reset();
      own.drop();
      _exit(refused ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    connection->commit();
  }
  EXPECT_EQ(own.run(kOne, 2).integer(0, 0), 2);
  EXPECT_FALSE(own.ensure_connected());
  EXPECT_EQ(cents(1), 1);
}

// What a node of a Galera cluster says when it loses the others in the middle of it, and
// what a server says that is being stopped.
TEST_F(MysqlConnectionTest, ACommitThatMayHaveHappenedIsUnknown) {
  const auto from = pool(proxied());
  for (const unsigned number : {1047U, 1053U, 1105U, 1180U, 1317U}) {
    const auto connection = begun(from);
    connection->execute(pay(1), {});
    network().replace_reply(
        "\x03"
        "COMMIT",
        error_packet(number));
    EXPECT_THROW(connection->commit(), OutcomeUnknownError) << number;
    EXPECT_FALSE(connection->in_transaction());
  }
  EXPECT_EQ(cents(1), 5) << "here they all did";
}

TEST_F(MysqlConnectionTest, ACommitThatCertainlyDidNotHappenIsToBeStartedOver) {
  const auto from = pool(proxied());
  for (const unsigned number : {1213U, 1290U, 1836U, 3101U}) {
    const auto connection = begun(from);
    network().replace_reply(
        "\x03"
        "COMMIT",
        error_packet(number));
    EXPECT_THROW(connection->commit(), RetryableError) << number;
  }
}

TEST_F(MysqlConnectionTest, OfAServerThatIsNotReadyTheNextHostIsTried) {
  const std::string two = test::with_port(url(), network().port());
  const auto slash = two.rfind('/');
  const std::string both = two.substr(0, slash) +
                           ",127.0.0.1:" + std::to_string(test::port_of(url())) +
                           two.substr(slash) + "?ssl_mode=disabled";
  // A node that has lost its cluster answers some statements.
  int accepted = 0;
  for (const char* refused : {"SET NAMES", "DO 0"}) {
    network().replace_reply(refused, error_packet(1047, "08S01"));
    const auto connection = begun(pool(both));
    EXPECT_EQ(network().accepted(), ++accepted);
    EXPECT_TRUE(eventually([&] { return network().connections() == 0; }));
    connection->execute(pay(1), {});
    connection->commit();
  }
  EXPECT_EQ(cents(1), 2);
}

// Cut off from its cluster, or made a replica of another one.
TEST_F(MysqlConnectionTest, AConnectionToAServerThatIsReadyNoMoreIsReplaced) {
  const auto from = pool(url(), 1);
  const auto id = [&] {
    return PooledConnection(from->take())
        .query("SELECT connection_id()", {})
        .at(0)
        .get<std::int64_t>(0);
  };
  auto last = id();
  EXPECT_EQ(id(), last) << "it is kept as a rule";
  for (const std::string error :
       {"'08S01' SET MYSQL_ERRNO = 1047", "'HY000' SET MYSQL_ERRNO = 1836",
        "'HY000' SET MYSQL_ERRNO = 1290, MESSAGE_TEXT = 'running with the --read-only option'"}) {
    sql().execute("CREATE TRIGGER refuse BEFORE UPDATE ON accounts FOR EACH ROW SIGNAL SQLSTATE " +
                  error);
    EXPECT_THROW(begun(from)->execute(pay(1), {}), RetryableError) << error;
    sql().execute("DROP TRIGGER refuse");
    const auto next = id();
    EXPECT_NE(next, last) << error;
    last = next;
  }
  EXPECT_THROW(PooledConnection(from->take()).query("SELECT 1 INTO OUTFILE '/nowhere/x'", {}),
               Error);
  EXPECT_EQ(id(), last) << "other errors cost nothing";
}

// BEGIN opens a block there, and the other one begins the next transaction at once.
TEST_F(MysqlConnectionTest, TransactionsBeginAndEndWhateverTheModesOfTheSessionAre) {
  for (const char* mode : {"sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT'",
                           "completion_type = 'CHAIN'", "completion_type = 'RELEASE'",
                           "sql_select_limit = 0", "sql_mode = 'ORACLE'"}) {
    const auto set = [&](MYSQL* connection) {
      const std::string text = std::string("SET SESSION ") + mode;
      // Only MariaDB knows ORACLE.
      mysql_query(connection, text.c_str());
    };
    const auto from = make_pool(config(), Use::transactions, limits(1), 30s, set);
    MYSQL* first = nullptr;
    for (int i = 0; i < 2; ++i) {
      const auto connection = begun(from);
      if (first == nullptr) first = connection->handle();
      EXPECT_EQ(connection->handle(), first) << mode << ": it is still the same connection";
      connection->execute(pay(1), {});
      connection->commit();
      connection->begin();
      connection->execute(pay(2), {});
      connection->rollback();
    }
  }
  EXPECT_EQ(cents(1), 10);
  EXPECT_EQ(cents(2), 0);
}

using MysqlRowsTest = MysqlTest;

// The server's crc32() and ours, on texts of any alphabet.
TEST_F(MysqlRowsTest, NumbersAndShardsAreThoseOfTheTable) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto text = [&](int most) {
    static constexpr std::string_view kLetters[] = {"a", "Z", "0",  " ", "_",    "\\",
                                                    "'", "ü", "日", "😀", "\x1F", "%"};
    std::string result;
    for (auto left = random() % static_cast<unsigned>(most); left > 0; --left) {
      result += kLetters[random() % std::size(kLetters)];
    }
    return result;
  };
  const auto event = [&](int number) {
    EventFields fields;
    fields.id = std::to_string(number) + "." + text(8);
    fields.type = "T";
    if (random() % 4 != 0) fields.aggregate_type = "A" + text(20);
    if (random() % 4 != 0) fields.aggregate_id = text(40);
    fields.payload = json("{}");
    fields.occurred_at = fields.available_at = host_clock().now();
    return Event::restore(std::move(fields));
  };

  const auto store = open_store();
  const auto connection = begun(*store);
  std::map<std::string, RowRef> expected;
  int number = 0;
  const auto write = [&](int count) {
    std::vector<Event> events;
    for (int i = 0; i < count; ++i) events.push_back(event(number++));
    const std::vector<RowRef> refs = connection->insert(events, {});
    ASSERT_EQ(refs.size(), events.size());
    for (std::size_t i = 0; i < refs.size(); ++i) {
      EXPECT_EQ(refs[i].shard, shard_of(events[i]));
      expected[events[i].id()] = refs[i];
    }
  };
  for (const int count : {1, 2'000, 1, 999, 2}) write(count);
  connection->commit();

  const auto rows = sql().query("SELECT event_id, seq, shard FROM outbox_event");
  ASSERT_EQ(rows.size(), expected.size());
  for (const auto& row : rows) {
    const RowRef& ref = expected.at(row.at(0).value());
    EXPECT_EQ(row.at(1), std::to_string(ref.seq)) << row.at(0).value();
    EXPECT_EQ(row.at(2), std::to_string(ref.shard)) << row.at(0).value();
  }
}

TEST_F(MysqlRowsTest, NumbersAreRightAlsoWhereTheServerCountsInLargerSteps) {
  const auto store = open_store({.on_open = [](st_mysql* connection) {
    mysql_query(connection, "SET auto_increment_increment = 5");
  }});
  const Event three[] = {simple_event("1"), simple_event("2"), simple_event("3")};
  const auto connection = begun(*store);
  const std::vector<RowRef> refs = connection->insert(three, {});
  connection->commit();
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(store->admin().find(three[i].id())->row.ref.seq, refs.at(i).seq);
  }
}

// Statements kept prepared, or all sent as text.
class MysqlManyRowsTest : public MysqlTest, public ::testing::WithParamInterface<bool> {
 protected:
  static std::vector<Event> events(std::size_t number, const std::string& prefix) {
    std::vector<Event> result;
    for (std::size_t i = 0; i < number; ++i) {
      result.push_back(simple_event(prefix + "." + std::to_string(i)));
    }
    return result;
  }

  static Event large_event(const std::string& id, Payload payload) {
    Draft draft{.type = "Large", .payload = std::move(payload)};
    draft.id = id;
    return make_event(std::move(draft));
  }

  std::shared_ptr<Store> store() { return open_store({.prepare = GetParam()}); }

  static std::int64_t statements(Connection& connection) {
    const auto rows = connection.query("SHOW SESSION STATUS LIKE 'Com_insert'", {});
    return std::stoll(rows.at(0).get<std::string>(1));
  }

  // The ids in the order of the numbers that the rows were said to have.
  void expect_rows(const std::map<Seq, std::string>& expected) {
    const auto rows = sql().query("SELECT seq, event_id FROM outbox_event ORDER BY seq");
    ASSERT_EQ(rows.size(), expected.size());
    auto next = expected.begin();
    for (const auto& row : rows) {
      EXPECT_EQ(row.at(0), std::to_string(next->first));
      EXPECT_EQ(row.at(1), next->second);
      ++next;
    }
  }
};

TEST_P(MysqlManyRowsTest, AnyNumberGoesInInOrderWithFewStatements) {
  struct Case {
    std::size_t rows;
    std::int64_t prepared;  // statements
    std::int64_t as_text;
  };
  const auto store = this->store();
  const auto connection = begun(*store);
  std::map<Seq, std::string> expected;
  Seq last = 0;
  for (const auto& [number, prepared, as_text] :
       {Case{0, 0, 0}, Case{1, 1, 1}, Case{2, 1, 1}, Case{3, 1, 1}, Case{4, 1, 1}, Case{19, 1, 1},
        Case{20, 1, 1}, Case{21, 2, 1}, Case{63, 4, 1}, Case{64, 4, 1}, Case{65, 4, 1},
        Case{99, 5, 1}, Case{100, 1, 1}, Case{101, 2, 1}, Case{121, 3, 1}, Case{500, 5, 1},
        Case{501, 6, 2}}) {
    SCOPED_TRACE(number);
    const std::vector<Event> events = this->events(number, std::to_string(number));
    const std::int64_t before = statements(*connection);
    const std::vector<RowRef> refs = connection->insert(events, {});
    EXPECT_EQ(statements(*connection) - before, GetParam() ? prepared : as_text);
    ASSERT_EQ(refs.size(), number);
    for (std::size_t i = 0; i < number; ++i) {
      EXPECT_GT(refs[i].seq, last);
      last = refs[i].seq;
      expected[last] = events[i].id();
    }
  }
  connection->commit();
  expect_rows(expected);
}

TEST_P(MysqlManyRowsTest, WhatDoesNotFitIntoOneStatementIsSplit) {
  open_store();  // for its table
  const auto config =
      this->config({.prepare = GetParam(), .codec = default_json_codec(), .clock = &host_clock()});
  const Link link = config->connect(Use::transactions);
  constexpr std::size_t kPacket = 64 << 10;
  Session session(link.handle.get(), config, kPacket, Session::Prepare::at_once);
  std::map<Seq, std::string> expected;
  const auto write = [&](const std::vector<Event>& events) {
    const std::vector<RowRef> refs = insert_rows(session, events, {});
    ASSERT_EQ(refs.size(), events.size());
    for (std::size_t i = 0; i < refs.size(); ++i) expected[refs[i].seq] = events[i].id();
  };
  session.run_text("BEGIN", "begin");
  // Each fits, also as text; what comes before or behind it may not fit beside it.
  int number = 0;
  for (const std::size_t size :
       {std::size_t{100}, kPacket / 100, kPacket / 40, kPacket / 4, kPacket / 2 - 2'000}) {
    for (const std::size_t rows :
         {std::size_t{1}, std::size_t{2}, std::size_t{25}, std::size_t{130}}) {
      SCOPED_TRACE(std::to_string(rows) + " of " + std::to_string(size));
      std::vector<Event> events;
      for (std::size_t i = 0; i < rows; ++i) {
        const std::string id = std::to_string(number++);
        events.push_back(i % 3 == 0 ? large_event(id, json("\"" + std::string(10, 'x') + "\""))
                                    : large_event(id, bytes(std::string(size, '\\'))));
      }
      write(events);
    }
  }
  session.run_text("COMMIT", "commit");
  expect_rows(expected);
}

TEST_P(MysqlManyRowsTest, OneThatFitsNowhereTakesTheOthersAlong) {
  const auto store = this->store();
  const std::size_t limit = std::stoull(sql().value("SELECT @@max_allowed_packet"));
  std::vector<Event> events = this->events(150, "e");
  EventFields fields;
  fields.id = "large";
  fields.type = "T";
  fields.payload = bytes(std::string(limit, 'x'));
  events.push_back(Event::restore(std::move(fields)));
  const auto connection = begun(*store);
  EXPECT_TRUE(contains(message_of<MisuseError>([&] { connection->insert(events, {}); }),
                       "max_allowed_packet"));
  connection->commit();
  EXPECT_EQ(sql().value("SELECT count(*) FROM outbox_event"), "0");
}

TEST_P(MysqlManyRowsTest, AListWithADuplicateLeavesNothingBehindEvenIfCommitted) {
  const auto store = this->store();
  write_event(*store, simple_event("there"));
  for (const std::size_t at : {3u, 120u, 599u, 630u}) {
    std::vector<Event> events = this->events(631, std::to_string(at));
    events[at] = simple_event("there");
    const auto connection = begun(*store);
    const Event before = simple_event("before" + std::to_string(at));
    const Event after = simple_event("after" + std::to_string(at));
    connection->insert({&before, 1}, {});
    EXPECT_TRUE(
        contains(message_of<MisuseError>([&] { connection->insert(events, {}); }), "'there'"));
    connection->insert({&after, 1}, {});
    connection->commit();
  }
  EXPECT_EQ(sql().value("SELECT group_concat(event_id ORDER BY seq) FROM outbox_event"),
            "there,before3,after3,before120,after120,before599,after599,before630,after630");
}

INSTANTIATE_TEST_SUITE_P(Ways, MysqlManyRowsTest, ::testing::Bool(),
                         [](const auto& way) { return way.param ? "Prepared" : "AsText"; });

}  // namespace

}  // namespace outbox::mysql
