#include "store/common/migrations.h"

#include <gtest/gtest.h>

#include "outbox/error.h"

namespace outbox {
namespace {

constexpr Migration kSteps[] = {{1, "001_initial", "CREATE"}, {2, "002_archive", "ALTER"}};
constexpr Migrations kMigrations(kSteps, "sqlite");

std::string refusal(int version, bool migrate) {
  try {
    kMigrations.missing(version, migrate, "the shop");
    return "none";
  } catch (const PermanentError& error) {
    return error.what();
  }
}

TEST(Migrations, TablesLackWhatCameAfterTheirVersion) {
  EXPECT_EQ(kMigrations.missing(0, true, "the shop").size(), 2U);
  EXPECT_EQ(kMigrations.missing(1, true, "the shop").size(), 1U);
  EXPECT_EQ(kMigrations.missing(1, true, "the shop").front().version, 2);
  EXPECT_TRUE(kMigrations.missing(2, true, "the shop").empty());
}

TEST(Migrations, WithoutMigratingTheTablesMustBeUpToDate) {
  EXPECT_EQ(refusal(2, false), "none");
  EXPECT_EQ(refusal(1, false),
            "the schema of the shop has version 1, and this library needs version 2: set "
            "sqlite::Options::migrate, or apply sqlite::schema_sql()");
}

TEST(Migrations, TablesOfANewerLibraryAreLeftAlone) {
  for (const bool migrate : {false, true}) {
    EXPECT_EQ(refusal(3, migrate),
              "the schema of the shop has version 3, and this library knows versions up to 2: "
              "update the programs that use the older library");
  }
}

TEST(Migrations, TheStatusListsWhatWasAppliedAndThenWhatIsMissing) {
  const SchemaStatus none = kMigrations.status({});
  EXPECT_EQ(none.present, 0);
  EXPECT_EQ(none.latest, 2);
  ASSERT_EQ(none.steps.size(), 2U);

  const SchemaStatus half =
      kMigrations.status({{.version = 1, .name = "001_initial", .applied_at = Time{}}});
  EXPECT_EQ(half.present, 1);
  ASSERT_EQ(half.steps.size(), 2U);
  EXPECT_TRUE(half.steps[0].applied_at);
  EXPECT_EQ(half.steps[1].name, "002_archive");
  EXPECT_FALSE(half.steps[1].applied_at);
}

TEST(Migrations, TheStatusOfNewerTablesShowsTheirSteps) {
  const SchemaStatus newer = kMigrations.status({{.version = 1}, {.version = 2}, {.version = 3}});
  EXPECT_TRUE(newer.newer());
  EXPECT_EQ(newer.steps.size(), 3U);
}

}  // namespace
}  // namespace outbox
