// Every command once on a server, whichever it is, and what only happens on one of them.
#include "cli_server.h"

#include "support/services.h"
#ifdef OUTBOX_WITH_MYSQL
#include "outbox/mysql.h"
#include "support/mysql.h"
#endif
#ifdef OUTBOX_WITH_POSTGRES
#include "outbox/postgres.h"
#include "support/postgres.h"
#endif

namespace outbox::e2e {

void ServerCli::SetUp() {
  OUTBOX_NEEDS_SERVICE(kind_.variable);
  server_ = kind_.make();
}

Result ServerCli::run(const Arguments& arguments, const RunOptions& options) const {
  Result result = CliTest::run(arguments, options);
  EXPECT_TRUE(lacks(result.out + result.err, kSecret));
  return result;
}

std::string ServerCli::shown_url() const {
  const std::string secret = ":" + kSecret;
  std::string shown = url();
  shown.erase(shown.find(secret), secret.size());
  return shown.find('?') == std::string::npos ? shown : "'" + shown + "'";
}

std::pair<std::string, std::string> ServerCli::check(const Result& doctor,
                                                     const std::string& name) {
  const Json answer = doctor.json();
  for (const Json& finding : answer["checks"]) {
    if (finding["check"] == name) return {finding["verdict"], finding["says"]};
  }
  return {"there is no check " + name, ""};
}

namespace {

// Where no server's store is built there is nothing to run.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(EveryServerCli);

TEST_P(EveryServerCli, Migrates) {
  Result result = run({"migrate", "status"});
  EXPECT_EQ(result.code, 1);
  EXPECT_TRUE(contains(result.err, "run: outbox migrate up --db " + shown_url()));
  EXPECT_EQ(run({"status"}).code, 78);
  EXPECT_TRUE(contains(run({"status"}).err,
                       "there is no outbox in the " + server().product() + " database"));

  result = run({"migrate", "up"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(contains(result.out, "applied  001_initial"));
  EXPECT_EQ(run({"migrate", "up", "--json"}).json()["applied"], 0);
  EXPECT_EQ(run({"migrate", "status", "--json"}).json()["up_to_date"], true);

  const std::string other = server().place() + ".other";
  EXPECT_EQ(run({"migrate", "up", "--table", other}).code, 0);
  EXPECT_EQ(run({"status", "--table", other}).code, 0);
  EXPECT_EQ(run({"status", "--table", "no such"}).code, 78);
}

TEST_P(EveryServerCli, PrintsASchemaThatCanBeApplied) {
  const Result printed = run_on(server().dialect(), {"migrate", "print"});
  EXPECT_EQ(printed.code, 0) << printed.err;
  sql(printed.out);
  EXPECT_EQ(run({"migrate", "status"}).code, 0);
}

TEST_P(EveryServerCli, RefusesASchemaOfANewerOne) {
  store();
  sql("INSERT INTO outbox_event_migration (version, name) VALUES (99, '099_future')");
  EXPECT_EQ(run({"status"}).code, 78);
  EXPECT_EQ(run({"migrate", "up"}).code, 78);
  EXPECT_TRUE(contains(run({"migrate", "status"}).out, "099_future (by a newer outbox)"));
}

TEST_P(EveryServerCli, PublishesListsShowsAndTailsEvents) {
  const std::string id = publish("Placed", {"--aggregate-id", "1", "--payload", R"({"n":1})"});
  publish("Later", {"--deliver-after", "1h"});
  EXPECT_EQ(run({"events", "list", "--json"}).json_lines().size(), 2u);
  EXPECT_EQ(run({"events", "list", "--json", "--type", "Placed"}).json()["id"], id);
  Result result = run({"events", "show", id});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(contains(result.out, R"({"n":1})"));
  EXPECT_EQ(run({"events", "show", "nobody"}).code, 1);
  result = run({"events", "tail", "--after", "0", "--seconds", "0", "--json"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.json_lines().size(), 2u);
}

TEST_P(EveryServerCli, ListsReplaysAndDiscardsTheDead) {
  std::vector<std::string> ids;
  for (int n = 0; n < 3; ++n) {
    ids.push_back(publish("A"));
    kill(ids.back(), "connection refused");
  }
  EXPECT_EQ(run({"dead", "list", "--json"}).json_lines().size(), 3u);
  EXPECT_TRUE(contains(run({"dead", "show", ids[0]}).out, "connection refused"));
  EXPECT_EQ(run({"dead", "groups", "--json"}).json()["count"], 3);
  EXPECT_EQ(run({"dead", "replay", ids[0]}).out, "replayed 1 event\n");
  EXPECT_EQ(run({"dead", "discard", ids[1], "--yes"}).out, "discarded 1 event\n");
  EXPECT_EQ(run({"dead", "replay", "--all", "--error", "refused", "--yes"}).out,
            "replayed 1 event\n");
  EXPECT_EQ(store()->counts().dead, 0);
  EXPECT_EQ(store()->counts().pending, 2);
}

TEST_P(EveryServerCli, Purges) {
  finish(publish("A"));
  publish("A");
  sql("UPDATE outbox_event SET done_at = done_at - INTERVAL '8' DAY");
  const Result result = run({"purge", "--yes", "--json"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(store()->admin().count({}), 1);
}

TEST_P(EveryServerCli, StatusShowsWhoOwnsWhatAndWhatIsHeld) {
  hold({publish("A", {"--aggregate-id", "42"}), publish("A", {"--aggregate-id", "42"})}, "timeout");
  const auto kept = store();
  const auto first = kept->join({.name = "first"});
  const auto second = kept->join({.name = "second"});
  first->renew();
  second->renew();
  const Lease renewed = first->renew();
  for (const int shard : renewed.draining) first->release(shard);
  second->renew();

  Result result = run({"status"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(contains(result.out, "SHARDS"));
  EXPECT_TRUE(contains(result.out, "first"));
  EXPECT_TRUE(contains(result.out, "0-7"));
  EXPECT_TRUE(contains(result.out, "8-15"));
  EXPECT_TRUE(contains(result.out, "__GLOBAL__/42"));
  EXPECT_TRUE(contains(result.out, "timeout"));
  const Json json = run({"status", "--json"}).json();
  EXPECT_EQ(json["instances"].size(), 2u);
  EXPECT_EQ(json["instances"][1]["shards"].size(), 8u);
  EXPECT_EQ(json["held_aggregates"][0]["waiting"], 1);
  EXPECT_EQ(check(run({"doctor", "--json"}), "owner").second.find("first and 1 more deliver"), 0u);
  first->leave();
  second->leave();
  EXPECT_TRUE(contains(run({"status"}).out, "No instance delivers these events."));
}

TEST_P(EveryServerCli, DoctorFindsThatThereAreNoTables) {
  const Result result = run({"doctor"});
  EXPECT_EQ(result.code, 1);
  EXPECT_TRUE(contains(result.out, "there are no tables"));
  EXPECT_TRUE(contains(result.out, "-> outbox migrate up --db " + shown_url()));
}

TEST_P(EveryServerCli, DoctorRepairsRowsThatContradictThemselves) {
  const std::string sound = publish("A");
  const std::string pending = publish("A");
  const std::string later = publish("A", {"--deliver-after", "1h"});
  const std::string done = publish("A");
  const std::string dead = publish("A");
  const std::string unknown = publish("A");
  const auto edit = [&](const std::string& changes, const std::string& id) {
    server().unchecked_sql("UPDATE outbox_event SET " + changes + " WHERE event_id = '" + id + "'");
  };
  edit("hold = NULL", pending);
  edit("hold = NULL, status = 2", later);
  edit("status = 1", done);
  edit("status = 3, hold = -5", dead);
  edit("status = 9", unknown);

  Result result = run({"doctor"});
  EXPECT_EQ(result.code, 1);
  EXPECT_TRUE(contains(result.out, "fail  rows       2 events NEW or RETRY, but neither due"));
  EXPECT_TRUE(contains(result.out, "-> outbox doctor --repair --db " + shown_url()));
  EXPECT_FALSE(store()->admin().find(pending)->hold) << "it only looked";
  EXPECT_TRUE(lacks(run({"doctor", "--skip-integrity"}).out, "rows  "));

  result = run({"doctor", "--repair"});
  EXPECT_EQ(result.code, 0) << result.out;
  EXPECT_TRUE(contains(result.out, "ok    rows       repaired 1 event of an unknown status"));
  EXPECT_TRUE(lacks(result.out, sound));
  const auto kept = store();
  EXPECT_EQ(kept->counts().pending, 3);
  EXPECT_EQ(kept->counts().delayed, 1) << "the one that is to wait for an hour";
  EXPECT_LT(kept->admin().find(later)->hold, 0);
  EXPECT_EQ(kept->admin().find(done)->row.status, Status::done);
  EXPECT_FALSE(kept->admin().find(done)->hold);
  EXPECT_TRUE(kept->admin().find(done)->done_at);
  EXPECT_EQ(kept->admin().find(dead)->row.status, Status::dead);
  EXPECT_FALSE(kept->admin().find(dead)->hold);
  EXPECT_EQ(kept->admin().find(unknown)->row.status, Status::dead);
  EXPECT_TRUE(contains(kept->admin().find(unknown)->last_error, "outbox doctor --repair"));
  EXPECT_TRUE(contains(run({"doctor", "--repair"}).out, "of each agree"));
}

// It was used as an index of what there is for each shard.
TEST_P(EveryServerCli, AShardThatThereIsNotIsNobodys) {
  const auto kept = store();
  sql("INSERT INTO outbox_event_shard (shard) VALUES (99)");
  const auto instance = kept->join({});
  const Lease lease = instance->renew();
  EXPECT_EQ(lease.shards.size(), 16u);
  for (const int shard : lease.shards) EXPECT_LT(shard, 16);
  instance->leave();
  finish(publish("A"));
  EXPECT_EQ(run({"status"}).code, 0);
  EXPECT_EQ(run({"doctor"}).code, 0);
}

TEST_P(EveryServerCli, AnUnreachableServerIsWorthAnotherTry) {
  const std::string unreachable = server().scheme() + "://shop:" + kSecret + "@127.0.0.1:1/shop";
  for (const Arguments& arguments :
       {Arguments{"status"}, Arguments{"migrate", "up"}, Arguments{"migrate", "status"},
        Arguments{"events", "list"}, Arguments{"events", "tail", "--seconds", "0"},
        Arguments{"events", "publish", "--type", "A", "--payload", "{}"},
        Arguments{"dead", "groups"}, Arguments{"purge", "--yes"}}) {
    const Result result = run_on(unreachable, arguments);
    EXPECT_EQ(result.code, 69) << arguments[0];
    EXPECT_TRUE(contains(result.err, "127.0.0.1:1/shop"));
  }
  const Result doctor = run_on(unreachable, {"doctor"});
  EXPECT_EQ(doctor.code, 1);
  EXPECT_TRUE(contains(doctor.out, "fail  server"));
}

TEST_P(EveryServerCli, AUrlThatCannotBeUsedIsAConfigurationError) {
  const std::string scheme = server().scheme();
  for (const std::string& bad :
       {scheme + ":" + kSecret, scheme + "://u:" + kSecret + "@h/db?bogus=" + kSecret,
        scheme + "://u:" + kSecret + "@h:no/db", scheme + "://u:%zz" + kSecret + "@h/db",
        server().url_of_no_database()}) {
    EXPECT_EQ(run_on(bad, {"status"}).code, 78) << bad;
    EXPECT_EQ(run({"status", "--db", bad}).code, 78) << bad;
  }
}

TEST_P(EveryServerCli, NeitherHelpNorComplaintsShowThePassword) {
  for (const Arguments& arguments : {Arguments{"--help"}, Arguments{"status", "--help"},
                                     Arguments{"migrate", "print", "--help"}}) {
    EXPECT_EQ(run(arguments).code, 0);
  }
  for (const Arguments& arguments :
       {Arguments{"status", url()}, Arguments{url()}, Arguments{"status", "--bd=" + url()},
        Arguments{"status", "--bd", url()}, Arguments{"events", "list", "--limit", url()},
        Arguments{"status", "--json=" + url()}}) {
    EXPECT_EQ(run(arguments).code, 64);
  }
}

#ifdef OUTBOX_WITH_POSTGRES
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
#endif

#ifdef OUTBOX_WITH_MYSQL
// A database, and a user with a password who may do everything in it, and see what
// others do.
class MysqlServer final : public Server {
 public:
  MysqlServer() {
    test::Mysql sql;
    sql.execute("CREATE USER " + place() + " IDENTIFIED BY '" + kSecret + "'");
    sql.execute("GRANT ALL ON " + place() + ".* TO " + place());
    sql.execute("GRANT PROCESS ON *.* TO " + place());
  }
  ~MysqlServer() override { test::Mysql().execute("DROP USER " + place()); }
  MysqlServer(const MysqlServer&) = delete;
  MysqlServer& operator=(const MysqlServer&) = delete;

  std::string scheme() const override { return "mysql"; }
  std::string product() const override { return "MySQL"; }
  std::string url() const override {
    const std::string of_root = database_.url();
    return with_secret("mysql://" + place() + of_root.substr(of_root.find('@')));
  }
  std::string url_of_no_database() const override { return url() + "_not"; }
  std::string dialect() const override { return mariadb() ? "mariadb://" : "mysql://"; }
  std::string place() const override { return database_.name(); }
  std::shared_ptr<Store> store() const override { return mysql::open(url()); }
  void sql(const std::string& statements) const override {
    test::Mysql(database_.url()).execute(statements);
  }
  void unchecked_sql(const std::string& statements) const override {
    if (mariadb()) return sql("SET check_constraint_checks = 0; " + statements);
    const std::string question =
        "SELECT constraint_name FROM information_schema.table_constraints WHERE table_schema = "
        "database() AND table_name = 'outbox_event' AND constraint_type = 'CHECK'";
    for (const test::Row& row : test::Mysql(database_.url()).query(question)) {
      sql("ALTER TABLE outbox_event DROP CHECK " + row[0].value());
    }
    sql(statements);
  }

 private:
  static bool mariadb() {
    return test::Mysql().value("SELECT version()").find("MariaDB") != std::string::npos;
  }

  const test::Database database_;
};

constexpr ServerKind kMysql{"OUTBOX_TEST_MYSQL", []() -> std::unique_ptr<Server> {
                              return std::make_unique<MysqlServer>();
                            }};

INSTANTIATE_TEST_SUITE_P(Mysql, EveryServerCli, ::testing::Values(kMysql));

class MysqlCli : public ServerCli {
 protected:
  MysqlCli() : ServerCli(kMysql) {}
};

TEST_F(MysqlCli, DoctorFindsNothingWrong) {
  publish("A");
  const Result result = run({"doctor"});
  EXPECT_EQ(result.code, 0) << result.out;
  for (const char* words :
       {"accepts writes", "flushed to disk", "max_allowed_packet", "autocommit is on", "one by one",
        "are free", "all are InnoDB", "all are present", "may write, deliver, replay and purge",
        "up to date"}) {
    EXPECT_TRUE(contains(result.out, words));
  }
}

TEST_F(MysqlCli, DoctorFindsATableThatWasConverted) {
  store();
  sql("ALTER TABLE outbox_event_archive ENGINE = MyISAM");
  const Result result = run({"doctor", "--json"});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(check(result, "tables"),
            std::pair(std::string("fail"),
                      std::string("the engine of outbox_event_archive is MyISAM, not InnoDB")));
}

TEST_F(MysqlCli, TakesTheSchemeOfMariaDbAsWell) {
  const std::string other = "MariaDB" + url().substr(server().scheme().size());
  EXPECT_EQ(run_on(other, {"migrate", "up"}).code, 0);
  EXPECT_EQ(run_on(other, {"status"}).code, 0);
}

TEST_F(MysqlCli, TakesThePasswordFromTheEnvironment) {
  store();
  std::string without = url();
  without.erase(without.find(":" + kSecret), kSecret.size() + 1);
  EXPECT_EQ(run_on(without, {"status"}).code, 78);
  const Result result =
      run({"status"}, {.environment = {{"OUTBOX_DB", without}, {"MYSQL_PWD", kSecret}}});
  EXPECT_EQ(result.code, 0) << result.err;
}
#endif

}  // namespace
}  // namespace outbox::e2e
