// Sessions that a URL sets up to be of no use: the library's own do their work all the same.
#include "client/postgres/database.h"

#include <libpq-fe.h>

#include <thread>

#include "client/postgres/settings.h"
#include "outbox/outbox.h"
#include "store/postgres/store_config.h"
#include "store/postgres/test_support.h"
#include "support/tcp_proxy.h"

namespace outbox::postgres {
namespace {

constexpr int kVersion14 = 140'000;

std::string url_with(const std::string& setting) {
  std::string options;
  for (const char c : setting) {
    options.append(c == ' ' ? "%5C%20" : c == '=' ? "%3D" : std::string(1, c));
  }
  return test::postgres_url() + "?options=-c" + options;
}

class PostgresSettingsTest : public PostgresTest {
 protected:
  std::string setting_of(const std::string& name, const std::string& hostile, Use use) {
    const auto config = std::make_shared<StoreConfig>(url_with(name + "=" + hostile));
    config->options.prepare = true;
    Database database(config, use);
    database.limit_calls(10s);
    const ResultHandle shown = database.session().try_script(("SHOW " + name).c_str());
    return PQntuples(shown.get()) == 1 ? PQgetvalue(shown.get(), 0, 0) : "(no answer)";
  }
};

TEST_F(PostgresSettingsTest, AnEnginesSessionHasItsOwnAndAUsersThoseThatItWasGiven) {
  struct Example {
    std::string name, hostile, own;
  };
  const std::vector<Example> examples{
      {"default_transaction_isolation", "serializable", "read committed"},
      {"default_transaction_deferrable", "on", "off"},
      {"statement_timeout", "7s", "8s"},
      {"lock_timeout", "7s", "8s"},
      {"idle_in_transaction_session_timeout", "7s", "8s"},
      {"row_security", "off", "on"},
      {"array_nulls", "off", "on"},
      {"standard_conforming_strings", "off", "on"},
      {"transform_null_equals", "on", "off"},
  };
  for (const Example& example : examples) {
    EXPECT_EQ(setting_of(example.name, example.hostile, Use::engine), example.own);
    EXPECT_EQ(setting_of(example.name, example.hostile, Use::users), example.hostile);
  }
  EXPECT_EQ(setting_of("default_transaction_read_only", "on", Use::engine), "off");
  if (PQserverVersion(sql().handle()) >= kVersion14) {
    EXPECT_EQ(setting_of("idle_session_timeout", "7s", Use::engine), "0");
  }
  EXPECT_EQ(setting_of("extra_float_digits", "-5", Use::users), "1") << "or numbers are others";
  EXPECT_EQ(setting_of("extra_float_digits", "2", Use::users), "2");
}

TEST_F(PostgresSettingsTest, EnginesWorkWhereADatabaseIsReadOnlyByDefault) {
  open_store();
  write_event(*open_store(), simple_event("1"));
  const auto store = open_store_at(url_with("default_transaction_read_only=on"));
  const auto instance = store->join({});
  const Lease lease = instance->renew();
  ASSERT_EQ(lease.shards.size(), 16u);
  const StatusUpdate done{.row = instance->ready(lease.shards, 0, 10).rows.at(0).ref,
                          .event_id = "1"};
  EXPECT_TRUE(instance->apply(lease.epoch, {&done, 1}).stale.empty());
  EXPECT_FALSE(store->has_pending());
  EXPECT_TRUE(store->admin().replay("1"));
  EXPECT_TRUE(contains(message_of<RetryableError>([&] { begun(*store); }), "read-only"))
      << "what users are given holds for them";
}

// With a transaction isolation that a URL asks for, and with statements kept or not.
class PostgresIsolationTest : public PostgresTest,
                              public ::testing::WithParamInterface<std::tuple<std::string, bool>> {
 protected:
  std::shared_ptr<Store> open_isolated(const std::string& more = "") {
    const std::string url =
        url_with("default_transaction_isolation=" + std::get<0>(GetParam())) + more;
    return open_store_at(url, {.prepare = std::get<1>(GetParam()), .notify = false});
  }
};

TEST_P(PostgresIsolationTest, RenewalsAndUpdatesSideBySideDoNotCollide) {
  const auto store = open_isolated();
  sql().execute("INSERT INTO " + table() +
                " (event_id, event_type, payload) SELECT i, 'T', '{}' "
                "FROM generate_series(1, 300) AS i");
  std::vector<std::unique_ptr<Instance>> instances;
  std::vector<Lease> leases;
  for (int i = 0; i < 3; ++i) {
    instances.push_back(store->join({}));
    leases.push_back(instances.back()->renew());
  }
  std::vector<std::jthread> threads;
  for (const auto& instance : instances) {
    threads.emplace_back([&instance] {
      for (int i = 0; i < 30; ++i) EXPECT_NO_THROW(instance->renew());
    });
  }
  Instance& owner = *instances.front();
  for (const Row& row : owner.ready(leases.front().shards, 0, 300).rows) {
    StatusUpdate retry{
        .row = row.ref, .event_id = row.event.id(), .kind = StatusUpdate::Kind::retry};
    EXPECT_NO_THROW(owner.apply(leases.front().epoch, {&retry, 1}));
  }
}

// Between the look at who writes and the read that relies on it.
TEST_P(PostgresIsolationTest, ALateCommitIsNotPassedOver) {
  // The look waits for the test, by a view that it finds before the server's own.
  sql().execute("CREATE FUNCTION " + schema() +
                ".locks() RETURNS SETOF pg_catalog.pg_locks LANGUAGE plpgsql AS $$ BEGIN PERFORM "
                "pg_advisory_xact_lock_shared(hashtext('" +
                schema() + "')); RETURN QUERY SELECT * FROM pg_catalog.pg_locks; END $$");
  sql().execute("CREATE VIEW " + schema() + ".pg_locks AS SELECT * FROM " + schema() + ".locks()");
  const auto store = open_isolated("%20-csearch_path%3D" + schema() + ",pg_catalog");
  const auto instance = store->join({});
  const Lease lease = instance->renew();
  sql().execute("INSERT INTO " + table() +
                " (event_id, event_type, payload) SELECT 'early' || i, 'T', '{}' "
                "FROM generate_series(1, 300) AS i");
  const auto deliver = [&] {
    std::vector<StatusUpdate> updates;
    for (const Row& row : instance->ready(lease.shards, 0, 1'000).rows) {
      updates.push_back({.row = row.ref, .event_id = row.event.id()});
    }
    if (!updates.empty()) {
      EXPECT_TRUE(instance->apply(lease.epoch, updates).stale.empty());
    }
    return updates;
  };
  EXPECT_EQ(deliver().size(), 300u);

  test::Sql late;
  late.execute("BEGIN; INSERT INTO " + table() +
               " (event_id, event_type, payload) VALUES ('late', 'T', '{}')");
  test::Sql gate;
  gate.execute("SELECT pg_advisory_lock(hashtext('" + schema() + "'))");
  std::vector<StatusUpdate> found;
  {
    const std::jthread look([&] { found = deliver(); });
    EXPECT_TRUE(eventually([&] {
      return sql().value(
                 "SELECT count(*) FROM pg_catalog.pg_locks WHERE locktype = 'advisory' "
                 "AND NOT granted AND objid = hashtext('" +
                 schema() + "')::bigint::bit(32)::bigint::oid") == "1";
    }));
    late.execute("COMMIT");
    gate.execute("SELECT pg_advisory_unlock_all()");
  }
  for (int round = 0; round < 3 && found.empty(); ++round) found = deliver();
  ASSERT_EQ(found.size(), 1u) << "it was passed over";
  EXPECT_EQ(found.front().event_id, "late");
}

INSTANTIATE_TEST_SUITE_P(Each, PostgresIsolationTest,
                         ::testing::Combine(::testing::Values("read committed", "repeatable read",
                                                              "serializable"),
                                            ::testing::Bool()));

using std::chrono::steady_clock;

class PostgresCancellerTest : public PostgresTest {
 protected:
  // A connection on which the server has no limits of its own.
  static std::unique_ptr<Database> connect(const std::string& url) {
    const auto config = std::make_shared<StoreConfig>(url);
    config->options.prepare = true;
    auto database = std::make_unique<Database>(config, Use::users);
    database->limit_calls(2s);
    database->ensure_connected();
    return database;
  }

  bool runs(int backend) {
    return sql().value("SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND pid = " +
                       std::to_string(backend)) != "0";
  }
};

TEST_F(PostgresCancellerTest, TheServerIsToldOfACallThatIsGivenUp) {
  const auto database = connect(test::postgres_url());
  const int backend = PQbackendPID(database->handle());
  EXPECT_THROW(database->session().run_script("SELECT pg_sleep(60)", "sleep"), RetryableError);
  EXPECT_TRUE(runs(backend));
  database->drop();
  EXPECT_TRUE(eventually([&] { return !runs(backend); }));
  EXPECT_NO_THROW(database->session().run_script("SELECT 1", "go on"));
}

TEST_F(PostgresCancellerTest, ThePoolerIsToldAsWell) {
  OUTBOX_NEEDS_SERVICE("OUTBOX_TEST_PGBOUNCER");
  const auto database = connect(test::pgbouncer_url());
  const std::string tag = "/* " + schema() + " */";
  EXPECT_THROW(database->session().run_script("SELECT pg_sleep(60) " + tag, "sleep"),
               RetryableError);
  database->drop();
  EXPECT_TRUE(eventually([&] {
    return sql().value(
               "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query "
               "LIKE 'SELECT pg_sleep%" +
               schema() + "%'") == "0";
  }));
}

TEST_F(PostgresCancellerTest, ACallThatNobodyReadsIsGivenUpThoughItIsLarge) {
  test::TcpProxy proxy("127.0.0.1", test::port_of(test::postgres_url()));
  const auto database = connect(test::with_port(test::postgres_url(), proxy.port()));
  proxy.stall();
  const auto begin = steady_clock::now();
  const std::string large = "SELECT '" + std::string(16'000'000, 'x') + "'";
  EXPECT_THROW(database->session().run_script(large, "send much"), RetryableError);
  database->drop();  // does not wait for anybody either
  EXPECT_LT(steady_clock::now() - begin, 10s);
  proxy.cut();
  proxy.resume();
  EXPECT_NO_THROW(database->session().run_script("SELECT 1", "go on"));
}

// A server that closes sessions for being idle: nobody who writes, waits for commits or takes
// over is to notice.

using std::chrono::steady_clock;

class PostgresIdleTest : public PostgresTest {
 protected:
  void SetUp() override {
    PostgresTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    if (sql().value("SHOW server_version_num") < "140000") GTEST_SKIP() << "from PostgreSQL 14 on";
  }

  std::shared_ptr<Store> open_impatient(Options options = {}) {
    return open_store_at(test::postgres_url() + "?application_name=" + schema() +
                             "&options=-cidle_session_timeout%3D300ms",
                         std::move(options));
  }
  int sessions(const std::string& which = "") {
    return std::stoi(
        sql().value("SELECT count(*) FROM pg_stat_activity WHERE application_name = '" + schema() +
                    "' " + which));
  }
  bool wait_until_closed() {
    return eventually([&] { return sessions() == 0; });
  }
};

class PostgresIdlePoolTest : public PostgresIdleTest, public ::testing::WithParamInterface<bool> {};

TEST_P(PostgresIdlePoolTest, AConnectionThatTheServerClosedFailsNoTransaction) {
  const auto store = open_impatient({.insert_at_commit = GetParam(), .notify = false});
  write_event(*store, simple_event("first"));
  ASSERT_TRUE(wait_until_closed());
  EXPECT_NO_THROW(write_event(*store, simple_event("between two transactions")));

  const Event event = simple_event("before the first statement");
  const auto connection = begun(*store);
  ASSERT_TRUE(wait_until_closed());
  connection->insert({&event, 1}, {});
  EXPECT_NO_THROW(connection->commit());

  const Event waiting = simple_event("before the COMMIT");
  connection->begin();
  if (GetParam()) connection->insert({&waiting, 1}, {});
  ASSERT_TRUE(wait_until_closed());
  if (!GetParam()) connection->insert({&waiting, 1}, {});
  EXPECT_NO_THROW(connection->commit());
  EXPECT_EQ(store->admin().count({}), 4);
}

INSTANTIATE_TEST_SUITE_P(Each, PostgresIdlePoolTest, ::testing::Bool());

TEST_F(PostgresIdleTest, WhoListensHearsOfCommitsAndKeepsItsConnection) {
  const auto reads = open_impatient();
  const auto writes = open_impatient();
  testing::Signal seen;
  const auto watched = reads->watch([&] { seen.raise(); });
  ASSERT_TRUE(seen.wait());
  const auto listening = [&] {
    return sql().value(
        "SELECT string_agg(pid::text, ' ') FROM pg_stat_activity "
        "WHERE application_name = '" +
        schema() + "' AND query LIKE '%pg_advisory_lock_shared%'");
  };
  const std::string before = listening();
  for (int i = 0; i < 3; ++i) {
    const std::size_t count = seen.count();
    std::this_thread::sleep_for(400ms);  // longer than sessions may be idle
    write_event(*writes, simple_event(std::to_string(i)));
    EXPECT_TRUE(seen.wait(count + 1, 2s)) << i;
  }
  EXPECT_EQ(listening(), before);
}

class PostgresIdleOwnerTest : public PostgresIdleTest,
                              public ::testing::WithParamInterface<bool> {};

// Renewals that failed because the server had closed the connection made each next one judge
// nobody. Also where the session cannot be set up, as for a pooler.
TEST_P(PostgresIdleOwnerTest, TheSuccessorTakesOverWhenTheLeaseIsOverAndNotLater) {
  const auto store = open_impatient({.prepare = GetParam(), .notify = false});
  const auto dies = store->join({.lease = 3s, .exclusive = true});
  const auto waits = store->join({.lease = 3s, .exclusive = true});
  ASSERT_EQ(dies->renew().shards.size(), 16U);
  EXPECT_TRUE(waits->renew().shards.empty());
  const auto died = steady_clock::now();
  std::size_t owned = 0;
  while (owned == 0 && steady_clock::now() - died < 20s) {
    std::this_thread::sleep_for(1s);  // its beat
    owned = waits->renew().shards.size();
  }
  EXPECT_EQ(owned, 16U);
  EXPECT_LT(steady_clock::now() - died, 8s) << "a lease of 3 s, and a beat";
}

INSTANTIATE_TEST_SUITE_P(Each, PostgresIdleOwnerTest, ::testing::Bool());

// A server that says nothing any more, by a proxy that passes nothing on: transactions end all
// the same.

using std::chrono::steady_clock;

class PostgresFrozenTest : public PostgresTest {
 protected:
  void SetUp() override {
    PostgresTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    proxy_ = std::make_unique<test::TcpProxy>("127.0.0.1", test::port_of(test::postgres_url()));
  }

  std::shared_ptr<Store> open_far(Options options = {}) {
    options.notify = false;
    if (options.statement_timeout == Options{}.statement_timeout) options.statement_timeout = 2s;
    return open_store_at(test::with_port(test::postgres_url(), proxy_->port()), std::move(options));
  }

  std::unique_ptr<test::TcpProxy> proxy_;
};

TEST_F(PostgresFrozenTest, ThereIsALimitUnlessSomebodySwitchesItOff) {
  EXPECT_EQ(Options{}.statement_timeout, 30s);
  const auto store = open_far({.statement_timeout = 0ms});
  const auto connection = begun(*store);
  EXPECT_NO_THROW(connection->query("SELECT pg_sleep(0.1)", {}));
}

TEST_F(PostgresFrozenTest, TheHandleIsBlockingAsAlways) {
  const auto store = open_far();
  const auto connection = begun(*store);
  connection->execute("SELECT 1", {});
  EXPECT_EQ(PQisnonblocking(handle(*connection)), 0);
  connection->savepoint("one");
  EXPECT_EQ(PQisnonblocking(handle(*connection)), 0);
}

// Connections that are lost, by a proxy that loses them.

class PostgresNetworkTest : public PostgresTest {
 protected:
  void SetUp() override {
    PostgresTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    proxy_ = std::make_unique<test::TcpProxy>("127.0.0.1", test::port_of(test::postgres_url()));
  }

  // Through the proxy. What is not asked for does not connect in the background.
  std::shared_ptr<Store> open_far(Options options = {.notify = false}) {
    return open_store_at(test::with_port(test::postgres_url(), proxy_->port()), std::move(options));
  }

  std::unique_ptr<test::TcpProxy> proxy_;
};

TEST_F(PostgresNetworkTest, AConnectionLostWhileIdleIsReplacedAlsoIfAllIsSentWithTheCommit) {
  const auto store = open_far({.insert_at_commit = true, .notify = false});
  write_event(*store, simple_event("before"));
  const Event event = simple_event("e");
  const auto connection = begun(*store);
  connection->insert({&event, 1}, {});
  proxy_->cut();
  EXPECT_NO_THROW(connection->commit());
  EXPECT_TRUE(store->admin().find("e"));
}

TEST_F(PostgresNetworkTest, OthersAreToldOfACommitAtOnceThoughTheConnectionForItWasLost) {
  const auto near = open_store();
  testing::Signal seen;
  const auto watched = near->watch([&] { seen.raise(); });
  ASSERT_TRUE(seen.wait());
  // Not before it waits to be told: a new watch looks for commits itself.
  ASSERT_TRUE(eventually([&] { return !seen.wait(seen.count() + 1, 200ms); }));
  const auto far = open_far({});
  for (int i = 0; i < 3; ++i) {
    const std::size_t before = seen.count();
    write_event(*far, simple_event(std::to_string(i)));
    EXPECT_TRUE(seen.wait(before + 1, 2s)) << i;
    proxy_->cut();
  }
}

TEST_F(PostgresNetworkTest, ALostConnectionIsNoticedAtOnceNotWhenTheCallsLimitIsOver) {
  const auto store = open_far();
  const auto instance = store->join({.lease = 30s});  // calls may take 10 s
  const Lease lease = instance->renew();
  write_event(*store, simple_event("e"));
  const Rows rows = instance->ready(lease.shards, 0, 10);
  ASSERT_EQ(rows.rows.size(), 1U);
  const StatusUpdate done{.row = rows.rows.front().ref, .event_id = "e"};
  instance->apply(lease.epoch, {&done, 1});
  proxy_->cut();
  const auto start = std::chrono::steady_clock::now();
  EXPECT_NO_THROW(instance->renew()) << "it is replaced before the renewal";
  EXPECT_THROW(instance->ready(lease.shards, 0, 10), RetryableError);
  EXPECT_THROW(instance->apply(lease.epoch, {&done, 1}), RetryableError);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 1s);
  EXPECT_EQ(instance->renew().epoch, lease.epoch) << "the lease lives on";
}

}  // namespace

}  // namespace outbox::postgres
