// `outbox dead`, `purge`, `status` and `doctor`, end to end.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "cli_runner.h"

namespace outbox::e2e {
namespace {

using DeadCommand = CliTest;
using PurgeCommand = CliTest;
using StatusCommand = CliTest;
using DoctorCommand = CliTest;

TEST_F(DeadCommand, ListsShowsAndGroups) {
  const std::string alive = publish("A");
  const std::string first = publish("A", {"--payload", "{\"n\":1}"});
  const std::string second = publish("A");
  const std::string third = publish("B", {"--aggregate-type", "X", "--aggregate-id", "1"});
  kill(first, "connection refused");
  kill(second, "connection refused");
  kill(third, "no such customer");

  Result result = run({"dead", "list"});
  EXPECT_EQ(result.code, 0);
  EXPECT_TRUE(contains(result.out, "DIED (UTC)"));
  EXPECT_TRUE(contains(result.out, "X/1"));
  EXPECT_TRUE(lacks(result.out, alive));
  EXPECT_EQ(run({"dead", "list", "--json"}).json_lines().size(), 3u);
  EXPECT_EQ(run({"dead", "list", "--json", "--type", "B"}).json()["id"], third);
  EXPECT_EQ(run({"dead", "list", "--json", "--error", "refused"}).json_lines().size(), 2u);
  EXPECT_EQ(run({"dead", "list", "--json", "--until", "1h"}).out, "");
  result = run({"dead", "list", "--limit", "1"});
  EXPECT_TRUE(contains(result.err, "add --after 2"));

  result = run({"dead", "show", first});
  EXPECT_EQ(result.code, 0);
  EXPECT_TRUE(contains(result.out, "last error     connection refused"));
  EXPECT_TRUE(contains(result.out, "{\"n\":1}"));
  EXPECT_EQ(run({"dead", "show", first, "--json"}).json()["attempts"], 10);
  result = run({"dead", "show", alive});
  EXPECT_EQ(result.code, 1);
  EXPECT_TRUE(contains(result.err, "is NEW, not DEAD"));

  result = run({"dead", "groups"});
  EXPECT_TRUE(contains(result.out, "no such customer"));
  const auto groups = run({"dead", "groups", "--json"}).json_lines();
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0]["count"], 2);
  EXPECT_EQ(groups[0]["error"], "connection refused");
  EXPECT_EQ(groups[1]["example_id"], third);
  EXPECT_TRUE(contains(run({"dead", "groups", "--type", "none"}).err, "No dead events match."));
}

TEST_F(DeadCommand, ReplaysThoseThatAreNamed) {
  const std::string dead = publish("A");
  const std::string done = publish("A");
  kill(dead, "oh");
  finish(done);
  Result result = run({"dead", "replay", dead});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "replayed 1 event\n");
  EXPECT_EQ(run({"events", "show", dead, "--json"}).json()["status"], "NEW");

  result = run({"dead", "replay", dead, done, "nobody"});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.out, "replayed 0 events\n");
  EXPECT_TRUE(contains(result.err, "\"" + dead + "\" is NEW, not DEAD"));
  EXPECT_TRUE(contains(result.err, "\"" + done + "\" is DONE, not DEAD"));
  EXPECT_TRUE(contains(result.err, "there is no event \"nobody\""));
  EXPECT_EQ(run({"events", "show", done, "--json"}).json()["status"], "DONE");

  kill(dead, "again");
  EXPECT_EQ(run({"dead", "replay", dead, "--json"}).json(), (Json{{"replayed", 1}}));
}

TEST_F(DeadCommand, ReplaysAllThatMatchOnceItIsConfirmed) {
  std::vector<std::string> ids;
  for (const char* type : {"A", "A", "A", "B"}) {
    ids.push_back(publish(type));
    kill(ids.back(), "oh");
  }
  Result result = run({"dead", "replay", "--all", "--type", "A"});
  EXPECT_EQ(result.code, 64) << "nobody to ask";
  EXPECT_TRUE(contains(result.err, "3 dead events (type \"A\")"));
  EXPECT_TRUE(contains(result.err, "--yes"));
  EXPECT_EQ(store()->counts().dead, 4);

  result =
      run({"dead", "replay", "--all", "--type", "A", "--limit", "2", "--rate", "1000", "--yes"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "replayed 2 events\n");
  EXPECT_EQ(result.err, "") << "no progress bar without a terminal";
  EXPECT_EQ(run({"dead", "replay", "--all", "--yes", "--json"}).json()["replayed"], 2);
  EXPECT_EQ(store()->counts().dead, 0);
  EXPECT_EQ(run({"dead", "replay", "--all"}).out, "replayed 0 events\n") << "nothing to ask for";
}

TEST_F(DeadCommand, SaysWhyItReplayedFewerThanItAnnounced) {
  kill(publish("A"), "oh");
  sql("UPDATE outbox_event SET done_at = done_at + 3600000000");
  const Result result = run({"dead", "replay", "--all", "--yes"});
  EXPECT_EQ(result.out, "replayed 0 events\n");
  EXPECT_TRUE(contains(result.err, "Skipped 1 event that changed meanwhile, or died later"));
}

TEST_F(DeadCommand, DiscardsOnlyWhatIsDeadAndConfirmed) {
  const std::string alive = publish("A");
  const std::string first = publish("A");
  const std::string second = publish("A");
  kill(first, "oh");
  kill(second, "oh");
  Result result = run({"dead", "discard", first});
  EXPECT_EQ(result.code, 64);
  EXPECT_TRUE(contains(result.err, "--yes"));
  EXPECT_TRUE(store()->admin().find(first));

  result = run({"dead", "discard", first, alive, "--yes"});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.out, "discarded 1 event\n");
  EXPECT_TRUE(contains(result.err, "is NEW, not DEAD"));
  EXPECT_FALSE(store()->admin().find(first));
  EXPECT_TRUE(store()->admin().find(alive));

  EXPECT_EQ(run({"dead", "discard", "--all", "--yes", "--json"}).json(), (Json{{"discarded", 1}}));
  EXPECT_FALSE(store()->admin().find(second));
  EXPECT_TRUE(store()->admin().find(alive));
}

TEST_F(DeadCommand, RefusesInvalidArguments) {
  store();
  for (const char* verb : {"replay", "discard"}) {
    EXPECT_EQ(run({"dead", verb}).code, 64);
    EXPECT_TRUE(contains(run({"dead", verb}).err, "Give their ids; or --all"));
    EXPECT_TRUE(contains(run({"dead", verb, "x", "--all"}).err, "cannot be combined"));
    EXPECT_TRUE(contains(run({"dead", verb, "x", "--type", "T"}).err, "filters need --all"));
    EXPECT_TRUE(contains(run({"dead", verb, "x", "--rate", "5"}).err, "need --all"));
    EXPECT_EQ(run({"dead", verb, "--all", "--rate", "0"}).code, 64);
    EXPECT_EQ(run({"dead", verb, "--all", "--since", "x", "--yes"}).code, 64);
  }
}

TEST_F(DeadCommand, AsksAtATerminal) {
  const std::string id = publish("A");
  kill(id, "oh");
  Result result = run_at_terminal({"dead", "discard", id}, {.input = "n\n"});
  EXPECT_EQ(result.code, 1);
  EXPECT_TRUE(contains(result.out, "[y/N]"));
  EXPECT_TRUE(contains(result.out, "Nothing was changed."));
  EXPECT_EQ(run_at_terminal({"dead", "replay", "--all"}, {.input = "\n"}).code, 1);
  EXPECT_EQ(store()->counts().dead, 1);
  result = run_at_terminal({"dead", "discard", id}, {.input = "y\n"});
  EXPECT_EQ(result.code, 0);
  EXPECT_TRUE(contains(result.out, "discarded 1 event"));
}

TEST_F(DeadCommand, ShowsItsProgressAtATerminal) {
  for (int n = 0; n < 3; ++n) kill(publish("A"), "oh");
  const Result result = run_at_terminal({"dead", "replay", "--all", "--yes", "--rate", "20"});
  EXPECT_EQ(result.code, 0);
  EXPECT_TRUE(contains(result.out, "replaying [--------------------]  0 of 3  0%"));
  EXPECT_TRUE(contains(result.out, "\r\x1b[K")) << "taken away at the end";
  EXPECT_TRUE(contains(result.out, "replayed 3 events"));
}

TEST_F(PurgeCommand, RemovesWhatIsOldAndNothingElse) {
  const std::string alive = publish("A");
  const std::string done = publish("A");
  const std::string dead = publish("A");
  finish(done);
  kill(dead, "oh");
  Result result = run({"purge", "--dry-run"});
  EXPECT_EQ(result.code, 0);
  EXPECT_TRUE(contains(result.out, "would be removed          0  DONE events older than 7d\n"));

  const Arguments now{"purge", "--done-older-than", "0s", "--dead-older-than", "0s"};
  const auto with = [&](Arguments more) {
    more.insert(more.begin(), now.begin(), now.end());
    return run(more);
  };
  EXPECT_EQ(with({"--dry-run", "--json"}).json(),
            (Json{{"dry_run", true}, {"archive", false}, {"done", 1}, {"dead", 1}, {"total", 2}}));
  result = with({});
  EXPECT_EQ(result.code, 64);
  EXPECT_TRUE(contains(result.err, "Really delete 1 DONE event older than 0s and 1 DEAD"));
  EXPECT_TRUE(store()->admin().find(done));

  result = with({"--yes", "--dead-older-than", "never"});
  EXPECT_EQ(result.code, 64) << "an option that comes twice";
  result = run({"purge", "--done-older-than", "0s", "--dead-older-than", "never", "--yes"});
  EXPECT_EQ(result.out, "removed          1  DONE events older than 0s\n");
  EXPECT_FALSE(store()->admin().find(done));
  EXPECT_TRUE(store()->admin().find(dead));
  EXPECT_EQ(with({"--archive", "--yes", "--json"}).json()["dead"], 1);
  EXPECT_FALSE(store()->admin().find(dead));
  sql("CREATE TABLE seen AS SELECT 1 / (count(*) = 1) AS one FROM outbox_event_archive");
  EXPECT_TRUE(store()->admin().find(alive));
  EXPECT_TRUE(contains(with({"--yes"}).out, "removed          0  DEAD"));

  EXPECT_EQ(run({"purge", "--everything-older-than", "0s", "--yes", "--json"}).json()["everything"],
            1);
  EXPECT_FALSE(store()->admin().find(alive));
}

TEST_F(PurgeCommand, GoesOnUntilNothingIsLeft) {
  store();
  sql("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50) INSERT INTO "
      "outbox_event (event_id, event_type, payload, status, hold, done_at) "
      "SELECT 'e' || i, 'T', '{}', 1, NULL, 1 FROM n");
  const Result result = run_at_terminal({"purge", "--yes", "--batch", "7"});
  EXPECT_EQ(result.code, 0);
  EXPECT_TRUE(contains(result.out, "purging [")) << "a progress bar";
  EXPECT_TRUE(contains(result.out, "removed         50  DONE"));
}

TEST_F(PurgeCommand, RefusesInvalidArguments) {
  store();
  EXPECT_EQ(run({"purge", "--done-older-than", "old"}).code, 64);
  EXPECT_TRUE(
      contains(run({"purge", "--done-older-than", "old"}).err, "--done-older-than: \"old\""));
  EXPECT_EQ(run({"purge", "--done-older-than", "never", "--dead-older-than", "never"}).code, 64);
  EXPECT_EQ(run({"purge", "--everything-older-than", "1d", "--done-older-than", "1d"}).code, 64);
  EXPECT_EQ(run({"purge", "--everything-older-than", "never"}).code, 64);
  EXPECT_EQ(run({"purge", "--batch", "0"}).code, 64);
}

TEST_F(StatusCommand, CountsWhatWaitsAndNamesWhoDelivers) {
  Result result;
  const std::string head = publish("A", {"--aggregate-type", "Customer", "--aggregate-id", "42"});
  const std::string behind = publish("A", {"--aggregate-type", "Customer", "--aggregate-id", "42"});
  publish("Later", {"--deliver-after", "1h"});
  publish("Now");
  kill(publish("Dead"), "oh");
  hold({head, behind}, "the customer is locked");
  const auto owner_store = store();
  const auto owner = owner_store->join({.name = "billing"});
  ASSERT_NE(owner->renew().epoch, 0);

  result = run({"status"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(contains(result.out, "pending             4  "));
  EXPECT_TRUE(contains(result.out, "retrying          1  "));
  EXPECT_TRUE(contains(result.out, "delayed           1  "));
  EXPECT_TRUE(contains(result.out, "dead                1  see: outbox dead groups"));
  EXPECT_TRUE(contains(result.out, "billing   alive"));
  EXPECT_TRUE(contains(result.out, "Customer/42"));
  EXPECT_TRUE(contains(result.out, "the customer is locked"));
  EXPECT_TRUE(lacks(result.out, " \n")) << "no spaces at the ends of lines";

  const Json json = run({"status", "--json"}).json();
  EXPECT_EQ(json["pending"], 4);
  EXPECT_EQ(json["retrying"], 1);
  EXPECT_EQ(json["delayed"], 1);
  EXPECT_EQ(json["held"], 2);
  EXPECT_EQ(json["dead"], 1);
  EXPECT_GE(json["oldest_pending_age_ms"], 0);
  EXPECT_EQ(json["instances"][0]["name"], "billing");
  EXPECT_EQ(json["instances"][0]["pid"], getpid());
  EXPECT_EQ(json["instances"][0]["alive"], true);
  EXPECT_EQ(json["held_aggregates"][0]["head_id"], head);
  EXPECT_EQ(json["held_aggregates"][0]["waiting"], 1);

  owner->leave();
  EXPECT_TRUE(contains(run({"status"}).out, "gone"));
}

TEST_F(StatusCommand, AnEmptyStoreIsNothingSpecial) {
  store();
  const Result result = run({"status"});
  EXPECT_EQ(result.code, 0);
  EXPECT_TRUE(contains(result.out, "nothing is due"));
  EXPECT_TRUE(contains(result.out, "No instance delivers these events."));
  EXPECT_TRUE(run({"status", "--json"}).json()["oldest_pending_at"].is_null());
}

TEST_F(DoctorCommand, FindsNothingWrongWithAHealthyStore) {
  publish("A");
  const Result result = run({"doctor"});
  EXPECT_EQ(result.code, 0) << result.out;
  EXPECT_TRUE(contains(result.out, "Everything is in order."));
  std::set<std::string> checks;
  const Json report = run({"doctor", "--json"}).json();
  for (const Json& check : report["checks"]) {
    checks.insert(check["check"]);
    // The disk of the machine may be almost full.
    EXPECT_TRUE(check["verdict"] == "ok" || check["check"] == "disk") << check;
  }
  EXPECT_EQ(checks,
            (std::set<std::string>{"file", "folder", "disk", "journal", "integrity", "lock file",
                                   "schema", "owner", "pending", "held", "dead", "clock", "rows"}));
  EXPECT_TRUE(lacks(run({"doctor", "--skip-integrity"}).out, "integrity"));
}

TEST_F(DoctorCommand, WarnsOfDeadEventsHeldAggregatesAndClocks) {
  kill(publish("A"), "oh");
  hold({publish("B", {"--aggregate-id", "1"}), publish("B", {"--aggregate-id", "1"})}, "oh");
  publish("C");
  sql("UPDATE outbox_event SET created_at = created_at + 3600000000 WHERE event_type = 'C'");
  const Result result = run({"doctor"});
  EXPECT_EQ(result.code, 0) << "warnings are no failures";
  EXPECT_TRUE(contains(result.out, "warn  dead       1 event\n"));
  EXPECT_TRUE(contains(result.out, "-> outbox dead groups --db sqlite:" + database()));
  EXPECT_TRUE(contains(result.out, "warn  held       aggregate __GLOBAL__/1 waits"));
  EXPECT_TRUE(contains(result.out, "warn  clock"));
  EXPECT_TRUE(contains(result.out, "0 failed, 3 warnings."));
}

TEST_F(DoctorCommand, OldEventsThatNobodyDeliversAreAFailure) {
  publish("A");
  sql("UPDATE outbox_event SET created_at = created_at - 600000000");
  Result result = run({"doctor"});
  EXPECT_EQ(result.code, 1);
  EXPECT_TRUE(contains(result.out, "fail  pending    1 event, the oldest due for 10 min"));
  EXPECT_TRUE(contains(result.out, "and no instance delivers"));
  EXPECT_TRUE(contains(result.out, "-> start the application"));

  const auto owner_store = store();
  const auto owner = owner_store->join({.name = "billing"});
  owner->renew();
  result = run({"doctor"});
  EXPECT_EQ(result.code, 0);
  EXPECT_TRUE(contains(result.out, "ok    owner      billing delivers"));
  EXPECT_TRUE(contains(result.out, "warn  pending"));
}

TEST_F(DoctorCommand, RepairsRowsThatContradictThemselves) {
  const std::string sound = publish("A");
  const std::string pending = publish("A");
  const std::string done = publish("A");
  const std::string dead = publish("A");
  const std::string unknown = publish("A");
  sql("DROP TRIGGER outbox_event_check_update");
  sql("UPDATE outbox_event SET hold = NULL WHERE event_id = '" + pending + "'");
  sql("UPDATE outbox_event SET status = 1, hold = 'x' WHERE event_id = '" + done + "'");
  sql("UPDATE outbox_event SET status = 3, hold = -5 WHERE event_id = '" + dead + "'");
  sql("UPDATE outbox_event SET status = 9 WHERE event_id = '" + unknown + "'");
  EXPECT_TRUE(contains(run({"status"}).out, "broken              4"));
  EXPECT_EQ(run({"status", "--json"}).json()["broken"], 4);

  Result result = run({"doctor"});
  EXPECT_EQ(result.code, 1);
  EXPECT_TRUE(contains(result.out, "fail  rows       1 event NEW or RETRY, but neither due"));
  EXPECT_TRUE(contains(result.out, pending));
  EXPECT_TRUE(contains(
      result.out, "-> outbox doctor --repair --db sqlite:" + database() + " (makes them due)"));
  EXPECT_TRUE(contains(result.out, "4 failed"));
  EXPECT_EQ(store()->counts().broken, 4) << "it only looked";

  result = run({"doctor", "--repair"});
  EXPECT_EQ(result.code, 0) << result.out;
  EXPECT_TRUE(contains(result.out, "ok    rows       repaired 1 event of an unknown status"));
  EXPECT_TRUE(lacks(result.out, sound));
  EXPECT_EQ(store()->counts().broken, 0);
  EXPECT_EQ(store()->counts().pending, 2);
  EXPECT_EQ(store()->counts().delayed, 0);
  EXPECT_EQ(store()->admin().find(done)->row.status, Status::done);
  EXPECT_EQ(store()->admin().find(dead)->row.status, Status::dead);
  EXPECT_EQ(store()->admin().find(unknown)->row.status, Status::dead);
  EXPECT_TRUE(contains(store()->admin().find(unknown)->last_error, "outbox doctor --repair"));
  EXPECT_TRUE(store()->admin().find(unknown)->done_at);
  EXPECT_FALSE(store()->admin().find(done)->hold);
  EXPECT_TRUE(contains(run({"doctor", "--repair"}).out, "of each agree"));
}

TEST_F(DoctorCommand, RepairsAnyNumberOfRows) {
  publish("A");
  sql("DROP TRIGGER outbox_event_check_insert");
  sql("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500) INSERT INTO "
      "outbox_event (event_id, event_type, payload, hold) SELECT CAST('e' || i AS BLOB), 'T', "
      "'{}', NULL FROM n");
  EXPECT_TRUE(contains(run({"doctor"}).out, "at least 1,000 events NEW or RETRY"));
  const Result result = run({"doctor", "--repair", "--skip-integrity"});
  EXPECT_EQ(result.code, 0) << result.out;
  EXPECT_TRUE(contains(result.out, "repaired 2,500 events NEW or RETRY"));
  EXPECT_TRUE(contains(result.out, "\"e10\" and 2,490 more"));
  EXPECT_EQ(store()->counts().pending, 2'501);
}

// It ended the repair of all, and what had been repaired before was not said.
TEST_F(DoctorCommand, ARowThatCannotBeRepairedStopsOnlyItself) {
  std::vector<std::string> ids;
  for (int n = 0; n < 3; ++n) ids.push_back(publish("A"));
  sql("DROP TRIGGER outbox_event_check_update");
  sql("UPDATE outbox_event SET hold = NULL");
  sql("CREATE TRIGGER kept BEFORE UPDATE ON outbox_event WHEN OLD.event_id = '" + ids[1] +
      "' BEGIN SELECT RAISE(ABORT, 'not this one'); END");
  const Result result = run({"doctor", "--repair"});
  EXPECT_EQ(result.code, 1);
  EXPECT_TRUE(contains(result.out, "repaired 2 events NEW or RETRY"));
  EXPECT_TRUE(contains(result.out, "fail  rows       1 event NEW or RETRY"));
  EXPECT_TRUE(contains(result.out, "not repaired: "));
  EXPECT_TRUE(contains(result.out, "not this one"));
  EXPECT_EQ(store()->counts().broken, 1);
  EXPECT_EQ(store()->counts().pending, 2);
}

TEST_F(DoctorCommand, SaysWhatIsWrongWithTheFile) {
  Result result = run({"doctor"});
  EXPECT_EQ(result.code, 1);
  EXPECT_TRUE(contains(result.out, "fail  file       " + database() + ": No such file"));
  EXPECT_TRUE(contains(result.out, "1 failed"));
  EXPECT_EQ(run({"doctor", "--json"}).json()["healthy"], false);

  std::ofstream(database()) << std::string(5'000, 'x');
  result = run({"doctor"});
  EXPECT_EQ(result.code, 1);
  EXPECT_TRUE(contains(result.out, "fail  journal    the database cannot be read: file is not"));

  std::ofstream(database(), std::ios::trunc).flush();
  result = run({"doctor"});
  EXPECT_EQ(result.code, 1);
  EXPECT_TRUE(contains(result.out, "fail  schema     there are no tables"));
  EXPECT_TRUE(contains(result.out, "-> outbox migrate up --db sqlite:" + database()));
  EXPECT_TRUE(contains(result.out, "warn  journal"));
}

// "There is no outbox in it, run migrate up", it said.
TEST_F(StatusCommand, AFileThatIsNotThereIsNamedAndNotMade) {
  for (const std::string& url : {database(), "sqlite:" + database(), "file:" + database()}) {
    for (const Arguments& arguments :
         {Arguments{"status"}, Arguments{"events", "list"}, Arguments{"events", "show", "x"},
          Arguments{"events", "tail", "--seconds", "0"}, Arguments{"dead", "groups"},
          Arguments{"dead", "replay", "x"}, Arguments{"purge", "--yes"},
          Arguments{"events", "publish", "--type", "A", "--payload", "{}"}}) {
      const Result result = run(arguments, {.environment = {{"OUTBOX_DB", url}}});
      EXPECT_EQ(result.code, 78) << arguments[0] << result.err;
      EXPECT_TRUE(contains(result.err, "there is no file "));
      EXPECT_TRUE(contains(result.err, database() + ": check --db"));
      EXPECT_TRUE(contains(result.err, "outbox migrate up --db"));
    }
    const Result result = run({"migrate", "status"}, {.environment = {{"OUTBOX_DB", url}}});
    EXPECT_EQ(result.code, 1);
    EXPECT_TRUE(contains(result.err, database() + "; run: outbox migrate up"));
    EXPECT_EQ(run({"doctor"}, {.environment = {{"OUTBOX_DB", url}}}).code, 1);
  }
  EXPECT_FALSE(std::filesystem::exists(database()));
}

TEST_F(DoctorCommand, FindsADamagedDatabase) {
  publish("A");
  sql("PRAGMA wal_checkpoint(TRUNCATE)");
  const auto sound = static_cast<std::streamoff>(std::filesystem::file_size(database()));
  sql("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500) INSERT INTO "
      "outbox_event (event_id, event_type, payload) SELECT 'e' || i, 'T', '{}' FROM n");
  sql("PRAGMA wal_checkpoint(TRUNCATE)");
  // Behind all that describes the tables, which must be readable for the rest to be looked at.
  std::fstream damaged(database(), std::ios::in | std::ios::out | std::ios::binary);
  damaged.seekp(0, std::ios::end);
  const auto size = static_cast<std::streamoff>(damaged.tellp());
  for (std::streamoff page = sound; page < size; page += 4096) {
    damaged.seekp(page);
    damaged << std::string(200, '\x5a');
  }
  damaged.close();
  const Result result = run({"doctor"});
  EXPECT_EQ(result.code, 1);
  EXPECT_TRUE(contains(result.out, "fail  integrity"));
  EXPECT_TRUE(contains(result.out, "restore a backup"));
}

}  // namespace
}  // namespace outbox::e2e
