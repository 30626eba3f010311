// What a caller is told when something fails: the kind says what to do, the text why.
#include <gtest/gtest.h>

#include <stdexcept>
#include <utility>

#include "client/mysql/libmariadb.h"
#include "outbox/writer.h"
#include "store/mysql/test_support.h"

namespace outbox::mysql {
namespace {

enum class Kind { retryable, permanent, misuse, database };

// The kind of error that the work throws, and its text.
template <class Work>
std::pair<Kind, std::string> failure_of(Work work) {
  try {
    work();
  } catch (const RetryableError& error) {
    return {Kind::retryable, error.what()};
  } catch (const MisuseError& error) {
    return {Kind::misuse, error.what()};
  } catch (const DatabaseError& error) {
    return {Kind::database, error.what()};
  } catch (const PermanentError& error) {
    return {Kind::permanent, error.what()};
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

class MysqlErrorsTest : public MysqlTest {
 protected:
  void SetUp() override {
    MysqlTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    sql().execute("CREATE TABLE mine (id int PRIMARY KEY)");
    sql().execute("INSERT INTO mine VALUES (1)");
  }
};

struct Wrong {
  const char* name;
  std::string statement;
  std::vector<Parameter> values;
  Kind kind;
  const char* wrong_advice;  // which is about the library's tables, or about the network
};

class MysqlWrongStatementTest : public MysqlErrorsTest,
                                public ::testing::WithParamInterface<Wrong> {};

TEST_P(MysqlWrongStatementTest, IsCalledWhatItIs) {
  const auto store = open_store();
  const auto connection = begun(*store);
  const auto [kind, text] =
      failure_of([&] { connection->execute(GetParam().statement, GetParam().values); });
  EXPECT_EQ(kind, GetParam().kind) << text;
  EXPECT_FALSE(contains(text, GetParam().wrong_advice));
}

INSTANTIATE_TEST_SUITE_P(
    Each, MysqlWrongStatementTest,
    ::testing::Values(
        Wrong{"TooFewValues",
              "UPDATE mine SET id = ? WHERE id = ?",
              {std::int64_t{1}},
              Kind::misuse,
              "connection"},
        Wrong{"NoSuchTable", "SELECT * FROM no_such_table", {}, Kind::database, "migrate"},
        Wrong{"AKeyThatIsTaken",
              "INSERT INTO mine VALUES (1)",
              {},
              Kind::database,
              "given out by hand"},
        Wrong{"Nonsense", "SELEKT 1", {}, Kind::database, "start it over"}),
    [](const auto& each) { return each.param.name; });

// The advice is for the library's own statements.
TEST_F(MysqlErrorsTest, TheLibrarysOwnTableThatIsMissingIsToBeMigrated) {
  const auto store = open_store();
  sql().execute("DROP TABLE outbox_event");
  const Event event = simple_event("e");
  const auto connection = begun(*store);
  const auto [kind, text] = failure_of([&] { connection->insert({&event, 1}, {}); });
  EXPECT_EQ(kind, Kind::permanent);
  EXPECT_TRUE(contains(text, "outbox migrate up"));
}

TEST_F(MysqlErrorsTest, ADeadTransactionIsToBeStartedOverAndItsCauseIsNamed) {
  const auto store = open_store();
  const auto blocker = begun(*store);
  blocker->execute("UPDATE mine SET id = 2", {});
  const auto connection = begun(*store);
  connection->execute("SET innodb_lock_wait_timeout = 1", {});
  EXPECT_EQ(failure_of([&] { connection->execute("UPDATE mine SET id = 3", {}); }).first,
            Kind::retryable);
  const auto [kind, text] = failure_of([&] { connection->commit(); });
  EXPECT_EQ(kind, Kind::retryable);
  EXPECT_TRUE(contains(text, "[1205]"));
  EXPECT_TRUE(contains(text, "start it over"));
}

// Whoever changes the default database writes to the store's table all the same.
TEST_F(MysqlErrorsTest, AnotherDefaultDatabaseDoesNotLeadEventsAstray) {
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
  EXPECT_TRUE(store->find("external"));
  EXPECT_TRUE(store->find("pooled"));
  EXPECT_EQ(test::Mysql(other.url()).value("SELECT count(*) FROM outbox_event"), "0");
}

class MysqlOtherAddressTest : public MysqlErrorsTest {
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
    EXPECT_TRUE(store->find(id));
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
  EXPECT_FALSE(store->find("e"));
}

TEST_F(MysqlOtherAddressTest, WhoMayNotLookIsTakenAtHisWord) {
  const auto store = open_store();
  sql().execute("DROP TABLE outbox_event_migration");
  test::Mysql own(other_address());
  EXPECT_NO_THROW(insert(own, *store, "e"));
  EXPECT_TRUE(store->find("e"));
}

template <class E>
std::string message_for(unsigned number, std::string state = "HY000", std::string text = "Text") {
  return message_of<E>([&] {
    throw_failure({number, std::move(state), std::move(text)}, "do it", "here");
  });
}

TEST(MysqlFailure, SaysWhatHappenedWithWhichNumberAndWhatToDo) {
  EXPECT_EQ(message_for<RetryableError>(1213, "40001", "Deadlock found"),
            "cannot do it (here): Deadlock found [1213]; it collided with another transaction; "
            "start it over");
  EXPECT_EQ(message_for<PermanentError>(9999), "cannot do it (here): Text [9999]");
}

TEST(MysqlFailure, WhatMayPassIsToBeRetried) {
  for (const unsigned number : {1205U, 1213U, 1040U, 1053U, 1317U, 1969U, 3024U, 4031U, 1927U,
                                1290U, 2002U, 2003U, 2006U, 2013U, 2055U}) {
    message_for<RetryableError>(number);
  }
  message_for<RetryableError>(3999, "40001");
}

TEST(MysqlFailure, WhatWillNotPassIsNot) {
  for (const unsigned number : {1044U, 1045U, 1049U, 1142U, 1146U, 2059U}) {
    message_for<PermanentError>(number);
  }
  for (const unsigned number : {1062U, 1153U, 2014U, 2034U}) message_for<MisuseError>(number);
  message_for<MisuseError>(1064, "42000");
  message_for<MisuseError>(1406, "22001");
}

TEST(MysqlFailure, KeepsValuesOutOfMessages) {
  const std::string message = message_for<MisuseError>(
      1366, "22007", "Incorrect string value: 'secret' for column 'words' at row 1");
  EXPECT_TRUE(contains(message, "Incorrect string value"));
  EXPECT_FALSE(contains(message, "secret"));
}

TEST(MysqlFailure, TellsWhatBecameOfTheConnectionAndTheTransaction) {
  const auto lost = [](unsigned number) { return Failure{number}.lost_connection(); };
  const auto ended = [](unsigned number) { return Failure{number}.ended_transaction(); };
  for (const unsigned number : {2006U, 2013U, 2027U, 1053U, 1153U, 1927U, 4031U}) {
    EXPECT_TRUE(lost(number)) << number;
    EXPECT_TRUE(ended(number)) << number;
  }
  for (const unsigned number : {1205U, 1213U}) {
    EXPECT_FALSE(lost(number)) << number;
    EXPECT_TRUE(ended(number)) << number;
  }
  for (const unsigned number : {0U, 1062U, 1064U, 1317U, 2014U, 2034U}) {
    EXPECT_FALSE(lost(number)) << number;
    EXPECT_FALSE(ended(number)) << number;
  }
}

TEST(MysqlFailure, TellsAServerThatIsNotReadyFromAStatementThatIsForbidden) {
  const auto not_ready = [](unsigned number, const std::string& text = "Text") {
    return Failure{number, "HY000", text}.not_ready();
  };
  EXPECT_TRUE(not_ready(1047));
  EXPECT_TRUE(not_ready(1836));
  EXPECT_TRUE(not_ready(3032));
  EXPECT_TRUE(not_ready(1290, "The MariaDB server is running with the --read-only option"));
  EXPECT_TRUE(not_ready(1290, "running with the LOCK_WRITE_GROWTH or --super-read-only option"));
  EXPECT_FALSE(not_ready(1290, "running with the --secure-file-priv option"));
  EXPECT_FALSE(not_ready(1792));
  EXPECT_FALSE(not_ready(0));
}

TEST(MysqlFailure, OfMostCommitsThatFailNobodyKnowsWhetherTheyHappened) {
  const auto undone = [](unsigned number, const std::string& state = "HY000") {
    return Failure{number, state}.undoes_commit();
  };
  for (const unsigned number : {1205U, 1213U, 1290U, 1836U, 3101U, 9007U}) {
    EXPECT_TRUE(undone(number)) << number;
  }
  EXPECT_TRUE(undone(3999, "40001"));
  EXPECT_TRUE(undone(1062, "23000"));
  for (const unsigned number : {1047U, 1053U, 1105U, 1180U, 1317U, 1927U, 2013U}) {
    EXPECT_FALSE(undone(number)) << number;
  }
}

TEST(MysqlFailure, ALoginThatIsRefusedIsForGoodAndAHostThatIsAwayIsNot) {
  const auto connect = [](unsigned number, const std::string& text) {
    throw_not_connected({number, "HY000", text}, "here");
  };
  EXPECT_THROW(connect(1045, "Access denied"), PermanentError);
  EXPECT_THROW(connect(2026, "TLS/SSL error: self-signed certificate"), PermanentError);
  EXPECT_THROW(connect(2026, "TLS/SSL error: unexpected eof while reading"), RetryableError);
  EXPECT_TRUE(contains(message_of<RetryableError>([&] { connect(2002, "Can't connect"); }),
                       "check that the server runs"));
  EXPECT_THROW(connect(1040, "Too many connections"), RetryableError);
}

// A password may stand in the URL. It must stand nowhere else.

constexpr const char* kSecret = "tOpSeCrEt";

class MysqlSecretsTest : public MysqlTest {
 protected:
  void SetUp() override {
    MysqlTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    server_ = "127.0.0.1:" + std::to_string(test::port_of(test::mysql_url()));
  }

  template <class E>
  void expect_silent(const std::string& url) {
    const std::string message = message_of<E>([&] { open_store_at(url); });
    EXPECT_EQ(message.find(kSecret), std::string::npos) << message;
    EXPECT_NE(message, "");
    const std::string status = message_of<E>([&] { schema_status(url); });
    EXPECT_EQ(status.find(kSecret), std::string::npos) << status;
  }

  const std::string login_ = "mysql://root:" + std::string(kSecret) + "@";
  std::string server_;
};

TEST_F(MysqlSecretsTest, ARefusedLoginDoesNotShowThePassword) {
  expect_silent<PermanentError>("mysql://nobody:" + std::string(kSecret) + "@" + server_ +
                                "/outbox");
}

TEST_F(MysqlSecretsTest, AnUnknownHostOrPortDoesNotShowThePassword) {
  expect_silent<RetryableError>(login_ + "no-such-host.invalid/outbox");
  expect_silent<RetryableError>(login_ + "127.0.0.1:1/outbox");
}

TEST_F(MysqlSecretsTest, AUrlThatMakesNoSenseDoesNotShowThePassword) {
  expect_silent<MisuseError>(login_ + server_ + "/outbox?no_such_parameter=1");
  expect_silent<MisuseError>(login_ + server_ + "/outbox?ssl_mode=nonsense");
  expect_silent<MisuseError>(login_ + "[::1/outbox");
  expect_silent<MisuseError>("mysql://root:%zz" + std::string(kSecret) + "@" + server_ + "/outbox");
  expect_silent<MisuseError>("postgresql://root:" + std::string(kSecret) + "@" + server_ + "/a");
}

TEST_F(MysqlSecretsTest, AUrlInTheWrongPlaceOrForAnotherStoreDoesNotShowThePassword) {
  const std::string secret(kSecret);
  expect_silent<MisuseError>("mysql://root@" + server_ + "/outbox?password=" + secret);
  expect_silent<MisuseError>("host=127.0.0.1 user=root password=" + secret);
  expect_silent<MisuseError>("redis://:" + secret + "@" + server_ + "/0");
  expect_silent<MisuseError>("mysql://a:" + secret + "@h1,b:" + secret + "@h2/outbox");
  expect_silent<RetryableError>("mysql://root:%74OpSeCrEt@127.0.0.1:1,127.0.0.1:2/outbox");
}

// Characters that should have been written as %XX.
TEST_F(MysqlSecretsTest, APasswordThatIsTornApartIsNotShownInPieces) {
  for (const std::string& torn : {"a@" + std::string(kSecret), "a/" + std::string(kSecret),
                                  "1/" + std::string(kSecret), std::string(kSecret) + "@b",
                                  "a@b@" + std::string(kSecret), "a?b@" + std::string(kSecret)}) {
    expect_silent<MisuseError>("mysql://root:" + torn + "@" + server_ + "/outbox");
  }
}

}  // namespace

}  // namespace outbox::mysql
