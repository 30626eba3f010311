// Every command once on a PostgreSQL server, and what only happens there.
#include "cli_runner.h"
#include "outbox/postgres.h"
#include "support/postgres.h"

namespace outbox::e2e {
namespace {

// The server lets everybody in; the password is there to be kept secret.
const std::string kSecret = "hunter2";

std::string with_secret(std::string url) {
  return url.replace(url.find('@'), 1, ":" + kSecret + "@");
}

// A schema of its own, which the search path of the URL names.
class PostgresCli : public CliTest {
 protected:
  void SetUp() override {
    OUTBOX_NEEDS_POSTGRES();
    schema_.emplace();
  }

  std::string url() const override { return with_secret(test::postgres_url()) + search_path(); }
  std::string search_path() const { return "?options=-csearch_path%3D" + schema_->name(); }
  std::shared_ptr<Store> store() const override { return postgres::open(url()); }

  // Whatever it says, the password is not in it.
  Result run(const Arguments& arguments, const RunOptions& options = {}) const {
    Result result = CliTest::run(arguments, options);
    EXPECT_TRUE(lacks(result.out + result.err, kSecret));
    return result;
  }
  Result run_on(const std::string& other_url, const Arguments& arguments) const {
    return run(arguments, {.environment = {{"OUTBOX_DB", other_url}}});
  }

  void sql(const std::string& statement) const {
    test::Sql connection;
    connection.execute("SET search_path = " + schema_->name() + "; " + statement);
  }

  // The verdict and the words of one check of the doctor.
  static std::pair<std::string, std::string> check(const Result& doctor, const std::string& name) {
    const Json answer = doctor.json();
    for (const Json& finding : answer["checks"]) {
      if (finding["check"] == name) return {finding["verdict"], finding["says"]};
    }
    return {"there is no check " + name, ""};
  }

  std::optional<test::Schema> schema_;
};

TEST_F(PostgresCli, Migrates) {
  Result result = run({"migrate", "status"});
  EXPECT_EQ(result.code, 1);
  EXPECT_TRUE(
      contains(result.err, "run: outbox migrate up --db 'postgresql://postgres@127.0.0.1:"));
  EXPECT_EQ(run({"status"}).code, 78);
  EXPECT_TRUE(contains(run({"status"}).err, "there is no outbox in the PostgreSQL database"));

  result = run({"migrate", "up"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(contains(result.out, "applied  001_initial"));
  EXPECT_EQ(run({"migrate", "up", "--json"}).json()["applied"], 0);
  EXPECT_EQ(run({"migrate", "status", "--json"}).json()["up_to_date"], true);

  const std::string other = schema_->name() + ".other";
  EXPECT_EQ(run({"migrate", "up", "--table", other}).code, 0);
  EXPECT_EQ(run({"status", "--table", other}).code, 0);
  EXPECT_EQ(run({"status", "--table", "no such"}).code, 78);
}

TEST_F(PostgresCli, PrintsASchemaThatCanBeApplied) {
  const Result printed = run_on("postgresql://", {"migrate", "print"});
  EXPECT_EQ(printed.code, 0) << printed.err;
  sql(printed.out);
  EXPECT_EQ(run({"migrate", "status"}).code, 0);
}

TEST_F(PostgresCli, RefusesASchemaOfANewerOne) {
  store();
  sql("INSERT INTO outbox_event_migration (version, name) VALUES (99, '099_future')");
  EXPECT_EQ(run({"status"}).code, 78);
  EXPECT_EQ(run({"migrate", "up"}).code, 78);
  EXPECT_TRUE(contains(run({"migrate", "status"}).out, "099_future (by a newer outbox)"));
}

TEST_F(PostgresCli, PublishesListsShowsAndTailsEvents) {
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

TEST_F(PostgresCli, ListsReplaysAndDiscardsTheDead) {
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

TEST_F(PostgresCli, Purges) {
  finish(publish("A"));
  publish("A");
  sql("UPDATE outbox_event SET done_at = done_at - interval '8 days'");
  const Result result = run({"purge", "--yes", "--json"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(store()->count({}), 1);
}

TEST_F(PostgresCli, StatusShowsWhoOwnsWhatAndWhatIsHeld) {
  hold({publish("A", {"--aggregate-id", "42"}), publish("A", {"--aggregate-id", "42"})}, "timeout");
  const auto kept = store();
  const auto first = kept->join({.name = "first"});
  const auto second = kept->join({.name = "second"});
  first->renew();
  second->renew();
  const Tenure leaving = first->renew();
  for (const int shard : leaving.leaving) first->release(shard);
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
  EXPECT_TRUE(contains(run({"status"}).out, "No instance delivers from here."));
}

TEST_F(PostgresCli, DoctorFindsNothingWrong) {
  publish("A");
  const Result result = run({"doctor"});
  EXPECT_EQ(result.code, 0) << result.out;
  for (const char* words : {"PostgreSQL 1", "UTF8", "takes writes", "notifications come through",
                            "may write, deliver, replay and purge", "one by one", "up to date"}) {
    EXPECT_TRUE(contains(result.out, words));
  }
}

TEST_F(PostgresCli, DoctorFindsWhatIsMissing) {
  const Result result = run({"doctor"});
  EXPECT_EQ(result.code, 1);
  EXPECT_TRUE(contains(result.out, "there are no tables"));
  EXPECT_TRUE(contains(result.out, "-> outbox migrate up --db 'postgresql://postgres@127.0.0.1:"));

  store();
  sql("ALTER SEQUENCE outbox_event_sequence CACHE 20");
  const auto [verdict, says] = check(run({"doctor", "--json"}), "order");
  EXPECT_EQ(verdict, "warn");
  EXPECT_TRUE(contains(says, "order is not kept"));
}

TEST_F(PostgresCli, EverythingWorksBehindAPooler) {
  OUTBOX_NEEDS_PGBOUNCER();
  const std::string pooler = with_secret(test::pgbouncer_url());
  const Arguments table{"--table", schema_->name() + ".outbox_event"};
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

TEST_F(PostgresCli, AServerThatIsAwayIsWorthAnotherTry) {
  const std::string away = "postgresql://shop:" + kSecret + "@127.0.0.1:1/shop";
  for (const Arguments& arguments :
       {Arguments{"status"}, Arguments{"migrate", "up"}, Arguments{"migrate", "status"},
        Arguments{"events", "list"}, Arguments{"events", "tail", "--seconds", "0"},
        Arguments{"events", "publish", "--type", "A", "--payload", "{}"},
        Arguments{"dead", "groups"}, Arguments{"purge", "--yes"}}) {
    const Result result = run_on(away, arguments);
    EXPECT_EQ(result.code, 69) << arguments[0];
    EXPECT_TRUE(contains(result.err, "127.0.0.1:1/shop"));
  }
  const Result doctor = run_on(away, {"doctor"});
  EXPECT_EQ(doctor.code, 1);
  EXPECT_TRUE(contains(doctor.out, "fail  server"));
}

TEST_F(PostgresCli, AUrlThatCannotBeUsedIsAConfigurationError) {
  const std::string port = std::to_string(test::port_of(test::postgres_url()));
  for (const std::string& bad :
       {"postgresql:" + kSecret, "postgres://u:" + kSecret + "@h/db?bogus=" + kSecret,
        "postgresql://u:" + kSecret + "@h:no/db", "postgresql://u:%zz" + kSecret + "@h/db",
        "postgresql://postgres:" + kSecret + "@127.0.0.1:" + port + "/no_such_database"}) {
    EXPECT_EQ(run_on(bad, {"status"}).code, 78) << bad;
    EXPECT_EQ(run({"status", "--db", bad}).code, 78) << bad;
  }
}

TEST_F(PostgresCli, NeitherHelpNorComplaintsShowThePassword) {
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

}  // namespace
}  // namespace outbox::e2e
