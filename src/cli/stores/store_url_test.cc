#include "cli/stores/store_url.h"

#include <gtest/gtest.h>

#include "cli/errors.h"
#include "cli/stores/shell_word.h"

namespace outbox::cli {
namespace {

std::string refusal(const char* url) {
  try {
    parse_store_url(url);
  } catch (const ConfigurationError& error) {
    return error.what();
  }
  ADD_FAILURE() << url << " was accepted";
  return {};
}

TEST(StoreUrlTest, NamesAnSqliteFile) {
  EXPECT_EQ(parse_store_url("sqlite:shop.db").place, "shop.db");
  EXPECT_EQ(parse_store_url("SQLite:a/b.db").place, "a/b.db");
  EXPECT_EQ(parse_store_url("sqlite:/var/shop.db").place, "/var/shop.db");
  EXPECT_EQ(parse_store_url("sqlite:///var/shop.db").place, "/var/shop.db");
  EXPECT_EQ(parse_store_url("sqlite:odd:name").place, "odd:name");
  EXPECT_EQ(parse_store_url("shop.db").place, "shop.db");
  EXPECT_EQ(parse_store_url("/var/a:b").place, "/var/a:b");
  EXPECT_EQ(parse_store_url("./a:b").place, "./a:b");
  EXPECT_EQ(parse_store_url("c:db").place, "c:db");
  EXPECT_EQ(parse_store_url("file:shop.db?vfs=unix").place, "file:shop.db?vfs=unix");
  EXPECT_EQ(parse_store_url("shop.db").scheme, "sqlite");
}

TEST(StoreUrlTest, RefusesOthersWithoutShowingTheirPasswords) {
  for (const char* url : {"postgres://user:hunter2@host/db", "postgresql:hunter2",
                          "mysql://hunter2", "nosuch:hunter2", "http://hunter2"}) {
    const std::string message = refusal(url);
    EXPECT_NE(message.find("no store is known for"), std::string::npos) << message;
    EXPECT_EQ(message.find("hunter2"), std::string::npos) << message;
  }
  EXPECT_NE(refusal("").find("names no file"), std::string::npos);
  EXPECT_NE(refusal("sqlite:").find("names no file"), std::string::npos);
  EXPECT_NE(refusal("sqlite://host/x").find("no host"), std::string::npos);
}

TEST(ShellWord, CanBePasted) {
  EXPECT_EQ(shell_word("sqlite:/a/b-c_1.db"), "sqlite:/a/b-c_1.db");
  EXPECT_EQ(shell_word("a b"), "'a b'");
  EXPECT_EQ(shell_word("it's;"), "'it'\\''s;'");
  EXPECT_EQ(shell_word(""), "''");
}

}  // namespace
}  // namespace outbox::cli
