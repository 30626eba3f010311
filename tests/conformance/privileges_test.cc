// The roles of docs/databases.md: each can do its whole job, and nothing else.
#include <cctype>
#include <fstream>
#include <regex>
#include <sstream>
#include <stdexcept>

#include "network.h"
#include "outbox/consumer/consumption.h"
#include "outbox/consumer/idempotent_create.h"
#include "outbox/consumer/inbox.h"
#include "outbox/outbox.h"
#include "support/stores.h"

namespace outbox::conformance {

using test::begun;
using test::contains;
using test::message_of;
using test::simple_event;
using test::write_event;

std::string documented_grants(const std::string& script) {
  std::ifstream file(OUTBOX_TEST_ROOT "/docs/databases.md");
  std::ostringstream text;
  text << file.rdbuf();
  const std::string all = text.str();
  const auto roles = all.find(script);
  if (roles == std::string::npos) throw std::runtime_error("docs/databases.md has no " + script);
  return all.substr(roles, all.find("```", roles) - roles);
}

void PrivilegesTest::SetUp() {
  RemoteTest::SetUp();
  if (HasFatalFailure() || IsSkipped()) return;
  owners_ = open_store();
  roles_ = remote().make_roles();
}

namespace {

TEST_P(PrivilegesTest, TheWriterWrites) {
  const auto store = store_as("writer");
  Listeners nobody;
  Outbox box(store_as("writer", {}), nobody, {.mode = Mode::writer_only, .log = log_.log()});
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
  const auto mine = database().connect(roles_->url_as("writer"));
  mine->execute("BEGIN");
  const auto external = mine->wrapped(*store);
  const Event event = simple_event("mine");
  external->insert({&event, 1}, {});
  mine->execute("COMMIT");
  EXPECT_EQ(value("SELECT count(*) FROM {table}"), "6");

  const auto connection = begun(*store);
  EXPECT_TRUE(contains(message_of<MisuseError>([&] {
                         connection->insert({&event, 1}, {});
                       }),
                       "mine"))
      << "an id that is taken is named";
}

TEST_P(PrivilegesTest, TheDispatcherDelivers) {
  for (const bool claims : {false, true}) {
    run("DELETE FROM {table}");
    Listeners listeners;
    const auto listener = std::make_shared<testing::RecordingListener>(
        [](const Event& event, const Delivery& delivery) {
          if (event.id() == "dies") throw PermanentError("no");
          if (event.id() == "fails" && delivery.attempt < 2) throw RetryableError("not yet");
          if (event.id() == "waits" && delivery.attempt < 2) throw RetryAfterError("later", 1ms);
          return Outcome::done();
        });
    listeners.add(kGlobalAggregate, "Happened", listener);
    Options options{.mode = Mode::multi_node,
                    .ordering = claims ? Ordering::none : Ordering::per_aggregate,
                    .row_claims = claims,
                    .log = log_.log()};
    options.poll_interval = 50ms;
    Outbox box(store_as("dispatcher"), listeners, std::move(options));
    box.start();
    for (const char* id : {"works", "dies", "fails", "waits"}) {
      write_event(*owners_, simple_event(id));
    }
    EXPECT_TRUE(listener->wait_for(6));
    EXPECT_TRUE(box.wait_idle(20s));
    box.close();
    for (const char* id : {"fails", "waits", "works"}) {
      EXPECT_EQ(value(std::string("SELECT status FROM {table} WHERE event_id = '") + id + "'"),
                "1");
    }
    EXPECT_EQ(value("SELECT event_id FROM {table} WHERE status = 3"), "dies");
    EXPECT_EQ(value("SELECT count(*) FROM {table}_instance"), "0");
  }
  for (const auto& line : log_.lines()) EXPECT_FALSE(remote().is_denial(line.text)) << line.text;
}

TEST_P(PrivilegesTest, TheDispatcherTakesOverAndReadsEverythingAnEngineReads) {
  const auto store = store_as("dispatcher");
  write_event(*owners_, event({.id = "held", .type = "Happened", .aggregate_id = "a"}));
  {
    const auto dead = store->join({.name = "dead"});
    EXPECT_EQ(dead->renew().shards.size(), 16U);
  }
  advance(1h);
  run("UPDATE {table}_instance SET pid = 1");
  const auto instance = store->join({});
  const Lease lease = instance->renew();
  ASSERT_EQ(lease.shards.size(), 16U);
  EXPECT_EQ(instance->ready(lease.shards, 0, 10).rows.size(), 1U);
  // So many that the reader looks who writes.
  for (int i = 0; i < 3; ++i) {
    std::vector<Event> events;
    for (int n = 0; n < 300; ++n) {
      events.push_back(simple_event(std::to_string(i) + "-" + std::to_string(n)));
    }
    const auto connection = begun(*owners_);
    connection->insert(events, {});
    connection->commit();
  }
  for (int i = 0; i < 3; ++i) instance->ready(lease.shards, 0, 500);
  const RowRef row = store->admin().find("held")->row.ref;
  const StatusUpdate hold{
      .row = row, .event_id = "held", .kind = StatusUpdate::Kind::hold, .lane = 7};
  EXPECT_TRUE(instance->apply(lease.epoch, {&hold, 1}).stale.empty());
  EXPECT_EQ(instance->held({row.shard, 7}, 10).rows.size(), 1U);
  EXPECT_EQ(instance->held_lanes(row.shard, 0, 10).size(), 1U);
  instance->due(lease.shards, 10);
  instance->leave();
}

TEST_P(PrivilegesTest, TheDispatcherMayDeleteWhatIsDeliveredOnlyIfThatIsGranted) {
  write_event(*owners_, simple_event("e"));
  const auto finish = [&] {
    const auto store = store_as("dispatcher", {.migrate = false, .remove_done = true});
    const auto instance = store->join({});
    const Lease lease = instance->renew();
    const StatusUpdate done{.row = store->admin().find("e")->row.ref, .event_id = "e"};
    try {
      EXPECT_TRUE(instance->apply(lease.epoch, {&done, 1}).stale.empty());
    } catch (...) {
      instance->leave();
      throw;
    }
    instance->leave();
  };
  EXPECT_TRUE(contains(message_of<PermanentError>(finish), "docs/databases.md"));
  run("GRANT DELETE ON {table} TO " + roles_->name("dispatcher"));
  finish();
  EXPECT_FALSE(owners_->admin().find("e"));
}

TEST_P(PrivilegesTest, AWriterMayBeAllowedToCreateIdempotently) {
  const auto store = store_as("writer");
  Writer writer{store};
  IdempotentCreate create{writer};
  const auto request = [&] {
    return create.run({.key = "k", .body = "order"},
                      [](Transaction&, const NewIds& ids) { return ids.public_id; });
  };
  EXPECT_TRUE(contains(message_of<PermanentError>(request), "docs/databases.md"));
  run("GRANT SELECT, INSERT, UPDATE, DELETE ON {table}_creation TO " + roles_->name("writer"));
  EXPECT_TRUE(request().created());
  EXPECT_TRUE(request().repeated());
  EXPECT_EQ(create.purge(), 0);
}

TEST_P(PrivilegesTest, TheJanitorLooksReplaysDiscardsAndPurges) {
  for (int i = 1; i <= 12; ++i) {
    run("INSERT INTO {table} (event_id, event_type, payload, status, hold, done_at, last_error) "
        "VALUES ('e" +
        std::to_string(i) + "', 'T', '{}', " + (i > 5 ? "3" : "1") + ", NULL, " +
        backend().sql_words()->a_day_ago + ", 'no')");
  }
  const auto store = store_as("janitor");
  const auto engine = owners_->join({.name = "engine"});
  engine->renew();
  EXPECT_EQ(store->counts().dead, 7);
  EXPECT_FALSE(store->has_pending());
  EXPECT_TRUE(store->admin().find("e1"));
  EXPECT_EQ(store->admin().list({}, 0, 100).size(), 12U);
  EXPECT_EQ(store->admin().list({.status = {Status::dead}}, 0, 100).size(), 7U);
  EXPECT_EQ(store->admin().count({}), 12);
  EXPECT_EQ(store->admin().count({.status = {Status::dead}}), 7);
  EXPECT_EQ(store->admin().dead_groups({}, 10).size(), 1U);
  EXPECT_EQ(store->admin().members().size(), 1U);
  EXPECT_TRUE(store->admin().held_aggregates(10).empty());
  EXPECT_TRUE(store->admin().replay("e12"));
  EXPECT_EQ(store->admin().replay({.status = {Status::dead}}, 0, 1).rows, 1);
  EXPECT_TRUE(store->admin().discard("e11"));
  EXPECT_EQ(store->admin().discard({}, 0, 1).rows, 1);
  EXPECT_EQ(store->admin().count_purgeable(Purgeable::done, host_clock().now()), 5);
  EXPECT_EQ(store->admin().purge(Purgeable::done, host_clock().now(), 0, 2, true).rows, 2);
  EXPECT_EQ(store->admin().purge(Purgeable::done, host_clock().now(), 0, 2, false).rows, 2);
  EXPECT_EQ(value("SELECT count(*) FROM {table}_archive"), "2");
  EXPECT_TRUE(database().schema_status(roles_->url_as("janitor")).up_to_date());
}

TEST_P(PrivilegesTest, TheConsumerConsumesAndPurges) {
  const auto store = store_as("consumer");
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
  run("UPDATE {table}_inbox SET consumed_at = " + backend().sql_words()->a_day_ago);
  EXPECT_EQ(inbox.purge(), 1);
  const auto tracker = database_tracker(store);
  const auto start = tracker->start("billing", "1");
  EXPECT_TRUE(tracker->abandon("billing", "1", start.fence));
  EXPECT_TRUE(tracker->finish("billing", "1", tracker->start("billing", "1").fence));
}

TEST_P(PrivilegesTest, NobodyOfThemMayMigrate) {
  run("DELETE FROM {table}_migration");
  for (const char* role : kRoles) {
    EXPECT_TRUE(remote().is_denial(message_of<PermanentError>([&] { store_as(role, {}); })))
        << role;
  }
}

TEST_P(PrivilegesTest, WithoutAnyGrantTheErrorSaysWhatToDo) {
  roles_->revoke_everything("writer");
  EXPECT_TRUE(contains(message_of<PermanentError>([&] { store_as("writer", {}); }),
                       "grant what docs/databases.md lists"));
}

// Each statement is tried by each role.
TEST_P(PrivilegesTest, EveryStatementThatIsNotGrantedIsRefused) {
  std::vector<Permission> permissions{
      {"INSERT INTO E (event_id, event_type, payload) VALUES ('x', 'T', '{}')", "W"},
      {"INSERT INTO E (event_id, event_type, payload, status) VALUES ('x', 'T', '{}', 1)", ""},
      {"INSERT INTO E (event_id, event_type, payload, attempts) VALUES ('x', 'T', '{}', 9)", ""},
      {"INSERT INTO E (event_id, event_type, payload, crashes) VALUES ('x', 'T', '{}', 9)", ""},
      {"INSERT INTO E (event_id, event_type, payload, done_at) VALUES ('x', 'T', '{}', now())", ""},
      {"INSERT INTO E (event_id, event_type, payload, last_error) VALUES ('x', 'T', '{}', 'x')",
       ""},
      {"INSERT INTO E (event_id, event_type, payload, progress) VALUES ('x', 'T', '{}', 'x')", ""},
      {"SELECT payload FROM E", "DJ"},
      {"SELECT payload_bytes FROM E", "DJ"},
      {"SELECT headers FROM E", "DJ"},
      {"SELECT status FROM E", "DJ"},
      {"SELECT * FROM E", "DJ"},
      {"SELECT event_id FROM E FOR UPDATE", "DJ"},
      {"UPDATE E SET status = 2", "DJ"},
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
      {"DROP TABLE E", ""},
      {"ALTER TABLE E ADD COLUMN x int", ""},
      {"CREATE INDEX x ON E (tenant_id)", ""},
      {"SELECT * FROM E_instance", "DJ"},
      {"UPDATE E_instance SET beat_at = now()", "D"},
      {"UPDATE E_instance SET epoch = 1", ""},
      {"UPDATE E_instance SET owner = 'x'", ""},
      {"DELETE FROM E_instance", "D"},
      {"TRUNCATE E_instance", ""},
      {"SELECT * FROM E_shard", "DJ"},
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
  };
  const std::vector<Permission> own = remote().own_permissions();
  permissions.insert(permissions.end(), own.begin(), own.end());
  for (const char* role : kRoles) {
    const auto as = database().connect(roles_->url_as(role));
    for (const Permission& each : permissions) {
      const std::string statement = std::regex_replace(
          each.statement, std::regex("\\bE(_[a-z]+)?\\b"), database().table() + "$1");
      as->execute("BEGIN");
      std::string error;
      try {
        as->execute(statement);
      } catch (const std::exception& thrown) {
        error = thrown.what();
      }
      as->execute("ROLLBACK");
      const char letter = static_cast<char>(std::toupper(*role));
      if (each.roles.find(letter) != std::string::npos) {
        EXPECT_EQ(error, "") << role << ": " << statement;
      } else {
        EXPECT_TRUE(remote().is_denial(error)) << role << ": " << statement << ": " << error;
      }
    }
  }
}

}  // namespace

// Where no store with a server is built.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(PrivilegesTest);

}  // namespace outbox::conformance
