#include "client/mysql/literal.h"

#include <gtest/gtest.h>

#include <vector>

#include "outbox/error.h"

namespace outbox::mysql {
namespace {

std::string filled(std::string_view sql, const std::vector<std::string>& literals,
                   bool backslashes = true) {
  return filled_in(sql, backslashes, literals);
}

TEST(MysqlPlaceholders, AreReplacedInTheirOrder) {
  EXPECT_EQ(filled("VALUES (?,?)", {"1", "'x'"}), "VALUES (1,'x')");
  EXPECT_EQ(filled("SELECT 1", {}), "SELECT 1");
  EXPECT_EQ(filled("SELECT 2--?", {" -1"}), "SELECT 2-- -1") << "no comment before, and a value";
}

TEST(MysqlPlaceholders, InQuotesAndCommentsAreNone) {
  EXPECT_EQ(filled("SELECT '?''?', \"?\", `?`, ?", {"1"}), "SELECT '?''?', \"?\", `?`, 1");
  EXPECT_EQ(filled("SELECT ? /* ? */ -- ?\n# ?\n, ?", {"1", "2"}),
            "SELECT 1 /* ? */ -- ?\n# ?\n, 2");
  EXPECT_EQ(filled("SELECT /*! ? */ 1", {"2"}), "SELECT /*! 2 */ 1");
}

TEST(MysqlPlaceholders, ABackslashHidesAQuoteUnlessTheModeForbidsIt) {
  EXPECT_EQ(filled(R"(SELECT '\' ?', ?)", {"1"}), R"(SELECT '\' ?', 1)");
  EXPECT_EQ(filled(R"(SELECT '\', ?)", {"1"}, false), R"(SELECT '\', 1)");
  EXPECT_EQ(filled(R"(SELECT `\`, ?)", {"1"}), R"(SELECT `\`, 1)");
}

TEST(MysqlPlaceholders, MustBeAsManyAsTheValues) {
  EXPECT_THROW(filled("SELECT ?", {}), MisuseError);
  EXPECT_THROW(filled("SELECT ?", {"1", "2"}), MisuseError);
}

TEST(MysqlPlaceholders, LiteralsAreAsciiWithoutAnythingThatASettingOrALibraryCouldTakeForMore) {
  EXPECT_EQ(literal("plain text_1-2"), "_utf8mb4 'plain text_1-2'");
  EXPECT_EQ(literal(R"(\'?)"), "_utf8mb4 x'5c273f'");
  EXPECT_EQ(literal("ü"), "_utf8mb4 x'c3bc'");
  EXPECT_EQ(literal(""), "_utf8mb4 ''");
  EXPECT_EQ(literal(Blob{std::string("\0\xff", 2)}), "x'00ff'");
  EXPECT_EQ(literal(nullptr), "NULL");
  EXPECT_EQ(literal(-5), " -5");
}

}  // namespace
}  // namespace outbox::mysql
