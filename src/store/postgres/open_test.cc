// What open() makes of the database that it finds.
#include "outbox/open.h"

#include <thread>

#include "store/postgres/test_support.h"

namespace outbox::postgres {
namespace {

using PostgresOpenTest = PostgresTest;

// A database beside the tests' own; dropped in the end.
class OtherDatabase {
 public:
  OtherDatabase(test::Sql& sql, const std::string& name, const std::string& with)
      : sql_(sql), name_(name) {
    sql_.execute("DROP DATABASE IF EXISTS " + name_);
    sql_.execute("CREATE DATABASE " + name_ + " " + with);
  }
  ~OtherDatabase() { sql_.execute("DROP DATABASE IF EXISTS " + name_ + " WITH (FORCE)"); }
  OtherDatabase(const OtherDatabase&) = delete;
  OtherDatabase& operator=(const OtherDatabase&) = delete;

  std::string url() const {
    const std::string usual = test::postgres_url();
    return usual.substr(0, usual.rfind('/') + 1) + name_;
  }

 private:
  test::Sql& sql_;
  const std::string name_;
};

TEST_F(PostgresOpenTest, ByUrlTheOptionsAreThoseOfTheScheme) {
  const Scheme mine = scheme({.table = table() + "_2"});
  const std::string url = test::postgres_url();
  const std::string rest = url.substr(url.find(':'));
  const auto store = outbox::open("postgresql" + rest, {mine});
  EXPECT_TRUE(contains(store->description(), table() + "_2"));
  for (const char* name : {"postgres", "PostgreSQL"}) {
    EXPECT_EQ(outbox::open(name + rest, {mine})->description(), store->description());
  }
}

TEST_F(PostgresOpenTest, ADatabaseInAnotherEncodingIsRefused) {
  const OtherDatabase latin(sql(), schema() + "_latin",
                            "ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'");
  const std::string message = message_of<PermanentError>([&] { postgres::open(latin.url()); });
  EXPECT_TRUE(contains(message, "LATIN1"));
  EXPECT_TRUE(contains(message, "ENCODING 'UTF8'"));
}

TEST_F(PostgresOpenTest, AMigrationThatFailsLeavesNothingBehind) {
  sql().execute("CREATE TABLE " + table() + "_shard (mine int)");
  EXPECT_THROW(open_store(), MisuseError);
  EXPECT_EQ(sql().value("SELECT count(*) FROM pg_class WHERE relnamespace = '" + schema() +
                        "'::regnamespace"),
            "1");
}

// Names that differ only at their end must not share indexes or sequences.
TEST_F(PostgresOpenTest, TwoTablesWithLongNamesLiveSideBySide) {
  for (const char* last : {"a", "b"}) {
    const auto store = postgres::open(test::postgres_url(),
                                      {.table = schema() + "." + std::string(47, 'x') + last});
    write_event(*store, simple_event("e"));
  }
  EXPECT_EQ(sql().value("SELECT count(*) FROM pg_sequences WHERE schemaname = '" + schema() + "'"),
            "6");
}

TEST_F(PostgresOpenTest, WithoutASchemaTheFirstOfTheSearchPathIsMeantAlsoAfterItChanged) {
  const std::string url = test::postgres_url() + "?options=-csearch_path%3D" + schema();
  const auto store = postgres::open(url);
  const auto connection = begun(*store);
  connection->execute("SET LOCAL search_path = ''", {});
  const Event event = simple_event("e");
  connection->insert({&event, 1}, {});
  connection->commit();
  EXPECT_EQ(sql().value("SELECT count(*) FROM " + table()), "1");
}

TEST_F(PostgresOpenTest, AnAtSignElsewhereIsNobodysSecret) {
  EXPECT_NO_THROW(open_store_at(test::postgres_url() + "?application_name=me@home"));
  EXPECT_NO_THROW(open_store_at("user=postgres host=127.0.0.1 dbname=outbox password=a@b/c port=" +
                                std::to_string(test::port_of(test::postgres_url()))));
}

TEST_F(PostgresOpenTest, NeitherDescriptionNorErrorsNorLogOfAStoreShowThePassword) {
  const std::string secret = "tOpSeCrEt";
  const auto store = open_store_at("postgresql://postgres:" + secret + "@127.0.0.1:" +
                                   std::to_string(test::port_of(test::postgres_url())) + "/outbox");
  EXPECT_EQ(store->description().find(secret), std::string::npos);
  const auto connection = begun(*store);
  const std::string message =
      message_of<DatabaseError>([&] { connection->execute("SELECT nonsense", {}); });
  EXPECT_EQ(message.find(secret), std::string::npos);
  EXPECT_FALSE(log_.contains(secret));
}

// Rows whose status and hold do not agree: refused where the table is checked, harmless where
// it is not.

class PostgresStatesTest : public PostgresTest {
 protected:
  std::string insertion(const std::string& id, const std::string& status, const std::string& hold) {
    return "INSERT INTO " + table() +
           " (event_id, event_type, payload, aggregate_id, status, hold) VALUES ('" + id +
           "', 'T', '{}', '1', " + status + ", " + hold + ")";
  }

  // As an older version of the library left it: without the check, and what came after it.
  void make_old() {
    open_store();
    sql().execute("ALTER TABLE " + table() + " DROP CONSTRAINT outbox_event_state; DROP TABLE " +
                  table() + "_consumption; DELETE FROM " + table() +
                  "_migration WHERE version > 3; ALTER TABLE " + table() +
                  "_shard RENAME draining TO leaving; ALTER TABLE " + table() +
                  "_shard RENAME candidates TO suspects; ALTER TABLE " + table() +
                  "_instance RENAME exclusive TO whole");
  }

  std::string checked() {
    return sql().value("SELECT convalidated FROM pg_constraint WHERE conrelid = '" + table() +
                       "'::regclass AND conname = 'outbox_event_state'");
  }
};

TEST_F(PostgresStatesTest, RowsThatContradictThemselvesAreRefused) {
  open_store();
  EXPECT_EQ(checked(), "t");
  int number = 0;
  const auto insert = [&](const std::string& status, const std::string& hold) {
    sql().execute(insertion(std::to_string(++number), status, hold));
  };
  for (const char* hold : {"0", "5", "-5"}) {
    for (const char* pending : {"0", "2"}) EXPECT_NO_THROW(insert(pending, hold));
    for (const char* wrong : {"1", "4", "-1"}) EXPECT_THROW(insert(wrong, hold), std::exception);
  }
  EXPECT_NO_THROW(insert("1", "NULL"));
  EXPECT_NO_THROW(insert("3", "NULL"));
  EXPECT_NO_THROW(insert("3", "5")) << "blocks its lane";
  EXPECT_THROW(insert("3", "0"), std::exception);
  EXPECT_THROW(insert("3", "-5"), std::exception);
  for (const char* pending : {"0", "2"}) EXPECT_THROW(insert(pending, "NULL"), std::exception);
}

TEST_F(PostgresStatesTest, OldRowsThatContradictThemselvesAreToldOfAndDoNotStopTheMigration) {
  make_old();
  sql().execute(insertion("good", "0", "0"));
  sql().execute(insertion("bad", "0", "NULL"));
  const auto store = open_store();
  EXPECT_TRUE(schema_status(test::postgres_url(), table()).up_to_date());
  EXPECT_EQ(checked(), "f");
  EXPECT_TRUE(log_.contains("contradict themselves"));
  EXPECT_THROW(sql().execute(insertion("worse", "0", "NULL")), std::exception) << "no new ones";
  const auto instance = store->join({});
  EXPECT_EQ(ids(instance->ready(instance->renew().shards, 0, 10).rows),
            std::vector<std::string>{"good"});

  // As the message says.
  sql().execute("UPDATE " + table() + " SET hold = 0 WHERE event_id = 'bad'; ALTER TABLE " +
                table() + " VALIDATE CONSTRAINT outbox_event_state");
  testing::RecordingLog later;
  open_store({.log = later.log()});
  EXPECT_FALSE(later.contains("contradict themselves"));
}

TEST_F(PostgresStatesTest, TheMigrationKeepsNobodyWaitingWhileItWaitsItself) {
  make_old();
  test::Sql slow;
  slow.execute("BEGIN; " + insertion("slow", "0", "0"));
  std::jthread migration([&] { open_store(); });
  EXPECT_TRUE(eventually([&] {
    return sql().value("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%" + schema() +
                       "%ADD CONSTRAINT%' AND pid <> pg_backend_pid()") != "0";
  }));
  test::Sql quick;
  quick.execute("SET lock_timeout = '10s'");
  for (int i = 0; i < 5; ++i) {
    EXPECT_NO_THROW(quick.execute(insertion("quick" + std::to_string(i), "0", "0")));
  }
  slow.execute("COMMIT");
  migration.join();
  EXPECT_EQ(checked(), "t");
}

TEST_F(PostgresStatesTest, WhereNothingIsCheckedARowThatContradictsItselfStopsOnlyItself) {
  const auto store = open_store();
  sql().execute("ALTER TABLE " + table() + " DROP CONSTRAINT outbox_event_state");
  // Before the good ones, each of them.
  for (const char* status : {"1", "7", "-3"}) {
    const std::string id = std::string("bad") + status;
    sql().execute(insertion(id + "ready", status, "0"));
    sql().execute(insertion(id + "held", status, "77"));
    sql().execute(insertion(id + "alone", status, "78"));
    sql().execute(insertion(id + "due", status, "-1"));
    sql().execute(insertion(id + "later", status, "-4000000000000000"));
  }
  sql().execute(insertion("hidden", "0", "NULL"));
  sql().execute(insertion("ready", "0", "0"));
  sql().execute(insertion("held", "2", "77"));
  sql().execute(insertion("due", "2", "-2"));

  const auto instance = store->join({});
  const std::vector<int> shards = instance->renew().shards;
  EXPECT_EQ(ids(instance->ready(shards, 0, 10).rows), std::vector<std::string>{"ready"});
  const DueRows due = instance->due(shards, 10);
  EXPECT_EQ(ids(due.rows), std::vector<std::string>{"due"});
  EXPECT_FALSE(due.next_in) << "nothing else is due, ever";
  const int shard = due.rows.at(0).ref.shard;
  const std::vector<HeldLane> lanes = instance->held_lanes(shard, 0, 10);
  ASSERT_EQ(lanes.size(), 1u);
  EXPECT_EQ(lanes[0].key, 77);
  EXPECT_EQ(lanes[0].status, Status::retry);
  EXPECT_EQ(ids(instance->held({shard, 77}, 10).rows), std::vector<std::string>{"held"});
  EXPECT_TRUE(instance->held({shard, 78}, 10).rows.empty());
  EXPECT_EQ(store->admin().held_aggregates(10).at(0).head_id, "held");
  EXPECT_EQ(store->admin().list({}, 0, 100).size(), 19u) << "operators see them all";
}

}  // namespace

}  // namespace outbox::postgres
