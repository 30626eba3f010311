// For stores on an SQL database: what stands there besides the events, and how a program gets at
// it past the store.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "outbox/admin/schema.h"
#include "outbox/error.h"
#include "outbox/testing.h"
#include "store_conformance.h"

namespace outbox::conformance {

// A connection that a program has opened by itself. Errors of its statements are
// std::runtime_error.
class OwnConnection {
 public:
  virtual ~OwnConnection() = default;

  // One or several statements.
  virtual void execute(const std::string& statements) = 0;
  virtual std::string value(const std::string& query) = 0;  // its only one, as text

  virtual std::unique_ptr<Connection> wrapped(Store& store) = 0;
};

// By what the tests of that database use: test::Sql, test::Mysql.
template <class Client>
class OwnClient final : public OwnConnection {
 public:
  explicit OwnClient(const std::string& url) : client_(url) {}

  void execute(const std::string& statements) override { client_.execute(statements); }
  std::string value(const std::string& query) override { return client_.value(query); }
  std::unique_ptr<Connection> wrapped(Store& store) override {
    return wrap(client_.handle(), store);
  }

  Client& client() { return client_; }

 private:
  Client client_;
};

// What a caller is told to do.
enum class Advice { retry, give_up, fix_the_call, fix_the_statement };
std::ostream& operator<<(std::ostream& out, Advice advice);

// A statement of the user's that the database refuses.
struct WrongStatement {
  std::string sql;  // {mine} is a table with the key 1
  std::vector<Parameter> values;
  Advice advice;
  std::string code{};    // the database's own, which the error has
  std::string not_said;  // advice about the library's tables, or about the network
};

// How the database of a store differs from others, where the suites have to know.
struct DatabaseWords {
  std::string begin_hint{};     // how to begin a transaction
  std::string options{};        // the namespace of its options
  std::string begin = "BEGIN";  // as a program does that writes
  bool long_names = false;      // of tables; else they have at most 48 characters
  std::size_t longest_schema = 63;
  std::vector<std::string> tables_of_shards{};  // with a row for each of the 16

  // A statement that fails takes its transaction along, unless a savepoint stood before it.
  bool failure_ends_transaction = false;

  // Statements that set a session up so that values are read or written in another way, and what
  // shows them.
  std::vector<std::string> session_settings{""};
  std::string shown_settings = "SELECT 1";

  std::vector<WrongStatement> wrong_statements{};
};

// What a test wants of a store that it opens by itself.
struct Opening {
  std::optional<std::string> table{};  // nullopt: the backend's
  bool migrate = true;
  bool remove_done = false;
  std::size_t connections = 8;
  std::chrono::milliseconds wait_timeout{5'000};
  std::optional<std::chrono::milliseconds> statement_timeout{};
  bool tagged = false;  // with an option on_open that changes the session
  bool told_of_commits = false;
  const Clock* clock = nullptr;  // null: the host's
  Logger log{};
};

template <class Options>
Options wished(Options options, const Opening& how) {
  options = wished(std::move(options), Wishes{.remove_done = how.remove_done,
                                              .connections = how.connections,
                                              .wait_timeout = how.wait_timeout});
  if (how.table) options.table = *how.table;
  options.migrate = how.migrate;
  options.log = how.log;
  options.clock = how.clock;
  return options;
}

// Nothing is open on it, and it has no tables, until a test makes them.
class Database {
 public:
  virtual ~Database() = default;

  virtual std::string url() const = 0;
  virtual std::string table() const = 0;
  virtual DatabaseWords words() const = 0;

  virtual std::shared_ptr<Store> open(const std::string& url, const Opening& how) = 0;
  virtual std::unique_ptr<OwnConnection> connect(const std::string& url) = 0;

  // Each tries to wrap what is no open connection.
  virtual std::vector<std::function<void(Store&)>> wrong_handles() const = 0;

  // Of the schema: what it is, what has been applied, and every object with its definition.
  virtual std::string schema_sql(const std::string& table) const = 0;
  virtual SchemaStatus schema_status(const std::string& url) const = 0;
  virtual std::string objects() = 0;
  virtual void drop_objects() = 0;
  virtual int make_older() = 0;  // the version that it has made of the newest
};

// The fixture of tests that open stores by themselves.
class DatabaseTest : public StoreTest {
 protected:
  void SetUp() override;

  Database& database() { return *backend().database(); }
  DatabaseWords words() { return database().words(); }

  std::shared_ptr<Store> open_store(Opening how = {}) {
    return open_at(database().url(), std::move(how));
  }
  std::shared_ptr<Store> open_at(const std::string& url, Opening how = {}) {
    if (!how.log) how.log = log_.log();
    return database().open(url, how);
  }

  // Past the library. {table} stands for the table of events.
  void run(const std::string& sql) { onlooker().execute(named(sql)); }
  std::string value(const std::string& sql) { return onlooker().value(named(sql)); }
  std::string named(const std::string& sql) { return for_table(sql, database().table()); }
  OwnConnection& onlooker();

  testing::RecordingLog log_;

 private:
  std::unique_ptr<OwnConnection> onlooker_;
};

class ExternalConnectionTest : public DatabaseTest {
 protected:
  void SetUp() override;

  static void insert(Connection& external, const std::string& id);

  std::shared_ptr<Store> store_;
  std::unique_ptr<OwnConnection> mine_;  // the user's own connection
};
class ErrorsTest : public DatabaseTest {};
class OpenTest : public DatabaseTest {};
class WatchTest : public DatabaseTest {};

}  // namespace outbox::conformance

// Besides OUTBOX_STORE_CONFORMANCE, on a store with a Database.
#define OUTBOX_DATABASE_CONFORMANCE(prefix, ...)                                 \
  namespace outbox::conformance {                                                \
  OUTBOX_STORE_CONFORMANCE_SUBJECT(prefix, ExternalConnectionTest, __VA_ARGS__); \
  OUTBOX_STORE_CONFORMANCE_SUBJECT(prefix, ErrorsTest, __VA_ARGS__);             \
  OUTBOX_STORE_CONFORMANCE_SUBJECT(prefix, OpenTest, __VA_ARGS__);               \
  OUTBOX_STORE_CONFORMANCE_SUBJECT(prefix, WatchTest, __VA_ARGS__);              \
  }                                                                              \
  static_assert(true, "so that a semicolon may follow")
