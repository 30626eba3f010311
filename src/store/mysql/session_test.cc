#include "client/mysql/session.h"

#include <string>

#include "base/time_text.h"
#include "store/mysql/test_support.h"

namespace outbox::mysql {
namespace {

constexpr Sql kInsert{"insert a row",
                      "INSERT INTO {table} (number, words, bytes, at) VALUES (?, ?, ?, ?)"};
constexpr Sql kSelect{"read the rows",
                      "SELECT id, number, words, bytes, at FROM {table} ORDER BY id"};

// All that a byte can be, and what is special to SQL or to UTF-8.
std::string hard_text() {
  return std::string("' '' \" \\ \\' \\0 % _ ? {table} ; -- /* 日本 😀 \r\n\t") + '\0' + "end\\";
}
std::string every_byte() {
  std::string bytes;
  for (int c = 0; c < 256; ++c) bytes += static_cast<char>(c);
  return bytes;
}

const Time kNoon = std::chrono::sys_days{std::chrono::year{2026} / 3 / 1} + 12h + 1us;

class MysqlSessionTest : public MysqlTest {
 protected:
  void SetUp() override {
    MysqlTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    sql().execute(
        "CREATE TABLE outbox_event (id int AUTO_INCREMENT PRIMARY KEY, number bigint,"
        " words longtext, bytes longblob, at datetime(6))");
  }
};

// Each way to send a statement.
class MysqlSessionWaysTest : public MysqlSessionTest, public ::testing::WithParamInterface<bool> {
 protected:
  Database database() { return Database(config({.prepare = GetParam()})); }
};

// It was read past the end: `outbox doctor` crashed where the server lacks a status variable.
TEST_P(MysqlSessionWaysTest, WhatAnAnswerLacksIsAnErrorAndNoCrash) {
  Database own = database();
  const Result read = own.run(kSelect);
  ASSERT_EQ(read.rows(), 0);
  EXPECT_TRUE(contains(message_of<PermanentError>([&] { read.integer(0, 1); }),
                       "has 0 rows of 5 columns, and column 2 of row 1 was expected"));
  EXPECT_THROW(read.text(0, 0), PermanentError);
  EXPECT_THROW(read.time(0, 4), PermanentError);
  EXPECT_THROW(read.optional_integer(0, 0), PermanentError);
  own.run(kInsert, std::int64_t{1}, "", Bytes{""}, kNoon);
  EXPECT_THROW(own.run(kSelect).integer(0, 5), PermanentError);
  EXPECT_THROW(own.run(kSelect).integer(-1, 0), PermanentError);
}

TEST_P(MysqlSessionWaysTest, WhatGoesInComesOut) {
  Database own = database();
  const Result inserted =
      own.run(kInsert, std::int64_t{-7}, hard_text(), Bytes{every_byte()}, kNoon);
  EXPECT_EQ(inserted.changed(), 1);
  EXPECT_EQ(inserted.insert_id(), 1);
  const std::optional<std::string_view> nothing;
  own.run(kInsert, std::optional<std::int64_t>{}, nothing, std::optional<Bytes>{},
          std::optional<Time>{});
  own.run(kInsert, INT64_MIN, "", Bytes{""}, kEarliestTime);
  own.run(kInsert, INT64_MAX, std::string(100'000, 'x'), Bytes{std::string(100'000, '\\')},
          kLatestTime);

  const Result read = own.run(kSelect);
  ASSERT_EQ(read.rows(), 4);
  EXPECT_EQ(read.integer(0, 1), -7);
  EXPECT_EQ(read.text(0, 2), hard_text());
  EXPECT_EQ(read.text(0, 3), every_byte());
  EXPECT_EQ(read.time(0, 4), kNoon);
  for (int column = 1; column < 5; ++column) EXPECT_TRUE(read.is_null(1, column));
  EXPECT_EQ(read.optional_integer(1, 1), std::nullopt);
  EXPECT_EQ(read.optional_time(1, 4), std::nullopt);
  EXPECT_EQ(read.integer(2, 1), INT64_MIN);
  EXPECT_FALSE(read.is_null(2, 2));
  EXPECT_EQ(read.text(2, 2), "");
  EXPECT_EQ(read.time(2, 4), kEarliestTime);
  EXPECT_EQ(read.integer(3, 1), INT64_MAX);
  EXPECT_EQ(read.text(3, 2).size(), 100'000);
  EXPECT_EQ(read.text(3, 3), std::string(100'000, '\\'));
  EXPECT_EQ(read.time(3, 4), kLatestTime);
}

TEST_P(MysqlSessionWaysTest, AnUpdateCountsTheRowsThatItFound) {
  Database own = database();
  own.run(kInsert, 1, "same", Bytes{""}, kNoon);
  constexpr Sql kSame{"set what is set", "UPDATE {table} SET words = ? WHERE number = ?"};
  EXPECT_EQ(own.run(kSame, "same", 1).changed(), 1);
  EXPECT_EQ(own.run(kSame, "same", 2).changed(), 0);
}

TEST_P(MysqlSessionWaysTest, SumsAndUnsignedNumbersAreRead) {
  Database own = database();
  constexpr Sql kNumbers{
      "read numbers",
      "SELECT SUM(n), CAST(18446744073709551615 AS UNSIGNED), 1.5e0, TRUE, UTC_TIMESTAMP(6)"
      " FROM (SELECT 1 AS n UNION ALL SELECT 2) AS t WHERE n >= ?"};
  const Result read = own.run(kNumbers, 0);
  EXPECT_EQ(read.integer(0, 0), 3);
  EXPECT_EQ(read.text(0, 1), "18446744073709551615");
  EXPECT_EQ(read.value(0, 2), Value{1.5});
  EXPECT_EQ(read.integer(0, 3), 1);
  EXPECT_LT(read.time(0, 4) - host_clock().now(), 1h);  // and not off by a time zone
  EXPECT_LT(host_clock().now() - read.time(0, 4), 1h);
}

TEST_P(MysqlSessionWaysTest, WhatIsTooLargeIsRefusedBeforeItIsSent) {
  Database own = database();
  own.ensure_connected();
  const std::size_t limit = config_of(own).max_packet;
  EXPECT_EQ(std::to_string(limit), sql().value("SELECT @@max_allowed_packet"));
  const std::string large(limit, 'x');
  const std::string message =
      message_of<MisuseError>([&] { own.run(kInsert, 1, large, Bytes{""}, kNoon); });
  EXPECT_TRUE(contains(message, "max_allowed_packet"));
  EXPECT_TRUE(contains(message, "the server takes " + std::to_string(limit)));
  EXPECT_EQ(own.session().last_failure().number, 0U);
  EXPECT_FALSE(own.ensure_connected());
  // And what is just not too large arrives.
  own.run(kInsert, 1, large.substr(400), Bytes{""}, kNoon);
  EXPECT_EQ(sql().value("SELECT LENGTH(words) FROM outbox_event"), std::to_string(limit - 400));
}

INSTANTIATE_TEST_SUITE_P(All, MysqlSessionWaysTest, ::testing::Bool(),
                         [](const auto& each) { return each.param ? "Prepared" : "AsText"; });

TEST_F(MysqlSessionTest, LiteralsMeanTheSameInEverySession) {
  for (const char* setting :
       {"SET sql_mode = 'NO_BACKSLASH_ESCAPES'", "SET sql_mode = 'ANSI_QUOTES'",
        "SET sql_mode = ''", "SET NAMES latin1", "SET NAMES gbk", "SET NAMES sjis",
        "SET time_zone = '+08:00'"}) {
    sql().execute("TRUNCATE TABLE outbox_event");
    const auto shared = config();
    Database own(shared);
    own.session().run_text(setting, setting);
    Built insert("insert rows", *shared);
    insert.sql("INSERT INTO {table} (number, words, bytes, at) VALUES ")
        .row(1, hard_text(), Bytes{every_byte()}, kNoon)
        .sql(", ")
        .row(2, "it's {table} 日本😀", std::optional<Bytes>{}, std::optional<Time>{});
    EXPECT_EQ(own.run(insert).changed(), 2) << setting;
    Database other(shared);
    const Result read = other.run(kSelect);
    ASSERT_EQ(read.rows(), 2);
    EXPECT_EQ(read.text(0, 2), hard_text()) << setting;
    EXPECT_EQ(read.text(0, 3), every_byte()) << setting;
    EXPECT_EQ(read.time(0, 4), kNoon) << setting;
    EXPECT_EQ(read.text(1, 2), "it's {table} 日本😀") << setting;
    EXPECT_TRUE(read.is_null(1, 3));
  }
}

TEST_F(MysqlSessionTest, AListOfNumbersIsBuilt) {
  const auto shared = config();
  Database own(shared);
  for (int i = 0; i < 5; ++i) own.run(kInsert, i, "", Bytes{""}, kNoon);
  Built some("count some", *shared);
  some.sql("SELECT COUNT(*) FROM {table} WHERE number IN (")
      .list(std::vector<std::int64_t>{1, 3, -9})
      .sql(") AND number < ")
      .value(3);
  EXPECT_EQ(own.run(some).integer(0, 0), 1);
}

TEST_F(MysqlSessionTest, StatementsThatSomebodyThrewAwayAreDoneWithout) {
  Database own(config());
  own.run(kSelect);
  // As behind a proxy that has put another connection under this one.
  static_cast<MYSQL_STMT*>(own.handle()->stmts->data)->stmt_id += 1000;
  EXPECT_TRUE(contains(message_of<RetryableError>([&] { own.run(kSelect); }), "Options::prepare"));
  EXPECT_EQ(own.run(kSelect).rows(), 0);
  EXPECT_FALSE(own.ensure_connected());
}

TEST_F(MysqlSessionTest, WhatUndoesAFailureIsNotTakenForIt) {
  Database own(config(), Use::transactions);
  own.run(kInsert, 1, "kept", Bytes{""}, kNoon);
  EXPECT_THROW(own.session().run_text("SELECT * FROM missing", "look"), PermanentError);
  const unsigned number = own.last_failure().number;
  ASSERT_NE(number, 0U);
  own.session().undo("ROLLBACK TO SAVEPOINT missing");
  EXPECT_EQ(own.last_failure().number, number);
  own.session().undo("DELETE FROM outbox_event");
  EXPECT_EQ(own.last_failure().number, number);
  EXPECT_EQ(own.run(kSelect).rows(), 0);
}

TEST_F(MysqlSessionTest, UsersValuesComeBackAsTheyWere) {
  Database own(config(), Use::transactions);
  const std::vector<Value> values{nullptr, std::int64_t{-5}, 0.1, hard_text(), Blob{every_byte()}};
  const std::vector<Parameter> parameters(values.begin(), values.end());
  own.session().execute("CREATE TEMPORARY TABLE v (a int, b bigint, c double, d text, e blob)", {});
  EXPECT_EQ(own.session().execute("INSERT INTO v VALUES (?, ?, ?, ?, ?)", parameters), 1);
  EXPECT_EQ(own.session().query("SELECT * FROM v", {}).at(0).values(), values);
  EXPECT_EQ(own.session().query("SELECT * FROM v", {}).at(0).columns(),
            (ResultRow::Columns{"a", "b", "c", "d", "e"}));
  const Parameter five = -5;
  EXPECT_EQ(own.session().query("SELECT * FROM v WHERE b = ?", {&five, 1}).at(0).values(), values);
  EXPECT_EQ(own.session().query("SELECT * FROM v WHERE b > ?", {&five, 1}).size(), 0U);
  EXPECT_EQ(own.session().execute("SELECT * FROM v", {}), 0);
}

TEST_F(MysqlSessionTest, WhatAUserRepeatsIsPreparedOnce) {
  Database own(config({.prepare = true}));
  Session& session = own.session();
  // MySQL prepares a statement anew by itself for values of other types, and counts that.
  const auto prepared = [&] {
    const auto count = [&](const std::string& name) {
      const Result status = session.run_text("SHOW SESSION STATUS LIKE '" + name + "'", "count");
      return std::stoi(std::string(status.text(0, 1)));
    };
    return count("Com_stmt_prepare") - count("Com_stmt_reprepare");
  };
  const auto insert = [&](std::vector<Parameter> values) {
    return session.execute("INSERT INTO outbox_event (number, words) VALUES (?, ?)", values);
  };
  EXPECT_EQ(insert({std::int64_t{1}, "one"}), 1);
  const int before = prepared();
  EXPECT_EQ(insert({std::int64_t{2}, nullptr}), 1);
  EXPECT_EQ(insert({"3", std::int64_t{3}}), 1) << "other types";
  EXPECT_THROW(insert({std::int64_t{4}}), MisuseError) << "too few values";
  EXPECT_EQ(prepared(), before);
  sql().execute("ALTER TABLE outbox_event ADD COLUMN later int DEFAULT 9");
  EXPECT_EQ(insert({std::int64_t{5}, "five"}), 1);
  EXPECT_EQ(sql().value("SELECT group_concat(number, coalesce(words, '-') ORDER BY id)"
                        " FROM outbox_event"),
            "1one,2-,33,5five");

  // The columns of a result may change, so it is asked for anew.
  const auto columns = [&] {
    const std::vector<Parameter> one{std::int64_t{1}};
    return session.query("SELECT * FROM outbox_event WHERE id = ?", one).at(0).size();
  };
  EXPECT_EQ(columns(), 6U);
  sql().execute("ALTER TABLE outbox_event ADD COLUMN last int");
  EXPECT_EQ(columns(), 7U);
}

// The server runs a prepared statement in the database in which it was prepared.
TEST_F(MysqlSessionTest, AUsersStatementGoesToTheDatabaseThatIsTheDefaultNow) {
  Database own(config({.prepare = true}));
  Session& session = own.session();
  const std::string here(session.run_text("SELECT database()", "look").text(0, 0));
  const std::string there = here + "_b";
  sql().execute("CREATE DATABASE " + there);
  sql().execute("CREATE TABLE " + there + ".outbox_event LIKE outbox_event");
  const std::vector<Parameter> one{std::int64_t{1}};
  const auto insert = [&] { session.execute("INSERT INTO outbox_event (number) VALUES (?)", one); };
  insert();
  session.execute("USE " + there, {});
  insert();
  session.execute("USE " + here, {});
  EXPECT_EQ(sql().value("SELECT count(*) FROM outbox_event"), "1");
  EXPECT_EQ(sql().value("SELECT count(*) FROM " + there + ".outbox_event"), "1");
  sql().execute("DROP DATABASE " + there);
}

TEST_F(MysqlSessionTest, FewOfAUsersStatementsStayPrepared) {
  Database own(config({.prepare = true}));
  for (int i = 0; i < 100; ++i) {
    const std::vector<Parameter> values{std::int64_t{i}};
    own.session().execute("UPDATE outbox_event SET number = ? WHERE id = " + std::to_string(i),
                          values);
  }
  const Result closed =
      own.session().run_text("SHOW SESSION STATUS LIKE 'Com_stmt_close'", "count");
  EXPECT_EQ(closed.text(0, 1), "84");
}

TEST_F(MysqlSessionTest, UsersMistakesAreNamed) {
  Database own(config(), Use::transactions);
  const Parameter two[] = {std::int64_t{1}, std::int64_t{2}};
  const auto refused = [&](std::string_view text, std::span<const Parameter> values) {
    return message_of<MisuseError>([&] { own.session().query(text, values); });
  };
  EXPECT_TRUE(contains(refused("SELECT ?", two), "as many values as there are ?"));
  EXPECT_TRUE(contains(refused("SELECT ? + ? + ?", two), "as many values as there are ?"));
  EXPECT_TRUE(contains(refused("COMMIT", {}), "COMMIT"));
  const auto wrong = [&](std::string_view text, std::span<const Parameter> values) {
    return message_of<DatabaseError>([&] { own.session().query(text, values); });
  };
  EXPECT_TRUE(contains(wrong("SELEKT 1", {}), "\"SELEKT 1\""));
  EXPECT_TRUE(contains(wrong("SELEKT ?, ?", two), "\"SELEKT ?, ?\""));
  // No second statement can be slipped in.
  wrong("SELECT 1; DROP TABLE outbox_event", {});
  EXPECT_EQ(own.run(kSelect).rows(), 0);
  EXPECT_FALSE(own.ensure_connected());
}

TEST_F(MysqlSessionTest, AStatementOfTheLibraryNeedsAllItsValues) {
  Database own(config());
  EXPECT_THROW(own.run(kInsert, 1), MisuseError);
  EXPECT_THROW(own.run(kSelect, 1), MisuseError);
}

TEST_F(MysqlSessionTest, AProcedureLeavesNothingUnread) {
  sql().execute("CREATE PROCEDURE p(IN n int) BEGIN SELECT n; SELECT n + 1; END");
  Database own(config(), Use::transactions);
  const Parameter seven = 7;
  EXPECT_EQ(own.session().query("CALL p(?)", {&seven, 1}).at(0).get<int>(0), 7);
  EXPECT_EQ(own.session().query("CALL p(7)", {}).at(0).get<int>(0), 7);
  EXPECT_EQ(own.run(kSelect).rows(), 0);
}

TEST_F(MysqlSessionTest, AMissingTableSaysWhatToDo) {
  Database own(config({.table = "nothing_here"}));
  EXPECT_TRUE(contains(message_of<PermanentError>([&] { own.run(kSelect); }), "outbox migrate up"));
}

}  // namespace
}  // namespace outbox::mysql
