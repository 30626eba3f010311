#include "client/mysql/session.h"

#include <string>

#include "base/time_text.h"
#include "client/mysql/facts.h"
#include "client/mysql/libmariadb.h"
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
  // MySQL prepares a statement again by itself for values of other types, and counts that.
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

  // The columns of a result may change, so it is asked for again.
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

// What a failure says of the connection, of the transaction, and of what to do.

template <class E>
std::string message_for(unsigned number, std::string state = "HY000", std::string text = "Text") {
  return message_of<E>([&] {
    throw_failure({number, std::move(state), std::move(text)}, "do it", "here");
  });
}

TEST(MysqlFailure, SaysWhatHappenedWithWhichNumberAndWhatToDo) {
  EXPECT_EQ(message_for<RetryableError>(1213, "40001", "Deadlock found"),
            "cannot do it (here): Deadlock found [1213]; it conflicted with another transaction; "
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

TEST(MysqlFailure, ALoginThatIsRefusedIsForGoodAndAHostThatIsUnreachableIsNot) {
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

// What is known of the server.

History history(const std::string& server, const std::string& position) {
  return {.server = server, .position = position};
}

TEST(MysqlHistory, EndsWithAnotherServerAndWithAPositionThatGoesBack) {
  const History known = history("1/0/x", "0-1-100,5-2-7");
  EXPECT_FALSE(known.ends_before(known));
  EXPECT_FALSE(known.ends_before(history("1/0/x", "0-1-101,5-2-7,9-9-1")));
  EXPECT_FALSE(known.ends_before(history("1/0/x", "5-3-8,0-7-100"))) << "by domain alone";
  EXPECT_TRUE(known.ends_before(history("2/0/x", "0-1-101,5-2-7")));
  EXPECT_TRUE(known.ends_before(history("1/0/x", "0-1-99,5-2-7")));
  EXPECT_TRUE(known.ends_before(history("1/0/x", "0-1-100")));
  EXPECT_TRUE(known.ends_before(history("1/0/x", "")));
  EXPECT_TRUE(history("cluster u", "cluster-20").ends_before(history("cluster u", "cluster-19")));
  EXPECT_FALSE(history("cluster u", "cluster-9").ends_before(history("cluster u", "cluster-10")));
}

TEST(MysqlHistory, OfNothingKnownDoesNotEnd) {
  EXPECT_FALSE(History{}.ends_before(history("1/0/x", "0-1-100")));
  EXPECT_FALSE(history("1/0/x", "").ends_before(history("1/0/x", "")));
}

// MySQL compares its sets itself.
TEST(MysqlHistory, EndsWhereTheServerSaysThatSomethingIsMissing) {
  const History known = history("u", "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5");
  History now = known;
  EXPECT_FALSE(known.ends_before(now));
  now.includes_last = false;
  EXPECT_TRUE(known.ends_before(now));
}

class MysqlHistoryTest : public MysqlTest {
 protected:
  static History read(Database& database, const History& last) {
    Built select("look", config_of(database));
    select.sql("SELECT 'first', ");
    database.ensure_connected();
    History::append_columns(select, database.facts(), last);
    return History::of(database.run(select), 1);
  }
};

TEST_F(MysqlHistoryTest, IsTheSameOnEveryConnectionToTheServer) {
  Database one(config());
  Database two(config());
  const History first = read(one, {});
  sql().execute("CREATE TABLE something (n int); INSERT INTO something VALUES (1)");
  const History second = read(two, first);
  EXPECT_FALSE(first.server.empty());
  EXPECT_FALSE(first.ends_before(second)) << first.position << " " << second.position;
  EXPECT_EQ(one.facts().server(), first.server);
  EXPECT_EQ(two.facts().server(), first.server);
  if (one.facts().is_on("log_bin")) {
    EXPECT_FALSE(second.position.empty());
    EXPECT_NE(second.position, first.position);
    // What is known of later times is missing in earlier ones.
    EXPECT_TRUE(second.ends_before(first) || one.facts().has("server_uuid"));
  }
}

TEST(MysqlFacts, AServerThatTakesWritesIsReady) {
  EXPECT_EQ(Facts({}, {}).unready(), "");
  EXPECT_EQ(Facts({{"read_only", "OFF"}, {"innodb_read_only", "0"}}, {}).unready(), "");
  EXPECT_EQ(Facts({}, {{"wsrep_ready", "ON"}, {"wsrep_cluster_status", "Primary"}}).unready(), "");
}

TEST(MysqlFacts, AServerThatTakesNoneSaysWhy) {
  EXPECT_EQ(Facts({{"read_only", "ON"}}, {}).unready(), "read_only is ON");
  EXPECT_EQ(Facts({{"super_read_only", "1"}}, {}).unready(), "super_read_only is ON");
  EXPECT_EQ(Facts({{"innodb_read_only", "ON"}}, {}).unready(), "innodb_read_only is ON");
  EXPECT_EQ(Facts({{"offline_mode", "ON"}}, {}).unready(), "offline_mode is ON");
  EXPECT_EQ(Facts({}, {{"wsrep_ready", "OFF"}}).unready(), "wsrep_ready is OFF");
  EXPECT_EQ(Facts({}, {{"wsrep_ready", "ON"}, {"wsrep_cluster_status", "non-Primary"}}).unready(),
            "wsrep_cluster_status is non-Primary");
}

TEST(MysqlFacts, NodesOfOneClusterAreOneServer) {
  const auto node = [](const std::string& number) {
    return Facts({{"server_id", number}}, {{"wsrep_cluster_state_uuid", "abc"}}).server();
  };
  EXPECT_EQ(node("1"), node("2"));
  EXPECT_NE(Facts({{"server_id", "1"}}, {}).server(), Facts({{"server_id", "2"}}, {}).server());
  EXPECT_NE(Facts({{"server_uuid", "1"}, {"server_id", "1"}}, {}).server(),
            Facts({{"server_uuid", "2"}, {"server_id", "1"}}, {}).server());
}

}  // namespace
}  // namespace outbox::mysql
