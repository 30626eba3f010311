// What open() makes of the database that it finds.
#include "outbox/open.h"

#include <thread>

#include "store/mysql/mysql_store.h"
#include "store/mysql/test_support.h"

namespace outbox::mysql {
namespace {

class MysqlOpenTest : public MysqlTest {
 protected:
  // Every column, index and check of the database.
  std::vector<test::Row> objects() {
    return sql().query(
        "SELECT 'column', table_name, column_name, column_type, is_nullable, "
        "  coalesce(column_default, ''), collation_name, extra, generation_expression "
        "FROM information_schema.columns WHERE table_schema = database() "
        "UNION ALL SELECT 'index', table_name, index_name, column_name, seq_in_index, non_unique, "
        "  '', '', '' FROM information_schema.statistics WHERE table_schema = database() "
        "UNION ALL SELECT 'check', constraint_name, check_clause, '', '', '', '', '', '' "
        "FROM information_schema.check_constraints WHERE constraint_schema = database() "
        "ORDER BY 1, 2, 3, 4, 5");
  }
  void drop_everything() {
    for (const char* suffix :
         {"", "_instance", "_shard", "_archive", "_flush", "_inbox", "_version", "_creation",
          "_unblocked", "_consumption", "_migration"}) {
      sql().execute(std::string("DROP TABLE IF EXISTS outbox_event") + suffix);
    }
  }
  Server server() {
    return contains(sql().value("SELECT version()"), "MariaDB") ? Server::mariadb : Server::mysql;
  }

  // As a client sends them.
  std::vector<std::string> statements() {
    const std::string script = schema_sql(server());
    std::vector<std::string> result;
    std::size_t at = 0;
    for (auto end = script.find(";\n"); end != std::string::npos; end = script.find(";\n", at)) {
      result.push_back(script.substr(at, end - at));
      at = end + 2;
    }
    return result;
  }
};

TEST_F(MysqlOpenTest, ByUrlTheOptionsAreThoseOfTheScheme) {
  const Scheme mine = scheme({.table = "other"});
  const std::string rest = url().substr(url().find(':'));
  const auto store = outbox::open("mysql" + rest, {mine});
  EXPECT_TRUE(contains(store->description(), "table other"));
  for (const char* name : {"mariadb", "MySQL"}) {
    EXPECT_EQ(outbox::open(name + rest, {mine})->description(), store->description());
  }
}

TEST_F(MysqlOpenTest, WithoutMigrationAnEmptyDatabaseIsRefusedAndStaysEmpty) {
  const std::string message = message_of<PermanentError>([&] { open_store({.migrate = false}); });
  EXPECT_TRUE(contains(message, "version 0"));
  EXPECT_TRUE(contains(message, "mysql::Options::migrate"));
  EXPECT_EQ(schema_status(url()).present, 0);
  EXPECT_TRUE(objects().empty());
}

TEST_F(MysqlOpenTest, ASchemaNewerThanTheLibraryIsRefusedWithBothVersions) {
  open_store();
  sql().execute("INSERT INTO outbox_event_migration (version, name) VALUES (99, '099_later')");
  for (const bool migrate : {true, false}) {
    const std::string message =
        message_of<PermanentError>([&] { open_store({.migrate = migrate}); });
    EXPECT_TRUE(contains(message, "version 99"));
    EXPECT_TRUE(contains(message, "versions up to " + std::to_string(schema_status(url()).latest)));
  }
}

TEST_F(MysqlOpenTest, ManyMayMigrateAtOnce) {
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
  EXPECT_EQ(sql().value("SELECT count(*) FROM outbox_event_migration"),
            std::to_string(schema_status(url()).latest));
  EXPECT_EQ(sql().value("SELECT count(*) FROM outbox_event_shard"), "16");
  EXPECT_EQ(sql().value("SELECT count(*) FROM outbox_event_flush"), "16");
}

// The server commits every statement by itself.
TEST_F(MysqlOpenTest, AMigrationThatWasInterruptedAnywhereIsFinishedByTheNext) {
  open_store();
  const auto complete = objects();
  ASSERT_FALSE(complete.empty());
  const std::vector<std::string> all = statements();
  ASSERT_GT(all.size(), 5U);
  for (std::size_t number = 1; number < all.size(); ++number) {
    drop_everything();
    for (std::size_t i = 0; i < number; ++i) sql().execute(all[i]);
    EXPECT_THROW(open_store({.migrate = false}), PermanentError) << number;
    write_event(*open_store(), simple_event("e"));
    EXPECT_EQ(objects(), complete) << number;
    EXPECT_EQ(sql().value("SELECT count(*) FROM outbox_event_shard"), "16") << number;
  }
}

TEST_F(MysqlOpenTest, TheSchemaAppliedByOtherMeansIsTheSame) {
  open_store();
  const auto ours = objects();
  drop_everything();
  sql().execute(schema_sql(server()));
  EXPECT_EQ(objects(), ours);
  write_event(*open_store({.migrate = false}), simple_event("e"));
  EXPECT_TRUE(migrate(url()).up_to_date());
}

TEST_F(MysqlOpenTest, AnOlderDatabaseIsBroughtUpToDateAndKeepsItsEvents) {
  write_event(*open_store(), simple_event("old"));
  const auto complete = objects();
  for (const bool by_other_means : {false, true}) {
    // What version 2 of the schema had.
    sql().execute("DELETE FROM outbox_event_migration WHERE version > 2");
    sql().execute(
        "DROP TABLE outbox_event_inbox, outbox_event_version, outbox_event_creation, "
        "outbox_event_unblocked, outbox_event_consumption");
    EXPECT_TRUE(contains(message_of<PermanentError>([&] { open_store({.migrate = false}); }),
                         "has version 2"));
    if (by_other_means) sql().execute(schema_sql(server()));
    const auto store = open_store({.migrate = !by_other_means});
    EXPECT_EQ(objects(), complete);
    EXPECT_TRUE(store->find("old"));
  }
}

TEST_F(MysqlOpenTest, OddButLegalNamesWorkAndTheRestIsRefused) {
  const std::string longest(48, 'x');
  for (const std::string& name : {std::string("SELECT"), std::string("MixedCase"), std::string("_"),
                                  std::string("user"), longest}) {
    const auto store = mysql::open(url(), {.table = name});
    write_event(*store, simple_event("e"));
    const auto instance = store->join({});
    const Lease lease = instance->renew();
    EXPECT_EQ(instance->ready(lease.shards, 0, 10).rows.size(), 1U) << name;
    EXPECT_EQ(store->replay({}, 0, 1).rows, 0);
  }
  EXPECT_EQ(sql().value("SELECT count(*) FROM `SELECT`"), "1");

  for (const std::string& name :
       {std::string(), longest + "x", std::string("a b"), std::string("a`b"), std::string("1a"),
        std::string("a.b.c"), std::string("a."), std::string(".a"), std::string("a;b"),
        std::string("täble"), std::string(65, 's') + ".a"}) {
    EXPECT_THROW(mysql::open(url(), {.table = name}), MisuseError) << name;
    EXPECT_THROW(schema_sql(Server::mysql, name), MisuseError) << name;
  }
}

TEST_F(MysqlOpenTest, ATableMayBeInAnotherDatabaseThanTheOneOfTheUrl) {
  const test::Database other;
  const auto store = open_store({.table = other.name() + ".events"});
  write_event(*store, simple_event("e"));
  EXPECT_TRUE(objects().empty());
  EXPECT_EQ(sql().value("SELECT count(*) FROM " + other.name() + ".events"), "1");
  EXPECT_TRUE(schema_status(url(), other.name() + ".events").up_to_date());
}

TEST_F(MysqlOpenTest, OptionsThatMakeNoSenseAreRefused) {
  EXPECT_THROW(open_store({.connections = 0}), MisuseError);
  EXPECT_THROW(open_store({.connections = 10'001}), MisuseError);
  EXPECT_THROW(open_store({.wait_timeout = -1ms}), MisuseError);
}

TEST_F(MysqlOpenTest, OnOpenIsCalledForTransactionsAloneAndBeforeThem) {
  const auto store = open_store({.on_open = [](st_mysql* connection) {
    mysql_query(connection, "SET time_zone = '+05:45'");
  }});
  const auto zone = [](Connection& connection) {
    return connection.query("SELECT @@time_zone", {}).at(0).get<std::string>(0);
  };
  EXPECT_EQ(zone(*begun(*store)), "+05:45");
  EXPECT_EQ(store->count({}), 0);
}

TEST_F(MysqlOpenTest, ARowThatContradictsItselfIsRefused) {
  const auto store = open_store();
  write_event(*store, simple_event("e"));
  for (const char* change : {"status = 1", "status = 7", "hold = NULL", "status = -1",
                             "status = 3, hold = 0", "status = 3, hold = -5"}) {
    EXPECT_THROW(sql().execute(std::string("UPDATE outbox_event SET ") + change),
                 std::runtime_error)
        << change;
  }
  for (const char* change : {"status = 2, hold = 5", "status = 3", "hold = NULL", "status = 1"}) {
    EXPECT_NO_THROW(sql().execute(std::string("UPDATE outbox_event SET ") + change)) << change;
  }
}

TEST_F(MysqlOpenTest, RowsThatContradictThemselvesDoNotStopAMigration) {
  open_store();
  sql().execute(test::Mysql(url()).value("SELECT version()").find("MariaDB") != std::string::npos
                    ? "ALTER TABLE outbox_event DROP CONSTRAINT outbox_event_state"
                    : "ALTER TABLE outbox_event DROP CHECK outbox_event_state");
  sql().execute("DELETE FROM outbox_event_migration WHERE version > 3");
  sql().execute(
      "INSERT INTO outbox_event (event_id, event_type, payload, status) VALUES ('bad', 'T', '{}',"
      " 1)");
  const auto store = open_store();
  EXPECT_TRUE(log_.contains("rows of outbox_event contradict themselves"));
  EXPECT_TRUE(schema_status(url()).up_to_date());
  write_event(*store, simple_event("good"));
}

}  // namespace
}  // namespace outbox::mysql
