#include "base/sql_text.h"

#include <gtest/gtest.h>

#include "outbox/error.h"

namespace outbox {
namespace {

TEST(SqlTextTest, TransactionsAreNotBegunOrEndedByStatements) {
  for (const char* text :
       {"BEGIN", "commit;", "  -- a remark\n rollback", "/* x */ SAVEPOINT a", ";; RELEASE a",
        "End", "START TRANSACTION", "PREPARE TRANSACTION 'x'", "abort"}) {
    EXPECT_THROW(refuse_transaction_control(text), MisuseError) << text;
  }
  for (const char* text : {"SELECT 1", "", "-- BEGIN", "UPDATE t SET begin = 1", "beginning",
                           "PREPARE x AS SELECT 1"}) {
    EXPECT_NO_THROW(refuse_transaction_control(text)) << text;
  }
}

TEST(SqlTextTest, NamesAreQuoted) {
  EXPECT_EQ(quoted_name("a"), "\"a\"");
  EXPECT_EQ(quoted_name("a\"b"), "\"a\"\"b\"");
  EXPECT_EQ(quoted_name("a`\"b", '`'), "`a``\"b`");
}

TEST(SqlTextTest, TableNamesAreSimple) {
  EXPECT_NO_THROW(check_table_name("outbox_Event2"));
  for (const char* name : {"", "2a", "a b", "a-b", "a\"", "a;", "\xc3\xa4"}) {
    EXPECT_THROW(check_table_name(name), MisuseError) << name;
  }
}

TEST(SqlTextTest, BracesAreFilledIn) {
  const auto fill = [](std::string_view name) { return "<" + std::string(name) + ">"; };
  EXPECT_EQ(expand_names("SELECT {a} FROM {b}", fill), "SELECT <a> FROM <b>");
  EXPECT_EQ(expand_names("no names", fill), "no names");
}

}  // namespace
}  // namespace outbox
