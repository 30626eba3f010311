// Statements of the user's own: what goes in, what comes back, and what the store says when the
// database refuses one.
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "outbox/error.h"
#include "store_conformance.h"
#include "support/stores.h"

namespace outbox::conformance {
namespace {

using Kind = DatabaseError::Kind;

std::string every_byte() {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all.push_back(static_cast<char>(byte));
  return all;
}

// A table with a constraint of each kind, and a connection on which all are enforced.
class Shop {
 public:
  Shop(Store& store, const Backend& backend)
      : customers_(backend.user_table("customers")),
        orders_(backend.user_table("orders")),
        dialect_(store.capabilities().dialect),
        connection_(store.connect()) {
    if (dialect_ == Dialect::sqlite) execute("PRAGMA foreign_keys = ON");
    // Not what the server makes by default, which may have no foreign keys.
    const std::string engine = dialect_ == Dialect::mysql ? " ENGINE = InnoDB" : "";
    execute("CREATE TABLE {customers} (id INTEGER NOT NULL PRIMARY KEY)" + engine);
    const std::string deferred = dialect_ == Dialect::mysql ? "" : " DEFERRABLE";
    execute(
        "CREATE TABLE {orders} (id INTEGER NOT NULL PRIMARY KEY, number INTEGER NOT NULL, "
        "cents INTEGER, note VARCHAR(5), customer INTEGER, "
        "CONSTRAINT orders_number UNIQUE (number), "
        "CONSTRAINT orders_cents CHECK (cents > 0), "
        "CONSTRAINT orders_customer FOREIGN KEY (customer) REFERENCES {customers} (id)" +
        deferred + ")" + engine);
    execute("INSERT INTO {orders} (id, number) VALUES (1, 17)");
    // What a user does who wants these checks whatever the server says: its settings are respected.
    if (dialect_ == Dialect::mysql) {
      execute("SET SESSION sql_mode = 'STRICT_ALL_TABLES', foreign_key_checks = 1");
    }
  }

  Connection& connection() { return *connection_; }
  Dialect dialect() const { return dialect_; }

  std::int64_t execute(const std::string& sql, const std::vector<Parameter>& values = {}) {
    return connection_->execute(named(sql), values);
  }

  std::vector<ResultRow> query(const std::string& sql, const std::vector<Parameter>& values = {}) {
    return connection_->query(named(sql), values);
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
      {"UPDATE {orders} SET customer = 99 WHERE id = 1", Kind::foreign_key_violation},
      {"INSERT INTO {orders} (id, number) VALUES (2, NULL)", Kind::not_null_violation},
      {"INSERT INTO {orders} (id) VALUES (2)", Kind::not_null_violation},
      {"UPDATE {orders} SET cents = 0 WHERE id = 1", Kind::check_violation},
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
  for (const char* sql : {"UPDATE {orders} SET note = 'too long' WHERE id = 1",
                          "UPDATE {orders} SET cents = 99999999999 WHERE id = 1"}) {
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
  EXPECT_EQ(shop.refusal("UPDATE {orders} SET cents = 0 WHERE id = 1").constraint, "orders_cents");
  EXPECT_EQ(shop.refusal("UPDATE {orders} SET customer = 99 WHERE id = 1").constraint,
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
  const std::string insert = "INSERT INTO {orders} (id, number) VALUES (?, ?)";
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
  shop.execute("UPDATE {orders} SET customer = 99 WHERE id = 1");
  const auto refusal = Shop::refused([&] { connection.commit(); });
  EXPECT_EQ(to_string(refusal.kind), to_string(Kind::foreign_key_violation));
  EXPECT_FALSE(connection.in_transaction());
}

TEST_P(StatementsTest, PlaceholdersAreQuestionMarksOnEveryDatabase) {
  OUTBOX_NEEDS(capabilities().dialect != Dialect::none);
  Shop shop(store(), backend());
  EXPECT_EQ(shop.execute("UPDATE {orders} SET cents = ?, note = 'why?' WHERE number = ?", {5, 17}),
            1);
  EXPECT_EQ(shop.execute("INSERT INTO {orders} (id, number, note) VALUES (?, ?, ?)",
                         {2, 18, std::optional<std::string>()}),
            1);
  const auto rows = shop.query(
      "SELECT id, note FROM {orders} WHERE cents = ? OR number = ? "
      "ORDER BY id",
      {5, 18});
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].get<int>("id"), 1);
  EXPECT_EQ(rows[0].get<std::string>("note"), "why?");
  EXPECT_EQ(rows[1].get<int>(0), 2);
  EXPECT_EQ(rows[1].get<std::optional<std::string>>("note"), std::nullopt);
}

TEST_P(StatementsTest, CountsAndSumsAreReadAsNumbers) {
  OUTBOX_NEEDS(capabilities().dialect != Dialect::none);
  Shop shop(store(), backend());
  shop.execute("UPDATE {orders} SET cents = 250 WHERE id = 1");
  const ResultRow row = shop.query(
                                "SELECT count(*) AS orders, sum(cents) AS cents, "
                                "avg(cents) AS average FROM {orders}")
                            .at(0);
  EXPECT_EQ(row.get<int>("orders"), 1);
  EXPECT_EQ(row.get<std::int64_t>("cents"), 250);
  EXPECT_EQ(row.get<double>("average"), 250.0);
}

TEST_P(StatementsTest, TextsAndBytesAreGivenWithoutCopies) {
  OUTBOX_NEEDS(capabilities().dialect != Dialect::none);
  Shop shop(store(), backend());
  const std::string long_text = "abcdefgh";
  const std::string_view part = std::string_view(long_text).substr(2, 3);
  shop.execute("UPDATE {orders} SET note = ? WHERE id = 1", {part});
  EXPECT_EQ(shop.query("SELECT note FROM {orders}").at(0).get<std::string>(0), "cde");
  shop.execute("UPDATE {orders} SET note = ? WHERE id = 1", {std::string_view()});
  EXPECT_EQ(shop.query("SELECT note FROM {orders}").at(0).get<std::string>(0), "");

  const std::string type = shop.dialect() == Dialect::postgres ? "bytea" : "blob";
  shop.execute("ALTER TABLE {orders} ADD COLUMN picture " + type);
  const std::string bytes = every_byte();
  shop.execute("UPDATE {orders} SET picture = ? WHERE id = 1", {std::as_bytes(std::span(bytes))});
  EXPECT_EQ(shop.query("SELECT picture FROM {orders}").at(0).get<Blob>("picture"), Blob{bytes});
  shop.execute("UPDATE {orders} SET picture = ? WHERE id = 1", {Blob{}});
  EXPECT_EQ(shop.query("SELECT picture FROM {orders}").at(0).get<Blob>("picture"), Blob{});
}

// Only of the library's own calls is it the caller's mistake.
TEST_P(StatementsTest, AnEventIdThatIsTakenIsMisuseAndIsNamed) {
  write(event({.id = "given-by-hand"}));
  const std::vector both{event({.id = "free"}), event({.id = "given-by-hand"})};
  for (const std::size_t number : {std::size_t{1}, std::size_t{2}}) {
    const auto connection = store().connect();
    connection->begin();
    const std::string message = test::message_of<MisuseError>([&] {
      connection->insert(std::span(both).last(number), {});
      connection->commit();
    });
    EXPECT_TRUE(test::contains(message, "given-by-hand"));
    if (capabilities().dialect == Dialect::postgres) {
      EXPECT_TRUE(test::contains(message, "unique"));
    }
  }
}

}  // namespace
}  // namespace outbox::conformance
