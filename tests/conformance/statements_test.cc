// Statements of the user's own: what the store says when the database refuses one.
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "outbox/error.h"
#include "store_conformance.h"
#include "support/stores.h"

namespace outbox::conformance {
namespace {

using Kind = DatabaseError::Kind;

// A table with a constraint of each kind, and a connection on which all are enforced.
class Shop {
 public:
  Shop(Store& store, const Backend& backend)
      : customers_(backend.user_table("customers")),
        orders_(backend.user_table("orders")),
        dialect_(store.capabilities().dialect),
        connection_(store.connect()) {
    if (dialect_ == Dialect::sqlite) execute("PRAGMA foreign_keys = ON");
    execute("CREATE TABLE {customers} (id INTEGER NOT NULL PRIMARY KEY)");
    const std::string deferred = dialect_ == Dialect::mysql ? "" : " DEFERRABLE";
    execute(
        "CREATE TABLE {orders} (id INTEGER NOT NULL PRIMARY KEY, number INTEGER NOT NULL, "
        "cents INTEGER, note VARCHAR(5), customer INTEGER, "
        "CONSTRAINT orders_number UNIQUE (number), "
        "CONSTRAINT orders_cents CHECK (cents > 0), "
        "CONSTRAINT orders_customer FOREIGN KEY (customer) REFERENCES {customers} (id)" +
        deferred + ")");
    execute("INSERT INTO {orders} (id, number) VALUES (1, 17)");
  }

  Connection& connection() { return *connection_; }
  Dialect dialect() const { return dialect_; }

  std::int64_t execute(const std::string& sql, const std::vector<Parameter>& values = {}) {
    return connection_->execute(named(sql), values);
  }

  // What the database says of the statement, in a transaction of its own.
  DatabaseError::Details refusal(const std::string& sql) {
    connection_->begin();
    DatabaseError::Details details = refused([&] { execute(sql); });
    connection_->rollback();
    return details;
  }

  static DatabaseError::Details refused(const std::function<void()>& work) {
    try {
      work();
    } catch (const DatabaseError& error) {
      EXPECT_NE(std::string(error.what()), "");
      return error.details();
    } catch (const std::exception& error) {
      ADD_FAILURE() << "not a DatabaseError: " << error.what();
      return {};
    }
    ADD_FAILURE() << "nothing was thrown";
    return {};
  }

 private:
  std::string named(std::string sql) const {
    const std::pair<std::string, std::string> names[] = {{"{customers}", customers_},
                                                         {"{orders}", orders_}};
    for (const auto& [name, table] : names) {
      for (auto at = sql.find(name); at != std::string::npos; at = sql.find(name)) {
        sql.replace(at, name.size(), table);
      }
    }
    return sql;
  }

  const std::string customers_;
  const std::string orders_;
  const Dialect dialect_;
  const std::unique_ptr<Connection> connection_;
};

TEST_P(StatementsTest, ARefusedOneSaysTheSameKindOnEveryDatabase) {
  OUTBOX_NEEDS(capabilities().dialect != Dialect::none);
  Shop shop(store(), backend());
  const struct {
    const char* sql;
    Kind kind;
  } cases[] = {
      {"INSERT INTO {orders} (id, number) VALUES (1, 18)", Kind::unique_violation},
      {"INSERT INTO {orders} (id, number) VALUES (2, 17)", Kind::unique_violation},
      {"UPDATE {orders} SET customer = 99", Kind::foreign_key_violation},
      {"INSERT INTO {orders} (id, number) VALUES (2, NULL)", Kind::not_null_violation},
      {"INSERT INTO {orders} (id) VALUES (2)", Kind::not_null_violation},
      {"UPDATE {orders} SET cents = 0", Kind::check_violation},
      {"INSERT INTO {orders} (id, number) VALUES ('abc', 18)", Kind::invalid_data},
      {"SELEKT 1", Kind::syntax_error},
      {"SELECT id FROM {orders} WHERE", Kind::syntax_error},
      {"SELECT id FROM no_such_table", Kind::undefined_object},
      {"SELECT no_such_column FROM {orders}", Kind::undefined_object},
      {"INSERT INTO {orders} (no_such_column) VALUES (1)", Kind::undefined_object},
  };
  for (const auto& [sql, kind] : cases) {
    EXPECT_EQ(to_string(shop.refusal(sql).kind), to_string(kind)) << sql;
  }
}

TEST_P(StatementsTest, ValuesThatDoNotFitAreInvalidDataWhereTheDatabaseChecksThem) {
  const Dialect dialect = capabilities().dialect;
  OUTBOX_NEEDS(dialect == Dialect::postgres || dialect == Dialect::mysql);
  Shop shop(store(), backend());
  for (const char* sql :
       {"UPDATE {orders} SET note = 'too long'", "UPDATE {orders} SET cents = 99999999999"}) {
    EXPECT_EQ(to_string(shop.refusal(sql).kind), to_string(Kind::invalid_data)) << sql;
  }
}

TEST_P(StatementsTest, ARefusedOneNamesTheConstraintAndTheDatabasesOwnCodes) {
  OUTBOX_NEEDS(capabilities().dialect != Dialect::none);
  Shop shop(store(), backend());
  const bool sqlite = shop.dialect() == Dialect::sqlite;
  const auto unique = shop.refusal("INSERT INTO {orders} (id, number) VALUES (2, 17)");
  EXPECT_EQ(unique.constraint, sqlite ? "orders.number" : "orders_number");
  switch (shop.dialect()) {
    case Dialect::sqlite:
      EXPECT_EQ(unique.sqlstate, "");
      EXPECT_EQ(unique.native_code, 2067);
      break;
    case Dialect::postgres:
      EXPECT_EQ(unique.sqlstate, "23505");
      EXPECT_EQ(unique.native_code, 0);
      break;
    default:
      EXPECT_EQ(unique.sqlstate, "23000");
      EXPECT_EQ(unique.native_code, 1062);
  }
  EXPECT_EQ(shop.refusal("UPDATE {orders} SET cents = 0").constraint, "orders_cents");
  EXPECT_EQ(shop.refusal("UPDATE {orders} SET customer = 99").constraint,
            sqlite ? "" : "orders_customer");
  EXPECT_EQ(shop.refusal("INSERT INTO {orders} (id, number) VALUES (2, NULL)").constraint,
            sqlite ? "orders.number" : "number");
}

TEST_P(StatementsTest, AQueryIsRefusedLikewise) {
  OUTBOX_NEEDS(capabilities().dialect != Dialect::none);
  Shop shop(store(), backend());
  const auto refusal = Shop::refused(
      [&] { shop.connection().query("SELECT id FROM no_such_table WHERE 1 = 1", {}); });
  EXPECT_EQ(to_string(refusal.kind), to_string(Kind::undefined_object));
}

TEST_P(StatementsTest, AKeyThatIsGivenAsAValueIsRefusedLikewise) {
  OUTBOX_NEEDS(capabilities().dialect != Dialect::none);
  Shop shop(store(), backend());
  const std::string insert = shop.dialect() == Dialect::postgres
                                 ? "INSERT INTO {orders} (id, number) VALUES ($1, $2)"
                                 : "INSERT INTO {orders} (id, number) VALUES (?, ?)";
  // Some stores keep a statement prepared once it comes again.
  for (std::int64_t id = 2; id < 6; ++id) {
    shop.execute(insert, {id, 100 + id});
    const auto refusal = Shop::refused([&] { shop.execute(insert, {id + 10, std::int64_t{17}}); });
    EXPECT_EQ(to_string(refusal.kind), to_string(Kind::unique_violation));
  }
}

TEST_P(StatementsTest, ADeferredConstraintIsRefusedByTheCommit) {
  const Dialect dialect = capabilities().dialect;
  OUTBOX_NEEDS(dialect == Dialect::sqlite || dialect == Dialect::postgres);
  Shop shop(store(), backend());
  Connection& connection = shop.connection();
  connection.begin();
  shop.execute(dialect == Dialect::sqlite ? "PRAGMA defer_foreign_keys = ON"
                                          : "SET CONSTRAINTS ALL DEFERRED");
  shop.execute("UPDATE {orders} SET customer = 99");
  const auto refusal = Shop::refused([&] { connection.commit(); });
  EXPECT_EQ(to_string(refusal.kind), to_string(Kind::foreign_key_violation));
  EXPECT_FALSE(connection.in_transaction());
}

// Only of the library's own calls is it the caller's mistake.
TEST_P(StatementsTest, AnEventIdThatIsTakenIsMisuseAndIsNamed) {
  write(event({.id = "given-by-hand"}));
  const auto connection = store().connect();
  connection->begin();
  EXPECT_TRUE(test::contains(test::message_of<MisuseError>([&] {
                               connection->insert(std::vector{event({.id = "given-by-hand"})}, {});
                               connection->commit();
                             }),
                             "given-by-hand"));
}

}  // namespace
}  // namespace outbox::conformance
