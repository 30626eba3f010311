// The roles of docs/databases.md: each can do its whole job, and nothing else.
#include <cctype>
#include <fstream>
#include <regex>
#include <sstream>

#include "outbox/consumer/consumption.h"
#include "outbox/consumer/idempotent_create.h"
#include "outbox/consumer/inbox.h"
#include "outbox/outbox.h"
#include "outbox/testing.h"
#include "store/mysql/test_support.h"

namespace outbox::mysql {
namespace {

using test::begun;
using test::simple_event;
using test::write_event;

// The script as operators paste it: the block of SQL that creates the roles.
std::string grants_of_the_documentation() {
  std::ifstream file(OUTBOX_TEST_ROOT "/docs/databases.md");
  std::ostringstream text;
  text << file.rdbuf();
  const std::string all = text.str();
  const auto roles = all.find("CREATE ROLE outbox_writer,");
  if (roles == std::string::npos) throw std::runtime_error("docs/databases.md has no grants");
  return all.substr(roles, all.find("```", roles) - roles);
}

class MysqlPrivilegesTest : public MysqlTest {
 protected:
  void SetUp() override {
    MysqlTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    name_ = sql().value("SELECT database()");
    owner_ = open(url());
    std::string grants = grants_of_the_documentation();
    grants = std::regex_replace(grants, std::regex("\\bshop\\b"), name_);
    for (const std::string role : kRoles) {
      grants = std::regex_replace(grants, std::regex("outbox_" + role), role_of(role));
    }
    sql().execute(grants);
    const bool mariadb = sql().value("SELECT version()").find("MariaDB") != std::string::npos;
    for (const char* role : kRoles) {
      const std::string to_user = (mariadb ? " FOR " : " TO ") + user_of(role);
      sql().execute("CREATE USER " + user_of(role));
      sql().execute("GRANT " + role_of(role) + " TO " + user_of(role));
      sql().execute("SET DEFAULT ROLE " + role_of(role) + to_user);
    }
  }

  void TearDown() override {
    if (name_.empty()) return;
    for (const char* role : kRoles) {
      sql().execute("DROP USER IF EXISTS " + user_of(role));
      sql().execute("DROP ROLE IF EXISTS " + role_of(role));
    }
  }

  // Both are short, because MySQL's names of users have 32 characters at most.
  std::string role_of(const std::string& role) const { return name_ + "_" + role[0]; }
  std::string user_of(const std::string& role) const { return role_of(role) + "_u"; }

  std::string url_as(const std::string& role) const {
    return std::regex_replace(url(), std::regex("//root@"), "//" + user_of(role) + "@");
  }
  std::shared_ptr<Store> store_as(const std::string& role, Options options = {.migrate = false}) {
    options.log = log_.log();
    return open(url_as(role), std::move(options));
  }
  Store& owner() { return *owner_; }

  static constexpr const char* kRoles[] = {"writer", "dispatcher", "janitor", "consumer"};
  testing::RecordingLog log_;

 private:
  std::string name_;
  std::shared_ptr<Store> owner_;
};

TEST_F(MysqlPrivilegesTest, TheWriterWrites) {
  const auto store = store_as("writer");
  Listeners nobody;
  Outbox box(store, nobody, {.mode = Mode::writer_only, .log = log_.log()});
  auto tx = box.begin();
  tx.write({.type = "T",
            .aggregate_id = "a",
            .payload = json("{}"),
            .headers = {{"k", "v"}},
            .tenant_id = "t"});
  tx.write_all({{.type = "T", .payload = bytes("1")},
                {.type = "T", .payload = json("{}"), .deliver_after = 1h}});
  tx.commit();
  {
    const auto connection = begun(*store);
    const Event event = simple_event("claimed");
    connection->insert({&event, 1}, {.owner = "me"});
    connection->commit();
  }
  test::Mysql mine(url_as("writer"));
  mine.execute("BEGIN");
  const auto external = wrap(mine.handle(), *store);
  const Event event = simple_event("mine");
  external->insert({&event, 1}, {});
  mine.execute("COMMIT");
  EXPECT_EQ(sql().value("SELECT count(*) FROM outbox_event"), "5");
}

TEST_F(MysqlPrivilegesTest, TheDispatcherDelivers) {
  for (const bool claims : {false, true}) {
    sql().execute("DELETE FROM outbox_event");
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
    Outbox box(store_as("dispatcher"), listeners, std::move(options));
    box.start();
    for (const char* id : {"works", "dies", "fails", "waits"}) {
      write_event(owner(), simple_event(id));
    }
    EXPECT_TRUE(listener->wait_for(6));
    EXPECT_TRUE(box.wait_idle(20s));
    box.close();
    EXPECT_EQ(sql().value("SELECT group_concat(event_id ORDER BY event_id SEPARATOR ' ') FROM "
                          "outbox_event WHERE status = 1"),
              "fails waits works");
    EXPECT_EQ(sql().value("SELECT event_id FROM outbox_event WHERE status = 3"), "dies");
    EXPECT_EQ(sql().value("SELECT count(*) FROM outbox_event_instance"), "0");
  }
  for (const auto& line : log_.lines()) {
    EXPECT_EQ(line.text.find("denied"), std::string::npos) << line.text;
  }
}

TEST_F(MysqlPrivilegesTest, TheDispatcherTakesOverAndReadsEverythingAnEngineReads) {
  const auto store = store_as("dispatcher");
  write_event(owner(), simple_event("held"));
  {
    const auto dead = store->join({.name = "dead"});
    EXPECT_EQ(dead->renew().shards.size(), 16U);
  }
  sql().execute("UPDATE outbox_event_instance SET beat_at = beat_at - INTERVAL 1 HOUR, pid = 1");
  const auto instance = store->join({});
  const Lease lease = instance->renew();
  ASSERT_EQ(lease.shards.size(), 16U);
  EXPECT_EQ(instance->ready(lease.shards, 0, 10).rows.size(), 1U);
  const RowRef row = store->find("held")->row.ref;
  const StatusUpdate aside{
      .row = row, .event_id = "held", .kind = StatusUpdate::Kind::hold, .lane = 7};
  EXPECT_TRUE(instance->apply(lease.epoch, {&aside, 1}).stale.empty());
  EXPECT_EQ(instance->held({row.shard, 7}, 10).rows.size(), 1U);
  EXPECT_EQ(instance->held_lanes(row.shard, 0, 10).size(), 1U);
  instance->due(lease.shards, 10);
  instance->leave();
}

TEST_F(MysqlPrivilegesTest, TheDispatcherMayDeleteWhatIsDeliveredOnlyIfThatIsGranted) {
  write_event(owner(), simple_event("e"));
  const auto join_and_finish = [&] {
    const auto store = store_as("dispatcher", {.on_done = OnDone::remove, .migrate = false});
    const auto instance = store->join({});
    const Lease lease = instance->renew();
    const StatusUpdate done{.row = store->find("e")->row.ref, .event_id = "e"};
    EXPECT_TRUE(instance->apply(lease.epoch, {&done, 1}).stale.empty());
    instance->leave();
  };
  EXPECT_TRUE(contains(message_of<PermanentError>(join_and_finish), "docs/databases.md"));
  sql().execute("DELETE FROM outbox_event_instance");
  sql().execute("UPDATE outbox_event_shard SET epoch = NULL");
  sql().execute("GRANT DELETE ON outbox_event TO " + role_of("dispatcher"));
  join_and_finish();
  EXPECT_FALSE(owner().find("e"));
}

TEST_F(MysqlPrivilegesTest, AWriterMayBeAllowedToCreateIdempotently) {
  const auto store = store_as("writer", {.migrate = false});
  Writer writer{store};
  IdempotentCreate create{writer};
  const auto request = [&] {
    return create.run({.key = "k", .body = "order"},
                      [](Transaction&, const NewIds& ids) { return ids.public_id; });
  };
  EXPECT_TRUE(contains(message_of<PermanentError>(request), "docs/databases.md"));
  sql().execute("GRANT SELECT, INSERT, UPDATE, DELETE ON outbox_event_creation TO " +
                role_of("writer"));
  EXPECT_TRUE(request().created());
  EXPECT_TRUE(request().repeated());
  EXPECT_EQ(create.purge(), 0);
}

TEST_F(MysqlPrivilegesTest, TheJanitorLooksReplaysDiscardsAndPurges) {
  for (int i = 1; i <= 12; ++i) {
    sql().execute(
        "INSERT INTO outbox_event (event_id, event_type, payload, status, hold, done_at, "
        "last_error) VALUES ('e" +
        std::to_string(i) + "', 'T', '{}', " + (i > 5 ? "3" : "1") +
        ", NULL, utc_timestamp(6) - INTERVAL 1 DAY, 'no')");
  }
  const auto store = store_as("janitor");
  const auto engine = owner().join({.name = "engine"});
  engine->renew();
  EXPECT_EQ(store->counts().dead, 7);
  EXPECT_FALSE(store->has_pending());
  EXPECT_TRUE(store->find("e1"));
  EXPECT_EQ(store->list({}, 0, 100).size(), 12U);
  EXPECT_EQ(store->count({.status = {Status::dead}}), 7);
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
  EXPECT_EQ(sql().value("SELECT count(*) FROM outbox_event_archive"), "2");
  EXPECT_TRUE(schema_status(url_as("janitor")).up_to_date());
}

TEST_F(MysqlPrivilegesTest, TheConsumerConsumesAndPurges) {
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
  sql().execute("UPDATE outbox_event_inbox SET consumed_at = consumed_at - INTERVAL 2 HOUR");
  EXPECT_EQ(inbox.purge(), 1);
  const auto tracker = database_tracker(store);
  const auto start = tracker->start("billing", "1");
  EXPECT_TRUE(tracker->abandon("billing", "1", start.fence));
  EXPECT_TRUE(tracker->finish("billing", "1", tracker->start("billing", "1").fence));
}

TEST_F(MysqlPrivilegesTest, NobodyOfThemMayMigrate) {
  sql().execute("DELETE FROM outbox_event_migration");
  for (const char* role : kRoles) {
    EXPECT_TRUE(contains(message_of<PermanentError>([&] { store_as(role, {}); }), "denied"))
        << role;
  }
}

// Each statement is tried by each role; the letters say who may: Writer, Dispatcher,
// Janitor, Consumer. `E` stands for the table of events.
TEST_F(MysqlPrivilegesTest, EveryStatementThatIsNotGrantedIsRefused) {
  struct Case {
    const char* statement;
    std::string allowed;
  };
  const Case cases[] = {
      {"INSERT INTO E (event_id, event_type, payload) VALUES ('x', 'T', '{}')", "W"},
      {"INSERT INTO E (event_id, event_type, payload, seq) VALUES ('x', 'T', '{}', 1)", ""},
      {"INSERT INTO E (event_id, event_type, payload, status) VALUES ('x', 'T', '{}', 1)", ""},
      {"INSERT INTO E (event_id, event_type, payload, attempts) VALUES ('x', 'T', '{}', 9)", ""},
      {"INSERT INTO E (event_id, event_type, payload, crashes) VALUES ('x', 'T', '{}', 9)", ""},
      {"INSERT INTO E (event_id, event_type, payload, done_at) VALUES ('x', 'T', '{}', now())", ""},
      {"INSERT INTO E (event_id, event_type, payload, last_error) VALUES ('x', 'T', '{}', 'x')",
       ""},
      {"INSERT INTO E (event_id, event_type, payload, progress) VALUES ('x', 'T', '{}', 'x')", ""},
      {"REPLACE INTO E (event_id, event_type, payload) VALUES ('x', 'T', '{}')", ""},
      {"SELECT event_id FROM E", "DJ"},
      {"SELECT payload FROM E", "DJ"},
      {"SELECT * FROM E", "DJ"},
      {"SELECT event_id FROM E FOR UPDATE", "DJ"},
      {"UPDATE E SET status = 2", "DJ"},
      {"UPDATE E SET hold = 0", "DJ"},
      {"UPDATE E SET locked_by = 'x'", "DJ"},
      {"UPDATE E SET seq = 1", ""},
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
      {"LOCK TABLES E WRITE", ""},
      {"DROP TABLE E", ""},
      {"ALTER TABLE E ADD COLUMN x INT", ""},
      {"CREATE INDEX x ON E (tenant_id)", ""},
      {"CREATE TRIGGER x BEFORE INSERT ON E FOR EACH ROW SET NEW.hold = 0", ""},
      {"SELECT * FROM E_instance", "DJ"},
      {"INSERT INTO E_instance (owner, lease, capacity, whole, claims, name, host, pid, process) "
       "VALUES ('x', 1, 1, 0, 0, 'x', 'x', 1, 'x')",
       "D"},
      {"UPDATE E_instance SET beat_at = now()", "D"},
      {"UPDATE E_instance SET epoch = 1", ""},
      {"UPDATE E_instance SET owner = 'x'", ""},
      {"DELETE FROM E_instance", "D"},
      {"TRUNCATE E_instance", ""},
      {"SELECT * FROM E_shard", "DJ"},
      {"UPDATE E_shard SET epoch = NULL", "D"},
      {"UPDATE E_shard SET shard = 0", ""},
      {"INSERT INTO E_shard (shard) VALUES (99)", ""},
      {"DELETE FROM E_shard", ""},
      {"SELECT * FROM E_flush", "D"},
      {"UPDATE E_flush SET flushes = flushes + 1 WHERE shard = 0", "D"},
      {"UPDATE E_flush SET shard = 0", ""},
      {"INSERT INTO E_flush (shard) VALUES (99)", ""},
      {"DELETE FROM E_flush", ""},
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
      {"UPDATE E_version SET aggregate_id = 'x'", "C"},
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
      {"CREATE TABLE mine (x INT)", ""},
      {"CREATE USER nobody", ""},
  };
  for (const char* role : kRoles) {
    test::Mysql as(url_as(role));
    for (const Case& each : cases) {
      const std::string statement = std::regex_replace(
          std::string(each.statement), std::regex("\\bE(_[a-z]+)?\\b"), "outbox_event$1");
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
        const bool refused = error.find("denied") != std::string::npos ||
                             error.find("SUPER privilege") != std::string::npos;
        EXPECT_TRUE(refused) << role << ": " << statement << ": " << error;
      }
    }
  }
}

}  // namespace
}  // namespace outbox::mysql
