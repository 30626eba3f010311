// Statements of the user's on a connection of the pool, of which some stay prepared.
#include <string>
#include <vector>

#include "store/postgres/test_support.h"

namespace outbox::postgres {
namespace {

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

TEST_F(PostgresUserStatementsTest, WhatFailsIsPreparedAnewInTheNextTransaction) {
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

}  // namespace
}  // namespace outbox::postgres
