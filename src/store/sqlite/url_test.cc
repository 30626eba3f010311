#include "store/sqlite/url.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "outbox/error.h"
#include "outbox/open.h"
#include "outbox/sqlite.h"

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
  std::string folder = std::filesystem::temp_directory_path() / "outbox_url_XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const auto store = outbox::open("sqlite:" + folder + "/shop.db", {scheme({.table = "other"})});
  EXPECT_NE(store->description().find("other"), std::string::npos) << store->description();
  EXPECT_EQ(outbox::open("file:" + folder + "/shop.db?mode=rw", {scheme({.table = "other"})})
                ->description(),
            store->description());
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace outbox::sqlite
