// The command line on PostgreSQL: all that every server can do, and what only happens there.
#include "cli_server.h"
#include "outbox/postgres.h"
#include "support/postgres.h"

namespace outbox::e2e {
namespace {

// A schema, which the search path of the URL names. The server lets everybody in, with
// whatever password.
class PostgresServer final : public Server {
 public:
  std::string scheme() const override { return "postgresql"; }
  std::string product() const override { return "PostgreSQL"; }
  std::string url() const override {
    return with_secret(test::postgres_url()) + "?options=-csearch_path%3D" + place();
  }
  std::string url_of_no_database() const override {
    return with_secret(test::postgres_url()) + "_not";
  }
  std::string dialect() const override { return "postgresql://"; }
  std::string place() const override { return schema_.name(); }
  std::shared_ptr<Store> store() const override { return postgres::open(url()); }
  void sql(const std::string& statements) const override {
    test::Sql().execute("SET search_path = " + place() + "; " + statements);
  }
  void unchecked_sql(const std::string& statements) const override {
    sql("DO $$ DECLARE name text; BEGIN FOR name IN SELECT conname FROM pg_constraint WHERE "
        "conrelid = 'outbox_event'::regclass AND contype = 'c' LOOP EXECUTE format('ALTER TABLE "
        "outbox_event DROP CONSTRAINT %I', name); END LOOP; END $$");
    sql(statements);
  }

 private:
  const test::Schema schema_;
};

constexpr ServerKind kPostgres{"OUTBOX_TEST_POSTGRES", []() -> std::unique_ptr<Server> {
                                 return std::make_unique<PostgresServer>();
                               }};

INSTANTIATE_TEST_SUITE_P(Postgres, EveryServerCli, ::testing::Values(kPostgres));

class PostgresCli : public ServerCli {
 protected:
  PostgresCli() : ServerCli(kPostgres) {}
};

TEST_F(PostgresCli, DoctorFindsNothingWrong) {
  publish("A");
  const Result result = run({"doctor"});
  EXPECT_EQ(result.code, 0) << result.out;
  for (const char* words : {"PostgreSQL 1", "UTF8", "accepts writes", "(LISTEN, NOTIFY) arrive",
                            "may write, deliver, replay and purge", "one by one", "up to date"}) {
    EXPECT_TRUE(contains(result.out, words));
  }
}

// In microseconds, the last days of its calendar are more than a bigint holds.
TEST_F(PostgresCli, DoctorRepairsARowThatIsDueAtTheEndOfTime) {
  const std::string id = publish("A");
  server().unchecked_sql("UPDATE outbox_event SET hold = NULL, available_at = '294276-12-31'");
  const Result result = run({"doctor", "--repair"});
  EXPECT_EQ(result.code, 0) << result.out;
  EXPECT_EQ(store()->counts().delayed, 1);
}

// On a large table it took longer than a statement may.
TEST_F(PostgresCli, DoctorDoesNotReadTheTableThatTheServerHasChecked) {
  publish("A");
  server().unchecked_sql("UPDATE outbox_event SET hold = NULL");
  const auto verdict = [this] { return check(run({"doctor", "--json"}), "rows").first; };
  EXPECT_EQ(verdict(), "fail");
  sql("ALTER TABLE outbox_event ADD CONSTRAINT outbox_event_state CHECK (hold IS NOT NULL) NOT "
      "VALID");
  EXPECT_EQ(verdict(), "fail");
  // As if it had looked: nobody else does then.
  sql("UPDATE pg_constraint SET convalidated = true WHERE conname = 'outbox_event_state' AND "
      "conrelid = 'outbox_event'::regclass");
  EXPECT_EQ(verdict(), "ok");
}

TEST_F(PostgresCli, DoctorFindsNumbersThatDoNotKeepTheOrder) {
  store();
  sql("ALTER SEQUENCE outbox_event_sequence CACHE 20");
  const auto [verdict, says] = check(run({"doctor", "--json"}), "order");
  EXPECT_EQ(verdict, "warn");
  EXPECT_TRUE(contains(says, "order is not kept"));
}

TEST_F(PostgresCli, EverythingWorksBehindAPooler) {
  OUTBOX_NEEDS_PGBOUNCER();
  const std::string pooler = with_secret(test::pgbouncer_url());
  const Arguments table{"--table", server().place() + ".outbox_event"};
  const auto go = [&](Arguments arguments) {
    arguments.insert(arguments.end(), table.begin(), table.end());
    return run_on(pooler, arguments);
  };
  EXPECT_EQ(go({"migrate", "up"}).code, 0);
  EXPECT_EQ(go({"events", "publish", "--type", "A", "--payload", "{}"}).code, 0);
  EXPECT_EQ(go({"events", "list", "--json"}).json()["type"], "A");
  EXPECT_EQ(go({"events", "tail", "--after", "0", "--seconds", "0", "--json"}).json()["seq"], 1);
  EXPECT_EQ(go({"status"}).code, 0);
  EXPECT_EQ(go({"purge", "--yes"}).code, 0);
  const Result doctor = go({"doctor", "--json"});
  EXPECT_EQ(doctor.code, 0) << doctor.out;
  EXPECT_EQ(check(doctor, "notify").first, "warn");
}

}  // namespace
}  // namespace outbox::e2e
