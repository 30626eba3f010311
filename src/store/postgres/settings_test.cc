// Sessions that a URL sets up to be of no use: the library's own do their work all the same.
#include "client/postgres/settings.h"

#include <thread>

#include "store/postgres/store_config.h"
#include "store/postgres/test_support.h"

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
  EXPECT_TRUE(store->replay("1"));
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

TEST_P(PostgresIsolationTest, RenewalsAndMarksSideBySideDoNotCollide) {
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

}  // namespace
}  // namespace outbox::postgres
