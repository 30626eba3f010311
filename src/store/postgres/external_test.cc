#include <libpq-fe.h>

#include "outbox/adapter/executor.h"
#include "outbox/writer.h"
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
  EXPECT_EQ(store_->admin().count({}), 8);
}

TEST_F(PostgresExternalConnectionTest, PipelineModeIsRefused) {
  const auto external = wrap(mine_->handle(), *store_);
  mine_->execute("BEGIN");
  ASSERT_EQ(PQenterPipelineMode(mine_->handle()), 1);
  EXPECT_TRUE(contains(message_of<MisuseError>([&] { insert(*external, "e"); }), "pipeline mode"));
  ASSERT_EQ(PQexitPipelineMode(mine_->handle()), 1);
  insert(*external, "e");
  mine_->execute("COMMIT");
  EXPECT_TRUE(store_->admin().find("e"));
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

TEST_F(PostgresExternalConnectionTest,
       AFailedTransactionOnAnExternalConnectionNeedsARollbackNotABegin) {
  Writer writer(store_);
  const auto external = wrap(mine_->handle(), *store_);
  const auto write = [&] {
    return message_of<MisuseError>(
        [&] { writer.write(*external, {.type = "Happened", .payload = json("{}")}); });
  };
  EXPECT_TRUE(contains(write(), "BEGIN"));
  mine_->execute("BEGIN");
  EXPECT_THROW(mine_->execute("SELECT 1 / 0"), std::runtime_error);
  const std::string message = write();
  EXPECT_TRUE(contains(message, "roll back first"));
  EXPECT_FALSE(contains(message, "BEGIN"));
}

// With an outbox of its own, which would take the events.
class PostgresOtherDatabaseTest : public PostgresTest {
 protected:
  void SetUp() override {
    PostgresTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    store_ = open_store();
    sql().execute("CREATE DATABASE " + name());
    other_ = std::make_unique<test::Sql>(url());
    other_->execute("CREATE SCHEMA " + schema());
    migrate(url(), table());
    other_->execute("BEGIN");
  }
  void TearDown() override {
    other_.reset();
    if (store_) sql().execute("DROP DATABASE " + name() + " WITH (FORCE)");
    PostgresTest::TearDown();
  }
  std::string name() const { return schema() + "_other"; }
  std::string url() const {
    const std::string usual = test::postgres_url();
    return usual.substr(0, usual.rfind('/') + 1) + name();
  }

  std::shared_ptr<Store> store_;
  std::unique_ptr<test::Sql> other_;
};

TEST_F(PostgresOtherDatabaseTest, AnExternalConnectionToItIsRefused) {
  const Event event = simple_event("e");
  const auto external = wrap(other_->handle(), *store_);
  const std::string message = message_of<MisuseError>([&] { external->insert({&event, 1}, {}); });
  EXPECT_TRUE(contains(message, name()));
  EXPECT_TRUE(contains(message, "connect to the same database"));
  EXPECT_EQ(other_->value("SELECT count(*) FROM " + table()), "0");
}

TEST_F(PostgresOtherDatabaseTest, ATransactionOfAnotherLibraryOnItIsRefused) {
  const Event event = simple_event("e");
  const auto executor = [&](test::Sql& on) {
    const auto run = [&](const std::string& text) {
      ExecutorResult answer;
      for (const test::Row& row : on.query(text)) answer.rows.push_back({*row.at(0), *row.at(1)});
      return answer;
    };
    return wrap(run, *store_);
  };
  EXPECT_TRUE(contains(message_of<MisuseError>([&] {
                         executor(*other_)->insert({&event, 1}, {});
                       }),
                       "connect to the same database"));
  EXPECT_EQ(other_->value("SELECT count(*) FROM " + table()), "0");
  EXPECT_NO_THROW(executor(sql())->insert({&event, 1}, {}));
  EXPECT_TRUE(store_->admin().find("e"));
}

TEST_F(PostgresOtherDatabaseTest, TheSameDatabaseUnderAnotherAddressIsTaken) {
  std::string url = test::postgres_url();
  const auto host = url.find("127.0.0.1");
  ASSERT_NE(host, std::string::npos);
  test::Sql own(url.replace(host, 9, "127.1"));
  for (const char* id : {"1", "2"}) {
    const Event event = simple_event(id);
    const auto external = wrap(own.handle(), *store_);
    own.execute("BEGIN");
    EXPECT_NO_THROW(external->insert({&event, 1}, {}));
    own.execute("COMMIT");
    EXPECT_TRUE(store_->admin().find(id));
  }
}

}  // namespace
}  // namespace outbox::postgres
