#include "campaign.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>

#include "support/temporary_directory.h"

namespace outbox::chaos {
namespace {

PastRun run(std::map<std::string, std::string, std::less<>> values) {
  return PastRun(std::move(values));
}

// Nobody is behind.
std::map<std::string, std::string, std::less<>> enough() {
  return {{"kills", "2000"},
          {"server kills", "100"},
          {"promotions", "50"},
          {"freezes", "60"},
          {"commits cut before", "200"},
          {"commits cut during", "100"},
          {"commits cut after", "200"},
          {"stops beyond the lease", "40"},
          {"committed", "2000000"},
          {"verdict", "clean"}};
}

bool serves(const Kind* kind, std::string_view goal) {
  return kind != nullptr &&
         std::find(kind->serves.begin(), kind->serves.end(), goal) != kind->serves.end();
}

TEST(RunRecord, IsReadAsItWasWritten) {
  const test::TemporaryDirectory directory;
  const std::string path = directory.file("runs.tsv");
  EXPECT_TRUE(read_records(path).empty());
  append_record(path, {{"store", ""}, {"kills", "3"}});
  append_record(path, {{"store", "mysql"}, {"kills", "4"}});
  const std::vector<PastRun> runs = read_records(path);
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].text("store"), "");
  EXPECT_EQ(runs[0].number("kills"), 3);
  EXPECT_EQ(runs[1].text("store"), "mysql");
  EXPECT_EQ(runs[1].number("kills"), 4);
  EXPECT_EQ(runs[1].number("cuts"), 0);
  EXPECT_THROW(append_record(path, {{"store", "mysql"}}), std::runtime_error) << "other columns";
}

TEST(RunRecord, LeavesOutALineThatWasCutShort) {
  const test::TemporaryDirectory directory;
  const std::string path = directory.file("runs.tsv");
  append_record(path, {{"store", "sqlite"}, {"kills", "3"}});
  std::ofstream(path, std::ios::app) << "mysql";
  EXPECT_EQ(read_records(path).size(), 1u);
  append_record(path, {{"store", "postgres"}, {"kills", "4"}});
  ASSERT_EQ(read_records(path).size(), 2u);
  EXPECT_EQ(read_records(path)[1].text("store"), "postgres");
}

TEST(Campaign, EndsWhenAllGoalsAreReached) {
  EXPECT_EQ(next_kind(std::vector{run(enough())}), nullptr);
  auto almost = enough();
  almost["commits cut after"] = "199";
  EXPECT_TRUE(serves(next_kind(std::vector{run(almost)}), "cuts inside COMMIT"));
}

TEST(Campaign, AddsUpWhatSeveralRunsReached) {
  const std::vector<PastRun> runs{run({{"freezes", "3"}, {"stops beyond the lease", "2"}}),
                                  run({{"freezes", "1"}})};
  for (const Goal& goal : goals()) {
    EXPECT_EQ(reached(goal, runs), goal.name == "freezes past the lease" ? 6 : 0) << goal.name;
  }
}

TEST(Campaign, PlaysForTheGoalThatIsFurthestBehind) {
  auto behind = enough();
  behind["promotions"] = "10";
  behind["kills"] = "1000";
  EXPECT_TRUE(serves(next_kind(std::vector{run(behind)}), "promotions"));
}

TEST(Campaign, PlaysEachKindThatServesAGoalInTurn) {
  auto behind = enough();
  behind["promotions"] = "0";
  std::vector<PastRun> runs{run(behind)};
  std::vector<std::string> played;
  for (int n = 0; n < 3; ++n) {
    played.push_back(next_kind(runs)->arguments);
    std::istringstream in(played.back());
    std::vector<std::string> words;
    for (std::string word; in >> word;) words.push_back(word);
    std::vector<const char*> arguments;
    for (const std::string& word : words) arguments.push_back(word.c_str());
    runs.push_back(run({{"run", description_of(parse_settings(arguments))}, {"promotions", "1"}}));
  }
  std::sort(played.begin(), played.end());
  EXPECT_EQ(std::unique(played.begin(), played.end()), played.end());
}

// Else a goal would never be reached.
TEST(Campaign, HasARunForEveryGoalAndEveryStoreAndMode) {
  for (const Goal& goal : goals()) {
    EXPECT_TRUE(std::any_of(kinds().begin(), kinds().end(), [&](const Kind& kind) {
      return serves(&kind, goal.name);
    })) << goal.name;
  }
  for (const char* store : {"sqlite", "postgres", "mysql"}) {
    for (const char* mode : {"ordered", "none", "claims"}) {
      EXPECT_TRUE(std::any_of(
          kinds().begin(), kinds().end(),
          [&](const Kind& kind) {
            return kind.arguments.starts_with(std::string("--store ") + store) &&
                   kind.arguments.find(std::string("--mode ") + mode) != std::string::npos;
          }))
          << store << " " << mode;
    }
  }
}

TEST(Campaign, TellsTheTotals) {
  std::ostringstream out;
  auto bad = enough();
  bad["verdict"] = "violated";
  print_totals(out, std::vector{run(enough()), run(bad)});
  EXPECT_NE(out.str().find("4000000"), std::string::npos) << out.str();
  EXPECT_TRUE(out.str().ends_with(" 1\n")) << out.str();
}

}  // namespace
}  // namespace outbox::chaos
