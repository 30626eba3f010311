#include "store/sqlite/url.h"

#include <gtest/gtest.h>

#include <string>

#include "outbox/error.h"
#include "outbox/open.h"
#include "outbox/sqlite.h"
#include "support/temporary_directory.h"

namespace outbox::sqlite {
namespace {

TEST(SqliteUrl, NamesAFile) {
  EXPECT_EQ(path_of_url("sqlite:shop.db"), "shop.db");
  EXPECT_EQ(path_of_url("SQLite:a/b.db"), "a/b.db");
  EXPECT_EQ(path_of_url("sqlite:/var/shop.db"), "/var/shop.db");
  EXPECT_EQ(path_of_url("sqlite:///var/shop.db"), "/var/shop.db");
  EXPECT_EQ(path_of_url("sqlite:odd:name"), "odd:name");
  EXPECT_EQ(path_of_url("file:shop.db?vfs=unix"), "file:shop.db?vfs=unix");
}

TEST(SqliteUrl, NamesNeitherNothingNorAHost) {
  EXPECT_THROW(path_of_url("sqlite:"), MisuseError);
  EXPECT_THROW(path_of_url("sqlite://"), MisuseError);
  EXPECT_THROW(path_of_url("sqlite://host/shop.db"), MisuseError);
}

TEST(SqliteUrl, OpensAStoreWithTheOptionsOfTheScheme) {
  const test::TemporaryDirectory directory;
  const std::string file = directory.file("shop.db");
  const auto store = outbox::open("sqlite:" + file, {scheme({.table = "other"})});
  EXPECT_NE(store->description().find("other"), std::string::npos) << store->description();
  EXPECT_EQ(outbox::open("file:" + file + "?mode=rw", {scheme({.table = "other"})})->description(),
            store->description());
}

}  // namespace
}  // namespace outbox::sqlite
