#include "client/postgres/literal.h"

#include <gtest/gtest.h>

#include "client/postgres/user_statement.h"
#include "outbox/error.h"

namespace outbox::postgres {
namespace {

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
