// What a caller is told when something fails: the kind says what to do, the text why.
#include <stdexcept>
#include <utility>

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
    ExternalConnection external(own.handle(), *store);
    const Event event = simple_event("external");
    own.execute("BEGIN");
    external.insert({&event, 1}, {});
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
    ExternalConnection external(own.handle(), store);
    own.execute("BEGIN");
    external.insert({&event, 1}, {});
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

}  // namespace
}  // namespace outbox::mysql
