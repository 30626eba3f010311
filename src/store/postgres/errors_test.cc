// What a caller is told when something fails: the kind says what to do, the text why.
#include <libpq-fe.h>
#include <sys/socket.h>
#include <unistd.h>

#include <stdexcept>
#include <thread>
#include <utility>

#include "client/postgres/session.h"
#include "outbox/adapter/executor.h"
#include "outbox/writer.h"
#include "store/postgres/store_config.h"
#include "store/postgres/test_support.h"
#include "support/sockets.h"

namespace outbox::postgres {
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

class PostgresErrorsTest : public PostgresTest {
 protected:
  void SetUp() override {
    PostgresTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    sql().execute("CREATE TABLE " + mine() + " (id int PRIMARY KEY)");
    sql().execute("INSERT INTO " + mine() + " VALUES (1)");
  }
  std::string mine() const { return schema() + ".mine"; }
};

struct Wrong {
  const char* name;
  std::string statement;  // {mine} is a table of the user's
  std::vector<Parameter> values;
  Kind kind;
  const char* state;
  const char* wrong_advice;  // which is about the library's tables, or about the network
};

class PostgresWrongStatementTest : public PostgresErrorsTest,
                                   public ::testing::WithParamInterface<Wrong> {
 protected:
  std::string statement() const {
    std::string text = GetParam().statement;
    const auto at = text.find("{mine}");
    return at == std::string::npos ? text : text.replace(at, 6, mine());
  }
};

TEST_P(PostgresWrongStatementTest, IsCalledWhatItIsAlsoByTheCommit) {
  const auto store = open_store();
  const auto connection = begun(*store);
  const auto [kind, text] =
      failure_of([&] { connection->execute(statement(), GetParam().values); });
  EXPECT_EQ(kind, GetParam().kind) << text;
  EXPECT_TRUE(contains(text, GetParam().state));
  EXPECT_FALSE(contains(text, GetParam().wrong_advice));

  const auto [end, why] = failure_of([&] { connection->commit(); });
  EXPECT_EQ(end, GetParam().kind) << "a loop that starts it over would never end: " << why;
  EXPECT_TRUE(contains(why, "rolled back"));
  EXPECT_TRUE(contains(why, GetParam().state)) << "the cause";
  const bool again = GetParam().kind == Kind::retryable;
  EXPECT_TRUE(contains(why, again ? "start it over" : "it would fail again"));
}

INSTANTIATE_TEST_SUITE_P(
    Each, PostgresWrongStatementTest,
    ::testing::Values(
        Wrong{"TooFewValues",
              "UPDATE {mine} SET id = $1 WHERE id = $2",
              {std::int64_t{1}},
              Kind::misuse,
              "08P01",
              "connection was lost"},
        Wrong{"NoSuchTable", "SELECT * FROM no_such_table", {}, Kind::database, "42P01", "migrate"},
        Wrong{"AKeyThatIsTaken",
              "INSERT INTO {mine} VALUES (1)",
              {},
              Kind::database,
              "23505",
              "given out by hand"},
        Wrong{"NotAllowed",
              "DO $$ BEGIN SET LOCAL ROLE pg_monitor; DELETE FROM {mine}; END $$",
              {},
              Kind::database,
              "42501",
              "docs/databases.md"},
        Wrong{"Division", "SELECT 1 / 0", {}, Kind::database, "22012", "start it over"},
        Wrong{"ACollision",
              "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '40001'; END $$",
              {},
              Kind::retryable,
              "40001",
              "it would fail again"}),
    [](const auto& each) { return each.param.name; });

// The advice is for the library's own statements.
TEST_F(PostgresErrorsTest, TheLibrarysOwnTableThatIsMissingIsToBeMigrated) {
  const auto store = open_store();
  sql().execute("DROP TABLE " + table());
  const Event event = simple_event("e");
  const auto connection = begun(*store);
  const auto [kind, text] = failure_of([&] { connection->insert({&event, 1}, {}); });
  EXPECT_EQ(kind, Kind::permanent);
  EXPECT_TRUE(contains(text, "outbox migrate up"));
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
  EXPECT_EQ(failure_of([&] { session.run_script("SELECT 1", "ask"); }).first, Kind::retryable);
}

TEST_F(PostgresErrorsTest, WhatASavepointHasUndoneIsForgotten) {
  const auto store = open_store();
  const Event event = simple_event("kept");
  const auto connection = begun(*store);
  connection->insert({&event, 1}, {});
  connection->savepoint("part");
  EXPECT_THROW(connection->execute("SELECT 1 / 0", {}), DatabaseError);
  connection->rollback_to("part");
  EXPECT_NO_THROW(connection->commit());
  EXPECT_TRUE(store->find("kept"));

  connection->begin();
  connection->query("SELECT 1", {});
  EXPECT_THROW(connection->execute("COMMIT", {}), MisuseError) << "refused before it was sent";
  EXPECT_NO_THROW(connection->commit());
}

// Its connection is given up, because the server waits for data.
TEST_F(PostgresErrorsTest, ARefusedCopyIsNotToBeStartedOver) {
  const auto store = open_store();
  const auto connection = begun(*store);
  EXPECT_THROW(connection->execute("COPY " + mine() + " FROM STDIN", {}), MisuseError);
  EXPECT_EQ(failure_of([&] { connection->commit(); }).first, Kind::misuse);
}

TEST_F(PostgresErrorsTest, AFailedTransactionOnAnExternalConnectionNeedsARollbackNotABegin) {
  Writer writer(open_store());
  test::Sql own;
  const auto external = wrap(own.handle(), writer.store());
  const auto write = [&] {
    return message_of<MisuseError>(
        [&] { writer.write(*external, {.type = "Happened", .payload = json("{}")}); });
  };
  EXPECT_TRUE(contains(write(), "BEGIN"));
  own.execute("BEGIN");
  EXPECT_THROW(own.execute("SELECT 1 / 0"), std::runtime_error);
  const std::string message = write();
  EXPECT_TRUE(contains(message, "roll back first"));
  EXPECT_FALSE(contains(message, "BEGIN"));
}

// With an outbox of its own, which would take the events.
class PostgresOtherDatabaseTest : public PostgresErrorsTest {
 protected:
  void SetUp() override {
    PostgresErrorsTest::SetUp();
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
    PostgresErrorsTest::TearDown();
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
  EXPECT_TRUE(store_->find("e"));
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
    EXPECT_TRUE(store_->find(id));
  }
}

// A password may stand in the URL. It must stand nowhere else.

constexpr const char* kSecret = "tOpSeCrEt";

class PostgresSecretsTest : public PostgresTest {
 protected:
  void SetUp() override {
    PostgresTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    server_ = "127.0.0.1:" + std::to_string(test::port_of(test::postgres_url()));
  }

  // What opening the URL complains of, and what a store that forgives would say.
  template <class E>
  void expect_silent(const std::string& url) {
    const std::string message = message_of<E>([&] { open_store_at(url); });
    EXPECT_EQ(message.find(kSecret), std::string::npos) << message;
    EXPECT_NE(message, "");
    const std::string status = message_of<E>([&] { schema_status(url, table()); });
    EXPECT_EQ(status.find(kSecret), std::string::npos) << status;
  }

  std::string server_;
};

TEST_F(PostgresSecretsTest, ARefusedLoginDoesNotShowThePassword) {
  expect_silent<PermanentError>("postgresql://nobody:" + std::string(kSecret) + "@" + server_ +
                                "/outbox");
  expect_silent<PermanentError>(
      "user=nobody password=" + std::string(kSecret) +
      " host=127.0.0.1 dbname=outbox port=" + std::to_string(test::port_of(test::postgres_url())));
}

TEST_F(PostgresSecretsTest, AnUnknownHostPortOrDatabaseDoesNotShowThePassword) {
  const std::string login = "postgresql://postgres:" + std::string(kSecret) + "@";
  expect_silent<RetryableError>(login + "no-such-host.invalid/outbox");
  expect_silent<RetryableError>(login + "127.0.0.1:1/outbox");
  expect_silent<PermanentError>(login + server_ + "/no_such_database");
  expect_silent<PermanentError>(login + server_ + "/outbox?sslmode=nonsense");
}

TEST_F(PostgresSecretsTest, AUrlThatMakesNoSenseDoesNotShowThePassword) {
  const std::string login = "postgresql://postgres:" + std::string(kSecret) + "@";
  expect_silent<MisuseError>(login + server_ + "/outbox?no_such_parameter=1");
  expect_silent<MisuseError>(login + server_ + "/outbox?password");
  expect_silent<MisuseError>(login + "[::1/outbox");
  expect_silent<MisuseError>("postgresql://postgres:%zz" + std::string(kSecret) + "@" + server_);
  expect_silent<MisuseError>("password=" + std::string(kSecret) + " no_such_setting=1");
  expect_silent<MisuseError>("password='" + std::string(kSecret));
  expect_silent<MisuseError>("host=127.0.0.1 " + std::string(kSecret));
  expect_silent<MisuseError>("mysql://postgres:" + std::string(kSecret) + "@" + server_);
}

TEST_F(PostgresSecretsTest, AUrlInTheWrongPlaceOrForAnotherStoreDoesNotShowThePassword) {
  const std::string secret(kSecret);
  const std::string port = " port=" + std::to_string(test::port_of(test::postgres_url()));
  expect_silent<MisuseError>("host=127.0.0.1 user=postgres dbname=postgresql://u:" + secret +
                             "@h/d" + port);
  expect_silent<MisuseError>("host=127.0.0.1 user=postgres dbname='host=h password=" + secret +
                             "'" + port);
  expect_silent<MisuseError>("redis://:" + secret + "@" + server_ + "/0");
  expect_silent<MisuseError>("sqlite:" + secret + ".db");
  expect_silent<MisuseError>("postgresql://a:" + secret + "@h1,b:" + secret + "@h2/outbox");
  expect_silent<RetryableError>("postgresql://postgres@127.0.0.1:1/outbox?password=" + secret);
  expect_silent<RetryableError>("postgresql://postgres@127.0.0.1:1/outbox?sslpassword=" + secret);
}

// Characters that should have been written as %XX: what libpq takes for the host or
// the database then is a part of the password.
TEST_F(PostgresSecretsTest, APasswordThatIsTornApartIsNotShownInPieces) {
  for (const std::string& torn : {"a@" + std::string(kSecret), "a/" + std::string(kSecret),
                                  "1/" + std::string(kSecret), std::string(kSecret) + "@b",
                                  "a@b@" + std::string(kSecret), "a?b@" + std::string(kSecret)}) {
    expect_silent<MisuseError>("postgresql://postgres:" + torn + "@" + server_ + "/outbox");
  }
}

TEST_F(PostgresSecretsTest, AnAtSignElsewhereIsNobodysSecret) {
  EXPECT_NO_THROW(open_store_at(test::postgres_url() + "?application_name=me@home"));
  EXPECT_NO_THROW(open_store_at("user=postgres host=127.0.0.1 dbname=outbox password=a@b/c port=" +
                                std::to_string(test::port_of(test::postgres_url()))));
}

TEST_F(PostgresSecretsTest, NeitherDescriptionNorErrorsNorLogOfAStoreShowThePassword) {
  const auto store =
      open_store_at("postgresql://postgres:" + std::string(kSecret) + "@" + server_ + "/outbox");
  EXPECT_EQ(store->description().find(kSecret), std::string::npos);
  const auto connection = begun(*store);
  const std::string message =
      message_of<DatabaseError>([&] { connection->execute("SELECT nonsense", {}); });
  EXPECT_EQ(message.find(kSecret), std::string::npos);
  EXPECT_FALSE(log_.contains(kSecret));
}

}  // namespace

}  // namespace outbox::postgres
