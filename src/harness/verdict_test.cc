#include "harness/verdict.h"

#include <gtest/gtest.h>

#include <sstream>
#include <stdexcept>

namespace outbox::harness {
namespace {

// Three events of one aggregate and one of another.
const std::vector<Committed> kRows{{.id = "a1", .aggregate = "a", .number = 1},
                                   {.id = "a2", .aggregate = "a", .number = 2},
                                   {.id = "a3", .aggregate = "a", .number = 3},
                                   {.id = "b1", .aggregate = "b", .number = 1}};

Message arrival(const std::string& id) {
  return {.id = id, .aggregate = id.substr(0, 1), .number = std::stoi(id.substr(1)), .at = 100};
}

Verdict judged(const std::vector<std::string>& ids, const Expected& expected = {},
               const std::vector<Committed>& rows = kRows) {
  std::vector<Message> arrivals;
  for (const std::string& id : ids) arrivals.push_back(arrival(id));
  return judge(rows, arrivals, expected);
}

TEST(Oracle, FindsNothingWhereEverythingArrivedOnceAndInOrder) {
  const Verdict verdict = judged({"a1", "b1", "a2", "a3"});
  EXPECT_TRUE(verdict.clean());
  EXPECT_EQ(verdict.committed, 4u);
  EXPECT_EQ(verdict.delivered, 4u);
  EXPECT_TRUE(verdict.examples.empty());
}

TEST(Oracle, FindsNothingWhereNothingHappened) { EXPECT_TRUE(judge({}, {}, {}).clean()); }

TEST(Oracle, CountsWhatNeverArrived) {
  const Verdict verdict = judged({"a1", "a3"});
  EXPECT_EQ(verdict.lost, 2u);
  EXPECT_EQ(verdict.delivered, 2u);
  EXPECT_EQ(verdict.order_breaks, 0u);
  EXPECT_FALSE(verdict.clean());
}

TEST(Oracle, CountsAnEventThatNobodyCommittedOnce) {
  const Verdict verdict = judged({"a1", "a2", "a3", "b1", "b2", "b2"});
  EXPECT_EQ(verdict.ghosts, 1u);
  EXPECT_EQ(verdict.lost, 0u);
  EXPECT_FALSE(verdict.clean());
}

TEST(Oracle, AllowsRepeatsUpToTheBound) {
  const std::vector<std::string> ids{"a1", "a1", "a2", "a3", "b1", "a1"};
  EXPECT_EQ(judged(ids).duplicates, 2u);
  EXPECT_FALSE(judged(ids, {.duplicate_bound = 1}).clean());
  EXPECT_TRUE(judged(ids, {.duplicate_bound = 2}).clean());
}

TEST(Oracle, CountsAFirstArrivalBehindALaterOne) {
  const Verdict verdict = judged({"a1", "a3", "a2", "b1"});
  EXPECT_EQ(verdict.order_breaks, 1u);
  EXPECT_FALSE(verdict.clean());
}

TEST(Oracle, DoesNotTakeARepeatForABreakOfOrder) {
  EXPECT_EQ(judged({"a1", "a2", "a1", "a3", "b1"}).order_breaks, 0u);
}

TEST(Oracle, JudgesNoOrderWhereNoneWasPromised) {
  EXPECT_TRUE(judged({"a3", "a2", "a1", "b1"}, {.ordered = false}).clean());
  std::vector<Committed> rows = kRows;
  rows[2].ordered = false;
  EXPECT_TRUE(judged({"a3", "a1", "a2", "b1"}, {}, rows).clean());
}

TEST(Oracle, CountsWhatArrivedWithOtherContents) {
  const std::vector<Message> arrivals{{.id = "a1", .aggregate = "a", .number = 2}};
  EXPECT_EQ(judge(std::vector{kRows[0]}, arrivals, {}).garbled, 1u);
}

TEST(Oracle, CountsWhatArrivedBeforeItsTime) {
  std::vector<Committed> rows = kRows;
  rows[0].not_before = 101;
  EXPECT_EQ(judged({"a1", "a2", "a3", "b1"}, {}, rows).early, 1u);
  rows[0].not_before = 100;
  EXPECT_EQ(judged({"a1", "a2", "a3", "b1"}, {}, rows).early, 0u);
}

// --- Owners ---

Verdict judged_owners(const std::vector<std::pair<std::int64_t, int>>& epochs_and_processes,
                      bool may_lose_commits = false) {
  std::vector<Message> arrivals;
  for (const auto& [epoch, process] : epochs_and_processes) {
    arrivals.push_back(
        {.id = "b1", .aggregate = "b", .number = 1, .epoch = epoch, .process = process});
  }
  return judge(std::vector{kRows[3]}, arrivals,
               {.duplicate_bound = 9, .may_lose_commits = may_lose_commits});
}

TEST(Oracle, CountsAnEpochInWhichTwoProcessesDeliveredOnce) {
  const Verdict verdict = judged_owners({{1, 7}, {2, 8}, {1, 8}, {1, 7}, {1, 8}});
  EXPECT_EQ(verdict.double_owners, 1u) << verdict;
  EXPECT_FALSE(verdict.clean());
}

TEST(Oracle, AllowsAProcessToHaveSeveralEpochsAndToDeliverLate) {
  EXPECT_TRUE(judged_owners({{1, 7}, {2, 8}, {3, 7}, {1, 7}}).clean());
}

TEST(Oracle, DoesNotCompareOwnersOfEpochsThatMayBeGivenOutAgain) {
  EXPECT_TRUE(judged_owners({{1, 7}, {1, 8}}, true).clean());
  EXPECT_TRUE(judged_owners({{0, 7}, {0, 8}}).clean()) << "no epoch";
  const std::vector<Message> arrivals{
      {.id = "b1", .aggregate = "b", .number = 1, .epoch = 1, .process = 7},
      {.id = "b1", .aggregate = "b", .number = 1, .epoch = 1, .process = 8}};
  EXPECT_TRUE(
      judge(std::vector{kRows[3]}, arrivals, {.duplicate_bound = 1, .epochs = false}).clean());
}

// --- What the database lost ---

Verdict judged_after(const std::vector<Attempt>& attempts, const std::vector<std::string>& ids,
                     bool may_lose_commits) {
  std::vector<Message> arrivals;
  for (const std::string& id : ids) arrivals.push_back(arrival(id));
  return judge(kRows, arrivals, {.may_lose_commits = may_lose_commits}, attempts);
}

const std::vector<std::string> kAll{"a1", "a2", "a3", "b1"};

TEST(Oracle, TellsACommitThatTheDatabaseLostFromAnEventThatWeLost) {
  const std::vector<Attempt> attempts{{.ids = {"a1", "a2", "a3"}, .told = Told::committed},
                                      {.ids = {"b1"}, .told = Told::committed},
                                      {.ids = {"c1", "c2"}, .told = Told::committed}};
  const Verdict verdict = judged_after(attempts, {"a1", "a2", "a3"}, true);
  EXPECT_EQ(verdict.commits_lost, 1u);
  EXPECT_EQ(verdict.lost, 1u) << verdict;
  EXPECT_TRUE(judged_after(attempts, kAll, true).clean());
  EXPECT_FALSE(judged_after(attempts, kAll, false).clean());
}

TEST(Oracle, AllowsGhostsOfLostCommitsOnlyWhereCommitsMayBeLost) {
  for (const Told told : {Told::committed, Told::unknown}) {
    const std::vector<Attempt> attempts{{.ids = {"c1"}, .told = told}};
    const std::vector<std::string> ids{"a1", "a2", "a3", "b1", "c1"};
    EXPECT_EQ(judged_after(attempts, ids, true).ghosts_of_lost_commits, 1u);
    EXPECT_TRUE(judged_after(attempts, ids, true).clean());
    EXPECT_EQ(judged_after(attempts, ids, false).ghosts, 1u);
  }
}

TEST(Oracle, TakesWhatWasNeverToBeCommittedForAGhostEverywhere) {
  const std::vector<std::string> ids{"a1", "a2", "a3", "b1", "c1"};
  EXPECT_EQ(judged_after({}, ids, true).ghosts, 1u);
  EXPECT_EQ(judged_after({{.ids = {"c1"}, .told = Told::failed}}, ids, true).ghosts, 1u);
}

TEST(Oracle, FindsATransactionThatIsThereThoughItsWriterWasToldOtherwise) {
  EXPECT_EQ(judged_after({{.ids = {"b1"}, .told = Told::failed}}, kAll, true).misreported, 1u);
  EXPECT_EQ(judged_after({{.ids = {"c1"}, .told = Told::failed}}, kAll, true).misreported, 0u);
  EXPECT_EQ(judged_after({{.ids = {"b1"}, .told = Told::unknown}}, kAll, true).misreported, 0u);
}

TEST(Oracle, FindsATransactionThatIsThereInPart) {
  const Verdict verdict =
      judged_after({{.ids = {"b1", "b2"}, .told = Told::committed}}, kAll, true);
  EXPECT_EQ(verdict.misreported, 1u);
  EXPECT_EQ(verdict.commits_lost, 0u);
}

TEST(Oracle, MeasuresTheLongestPause) {
  const std::vector<Message> arrivals{{.id = "a1", .aggregate = "a", .number = 1, .at = 5'000},
                                      {.id = "a2", .aggregate = "a", .number = 2, .at = 12'000},
                                      {.id = "a3", .aggregate = "a", .number = 3, .at = 13'000}};
  EXPECT_EQ(judge(kRows, arrivals, {}).longest_pause_ms, 7u);
}

TEST(Oracle, IsNotCleanWhileTheTableHasDeadOrPendingEvents) {
  Verdict verdict = judged({"a1", "a2", "a3", "b1"});
  verdict.dead = 1;
  EXPECT_FALSE(verdict.clean());
  verdict.dead = 0;
  verdict.pending = 1;
  EXPECT_FALSE(verdict.clean());
}

TEST(Oracle, PrintsEveryFigureAndTheFirstViolations) {
  std::ostringstream out;
  out << judged({"a2", "a1", "a3"});
  EXPECT_NE(out.str().find("lost                             1\n"), std::string::npos) << out.str();
  EXPECT_NE(out.str().find("order break: a1"), std::string::npos) << out.str();
  EXPECT_NE(out.str().find("lost: b1"), std::string::npos) << out.str();
}

TEST(Oracle, KnowsItsFiguresByName) {
  const Verdict verdict = judged({"a2", "a1", "a3"});
  EXPECT_EQ(verdict.figure("lost"), 1u);
  EXPECT_EQ(verdict.figure("order_breaks"), 1u);
  EXPECT_THROW(static_cast<void>(verdict.figure("luck")), std::invalid_argument);
}

}  // namespace
}  // namespace outbox::harness
