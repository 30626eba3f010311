#include "settings.h"

#include <gtest/gtest.h>

#include <sstream>
#include <stdexcept>

namespace outbox::chaos {
namespace {

Settings parsed(const std::vector<const char*>& arguments) { return parse_settings(arguments); }

std::string refusal(const std::vector<const char*>& arguments) {
  try {
    parsed(arguments);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

TEST(ChaosSettings, ReadsWhatItIsTold) {
  const Settings settings = parsed({"--seed", "7", "--kills", "3", "--mode", "claims", "--keep"});
  EXPECT_EQ(settings.seed, 7u);
  EXPECT_EQ(settings.kills, 3);
  EXPECT_EQ(settings.mode, Mode::claims);
  EXPECT_TRUE(settings.keep);
  EXPECT_TRUE(settings.binlog);
  EXPECT_FALSE(parsed({"--no-binlog", "--store", "mysql"}).binlog);
}

TEST(ChaosSettings, TellsTheProcessesWhatTheyNeed) {
  Settings settings =
      parsed({"--seed", "7", "--mode", "none", "--store", "postgres", "--fault", "lose_updates"});
  settings.directory = "/somewhere";
  settings.url = "postgresql://through";
  settings.direct_url = "postgresql://around";
  settings.wrong_clock = true;
  settings.lease = std::chrono::seconds{12};
  settings.rate = 300;
  const std::vector<std::string> told = arguments_for(settings, harness::Role::dispatcher, 12);
  std::vector<const char*> arguments;
  for (const std::string& argument : told) arguments.push_back(argument.c_str());
  const Settings child = parsed(arguments);
  EXPECT_EQ(child.role, harness::Role::dispatcher);
  EXPECT_EQ(child.directory, "/somewhere");
  EXPECT_EQ(child.incarnation, 12);
  EXPECT_EQ(child.seed, 7u);
  EXPECT_EQ(child.mode, Mode::none);
  EXPECT_EQ(child.store, StoreKind::postgres);
  EXPECT_EQ(child.url, "postgresql://through");
  EXPECT_EQ(child.direct_url, "postgresql://around");
  EXPECT_TRUE(child.wrong_clock);
  EXPECT_EQ(child.lease, std::chrono::seconds{12});
  EXPECT_EQ(child.rate, 300);
  EXPECT_TRUE(child.faults.lose_updates);
}

TEST(ChaosSettings, ReadsWhatALongRunIsTold) {
  const Settings settings = parsed(
      {"--long", "--minutes", "5", "--record", "runs", "--commit", "abc", "--evidence", "e"});
  EXPECT_TRUE(settings.campaign);
  EXPECT_EQ(settings.minutes, 5);
  EXPECT_EQ(settings.record, "runs");
  EXPECT_EQ(settings.commit, "abc");
  EXPECT_EQ(settings.evidence, "e");
  EXPECT_TRUE(parsed({"--in-memory"}).in_memory);
}

TEST(ChaosSettings, SaysHowToPlayARunAgain) {
  for (const char* text :
       {"--store sqlite --mode none --kills 3 --seconds 2 --rate 5",
        "--store postgres --mode ordered --kills 3 --seconds 2 --cuts 7 --server-kills 0 --lease 2"
        " --in-memory --fault lose_updates",
        "--store postgres --mode none --kills 3 --seconds 2 --by-position",
        "--store mysql --servers async --mode ordered --kills 0 --seconds 2 --promotions 4",
        "--store mysql --mode claims --kills 60 --seconds 40 --freezes 1 --no-binlog"}) {
    std::istringstream words(text);
    std::vector<std::string> arguments;
    for (std::string word; words >> word;) arguments.push_back(word);
    std::vector<const char*> pointers;
    for (const std::string& argument : arguments) pointers.push_back(argument.c_str());
    EXPECT_EQ(description_of(parsed(pointers)), text);
  }
}

TEST(ChaosSettings, SeveralServersAreNotCutOffUnlessTheyAreAskedTo) {
  const Settings settings = parsed({"--store", "postgres", "--servers", "sync", "--promotions", "2",
                                    "--freezes", "1", "--isolations", "3", "--record", "here"});
  EXPECT_EQ(settings.servers, Servers::sync);
  EXPECT_EQ(settings.promotions, 2);
  EXPECT_EQ(settings.freezes, 1);
  EXPECT_EQ(settings.isolations, 3);
  EXPECT_EQ(settings.record, "here");
  EXPECT_EQ(settings.cuts, 0);
  EXPECT_EQ(settings.server_kills, 0);
  EXPECT_EQ(parsed({"--store", "mysql", "--servers", "galera", "--server-kills", "2"}).server_kills,
            2);
}

TEST(ChaosSettings, KnowsWhichServersMayLoseCommits) {
  for (const char* servers : {"async", "patroni"}) {
    EXPECT_TRUE(may_lose_commits(parsed({"--store", "postgres", "--servers", servers}))) << servers;
  }
  for (const char* servers : {"one", "sync", "patroni-sync"}) {
    EXPECT_FALSE(may_lose_commits(parsed({"--store", "postgres", "--servers", servers})))
        << servers;
  }
  EXPECT_FALSE(may_lose_commits(parsed({"--store", "mysql", "--servers", "galera"})));
}

TEST(ChaosSettings, RefusesFaultsThatTheServersCannotHave) {
  EXPECT_EQ(refusal({"--store", "postgres", "--promotions", "1"}),
            "--promotions needs --servers with two of them; got 'one'");
  EXPECT_EQ(refusal({"--store", "mysql", "--isolations", "1"}),
            "--isolations needs --servers with several; got 'one'");
  EXPECT_EQ(refusal({"--freezes", "1"}), "--freezes needs --store postgres or mysql; got 'sqlite'");
  EXPECT_EQ(refusal({"--store", "mysql", "--servers", "sync"}),
            "--servers sync is for another --store; got 'mysql'");
  EXPECT_EQ(refusal({"--servers", "async"}),
            "--servers async is for another --store; got 'sqlite'");
  EXPECT_EQ(refusal({"--store", "mysql", "--servers", "galera", "--promotions", "1"}),
            "--promotions needs a primary, which a cluster has not; got 'galera'");
  EXPECT_EQ(refusal({"--store", "postgres", "--servers", "patroni", "--isolations", "1"}),
            "--isolations is for sync, async and galera; got 'patroni'");
  EXPECT_EQ(refusal({"--store", "postgres", "--servers", "sync", "--cuts", "1"}),
            "--cuts is for one server; got 'sync'");
}

TEST(ChaosSettings, NamesWhatItRefuses) {
  EXPECT_EQ(refusal({"--kils", "3"}), "unknown option '--kils'; try --help");
  EXPECT_EQ(refusal({"--kills", "-1"}), "--kills must be a whole number of at least 0; got '-1'");
  EXPECT_EQ(refusal({"--kills", "3x"}), "--kills must be a whole number of at least 0; got '3x'");
  EXPECT_EQ(refusal({"--kills"}), "--kills needs a value; try --help");
  EXPECT_EQ(refusal({"--mode", "fast"}), "--mode must be one of ordered, none, claims; got 'fast'");
  EXPECT_EQ(refusal({"--store", "oracle"}),
            "--store must be one of sqlite, postgres, mysql; got 'oracle'");
  EXPECT_EQ(refusal({"--no-binlog", "--store", "postgres"}),
            "--no-binlog is for --store mysql; got 'postgres'");
  EXPECT_EQ(refusal({"--by-position", "--store", "mysql"}),
            "--by-position is for --store postgres without --mode claims");
  EXPECT_EQ(refusal({"--fault", "bad_luck"}),
            "a fault must be one of drop_fence, update_before_delivery, lose_updates, reread, "
            "hook_on_rollback; got 'bad_luck'");
}

}  // namespace
}  // namespace outbox::chaos
