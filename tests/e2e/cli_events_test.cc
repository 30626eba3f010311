// `outbox events` and `outbox migrate`, end to end.
#include <unistd.h>

#include <fstream>
#include <set>
#include <thread>

#include "cli_runner.h"
#include "outbox/writer.h"

namespace outbox::e2e {
namespace {

using EventsCommand = CliTest;
using MigrateCommand = CliTest;

TEST_F(MigrateCommand, CreatesTheTablesAndSaysWhereTheyStand) {
  Result result = run({"migrate", "status"});
  EXPECT_EQ(result.code, 1);
  EXPECT_TRUE(contains(result.out, "001_outbox"));
  EXPECT_TRUE(contains(result.out, "not yet"));
  EXPECT_TRUE(contains(result.err, "outbox migrate up --db sqlite:" + database()));
  EXPECT_NE(access(database().c_str(), F_OK), 0) << "status makes no file";

  result = run({"migrate", "up"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(contains(result.out, "applied  001_outbox"));
  EXPECT_TRUE(contains(result.out, "is up to date"));
  result = run({"migrate", "up"});
  EXPECT_EQ(result.code, 0);
  EXPECT_TRUE(lacks(result.out, "applied")) << "once";

  result = run({"migrate", "status"});
  EXPECT_EQ(result.code, 0);
  EXPECT_TRUE(lacks(result.out, "not yet"));
  EXPECT_EQ(result.err, "");
}

TEST_F(MigrateCommand, SpeaksJson) {
  Json before = run({"migrate", "status", "--json"}).json();
  EXPECT_EQ(before["version"], 0);
  EXPECT_EQ(before["up_to_date"], false);
  EXPECT_TRUE(before["steps"][0]["applied_at"].is_null());
  const Json up = run({"migrate", "up", "--json", "--table", "mine"}).json();
  EXPECT_EQ(up["version"], up["latest"]);
  EXPECT_EQ(up["applied"], up["latest"]);
  EXPECT_EQ(run({"migrate", "up", "--json", "--table", "mine"}).json()["applied"], 0);
  EXPECT_TRUE(run({"migrate", "status", "--json", "--table", "mine"}).json()["up_to_date"]);
  EXPECT_EQ(run({"migrate", "status", "--json"}).json()["version"], 0) << "another table";
}

TEST_F(MigrateCommand, PrintsSqlThatDoesTheSame) {
  const Result result = run({"migrate", "print", "--table", "mine"});
  EXPECT_EQ(result.code, 0);
  EXPECT_TRUE(contains(result.out, "CREATE TABLE IF NOT EXISTS \"mine\""));
  sql(result.out);
  EXPECT_EQ(run({"migrate", "status", "--table", "mine"}).code, 0);
  EXPECT_EQ(run({"migrate", "print"}, {.environment = {{"OUTBOX_DB", ""}}}).code, 0)
      << "needs no database";
}

TEST_F(MigrateCommand, LeavesANewerSchemaAlone) {
  store();
  sql("INSERT INTO outbox_event_migration VALUES (1000, 'future', 0)");
  for (const char* command : {"up", "status"}) {
    const Result result = run({"migrate", command});
    EXPECT_EQ(result.code, 78);
    EXPECT_TRUE(contains(result.err, "version 1000"));
  }
  EXPECT_TRUE(contains(run({"migrate", "status"}).out, "by a newer outbox"));
  const Result result = run({"status"});
  EXPECT_EQ(result.code, 78);
  EXPECT_TRUE(contains(result.err, "use the version of outbox that made it"));
}

TEST_F(EventsCommand, WhatIsPublishedIsShownByteForByte) {
  const std::string payload = "{\"b\":1.10, \"a\" : [1,2],\n \"a\":\"\\u0000 \xc3\xa4\"}";
  const std::string id =
      publish("OrderPlaced", {"--payload", payload, "--aggregate-type", "Customer",
                              "--aggregate-id", "42", "--tenant", "acme", "--header", "a=b=c",
                              "--header", "[x]=[1,2]", "--header", "empty="});
  const Json shown = run({"events", "show", id, "--json"}).json();
  EXPECT_EQ(shown["id"], id);
  EXPECT_EQ(shown["payload"], payload);
  EXPECT_EQ(shown["content_type"], "application/json");
  EXPECT_EQ(shown["payload_bytes"], payload.size());
  EXPECT_EQ(shown["headers"], (Json{{"a", "b=c"}, {"[x]", "[1,2]"}, {"empty", ""}}));
  EXPECT_EQ(shown["aggregate_type"], "Customer");
  EXPECT_EQ(shown["aggregate_id"], "42");
  EXPECT_EQ(shown["tenant_id"], "acme");
  EXPECT_EQ(shown["status"], "NEW");
  EXPECT_EQ(shown["state"], "ready");
  EXPECT_TRUE(shown["finished_at"].is_null());

  const Result page = run({"events", "show", id});
  EXPECT_EQ(page.code, 0);
  EXPECT_TRUE(contains(page.out, "aggregate      Customer/42\n"));
  EXPECT_TRUE(contains(page.out, "header         a: b=c\n"));
  EXPECT_TRUE(contains(page.out, payload)) << "lines stay lines";
}

TEST_F(EventsCommand, PayloadsComeFromFilesAndStandardInput) {
  store();
  std::ofstream(file("order.json")) << "{\"from\":\"file\"}\n";
  Result result =
      run({"events", "publish", "--type", "T", "--payload", "@" + file("order.json"), "--json"});
  const std::string from_file = result.json()["id"];
  EXPECT_EQ(run({"events", "show", from_file, "--json"}).json()["payload"],
            "{\"from\":\"file\"}\n");

  const std::string bytes("\x00\xff\x01 no text", 11);
  result = run({"events", "publish", "--type", "T", "--payload", "-", "--bytes"}, {.input = bytes});
  EXPECT_EQ(result.code, 0) << result.err;
  result.out.pop_back();
  const Json shown = run({"events", "show", result.out, "--json"}).json();
  EXPECT_EQ(shown["payload_base64"], "AP8BIG5vIHRleHQ=");
  EXPECT_FALSE(shown.contains("payload"));
  EXPECT_EQ(shown["content_type"], "application/octet-stream");
  EXPECT_TRUE(contains(run({"events", "show", result.out}).out, "AP8BIG5vIHRleHQ="));

  const std::string largest = '"' + std::string(kMaxPayloadBytes - 2, 'x') + '"';
  EXPECT_EQ(run({"events", "publish", "--type", "T", "--payload", "-"}, {.input = largest}).code,
            0);
  result = run({"events", "publish", "--type", "T", "--payload", "-"}, {.input = largest + " "});
  EXPECT_EQ(result.code, 64);
  EXPECT_TRUE(contains(result.err, "1048576 bytes"));
}

TEST_F(EventsCommand, ADelayedEventIsSaidToBe) {
  const std::string id = publish("T", {"--deliver-after", "1h30m"});
  EXPECT_EQ(run({"events", "show", id, "--json"}).json()["state"], "delayed");
  EXPECT_TRUE(contains(run({"events", "show", id}).out, "NEW, delayed"));
  const std::string at = publish("T", {"--deliver-at", "2999-01-01T00:00:00+01:00"});
  EXPECT_EQ(run({"events", "show", at, "--json"}).json()["available_at"],
            "2998-12-31T23:00:00.000000Z");
}

TEST_F(EventsCommand, ListsNeitherPayloadsNorHeaders) {
  publish("T", {"--payload", "{\"password\":\"hunter2\"}", "--header", "authorization=swordfish"});
  for (const Arguments& arguments :
       {Arguments{"events", "list"}, Arguments{"events", "list", "--json"},
        Arguments{"events", "tail", "--after", "0", "--seconds", "0"},
        Arguments{"events", "tail", "--after", "0", "--seconds", "0", "--json"},
        Arguments{"status"}, Arguments{"doctor"}}) {
    const Result result = run(arguments);
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_TRUE(lacks(result.out + result.err, "hunter2"));
    EXPECT_TRUE(lacks(result.out + result.err, "swordfish"));
  }
}

TEST_F(EventsCommand, ListsByFilterAndByPage) {
  const std::string first = publish("A", {"--aggregate-type", "X", "--aggregate-id", "1"});
  const std::string second = publish("B", {"--aggregate-type", "X", "--tenant", "acme"});
  const std::string third = publish("A");
  kill(third, "it broke: 100%");
  const auto ids = [&](Arguments arguments) {
    arguments.insert(arguments.begin(), {"events", "list", "--json"});
    const Result result = run(arguments);
    EXPECT_EQ(result.code, 0) << result.err;
    std::vector<std::string> found;
    for (const Json& event : result.json_lines()) found.push_back(event["id"]);
    return found;
  };
  using Ids = std::vector<std::string>;
  EXPECT_EQ(ids({}), (Ids{first, second, third}));
  EXPECT_EQ(ids({"--type", "A"}), (Ids{first, third}));
  EXPECT_EQ(ids({"--aggregate-type", "X"}), (Ids{first, second}));
  EXPECT_EQ(ids({"--aggregate-id", "1"}), (Ids{first}));
  EXPECT_EQ(ids({"--tenant", "acme"}), (Ids{second}));
  EXPECT_EQ(ids({"--status", "dead"}), (Ids{third}));
  EXPECT_EQ(ids({"--status", "NEW,DEAD", "--status", "RETRY"}), (Ids{first, second, third}));
  EXPECT_EQ(ids({"--error", "100%"}), (Ids{third}));
  EXPECT_EQ(ids({"--since", "1h"}), (Ids{first, second, third}));
  EXPECT_EQ(ids({"--until", "1h"}), (Ids{}));
  EXPECT_EQ(ids({"--since", "2000-01-01", "--until", "2001-01-01T00:00:00.5+02:00"}), (Ids{}));

  const Result page = run({"events", "list", "--limit", "2"});
  EXPECT_TRUE(contains(page.out, second));
  EXPECT_TRUE(lacks(page.out, third));
  EXPECT_TRUE(contains(page.err, "add --after 2"));
  EXPECT_EQ(ids({"--after", "2"}), (Ids{third}));

  const Result table = run({"events", "list"});
  EXPECT_TRUE(contains(table.out, "SEQ  ID "));
  EXPECT_TRUE(contains(table.out, "DEAD"));
  EXPECT_TRUE(contains(table.out, "it broke: 100%\n"));
  EXPECT_TRUE(contains(run({"events", "list", "--type", "none"}).err, "No events match."));
}

TEST_F(EventsCommand, NamesThatHoldControlCharactersForgeNothing) {
  publish("T", {"--aggregate-id", "x\x1b[31m\ny"});
  const Result table = run({"events", "list"});
  EXPECT_TRUE(lacks(table.out, "\x1b"));
  EXPECT_TRUE(contains(table.out, "x\\x1b[31m\\ny"));
  EXPECT_EQ(run({"events", "list", "--json"}).json()["aggregate_id"], "x\x1b[31m\ny");
}

TEST_F(EventsCommand, TailFollowsWhatIsCommittedWhileItRuns) {
  publish("Before");
  Result result;
  const auto box = store();
  // The first is written until it is seen: nobody knows when tail has begun.
  std::jthread writer([&](const std::stop_token& stop) {
    Writer events(box);
    for (int n = 0; !stop.stop_requested(); ++n) {
      auto tx = events.begin();
      tx.write({.type = n % 2 == 0 ? "Even" : "Odd", .payload = json(std::to_string(n))});
      tx.commit();
      // The pace of a writer; the tail must see some, however many they are.
      std::this_thread::sleep_for(std::chrono::milliseconds{20});
    }
  });
  result = run({"events", "tail", "--seconds", "5", "--type", "Odd", "--payload", "--json"});
  writer.request_stop();
  writer.join();
  EXPECT_EQ(result.code, 0) << result.err;
  const auto seen = result.json_lines();
  ASSERT_GE(seen.size(), 2u);
  for (std::size_t n = 1; n < seen.size(); ++n) {
    EXPECT_EQ(seen[n]["type"], "Odd");
    EXPECT_EQ(std::stoi(seen[n]["payload"].get<std::string>()),
              std::stoi(seen[n - 1]["payload"].get<std::string>()) + 2)
        << "each once, in order";
  }
}

TEST_F(EventsCommand, TailBeginsWhereItIsTold) {
  publish("A");
  publish("B", {"--payload", "[\n1]"});
  Result result = run({"events", "tail", "--after", "1", "--seconds", "0", "--payload"});
  EXPECT_EQ(result.code, 0);
  EXPECT_TRUE(lacks(result.out, "  A"));
  EXPECT_TRUE(contains(result.out, "NEW  B  [\\n1]\n")) << "one line each";
  EXPECT_EQ(run({"events", "tail", "--seconds", "0"}).out, "") << "only what is new";
}

TEST_F(EventsCommand, RefusesInvalidArguments) {
  const std::string id = publish("T");
  struct Case {
    Arguments arguments;
    int code;
    std::string says;
  };
  const std::vector<Case> cases{
      {{"events"}, 64, "missing command; commands: list, show, tail, publish"},
      {{"events", "bogus"}, 64, "unknown command \"bogus\""},
      {{"events", "list", "--bogus"}, 64, "Try: outbox events list --help"},
      {{"--db", "x", "status"}, 64, "options come after the command"},
      {{"events", "list", "--limit", "0"}, 64, "--limit"},
      {{"events", "list", "--limit", "many"}, 64, "--limit"},
      {{"events", "list", "--after", "-1"}, 64, "--after"},
      {{"events", "list", "--status", "GONE"}, 64, "NEW, RETRY, DONE or DEAD"},
      {{"events", "list", "--status", "NEW,"}, 64, "\"\" is not a status"},
      {{"events", "list", "--since", "yesterday"}, 64, "--since: \"yesterday\""},
      {{"events", "list", "--until", "2026-02-30"}, 64, "--until: \"2026-02-30\""},
      {{"events", "list", "--since", "1h", "--until", "2h"}, 64, "is not before"},
      {{"events", "list", "--db", "oracle://u:hunter2@h/db"}, 78, "\"oracle:\""},
      {{"events", "list", "--db", "sqlite://host/db"}, 78, "sqlite:PATH"},
      {{"events", "list", "--db", "sqlite:"}, 78, "names no file"},
      {{"events", "list", "--db", ":memory:"}, 78, "without a file"},
      {{"events", "list", "--db", file("none.db")}, 78, "outbox migrate up --db sqlite:"},
      {{"events", "list", "--db", OUTBOX_PROGRAM}, 78, "not an SQLite database"},
      {{"events", "list", "--table", "a-b"}, 78, "is no table name"},
      {{"events", "list", "--table", "other"}, 78, "--table other"},
      {{"events", "show"}, 64, "ID is required"},
      {{"events", "show", "nobody"}, 1, "there is no event \"nobody\""},
      {{"events", "publish", "--payload", "{}"}, 64, "--type is required"},
      {{"events", "publish", "--type", "T"}, 64, "--payload is required"},
      {{"events", "publish", "--type", "", "--payload", "{}"}, 64, "type"},
      {{"events", "publish", "--type", std::string(129, 'x'), "--payload", "{}"}, 64, "128"},
      {{"events", "publish", "--type", "T", "--payload", "{"}, 64, "add --bytes"},
      {{"events", "publish", "--type", "T", "--payload", "@" + file("none")}, 64, "No such file"},
      {{"events", "publish", "--type", "T", "--payload", "@/"}, 64, "Is a directory"},
      {{"events", "publish", "--type", "T", "--payload", "{}", "--header", "x"}, 64, "KEY=VALUE"},
      {{"events", "publish", "--type", "T", "--payload", "{}", "--header", "=x"}, 64, "KEY=VALUE"},
      {{"events", "publish", "--type", "T", "--payload", "{}", "--header", "a=1", "--header",
        "a=2"},
       64,
       "is given twice"},
      {{"events", "publish", "--type", "T", "--payload", "{}", "--deliver-after", "soon"},
       64,
       "--deliver-after: \"soon\""},
      {{"events", "publish", "--type", "T", "--payload", "{}", "--deliver-at", "2h"},
       64,
       "--deliver-at: \"2h\""},
      {{"events", "publish", "--type", "T", "--payload", "{}", "--deliver-at", "2030-01-01",
        "--deliver-after", "2h"},
       64,
       "cannot be combined with"},
      {{"events", "publish", "--type", "T", "--payload", "{}", "--id", id}, 1, "already"},
      {{"events", "list", "--db"}, 64, "--db needs a value: URL"},
      {{"events", "list", "--limit", "9", "--limit", "9"}, 64, "--limit is given twice"},
      {{"events", "list", "--db", file("")}, 78, "is a folder"},
      {{"status", "more"}, 64, "unexpected argument \"more\""},
      {{"completion"}, 64, "missing command; commands: bash"},
  };
  for (const Case& wrong : cases) {
    const Result result = run(wrong.arguments);
    std::string line;
    for (const std::string& argument : wrong.arguments) line += argument + " ";
    EXPECT_EQ(result.code, wrong.code) << line << result.err;
    EXPECT_TRUE(contains(result.err, wrong.says)) << line;
    EXPECT_EQ(result.out, "") << line;
    EXPECT_TRUE(lacks(result.err, "hunter2")) << line;
  }
  const Result nowhere = run({"status"}, {.environment = {{"OUTBOX_DB", ""}}});
  EXPECT_EQ(nowhere.code, 64);
  EXPECT_TRUE(contains(nowhere.err, "OUTBOX_DB"));
}

TEST_F(EventsCommand, ADatabaseThatIsLockedIsUnavailable) {
  const auto box = store();
  const auto connection = box->connect();
  connection->begin();
  const Result result = run({"events", "publish", "--type", "T", "--payload", "{}"});
  EXPECT_EQ(result.code, 69);
  EXPECT_TRUE(contains(result.err, "to end its transaction"));
}

}  // namespace
}  // namespace outbox::e2e
