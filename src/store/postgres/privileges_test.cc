// The roles of docs/databases.md: each can do its whole job, and nothing else.
#include <fstream>
#include <regex>
#include <sstream>

#include "outbox/consumer/consumption.h"
#include "outbox/consumer/idempotent_create.h"
#include "outbox/consumer/inbox.h"
#include "outbox/outbox.h"
#include "store/postgres/test_support.h"

namespace outbox::postgres {
namespace {

// The script as operators paste it: the block of SQL that creates the roles.
std::string grants_of_the_documentation() {
  std::ifstream file(OUTBOX_TEST_ROOT "/docs/databases.md");
  std::ostringstream text;
  text << file.rdbuf();
  const std::string all = text.str();
  const auto roles = all.find("CREATE ROLE outbox_writer");
  if (roles == std::string::npos) throw std::runtime_error("docs/databases.md has no grants");
  return all.substr(roles, all.find("```", roles) - roles);
}

class PostgresPrivilegesTest : public PostgresTest {
 protected:
  void SetUp() override {
    PostgresTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    open_store();
    std::string grants = grants_of_the_documentation();
    grants = std::regex_replace(grants, std::regex("outbox_(writer|dispatcher|janitor|consumer)"),
                                schema() + "_$1");
    grants = std::regex_replace(grants, std::regex("\\bshop\\b"), schema());
    sql().execute(grants);
    for (const char* role : kRoles) {
      sql().execute("ALTER ROLE " + schema() + "_" + role + " LOGIN");
    }
  }

  void TearDown() override {
    for (const char* role : kRoles) {
      const std::string name = schema() + "_" + role;
      sql().execute(
          "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE usename = '" + name +
          "'");
      sql().execute("DROP OWNED BY " + name + "; DROP ROLE " + name);
    }
  }

  std::string url_as(const std::string& role) const {
    return std::regex_replace(test::postgres_url(), std::regex("//postgres@"),
                              "//" + schema() + "_" + role + "@");
  }
  std::shared_ptr<Store> store_as(const std::string& role, Options options = {}) {
    return open_store_at(url_as(role), std::move(options));
  }

  static constexpr const char* kRoles[] = {"writer", "dispatcher", "janitor", "consumer"};
};

TEST_F(PostgresPrivilegesTest, TheWriterWrites) {
  const auto store = store_as("writer", {.migrate = false});
  const auto mine = std::make_shared<test::Sql>(url_as("writer"));
  Listeners nobody;
  Outbox box(store_as("writer"), nobody, {.mode = Mode::writer_only, .log = log_.log()});
  {
    auto tx = box.begin();
    tx.write({.type = "T",
              .aggregate_id = "a",
              .payload = json("{}"),
              .headers = {{"k", "v"}},
              .tenant_id = "t"});
    tx.write_all({{.type = "T", .payload = bytes("1")},
                  {.type = "T", .payload = json("{}"), .deliver_after = 1h}});
    {
      auto part = tx.savepoint();
      tx.write({.type = "T", .payload = json("{}")});
    }
    tx.commit();
  }
  {
    const auto connection = begun(*store);
    const Event events[] = {simple_event("1"), simple_event("2")};
    connection->insert({events, 1}, {.owner = "me"});
    connection->insert({events + 1, 1}, {.owner = "me"});
    connection->commit();
  }
  mine->execute("BEGIN");
  const auto external = wrap(mine->handle(), *store);
  const Event event = simple_event("3");
  external->insert({&event, 1}, {});
  mine->execute("COMMIT");
  EXPECT_EQ(sql().value("SELECT count(*) FROM " + table()), "6");

  const auto connection = begun(*store);
  EXPECT_TRUE(contains(message_of<MisuseError>([&] {
                         connection->insert({&event, 1}, {});
                       }),
                       "(3)"))
      << "an id that is taken is named";
}

TEST_F(PostgresPrivilegesTest, TheDispatcherDelivers) {
  const auto writes = open_store();
  for (const bool claims : {false, true}) {
    sql().execute("TRUNCATE " + table());
    Listeners listeners;
    const auto listener = std::make_shared<testing::RecordingListener>(
        [](const Event& event, const Delivery& delivery) {
          if (event.id() == "dies") throw PermanentError("no");
          if (event.id() == "fails" && delivery.attempt < 2) throw RetryableError("not yet");
          if (event.id() == "waits" && delivery.attempt < 2) throw RetryAfterError("later", 1ms);
          return Outcome::done();
        });
    listeners.add(kGlobalAggregate, "Happened", listener);
    outbox::Options options{.mode = Mode::multi_node,
                            .ordering = claims ? Ordering::none : Ordering::per_aggregate,
                            .row_claims = claims,
                            .log = log_.log()};
    options.poll_interval = 50ms;
    Outbox box(store_as("dispatcher", {.migrate = false}), listeners, std::move(options));
    box.start();
    for (const char* id : {"works", "dies", "fails", "waits"}) {
      write_event(*writes, simple_event(id));
    }
    EXPECT_TRUE(listener->wait_for(6));
    EXPECT_TRUE(box.wait_idle(20s));
    box.close();
    EXPECT_EQ(sql().value("SELECT string_agg(event_id, ' ' ORDER BY event_id) FROM " + table() +
                          " WHERE status = 1"),
              "fails waits works");
    EXPECT_EQ(sql().value("SELECT event_id FROM " + table() + " WHERE status = 3"), "dies");
    EXPECT_EQ(sql().value("SELECT count(*) FROM " + table() + "_instance"), "0");
  }
  for (const auto& line : log_.lines()) {
    EXPECT_EQ(line.text.find("42501"), std::string::npos) << line.text;
  }
}

TEST_F(PostgresPrivilegesTest, TheDispatcherTakesOverAndReadsEverythingAnEngineReads) {
  const auto writes = open_store();
  const auto store = store_as("dispatcher");
  EventFields fields;
  fields.id = "held";
  fields.type = "Happened";
  fields.aggregate_id = "a";
  fields.payload = json("{}");
  fields.occurred_at = fields.available_at = host_clock().now();
  write_event(*writes, Event::restore(fields));
  {
    const auto dead = store->join({.name = "dead"});
    EXPECT_EQ(dead->renew().shards.size(), 16U);
  }
  sql().execute("UPDATE " + table() +
                "_instance SET beat_at = beat_at - interval '1 hour', pid = 1");
  const auto instance = store->join({});
  const Lease lease = instance->renew();
  ASSERT_EQ(lease.shards.size(), 16U);
  for (int i = 0; i < 3; ++i)
    sql().execute("INSERT INTO " + table() + " (event_id, event_type, payload) SELECT '" +
                  std::to_string(i) + "-' || n, 'T', '{}' FROM generate_series(1, 300) AS n");
  Rows rows;
  for (int i = 0; i < 3; ++i) rows = instance->ready(lease.shards, 0, 500);  // looks who writes
  const RowRef row = store->find("held")->row.ref;
  const StatusUpdate aside{
      .row = row, .event_id = "held", .kind = StatusUpdate::Kind::hold, .lane = 7};
  EXPECT_TRUE(instance->apply(lease.epoch, {&aside, 1}).stale.empty());
  EXPECT_EQ(instance->held({row.shard, 7}, 10).rows.size(), 1U);
  EXPECT_EQ(instance->held_lanes(row.shard, 0, 10).size(), 1U);
  instance->due(lease.shards, 10);
  instance->leave();
}

TEST_F(PostgresPrivilegesTest, TheDispatcherMayDeleteWhatIsDeliveredOnlyIfThatIsGranted) {
  const auto writes = open_store();
  const auto store = store_as("dispatcher", {.on_done = OnDone::remove});
  write_event(*writes, simple_event("e"));
  const auto instance = store->join({});
  const Lease lease = instance->renew();
  const StatusUpdate done{.row = store->find("e")->row.ref, .event_id = "e"};
  EXPECT_TRUE(contains(message_of<PermanentError>([&] {
                         instance->apply(lease.epoch, {&done, 1});
                       }),
                       "docs/databases.md"));
  sql().execute("GRANT DELETE ON " + table() + " TO " + schema() + "_dispatcher");
  EXPECT_TRUE(instance->apply(lease.epoch, {&done, 1}).stale.empty());
  EXPECT_FALSE(store->find("e"));
}

TEST_F(PostgresPrivilegesTest, AWriterMayBeAllowedToCreateIdempotently) {
  const auto store = store_as("writer", {.migrate = false});
  Writer writer{store};
  IdempotentCreate create{writer};
  const auto request = [&] {
    return create.run({.key = "k", .body = "order"},
                      [](Transaction&, const NewIds& ids) { return ids.public_id; });
  };
  EXPECT_TRUE(contains(message_of<PermanentError>(request), "docs/databases.md"));
  sql().execute("GRANT SELECT, INSERT, UPDATE, DELETE ON " + table() + "_creation TO " + schema() +
                "_writer");
  EXPECT_TRUE(request().created());
  EXPECT_TRUE(request().repeated());
  EXPECT_EQ(create.purge(), 0);
}

TEST_F(PostgresPrivilegesTest, TheJanitorLooksReplaysDiscardsAndPurges) {
  sql().execute("INSERT INTO " + table() +
                " (event_id, event_type, payload, status, hold, done_at, last_error) SELECT "
                "'e' || i, 'T', '{}', CASE WHEN i > 5 THEN 3 ELSE 1 END, NULL, "
                "now() - interval '1 day', 'no' FROM generate_series(1, 12) AS i");
  const auto store = store_as("janitor", {.migrate = false});
  const auto engine = open_store()->join({.name = "engine"});
  engine->renew();
  EXPECT_EQ(store->counts().dead, 7);
  EXPECT_FALSE(store->has_pending());
  EXPECT_TRUE(store->find("e1"));
  EXPECT_EQ(store->list({}, 0, 100).size(), 12U);
  EXPECT_EQ(store->list({.status = {Status::dead}}, 0, 100).size(), 7U);
  EXPECT_EQ(store->count({}), 12);
  EXPECT_EQ(store->dead_groups({}, 10).size(), 1U);
  EXPECT_EQ(store->members().size(), 1U);
  EXPECT_TRUE(store->held_aggregates(10).empty());
  EXPECT_TRUE(store->replay("e12"));
  EXPECT_EQ(store->replay({.status = {Status::dead}}, 0, 1).rows, 1);
  EXPECT_TRUE(store->discard("e11"));
  EXPECT_EQ(store->discard({}, 0, 1).rows, 1);
  EXPECT_EQ(store->count_purgeable(Purgeable::done, host_clock().now()), 5);
  EXPECT_EQ(store->purge(Purgeable::done, host_clock().now(), 0, 2, true).rows, 2);
  EXPECT_EQ(store->purge(Purgeable::done, host_clock().now(), 0, 2, false).rows, 2);
  EXPECT_EQ(sql().value("SELECT count(*) FROM " + table() + "_archive"), "2");
  EXPECT_TRUE(schema_status(url_as("janitor"), table()).up_to_date());
}

TEST_F(PostgresPrivilegesTest, TheConsumerConsumesAndPurges) {
  const auto store = store_as("consumer", {.migrate = false});
  Writer writer{store};
  Inbox inbox{store, {.retention = 1h}};
  VersionGuard guard{store};
  for (int delivery = 1; delivery <= 2; ++delivery) {
    for (const std::int64_t version : {1, 2}) {
      auto tx = writer.begin();
      const bool first = inbox.once(tx, "billing", std::to_string(version), [] {});
      EXPECT_EQ(first, delivery == 1);
      EXPECT_EQ(guard.advance(tx, "billing", "Order", "o1", version), delivery == 1);
      tx.commit();
    }
  }
  EXPECT_TRUE(inbox.forget("billing", "1"));
  sql().execute("UPDATE " + table() + "_inbox SET consumed_at = consumed_at - interval '2 h'");
  EXPECT_EQ(inbox.purge(), 1);
  const auto tracker = database_tracker(store);
  const auto start = tracker->start("billing", "1");
  EXPECT_TRUE(tracker->abandon("billing", "1", start.fence));
  EXPECT_TRUE(tracker->finish("billing", "1", tracker->start("billing", "1").fence));
}

TEST_F(PostgresPrivilegesTest, NobodyOfThemMayMigrate) {
  sql().execute("DELETE FROM " + table() + "_migration");
  for (const char* role : kRoles) {
    EXPECT_TRUE(contains(message_of<PermanentError>([&] { store_as(role); }), "42501")) << role;
  }
}

TEST_F(PostgresPrivilegesTest, WithoutAnyGrantTheErrorSaysWhatToDo) {
  sql().execute("REVOKE ALL ON SCHEMA " + schema() + " FROM " + schema() + "_writer");
  EXPECT_TRUE(contains(message_of<PermanentError>([&] { store_as("writer"); }),
                       "grant what docs/databases.md lists"));
}

// Each statement is tried by each role; the letters say who may: Writer, Dispatcher,
// Janitor, Consumer. `E` stands for the table of events.
TEST_F(PostgresPrivilegesTest, EveryStatementThatIsNotGrantedIsRefused) {
  struct Case {
    const char* statement;
    std::string allowed;
  };
  const Case cases[] = {
      {"INSERT INTO E (event_id, event_type, payload) VALUES ('x', 'T', '{}')", "W"},
      {"INSERT INTO E (event_id, event_type, payload, status) VALUES ('x', 'T', '{}', 1)", ""},
      {"INSERT INTO E (event_id, event_type, payload, attempts) VALUES ('x', 'T', '{}', 9)", ""},
      {"INSERT INTO E (event_id, event_type, payload, crashes) VALUES ('x', 'T', '{}', 9)", ""},
      {"INSERT INTO E (event_id, event_type, payload, done_at) VALUES ('x', 'T', '{}', now())", ""},
      {"INSERT INTO E (event_id, event_type, payload, last_error) VALUES ('x', 'T', '{}', 'x')",
       ""},
      {"INSERT INTO E (event_id, event_type, payload, progress) VALUES ('x', 'T', '{}', 'x')", ""},
      {"SELECT event_id, seq, shard FROM E", "WDJ"},
      {"SELECT payload FROM E", "DJ"},
      {"SELECT payload_bytes FROM E", "DJ"},
      {"SELECT headers FROM E", "DJ"},
      {"SELECT status FROM E", "DJ"},
      {"SELECT * FROM E", "DJ"},
      {"SELECT event_id FROM E FOR UPDATE", "DJ"},
      {"UPDATE E SET status = 1", "DJ"},
      {"UPDATE E SET hold = 0", "DJ"},
      {"UPDATE E SET locked_by = 'x'", "DJ"},
      {"UPDATE E SET payload = '{}'", ""},
      {"UPDATE E SET payload_bytes = ''", ""},
      {"UPDATE E SET headers = NULL", ""},
      {"UPDATE E SET event_id = 'x'", ""},
      {"UPDATE E SET event_type = 'x'", ""},
      {"UPDATE E SET aggregate_id = 'x'", ""},
      {"UPDATE E SET aggregate_type = 'x'", ""},
      {"UPDATE E SET tenant_id = 'x'", ""},
      {"UPDATE E SET content_type = 'x'", ""},
      {"UPDATE E SET created_at = now()", ""},
      {"DELETE FROM E", "J"},
      {"TRUNCATE E", ""},
      {"LOCK TABLE E IN ACCESS EXCLUSIVE MODE", "J"},
      {"DROP TABLE E", ""},
      {"ALTER TABLE E ADD COLUMN x int", ""},
      {"CREATE INDEX ON E (tenant_id)", ""},
      {"CREATE TRIGGER x BEFORE INSERT ON E EXECUTE FUNCTION suppress_redundant_updates_trigger()",
       ""},
      {"COPY E FROM STDIN", ""},
      {"SELECT last_value FROM E_sequence", "D"},
      {"SELECT nextval('E_sequence')", ""},
      {"SELECT setval('E_sequence', 1)", ""},
      {"SELECT nextval('E_epoch')", "D"},
      {"SELECT setval('E_epoch', 1)", ""},
      {"SELECT * FROM E_instance", "DJ"},
      {"INSERT INTO E_instance (owner, lease, capacity, whole, claims, name, host, pid, process) "
       "VALUES ('x', '1s', 1, false, false, 'x', 'x', 1, 'x')",
       "D"},
      {"UPDATE E_instance SET beat_at = now()", "D"},
      {"UPDATE E_instance SET epoch = 1", ""},
      {"UPDATE E_instance SET owner = 'x'", ""},
      {"DELETE FROM E_instance", "D"},
      {"TRUNCATE E_instance", ""},
      {"SELECT * FROM E_shard", "DJ"},
      {"UPDATE E_shard SET owner = NULL", "D"},
      {"UPDATE E_shard SET shard = 0", ""},
      {"INSERT INTO E_shard (shard) VALUES (99)", ""},
      {"DELETE FROM E_shard", ""},
      {"SELECT * FROM E_migration", "WDJC"},
      {"INSERT INTO E_migration (version, name) VALUES (9, 'x')", ""},
      {"UPDATE E_migration SET version = 9", ""},
      {"DELETE FROM E_migration", ""},
      {"INSERT INTO E_archive (seq, event_id, event_type, status, attempts, crashes, available_at, "
       "created_at) VALUES (1, 'x', 'T', 1, 0, 0, now(), now())",
       "J"},
      {"SELECT * FROM E_archive", ""},
      {"UPDATE E_archive SET payload = '{}'", ""},
      {"DELETE FROM E_archive", ""},
      {"INSERT INTO E_inbox (consumer, event_id, consumed_at) VALUES ('c', 'x', now())", "C"},
      {"SELECT * FROM E_inbox", "C"},
      {"DELETE FROM E_inbox", "C"},
      {"UPDATE E_inbox SET consumed_at = now()", ""},
      {"INSERT INTO E_version (consumer, aggregate_type, aggregate_id, version, seen_at) "
       "VALUES ('c', 'T', 'x', 1, now())",
       "C"},
      {"SELECT * FROM E_version", "C"},
      {"UPDATE E_version SET version = 1", "C"},
      {"UPDATE E_version SET aggregate_id = 'x'", ""},
      {"DELETE FROM E_version", ""},
      {"INSERT INTO E_consumption (consumer, event_id, state, fence, owner, lease_until, "
       "changed_at)"
       " VALUES ('c', 'x', 1, 1, 'o', now(), now())",
       "C"},
      {"SELECT * FROM E_consumption", "C"},
      {"UPDATE E_consumption SET state = 1, fence = 2", "C"},
      {"UPDATE E_consumption SET event_id = 'x'", ""},
      {"DELETE FROM E_consumption", "C"},
      {"SELECT * FROM E_creation", ""},
      {"CREATE TABLE S.mine (x int)", ""},
      {"DROP SCHEMA S CASCADE", ""},
      {"CREATE ROLE S_more", ""},
  };
  for (const char* role : kRoles) {
    test::Sql as(url_as(role));
    for (const Case& each : cases) {
      std::string statement = std::regex_replace(std::string(each.statement),
                                                 std::regex("\\bE(_[a-z]+)?\\b"), table() + "$1");
      statement = std::regex_replace(statement, std::regex("\\bS\\b"), schema());
      as.execute("BEGIN");
      std::string error;
      try {
        as.execute(statement);
      } catch (const std::exception& thrown) {
        error = thrown.what();
      }
      as.execute("ROLLBACK");
      const char letter = static_cast<char>(std::toupper(*role));
      if (each.allowed.find(letter) != std::string::npos) {
        EXPECT_EQ(error, "") << role << ": " << statement;
      } else {
        EXPECT_TRUE(contains(error, "42501")) << role << ": " << statement;
      }
    }
  }
}

}  // namespace
}  // namespace outbox::postgres
