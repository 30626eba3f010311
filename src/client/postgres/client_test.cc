#include <gtest/gtest.h>

#include "client/postgres/connect_options.h"
#include "client/postgres/user_statement.h"
#include "outbox/error.h"

namespace outbox::postgres {
namespace {

std::string numbered(std::string_view sql) { return postgres::numbered(sql, false); }

void expect_unchanged(std::string_view sql) { EXPECT_EQ(numbered(sql), sql); }

TEST(PostgresPlaceholders, EachQuestionMarkGetsTheNextNumber) {
  EXPECT_EQ(numbered("SELECT ?"), "SELECT $1");
  EXPECT_EQ(numbered("INSERT INTO t VALUES (?, ?,?)"), "INSERT INTO t VALUES ($1, $2,$3)");
  EXPECT_EQ(numbered("UPDATE t SET a=? WHERE b=?::int AND c IN (?)"),
            "UPDATE t SET a=$1 WHERE b=$2::int AND c IN ($3)");
  EXPECT_EQ(numbered("?,?,?,?,?,?,?,?,?,?"), "$1,$2,$3,$4,$5,$6,$7,$8,$9,$10");
  EXPECT_EQ(numbered("SELECT ?AS a, ?1"), "SELECT $1 AS a, $2 1") << "not $21";
  expect_unchanged("");
  expect_unchanged("SELECT 1");
}

TEST(PostgresPlaceholders, AStatementWithNumbersOfItsOwnStaysAsItIs) {
  expect_unchanged("SELECT $1");
  expect_unchanged("SELECT * FROM t WHERE tags ? $1");
  expect_unchanged("SELECT * FROM t WHERE tags ? 'a' AND id = $1");
  EXPECT_EQ(numbered("SELECT '$1', ?"), "SELECT '$1', $1") << "one in quotes is none";
  EXPECT_EQ(numbered("SELECT a$1 FROM t WHERE b = ?"), "SELECT a$1 FROM t WHERE b = $1")
      << "a name";
}

TEST(PostgresPlaceholders, QuotesAndNamesAreLeftAlone) {
  EXPECT_EQ(numbered("SELECT 'why?', ?"), "SELECT 'why?', $1");
  EXPECT_EQ(numbered("SELECT 'it''s ?', ?"), "SELECT 'it''s ?', $1");
  EXPECT_EQ(numbered("SELECT \"a?\", \"b\"\"?\", ?"), "SELECT \"a?\", \"b\"\"?\", $1");
  EXPECT_EQ(numbered("SELECT 'a\\', ?"), "SELECT 'a\\', $1");
  EXPECT_EQ(numbered("SELECT E'a\\'?', ?"), "SELECT E'a\\'?', $1");
  EXPECT_EQ(numbered("SELECT e'a''\\'?', ?"), "SELECT e'a''\\'?', $1");
  EXPECT_EQ(numbered("SELECT U&'a?', B'1', ?"), "SELECT U&'a?', B'1', $1");
  EXPECT_EQ(numbered("SELECT name'a\\', ?"), "SELECT name'a\\', $1") << "not an E of its own";
  EXPECT_EQ(postgres::numbered("SELECT 'a\\'?', ?", true), "SELECT 'a\\'?', $1");
}

TEST(PostgresPlaceholders, DollarQuotesAreLeftAlone) {
  EXPECT_EQ(numbered("SELECT $$a ? $1$$, ?"), "SELECT $$a ? $1$$, $1");
  EXPECT_EQ(numbered("SELECT $x$a ? $$ ? $x$, ?"), "SELECT $x$a ? $$ ? $x$, $1");
  EXPECT_EQ(numbered("SELECT a$b$c, ?"), "SELECT a$b$c, $1") << "a name, no quote";
}

TEST(PostgresPlaceholders, CommentsAreLeftAlone) {
  EXPECT_EQ(numbered("SELECT 1 -- ? 'it\n, ?"), "SELECT 1 -- ? 'it\n, $1");
  EXPECT_EQ(numbered("SELECT /* ? /* ? */ ? */ ?"), "SELECT /* ? /* ? */ ? */ $1");
  EXPECT_EQ(numbered("SELECT ? -- ?"), "SELECT $1 -- ?");
  EXPECT_EQ(numbered("SELECT 6 / ? - ?"), "SELECT 6 / $1 - $2");
}

TEST(PostgresPlaceholders, TheOperatorsOfJsonbStayOperators) {
  EXPECT_EQ(numbered("SELECT tags ?| array[?]"), "SELECT tags ?| array[$1]");
  EXPECT_EQ(numbered("SELECT tags ?& ?"), "SELECT tags ?& $1");
  EXPECT_EQ(numbered("SELECT doc @? ?"), "SELECT doc @? $1");
  EXPECT_EQ(numbered("SELECT tags ?? ?"), "SELECT tags ? $1");
  EXPECT_EQ(numbered("SELECT tags ??| ?, tags ??& ?"), "SELECT tags ?| $1, tags ?& $2");
  EXPECT_EQ(numbered("SELECT ? || ?"), "SELECT $1 || $2");
  EXPECT_EQ(numbered("SELECT ?||?"), "SELECT $1||$2");
  EXPECT_EQ(numbered("SELECT ?&&?"), "SELECT $1&&$2");
}

TEST(PostgresPlaceholders, WhatNeverEndsIsTheServersToRefuse) {
  for (const char* sql : {"SELECT 'a ?", "SELECT \"a ?", "SELECT $x$ ?", "SELECT /* ?", "-- ?",
                          "SELECT E'a\\", "SELECT $x ", "SELECT $", "/*/"}) {
    expect_unchanged(sql);
  }
  EXPECT_EQ(numbered("?"), "$1");
  EXPECT_EQ(numbered("??"), "?");
}

std::string shown(const std::string& url) { return ConnectOptions(url).public_url(); }

TEST(ConnectOptions, ShowsAUrlWithoutItsSecrets) {
  EXPECT_EQ(shown("postgresql://shop:hunter2@db.example:5433/orders?sslmode=require"),
            "postgresql://shop@db.example:5433/orders?sslmode=require");
  EXPECT_EQ(shown("postgres://db?password=hunter2&sslpassword=hunter2"), "postgresql://db");
  EXPECT_EQ(shown("host=db user=shop password='hunter2'"), "postgresql://shop@db");
  EXPECT_EQ(shown("postgresql://u@h/d?p%61ssword=hunter2"), "postgresql://u@h/d");
  EXPECT_EQ(shown("postgresql://"), "postgresql://");
}

TEST(ConnectOptions, ShowsAUrlThatMeansTheSame) {
  for (const std::string url :
       {"postgresql://u%40x@h/a%20b", "postgresql://u@:5433/d",
        "postgresql://u@/d?host=a,b&port=1,2", "postgresql:///d?host=/var/run/pg",
        "postgresql://h/d?options=-csearch_path%3Dx%26y", "postgresql:///d?host=%3A%3A1"}) {
    EXPECT_EQ(shown(url), url);
  }
  EXPECT_EQ(shown("postgresql://u@a:1,b:2/d"), "postgresql://u@/d?host=a,b&port=1,2");
  EXPECT_EQ(shown("postgresql://[::1]:5433/d"), "postgresql:///d?host=%3A%3A1&port=5433");
  EXPECT_EQ(shown(shown("postgresql://a:1,b:2/d")), shown("postgresql://a:1,b:2/d"));
}

TEST(ConnectOptions, SaysNothingOfAUrlThatIsNotUnderstood) {
  try {
    const ConnectOptions target("postgresql://u:hunter2@[h/d");
    FAIL() << target.place();
  } catch (const MisuseError& error) {
    EXPECT_EQ(std::string(error.what()).find("hunter2"), std::string::npos) << error.what();
  }
}

TEST(PostgresLiteral, TextIsAsciiWithoutAnythingThatASettingOrALibraryCouldTakeForMore) {
  EXPECT_EQ(literal("plain text_1-2"), "E'plain text_1-2'");
  EXPECT_EQ(literal(R"(it's \ ? :a $1 {} "x" %s;)"),
            R"(E'it\x27s \x5c \x3f \x3aa \x241 \x7b\x7d \x22x\x22 \x25s\x3b')");
  EXPECT_EQ(literal("Grüße 日本 😀"), R"(E'Gr\u00fc\u00dfe \u65e5\u672c \U0001f600')");
  EXPECT_EQ(literal(""), "E''");
}

TEST(PostgresLiteral, NumbersBytesAndNullHaveTheirOwnForms) {
  EXPECT_EQ(literal(-5), "'-5'");
  EXPECT_EQ(literal(std::numeric_limits<std::int64_t>::min()), "'-9223372036854775808'");
  EXPECT_EQ(literal(0.5), "'0.5'");
  EXPECT_EQ(literal(nullptr), "NULL");
  EXPECT_EQ(literal(Blob{std::string("\0'\xff", 3)}), "decode('0027ff', 'hex')");
  EXPECT_EQ(literal(Blob{}), "decode('', 'hex')");
}

TEST(PostgresLiteral, WhatTheServerWouldRefuseIsRefused) {
  EXPECT_THROW(literal(std::string("a\0b", 3)), MisuseError);
  EXPECT_THROW(literal("\xff"), MisuseError);
}

TEST(PostgresLiteral, EachPlaceholderGetsItsOwnAndNothingElseDoes) {
  const std::string literals[] = {"'1'", "'2'"};
  EXPECT_EQ(filled_in("SELECT $2, $1, $2", false, literals), "SELECT  '2',  '1',  '2'");
  EXPECT_EQ(filled_in("SELECT '$1', \"$2\", $$ $1 $$, $1 /* $9 */, $2 -- $1", false, literals),
            "SELECT '$1', \"$2\", $$ $1 $$,  '1' /* $9 */,  '2' -- $1");
  EXPECT_EQ(filled_in("SELECT $1 ? 'a', $2", false, literals), "SELECT  '1' ? 'a',  '2'");
  EXPECT_THROW(filled_in("SELECT $1", false, literals), MisuseError);
  EXPECT_THROW(filled_in("SELECT $1, $2, $3", false, literals), MisuseError);
}

}  // namespace

}  // namespace outbox::postgres
