#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "client/sqlite/database.h"
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

// What was meant for a server would become the name of a file, and be shown.
TEST(SqliteUrl, APasswordIsNotShownAlsoIfItGoesToTheWrongStore) {
  const std::pair<std::string, bool> cases[] = {
      {"postgresql://u:tOpSeCrEt@h/d", true},
      {"mysql://u:tOpSeCrEt@h/d?ssl_mode=required", true},
      {"redis://:tOpSeCrEt@h/0", true},
      {"sqlite://u:tOpSeCrEt@h/d", true},
      {"host=h user=u password=tOpSeCrEt dbname=d", true},
      {"file://u:tOpSeCrEt@h/d", true},
      {"file::memory:?key=tOpSeCrEt", true},
      {"file:/no/such/folder/shop.db?password=tOpSeCrEt", false},
      {"/no/such/folder/u:tOpSeCrEt@h", false},
  };
  for (const auto& [path, misuse] : cases) {
    for (const bool ask : {false, true}) {
      try {
        if (ask) {
          migrate(path);
        } else {
          open(path);
        }
        ADD_FAILURE() << "it was opened: " << path;
      } catch (const Error& error) {
        EXPECT_EQ(std::string(error.what()).find("tOpSeCrEt"), std::string::npos) << error.what();
        EXPECT_EQ(dynamic_cast<const MisuseError*>(&error) != nullptr, misuse) << error.what();
      }
    }
  }
}

}  // namespace
}  // namespace outbox::sqlite
