#include <algorithm>
#include <future>
#include <set>
#include <vector>

#include "model/registration.h"
#include "outbox/error.h"
#include "outbox/outbox.h"
#include "store/postgres/sql.h"
#include "store/postgres/store_config.h"
#include "store/postgres/test_support.h"
#include "support/tcp_proxy.h"

namespace outbox::postgres {
namespace {

using PostgresClaimsTest = PostgresTest;

// Rule 26: the first one has locked its rows and changed one of them when it is held up.
TEST_F(PostgresClaimsTest, AClaimerInTheMiddleOfItsClaimBlocksNoOther) {
  const auto store = open_store();
  for (int i = 0; i < 20; ++i) write_event(*store, simple_event(std::to_string(i)));
  const std::string key = "hashtext('" + schema() + "')";
  sql().execute("CREATE SEQUENCE " + schema() + ".changes; CREATE FUNCTION " + schema() +
                ".wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF nextval('" + schema() +
                ".changes') = 1 THEN PERFORM pg_advisory_xact_lock(" + key +
                "); END IF; RETURN NEW; END $$; CREATE TRIGGER wait BEFORE UPDATE ON " + table() +
                " FOR EACH ROW EXECUTE FUNCTION " + schema() + ".wait()");
  const auto join = [&] {
    auto claimer = store->join({.row_claims = true});
    EXPECT_NE(claimer->renew().epoch, 0);
    return claimer;
  };
  const auto first = join();
  const auto second = join();
  constexpr std::size_t kHalf = 10;
  const auto claim = [](Instance& claimer) {
    return std::async(std::launch::async, [&] { return ids(claimer.claim(0ms, kHalf).rows); });
  };
  test::Sql holder;
  holder.execute("BEGIN; SELECT pg_advisory_xact_lock(" + key + ")");
  auto held_up = claim(*first);
  ASSERT_TRUE(eventually([&] { return test::is_waited_for(sql(), holder); }));
  auto other = claim(*second);
  EXPECT_EQ(other.wait_for(20s), std::future_status::ready) << "it waits for the first one's locks";
  EXPECT_EQ(held_up.wait_for(0s), std::future_status::timeout);
  holder.execute("COMMIT");
  const std::vector<std::string> of_first = held_up.get();
  const std::vector<std::string> of_second = other.get();
  EXPECT_EQ(of_first.size(), kHalf);
  EXPECT_EQ(of_second.size(), kHalf);
  std::set<std::string> all(of_first.begin(), of_first.end());
  all.insert(of_second.begin(), of_second.end());
  EXPECT_EQ(all.size(), 2 * kHalf) << "a row was claimed twice";
}

using PostgresHistoryTest = PostgresTest;

TEST_F(PostgresHistoryTest, AConnectionToAnotherPastIsRefusedUntilTheInstanceHasRegisteredThere) {
  const auto config = std::make_shared<StoreConfig>(test::postgres_url());
  config->options.prepare = true;
  config->server->tells_history = true;
  Registration registered;
  Database database(config);
  database.hold_to(registered);

  database.ensure_connected();  // nothing is registered
  const std::string here(database.run(kTimeline).text(0, 0));
  database.drop();
  registered.set(1, "me", "FFFFFFFF");
  try {
    database.ensure_connected();
    ADD_FAILURE() << "connected to another past";
  } catch (const RetryableError& error) {
    EXPECT_NE(std::string(error.what()).find("timeline " + here), std::string::npos)
        << error.what();
  }
  registered.set(1, "me", here);
  database.ensure_connected();
}

TEST_F(PostgresHistoryTest, AServerThatDoesNotTellIsTakenAsItIs) {
  const auto config = std::make_shared<StoreConfig>(test::postgres_url());
  Registration registered;
  registered.set(1, "me", "FFFFFFFF");
  Database database(config);
  database.hold_to(registered);
  EXPECT_TRUE(database.ensure_connected());
}

TEST(RegisteredHistoryTest, OnceARegistrationIsOverItsServerIsStillTheOnlyOne) {
  Registration registered;
  registered.set(3, "me", "timeline 1");
  EXPECT_EQ(registered.epoch(), 3);
  registered.end();
  EXPECT_EQ(registered.epoch(), 0);
  EXPECT_TRUE(registered.is_elsewhere("timeline 2"));
}

// Servers that are not the ones any more, or not what they were.

class PostgresFailoverTest : public PostgresTest {
 protected:
  // Statements find functions of this schema before the server's own, so that the test says
  // which timeline it is.
  void SetUp() override {
    PostgresTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    sql().execute("CREATE TABLE " + schema() + ".timeline AS SELECT '00000001'::text AS name");
    sql().execute("CREATE FUNCTION " + schema() +
                  ".pg_walfile_name(pg_lsn) RETURNS text LANGUAGE sql AS $$ SELECT name || "
                  "'0000000000000001' FROM " +
                  schema() + ".timeline $$");
    name_ = "application_name=" + schema();
    url_ = test::postgres_url() + "?" + name_ + "&options=-csearch_path%3D" + schema() +
           ",pg_catalog,public";
  }

  void promote(const std::string& timeline) {
    sql().execute("UPDATE " + schema() + ".timeline SET name = '" + timeline + "'");
  }

  void insert(const std::string& id) {
    sql().execute("INSERT INTO " + table() + " (event_id, event_type, payload) VALUES ('" + id +
                  "', 'T', '{}')");
  }

  // Reads and updates what is there; in batches, so that the floor rises.
  static std::vector<std::string> deliver(Instance& instance, const Lease& lease) {
    std::vector<std::string> delivered;
    Rows rows;
    do {
      rows = instance.ready(lease.shards, 0, 100);
      std::vector<StatusUpdate> updates;
      for (const Row& row : rows.rows) {
        updates.push_back({.row = row.ref, .event_id = row.event.id()});
        delivered.push_back(row.event.id());
      }
      EXPECT_FALSE(instance.apply(lease.epoch, updates).fenced);
    } while (rows.more);
    return delivered;
  }

  // How many connections of this test's stores are older than that.
  int older_than(const std::string& time) {
    return std::stoi(
        sql().value("SELECT count(*) FROM pg_stat_activity WHERE application_name = '" + schema() +
                    "' AND backend_start < '" + time + "'"));
  }

  std::string name_;
  std::string url_;
};

TEST_F(PostgresFailoverTest, AfterALeaveTheInstanceRegistersAgainOnNewConnections) {
  const auto store = open_store_at(url_);
  const auto watch = store->watch([] {});
  const auto instance = store->join({});
  const Lease before = instance->renew();
  insert("1");
  EXPECT_EQ(deliver(*instance, before).size(), 1u);
  EXPECT_TRUE(eventually([&] { return older_than(sql().value("SELECT clock_timestamp()")) >= 4; }))
      << "ownership, reading, updating, listening";
  const std::string noted = sql().value("SELECT clock_timestamp()");
  instance->leave();
  const Lease after = instance->renew();
  EXPECT_GT(after.epoch, before.epoch);
  EXPECT_EQ(after.shards.size(), 16u);
  insert("2");
  EXPECT_EQ(deliver(*instance, after), std::vector<std::string>{"2"});
  EXPECT_TRUE(eventually([&] { return older_than(noted) == 0; })) << older_than(noted);
}

TEST_F(PostgresFailoverTest, ARenewalAloneMakesNoNewConnections) {
  const auto store = open_store_at(url_, {.notify = false});
  const auto instance = store->join({});
  const Lease lease = instance->renew();
  insert("1");
  deliver(*instance, lease);
  const std::string noted = sql().value("SELECT clock_timestamp()");
  EXPECT_TRUE(eventually([&] { return older_than(noted) == 3; })) << "ownership, reading, updating";
  instance->renew();
  insert("2");
  deliver(*instance, lease);
  EXPECT_EQ(older_than(noted), 3);
}

TEST_F(PostgresFailoverTest, AnEpochIsNeverGivenOutTwiceToOneInstance) {
  const auto store = open_store_at(url_);
  const auto instance = store->join({});
  const Lease before = instance->renew();
  // As after a failover that lost registrations.
  sql().execute("SELECT setval('" + table() + "_epoch', 1, false)");
  instance->leave();
  EXPECT_GT(instance->renew().epoch, before.epoch);
}

TEST_F(PostgresFailoverTest, ANewTimelineEndsTheEpochAndAllThatWasKnownOfTheRows) {
  const auto store = open_store_at(url_, {.notify = false});
  const auto instance = store->join({});
  const Lease before = instance->renew();
  sql().execute("INSERT INTO " + table() +
                " (event_id, event_type, payload) SELECT 'lost' || i, 'T', '{}' "
                "FROM generate_series(1, 3000) AS i");
  EXPECT_EQ(deliver(*instance, before).size(), 3'000u);
  EXPECT_TRUE(deliver(*instance, before).empty());
  EXPECT_EQ(instance->renew().epoch, before.epoch);

  // The numbers are given out again.
  sql().execute("DELETE FROM " + table() + "; ALTER TABLE " + table() +
                " ALTER COLUMN seq RESTART WITH 5; SELECT setval('" + table() +
                "_epoch', 1, false)");
  promote("00000002");
  const Lease after = instance->renew();
  EXPECT_GT(after.epoch, before.epoch);
  EXPECT_EQ(after.shards.size(), 16u);
  EXPECT_TRUE(deliver(*instance, after).empty());
  for (int i = 0; i < 20; ++i) {
    const std::string id = "new" + std::to_string(i);
    insert(id);
    EXPECT_EQ(deliver(*instance, after), std::vector<std::string>{id});
  }
  const StatusUpdate late{.row = {.seq = 5}, .event_id = "new0", .kind = StatusUpdate::Kind::dead};
  EXPECT_TRUE(instance->apply(before.epoch, {&late, 1}).fenced) << "of the other past";
  EXPECT_EQ(instance->renew().epoch, after.epoch) << "and it stays";
}

// The connection to a pooler stays when the server behind it changes.
TEST_F(PostgresFailoverTest, WhereConnectionsDoNotTellAReadNoticesTheNewTimelineByItself) {
  const auto store = open_store_at(url_, {.prepare = false, .notify = false});
  const auto instance = store->join({});
  const Lease lease = instance->renew();
  sql().execute("INSERT INTO " + table() +
                " (event_id, event_type, payload) SELECT 'lost' || i, 'T', '{}' "
                "FROM generate_series(1, 3000) AS i");
  EXPECT_EQ(deliver(*instance, lease).size(), 3'000u);
  EXPECT_TRUE(deliver(*instance, lease).empty());
  sql().execute("DELETE FROM " + table() + "; ALTER TABLE " + table() +
                " ALTER COLUMN seq RESTART WITH 5");
  promote("00000002");
  for (int i = 0; i < 20; ++i) {
    const std::string id = "new" + std::to_string(i);
    insert(id);
    const std::vector<std::string> found = ids(instance->ready(lease.shards, 0, 100).rows);
    EXPECT_EQ(std::count(found.begin(), found.end(), id), 1) << "it was passed over";
  }
}

TEST_F(PostgresFailoverTest, AServerThatDoesNotTellItsTimelineIsUsedWithoutIt) {
  sql().execute("CREATE OR REPLACE FUNCTION " + schema() +
                ".pg_walfile_name(pg_lsn) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE "
                "EXCEPTION 'not here' USING ERRCODE = '0A000'; END $$");
  const auto store = open_store_at(url_);
  const auto instance = store->join({});
  const Lease lease = instance->renew();
  EXPECT_NE(lease.epoch, 0);
  EXPECT_EQ(instance->renew().epoch, lease.epoch);
  EXPECT_TRUE(log_.contains("does not report its timeline"));
}

TEST_F(PostgresFailoverTest, AfterALeaveThatFailedTheInstanceRegistersAgain) {
  test::TcpProxy proxy("127.0.0.1", test::port_of(test::postgres_url()));
  const auto store = open_store_at(test::with_port(url_, proxy.port()), {.notify = false});
  const auto instance = store->join({.lease = 60s});
  const Lease before = instance->renew();
  ASSERT_EQ(before.shards.size(), 16u);
  proxy.refuse();
  proxy.cut();
  EXPECT_THROW(instance->leave(), RetryableError);
  EXPECT_THROW(instance->leave(), RetryableError) << "it may be tried again";
  proxy.admit();
  Lease after;
  EXPECT_TRUE(eventually([&] {
    try {
      after = instance->renew();
      return true;
    } catch (const RetryableError&) {
      return false;
    }
  }));
  EXPECT_GT(after.epoch, before.epoch);
  EXPECT_EQ(after.shards.size(), 16u) << "its own old registration does not stand in its way";
  instance->leave();
  EXPECT_EQ(sql().value("SELECT count(*) FROM " + table() + "_instance"), "0");
}

// As after a failover: it is a standby now.
TEST_F(PostgresFailoverTest, AConnectionToAServerThatTakesNoWritesIsGivenUp) {
  const auto store = open_store();
  const auto config = std::make_shared<StoreConfig>(test::postgres_url());
  config->table = TableName::parse(table());
  config->options.prepare = true;
  Database engine(config);
  engine.session().run_script("SET default_transaction_read_only = on", "set");
  const int before = PQbackendPID(engine.handle());
  const std::string write = "DELETE FROM " + table();
  EXPECT_THROW(engine.session().run_script(write, "write"), RetryableError);
  EXPECT_NO_THROW(engine.session().run_script(write, "write"));
  EXPECT_NE(PQbackendPID(engine.handle()), before);

  const auto backend = [&] {
    const auto connection = store->connect();
    return connection->query("SELECT pg_backend_pid()", {}).at(0).get<std::int64_t>(0);
  };
  const std::int64_t pooled = backend();
  EXPECT_EQ(backend(), pooled);
  {
    const auto connection = begun(*store);
    connection->execute("SET TRANSACTION READ ONLY", {});
    EXPECT_THROW(connection->execute(write, {}), RetryableError);
  }
  EXPECT_NE(backend(), pooled) << "it goes back to nobody";
}

}  // namespace

}  // namespace outbox::postgres
