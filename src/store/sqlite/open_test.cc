#include "outbox/open.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <utility>

#include "client/sqlite/database.h"
#include "outbox/error.h"
#include "outbox/sqlite.h"
#include "store/sqlite/sqlite_store.h"
#include "store/sqlite/test_support.h"
#include "support/temporary_directory.h"

namespace outbox::sqlite {
namespace {

class SchemaTest : public SqliteTest {};

const std::vector<std::string> kAllMigrations{
    "1 001_outbox",    "2 002_archive", "3 003_patterns",   "4 004_checks",
    "5 005_unblocked", "6 006_waits",   "7 007_consumption"};

TEST_F(SchemaTest, OpeningTwiceAppliesEachMigrationOnce) {
  open_store();
  const ForeignConnection db(path());
  const auto applied = db.column("SELECT version || ' ' || name FROM outbox_event_migration");
  EXPECT_EQ(applied, kAllMigrations);
  const auto schema = db.column("SELECT sql FROM sqlite_schema ORDER BY name");
  open_store();
  EXPECT_EQ(db.column("SELECT sql FROM sqlite_schema ORDER BY name"), schema);
  EXPECT_EQ(db.column("SELECT version || ' ' || name FROM outbox_event_migration"), applied);
}

// What version 1 of the schema made of a database.
void make_version_1(const ForeignConnection& db) {
  db.run(schema_sql());
  db.run("DELETE FROM outbox_event_migration WHERE version > 1");
  db.run("DROP TABLE outbox_event_archive");
  db.run("DROP INDEX outbox_event_dead_row");
  db.run("DROP INDEX outbox_event_broken");
  db.run("DROP INDEX outbox_event_waits");
  for (const char* when : {"insert", "update"}) {
    db.run(std::string("DROP TRIGGER outbox_event_check_") + when);
  }
  for (const char* later : {"inbox", "version", "creation", "unblocked", "consumption"}) {
    db.run(std::string("DROP TABLE outbox_event_") + later);
  }
}

TEST_F(SchemaTest, AnOlderDatabaseIsBroughtUpToDateAndKeepsItsEvents) {
  const ForeignConnection db(path());
  make_version_1(db);
  db.run(
      "INSERT INTO outbox_event (event_id, event_type, payload, status, hold, done_at)"
      " VALUES ('new', 'T', '{}', 0, 0, NULL), ('dead', 'T', '{}', 3, NULL, 5)");
  EXPECT_TRUE(contains(message_of<PermanentError>([&] { open_store({.migrate = false}); }),
                       "has version 1"));
  EXPECT_EQ(db.value("SELECT count(*) FROM sqlite_schema WHERE name LIKE '%archive%'"), "0");

  const auto store = open_store();
  EXPECT_EQ(db.column("SELECT version || ' ' || name FROM outbox_event_migration"), kAllMigrations);
  EXPECT_EQ(store->counts().pending, 1);
  EXPECT_EQ(store->admin().list({.status = {Status::dead}}, 0, 10).size(), 1u);
  EXPECT_EQ(store->admin().purge(Purgeable::dead, host_clock().now(), 0, 10, true).rows, 1);
  EXPECT_EQ(db.value("SELECT event_id FROM outbox_event_archive"), "dead");
  open_store();  // harmless
}

TEST_F(SchemaTest, TheArchiveHasEveryColumnOfTheTable) {
  open_store();
  const ForeignConnection db(path());
  const auto columns = [&](const std::string& table) {
    return db.column("SELECT name FROM pragma_table_info('" + table +
                     "') WHERE name <> 'archived_at' ORDER BY cid");
  };
  EXPECT_EQ(columns("outbox_event_archive"), columns("outbox_event"));
}

TEST_F(SchemaTest, ManyProcessesMayMigrateAtOnce) {
  for (int round = 0; round < 5; ++round) {
    const std::string database = file("round" + std::to_string(round) + ".db");
    const Milestone start;
    std::vector<std::unique_ptr<ChildProcess>> children;
    for (int i = 0; i < 6; ++i) {
      children.push_back(std::make_unique<ChildProcess>([&] {
        if (!start.wait()) return 1;
        const auto store = sqlite::open(database, {.wait_timeout = 20s});
        return store->has_pending() ? 2 : 0;
      }));
    }
    for (std::size_t i = 0; i < children.size(); ++i) start.reach();
    for (const auto& child : children) EXPECT_EQ(child->wait(), 0);
  }
}

TEST_F(SchemaTest, WithoutMigrationAnOldSchemaIsRefusedAndNoFileIsMade) {
  EXPECT_THROW(open_store({.migrate = false}), PermanentError);
  EXPECT_FALSE(std::filesystem::exists(path()));
  ForeignConnection(path()).run("CREATE TABLE theirs (a)");
  const auto message = message_of<PermanentError>([&] { open_store({.migrate = false}); });
  EXPECT_TRUE(contains(message, "has version 0"));
  EXPECT_TRUE(contains(message, "sqlite::Options::migrate"));
  EXPECT_EQ(ForeignConnection(path()).column("SELECT name FROM sqlite_schema"),
            std::vector<std::string>{"theirs"});
}

TEST_F(SchemaTest, LivesBesideTheUsersOwnTablesAndOtherOutboxes) {
  const ForeignConnection db(path());
  db.run("CREATE TABLE orders (id)");
  const auto first = open_store({.table = "a"});
  const auto second = open_store({.table = "b"});
  write_event(*first, simple_event("one"));
  EXPECT_TRUE(first->has_pending());
  EXPECT_FALSE(second->has_pending());
  const auto owner_of_first = first->join({});
  const auto owner_of_second = second->join({});
  EXPECT_NE(owner_of_first->renew().epoch, 0);
  EXPECT_NE(owner_of_second->renew().epoch, 0);
}

TEST_F(SchemaTest, TheStatusOfAMissingFileIsVersion0AndMakesNone) {
  for (const std::string& missing : {path(), file("no/such/folder.db")}) {
    const SchemaStatus status = schema_status(missing);
    EXPECT_EQ(status.present, 0);
    EXPECT_EQ(status.latest, migrations().latest());
    EXPECT_FALSE(status.up_to_date());
    ASSERT_EQ(status.steps.size(), migrations().all().size());
    for (const SchemaStep& step : status.steps) EXPECT_FALSE(step.applied_at) << step.name;
    EXPECT_FALSE(std::filesystem::exists(missing));
  }
}

TEST_F(SchemaTest, TheStatusChangesNothing) {
  ForeignConnection(path()).run("CREATE TABLE theirs (a)");
  EXPECT_EQ(schema_status(path()).present, 0);
  EXPECT_EQ(ForeignConnection(path()).value("PRAGMA journal_mode"), "delete");
}

TEST_F(SchemaTest, MigrateMakesTheTablesAndSaysSince) {
  const Time before = host_clock().now();
  const SchemaStatus status = migrate(path(), "orders_outbox");
  EXPECT_TRUE(status.up_to_date());
  ASSERT_FALSE(status.steps.empty());
  EXPECT_EQ(status.steps.front().version, 1);
  EXPECT_EQ(status.steps.front().name, "001_outbox");
  for (const SchemaStep& step : status.steps) {
    ASSERT_TRUE(step.applied_at) << step.name;
    EXPECT_GE(*step.applied_at, before);
    EXPECT_LE(*step.applied_at, host_clock().now());
  }
  EXPECT_EQ(migrate(path(), "orders_outbox").steps.front().applied_at,
            status.steps.front().applied_at)
      << "once";
  EXPECT_EQ(schema_status(path()).present, 0) << "another table";
}

TEST_F(SchemaTest, TheStatusShowsWhatANewerLibraryApplied) {
  open_store();
  ForeignConnection(path()).run("INSERT INTO outbox_event_migration VALUES (1000, 'future', 0)");
  const SchemaStatus status = schema_status(path());
  EXPECT_TRUE(status.newer());
  EXPECT_FALSE(status.up_to_date());
  EXPECT_EQ(status.present, 1000);
  EXPECT_EQ(status.steps.back().name, "future");
  EXPECT_THROW(migrate(path()), PermanentError);
}

TEST_F(SchemaTest, TheStatusOfWhatIsNoDatabaseIsAnError) {
  std::ofstream(path()) << "this is a letter to a friend, and it is long enough for a header";
  EXPECT_TRUE(contains(message_of<PermanentError>([&] { schema_status(path()); }),
                       "not an SQLite database"));
  EXPECT_THROW(schema_status(":memory:"), MisuseError);
  EXPECT_THROW(schema_status(file("x.db"), "a-b"), MisuseError);
  EXPECT_THROW(migrate(file("x.db"), "a-b"), MisuseError);
}

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

// A database file that is deleted or replaced while it is open.

constexpr int kShard[] = {0};

class ReplacedFileTest : public SqliteTest {
 protected:
  ReplacedFileTest() {
    write_event(*store_, simple_event("old"));
    epoch_ = instance_->renew().epoch;
  }

  void move_away() const {
    for (const char* part : {"", "-wal", "-shm"}) {
      std::filesystem::rename(path() + part, file("elsewhere") + part);
    }
  }
  void move_back() const {
    for (const char* part : {"", "-wal", "-shm"}) {
      std::filesystem::rename(file("elsewhere") + part, path() + part);
    }
  }

  void expect_refusals(const std::string& why) const {
    const auto connection = store_->connect();
    EXPECT_TRUE(contains(message_of<PermanentError>([&] { connection->begin(); }), why));
    EXPECT_TRUE(contains(
        message_of<PermanentError>([&] { connection->execute("CREATE TABLE t (a)", {}); }), why));
    EXPECT_TRUE(contains(message_of<PermanentError>([&] { store_->counts(); }), why));
    EXPECT_TRUE(contains(message_of<PermanentError>([&] { store_->admin().find("old"); }), why));
    EXPECT_TRUE(contains(message_of<PermanentError>([&] { store_->join({}); }), why));
    EXPECT_TRUE(contains(message_of<PermanentError>([&] { store_->admin().replay("old"); }), why));
  }

  const std::shared_ptr<Store> store_ = open_store();
  const std::unique_ptr<Instance> instance_ = store_->join({});
  std::int64_t epoch_ = 0;
};

TEST_F(ReplacedFileTest, WhatWasWrittenToADeletedFileWasAcknowledgedAndLost) {
  std::filesystem::remove(path());
  expect_refusals("was deleted or moved while this process had it open");
}

TEST_F(ReplacedFileTest, NothingGoesToTheFileThatIsThereNow) {
  move_away();
  const auto other = open_store();
  expect_refusals("was replaced while this process had it open");
  EXPECT_FALSE(other->has_pending());
}

TEST_F(ReplacedFileTest, TheOwnerGivesUpSaysWhyAndLetsOthersOwnTheNewOne) {
  const StatusUpdate update{.row = store_->admin().find("old")->row.ref, .event_id = "old"};
  move_away();
  EXPECT_THROW(instance_->apply(epoch_, {&update, 1}), PermanentError);
  const auto other_store = open_store();
  const auto other = other_store->join({});
  EXPECT_EQ(other->renew().epoch, 0) << "the lock file is the same";

  EXPECT_EQ(instance_->renew().epoch, 0) << "what was read is dropped";
  EXPECT_TRUE(contains(message_of<PermanentError>([&] { instance_->renew(); }), "was replaced"));
  EXPECT_TRUE(instance_->apply(epoch_, {&update, 1}).fenced);
  EXPECT_NE(other->renew().epoch, 0);
  instance_->leave();
}

TEST_F(ReplacedFileTest, OnceTheFileIsBackItHasAnOwnerAgain) {
  move_away();
  EXPECT_EQ(instance_->renew().epoch, 0);
  EXPECT_THROW(instance_->renew(), PermanentError);
  move_back();
  EXPECT_GT(instance_->renew().epoch, epoch_);
  EXPECT_EQ(instance_->ready(kShard, 0, 10).rows.size(), 1u);
  write_event(*store_, simple_event("new"));
}

TEST_F(ReplacedFileTest, ClaimersGiveUpToo) {
  instance_->leave();
  const auto claimer = store_->join({.row_claims = true});
  EXPECT_NE(claimer->renew().epoch, 0);
  std::filesystem::remove(path());
  EXPECT_THROW(claimer->claim(0ms, 10), PermanentError);
  EXPECT_EQ(claimer->renew().epoch, 0);
  EXPECT_THROW(claimer->renew(), PermanentError);
}

}  // namespace

}  // namespace outbox::sqlite
