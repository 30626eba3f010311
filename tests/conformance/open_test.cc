// What open() makes of the database that it finds.
#include "outbox/open.h"

#include <thread>

#include "database.h"
#include "support/stores.h"

namespace outbox::conformance {
namespace {

using test::contains;
using test::message_of;
using test::simple_event;
using test::write_event;

TEST_P(OpenTest, WithoutMigrationAnEmptyDatabaseIsRefusedAndStaysEmpty) {
  run("SELECT 1");  // where it is a file, there is one
  const std::string message = message_of<PermanentError>([&] { open_store({.migrate = false}); });
  EXPECT_TRUE(contains(message, "version 0"));
  EXPECT_TRUE(contains(message, words().options + "::Options::migrate"));
  EXPECT_EQ(database().objects(), "");
  EXPECT_EQ(database().schema_status(database().url()).present, 0);
  EXPECT_EQ(database().objects(), "");
}

TEST_P(OpenTest, ASchemaNewerThanTheLibraryIsRefusedWithBothVersions) {
  open_store();
  const int latest = database().schema_status(database().url()).latest;
  run("INSERT INTO {table}_migration SELECT 99, '099_later', applied_at FROM {table}_migration "
      "WHERE version = 1");
  for (const bool migrate : {true, false}) {
    const std::string message =
        message_of<PermanentError>([&] { open_store({.migrate = migrate}); });
    EXPECT_TRUE(contains(message, "version 99"));
    EXPECT_TRUE(contains(message, "up to " + std::to_string(latest)));
    EXPECT_TRUE(contains(message, "update"));
  }
}

TEST_P(OpenTest, ManyMayMigrateAtOnce) {
  std::vector<std::jthread> threads;
  std::vector<std::string> errors(8);
  for (std::string& error : errors) {
    threads.emplace_back([this, &error] {
      try {
        open_store();
      } catch (const std::exception& thrown) {
        error = thrown.what();
      }
    });
  }
  threads.clear();
  EXPECT_EQ(errors, std::vector<std::string>(8));
  EXPECT_EQ(value("SELECT count(*) FROM {table}_migration"),
            std::to_string(database().schema_status(database().url()).latest));
  for (const std::string& suffix : words().tables_of_shards) {
    EXPECT_EQ(value("SELECT count(*) FROM {table}" + suffix), "16");
  }
}

TEST_P(OpenTest, OpeningTwiceChangesNothing) {
  open_store();
  const std::string first = database().objects();
  open_store();
  EXPECT_EQ(database().objects(), first);
}

TEST_P(OpenTest, TheSchemaAppliedByOtherMeansIsTheSame) {
  open_store();
  const std::string ours = database().objects();
  EXPECT_NE(ours, "");
  database().drop_objects();
  run(database().schema_sql(database().table()));
  EXPECT_EQ(database().objects(), ours);
  write_event(*open_store({.migrate = false}), simple_event("e"));
  run(database().schema_sql(database().table()));  // harmless
  EXPECT_TRUE(database().schema_status(database().url()).up_to_date());
}

TEST_P(OpenTest, AnOlderDatabaseIsBroughtUpToDateAndKeepsItsEvents) {
  write_event(*open_store(), simple_event("old"));
  const std::string complete = database().objects();
  for (const bool by_other_means : {false, true}) {
    const int version = database().make_older();
    EXPECT_NE(database().objects(), complete);
    EXPECT_TRUE(contains(message_of<PermanentError>([&] { open_store({.migrate = false}); }),
                         "has version " + std::to_string(version)));
    if (by_other_means) run(database().schema_sql(database().table()));
    const auto store = open_store({.migrate = !by_other_means});
    EXPECT_EQ(database().objects(), complete);
    EXPECT_TRUE(store->admin().find("old"));
  }
  EXPECT_TRUE(database().schema_status(database().url()).up_to_date());
}

TEST_P(OpenTest, OddButLegalNamesWorkAndTheRestIsRefused) {
  const std::string longest(48, 'x');
  for (const std::string& name : {std::string("SELECT"), std::string("MixedCase"), std::string("_"),
                                  std::string("user"), longest}) {
    const auto store = open_store({.table = backend().user_table(name)});
    write_event(*store, simple_event("e"));
    const auto instance = store->join({});
    const Lease lease = instance->renew();
    EXPECT_EQ(instance->ready(lease.shards, 0, 10).rows.size(), 1U) << name;
    EXPECT_TRUE(store->admin().find("e"));
    EXPECT_TRUE(contains(database().objects(), name));
    EXPECT_EQ(store->admin().replay({}, 0, 1).rows, 0);
  }
  if (!words().long_names) {
    EXPECT_THROW(open_store({.table = longest + "x"}), MisuseError);
    EXPECT_THROW(database().schema_sql(longest + "x"), MisuseError);
  }
  const std::string long_schema = std::string(words().longest_schema + 1, 's') + ".a";
  EXPECT_THROW(open_store({.table = long_schema}), MisuseError);
  EXPECT_THROW(database().schema_sql(long_schema), MisuseError);
  for (const std::string& name :
       {std::string(), std::string("a b"), std::string("a-b"), std::string("a\"b"),
        std::string("a`b"), std::string("1a"), std::string("a.b.c"), std::string("a."),
        std::string(".a"), std::string("a;b"), std::string("x'"), std::string("täble")}) {
    EXPECT_TRUE(contains(message_of<MisuseError>([&] { open_store({.table = name}); }),
                         " is no table name"))
        << name;
    EXPECT_THROW(database().schema_sql(name), MisuseError) << name;
  }
}

TEST_P(OpenTest, InvalidOptionsAreRefused) {
  EXPECT_TRUE(contains(message_of<MisuseError>([&] { open_store({.connections = 0}); }),
                       "Options::connections"));
  EXPECT_THROW(open_store({.connections = 10'001}), MisuseError);
  EXPECT_TRUE(contains(message_of<MisuseError>([&] { open_store({.wait_timeout = -1ms}); }),
                       "Options::wait_timeout"));
}

}  // namespace

// Where no store with a database is built.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(OpenTest);

}  // namespace outbox::conformance
