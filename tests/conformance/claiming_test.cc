// Rule 26: rows claimed one by one.
#include <algorithm>
#include <map>
#include <thread>

#include "store_conformance.h"

namespace outbox::conformance {
namespace {

using Ids = std::vector<std::string>;
using Kind = StatusUpdate::Kind;
using Stale = std::vector<std::size_t>;

const InstanceOptions kClaimer{.row_claims = true, .lock_timeout = 5min};

std::vector<RowRef> refs(const std::vector<Row>& rows) {
  std::vector<RowRef> result;
  for (const Row& row : rows) result.push_back(row.ref);
  return result;
}

TEST_P(ClaimingTest, ClaimedRowsComeInOrderAndSayWhoseTheyAre) {
  OUTBOX_NEEDS(capabilities().row_claims);
  write_aggregate("1", {"c", "a", "b"});
  const auto claimer = store().join(kClaimer);
  claimer->renew();
  const Rows two = claimer->claim(0ms, 2);
  EXPECT_EQ(ids(two.rows), (Ids{"c", "a"}));
  EXPECT_TRUE(two.more);
  EXPECT_EQ(record("c").locked_by, claimer->owner());
  EXPECT_EQ(record("b").locked_by, "");
  const Rows rest = claimer->claim(0ms, 2);
  EXPECT_EQ(ids(rest.rows), Ids{"b"});
  EXPECT_FALSE(rest.more);
  EXPECT_TRUE(claimer->claim(0ms, 2).rows.empty());
}

TEST_P(ClaimingTest, AClaimEndsWithTheRowThatReachesItsBytes) {
  OUTBOX_NEEDS(capabilities().row_claims);
  std::vector<Event> events;
  for (const char letter : {'a', 'b', 'c'}) {
    events.push_back(event({.id = std::string(1, letter),
                            .aggregate_id = "1",
                            .payload = bytes(std::string(20'000, letter))}));
  }
  write(events);
  const auto claimer = store().join(kClaimer);
  claimer->renew();
  const Rows two = claimer->claim(0ms, {100, 20'001, {}});
  EXPECT_EQ(ids(two.rows), (Ids{"a", "b"}));
  EXPECT_EQ(two.rows.at(1).event.payload(), std::string(20'000, 'b'));
  EXPECT_TRUE(two.more);
  EXPECT_EQ(record("c").locked_by, "") << "what is not returned is not claimed";
  EXPECT_EQ(ids(claimer->claim(0ms, {100, 1, {}}).rows), Ids{"c"});
}

TEST_P(ClaimingTest, ReadyAndDueRowsTogetherComeInOrder) {
  OUTBOX_NEEDS(capabilities().row_claims);
  write({event({.id = "ready-1"}), event({.id = "due-late", .available_at = now() + 2s}),
         event({.id = "ready-2"}), event({.id = "due-early", .available_at = now() + 1s})});
  advance(3s);
  const auto claimer = store().join(kClaimer);
  claimer->renew();
  EXPECT_EQ(ids(claimer->claim(0ms, 10).rows),
            (Ids{"ready-1", "due-late", "ready-2", "due-early"}));
}

TEST_P(ClaimingTest, TwoClaimersNeverGetTheSameRow) {
  OUTBOX_NEEDS(capabilities().row_claims);
  constexpr std::size_t kRows = 400;
  std::vector<Event> events;
  for (std::size_t i = 0; i < kRows; ++i) events.push_back(event({.id = std::to_string(i)}));
  write(events);

  constexpr int kClaimers = 4;
  std::vector<Ids> got(kClaimers);
  {
    std::vector<std::jthread> threads;
    for (Ids& mine : got) {
      threads.emplace_back([this, &mine] {
        const auto claimer = store().join(kClaimer);
        claimer->renew();
        while (true) {
          const Ids batch = ids(claimer->claim(0ms, 7).rows);
          if (batch.empty()) return;
          mine.insert(mine.end(), batch.begin(), batch.end());
        }
      });
    }
  }
  std::map<std::string, int> times;
  for (const Ids& mine : got) {
    for (const std::string& id : mine) ++times[id];
  }
  EXPECT_EQ(times.size(), kRows);
  for (const auto& [id, count] : times) EXPECT_EQ(count, 1) << id;
}

TEST_P(ClaimingTest, AnExpiredLockIsClaimedAgainAndTheLateClaimersUpdateIsStale) {
  OUTBOX_NEEDS(capabilities().row_claims);
  write(event({.id = "e"}));
  const auto late = store().join(kClaimer);
  const auto next = store().join(kClaimer);
  late->renew();
  next->renew();
  ASSERT_EQ(late->claim(0ms, 10).rows.size(), 1u);

  const auto margin = backend().clock_error() + 1ms;
  advance(5min - margin);
  EXPECT_TRUE(next->claim(0ms, 10).rows.empty()) << "the lock has not expired";
  advance(2 * margin);
  EXPECT_EQ(ids(next->claim(0ms, 10).rows), Ids{"e"});
  EXPECT_EQ(record("e").locked_by, next->owner());

  for (const Kind kind : {Kind::done, Kind::retry, Kind::dead, Kind::crashes}) {
    StatusUpdate mine = update("e", kind);
    mine.crashes = 7;
    EXPECT_EQ(late->apply(0, std::vector{mine}).stale, Stale{0}) << static_cast<int>(kind);
  }
  EventRecord read = record("e");
  EXPECT_EQ(read.row.status, Status::pending);
  EXPECT_EQ(read.row.crashes, 0);
  EXPECT_EQ(read.locked_by, next->owner());

  EXPECT_TRUE(next->apply(0, std::vector{update("e", Kind::done)}).stale.empty());
  EXPECT_EQ(record("e").row.status, Status::done);
  EXPECT_EQ(late->apply(0, std::vector{update("e", Kind::done)}).stale, Stale{0})
      << "done, but not by this one";
}

TEST_P(ClaimingTest, RowsGivenBackCanBeClaimedByAnybody) {
  OUTBOX_NEEDS(capabilities().row_claims);
  write({event({.id = "a"}), event({.id = "b"})});
  const auto first = store().join(kClaimer);
  const auto second = store().join(kClaimer);
  first->renew();
  second->renew();
  const Rows claimed = first->claim(0ms, 10);
  ASSERT_EQ(claimed.rows.size(), 2u);

  second->unclaim(refs(claimed.rows));
  EXPECT_EQ(record("a").locked_by, first->owner()) << "only its owner gives it back";
  EXPECT_TRUE(second->claim(0ms, 10).rows.empty());

  first->unclaim(std::vector{claimed.rows[0].ref});
  EXPECT_EQ(record("a").locked_by, "");
  EXPECT_EQ(record("a").row.attempts, 0);
  EXPECT_EQ(ids(second->claim(0ms, 10).rows), Ids{"a"});
  EXPECT_EQ(first->apply(0, std::vector{update("a", Kind::done)}).stale, Stale{0});
}

TEST_P(ClaimingTest, LeavingGivesAllClaimsBack) {
  OUTBOX_NEEDS(capabilities().row_claims);
  write_aggregate("1", {"a", "b", "c"});
  const auto first = store().join(kClaimer);
  const auto second = store().join(kClaimer);
  first->renew();
  second->renew();
  ASSERT_EQ(first->claim(0ms, 2).rows.size(), 2u);
  ASSERT_EQ(second->claim(0ms, 1).rows.size(), 1u);
  first->leave();
  EXPECT_EQ(record("c").locked_by, second->owner());
  EXPECT_EQ(ids(second->claim(0ms, 10).rows), (Ids{"a", "b"}));
}

TEST_P(ClaimingTest, RecentRowsAreLeftToThoseWhoWroteThem) {
  OUTBOX_NEEDS(capabilities().row_claims);
  write({event({.id = "old", .occurred_at = now() - 2h}), event({.id = "recent"}),
         event({.id = "old-too", .occurred_at = now() - 3h})});
  const auto claimer = store().join(kClaimer);
  claimer->renew();
  EXPECT_EQ(ids(claimer->claim(1h, 10).rows), (Ids{"old", "old-too"}));
  advance(600ms);
  EXPECT_EQ(ids(claimer->claim(500ms, 10).rows), Ids{"recent"});
}

TEST_P(ClaimingTest, DelayedRowsAreClaimedWhenTheyAreDueAndHeldOnesNever) {
  OUTBOX_NEEDS(capabilities().row_claims);
  write({event({.id = "delayed", .available_at = now() + 10s}), event({.id = "held"})});
  const Owner owner = own_everything();
  StatusUpdate held = update("held", Kind::hold);
  held.lane = 3;
  apply(owner, {held});
  const auto claimer = store().join(kClaimer);
  claimer->renew();
  EXPECT_TRUE(claimer->claim(0ms, 10).rows.empty());
  advance(11s);
  EXPECT_EQ(ids(claimer->claim(0ms, 10).rows), Ids{"delayed"});
}

TEST_P(ClaimingTest, RowsInsertedAsClaimedBelongToTheirOwner) {
  OUTBOX_NEEDS(capabilities().row_claims);
  const auto writer = store().join(kClaimer);
  const auto other = store().join(kClaimer);
  writer->renew();
  other->renew();
  write({event({.id = "a"}), event({.id = "b"})}, {.owner = writer->owner()});
  EXPECT_EQ(record("a").locked_by, writer->owner());
  EXPECT_TRUE(other->claim(0ms, 10).rows.empty());
  EXPECT_TRUE(writer->apply(0, std::vector{update("a", Kind::done)}).stale.empty());
  advance(6min);
  EXPECT_EQ(ids(other->claim(0ms, 10).rows), Ids{"b"}) << "the writer died";
}

TEST_P(ClaimingTest, ARowIsReclaimedOnlyIfItsLockHadExpired) {
  OUTBOX_NEEDS(capabilities().row_claims);
  write(event({.id = "e"}));
  const InstanceOptions options{.row_claims = true, .lock_timeout = 1000ms};
  const auto first = store().join(options);
  first->renew();
  std::vector<Row> rows = first->claim(0ms, 10).rows;
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_FALSE(rows[0].reclaimed);
  first->unclaim(std::vector{rows[0].ref});
  EXPECT_FALSE(first->claim(0ms, 10).rows.at(0).reclaimed) << "it was given back";

  advance(2s);
  const auto next = store().join(options);
  next->renew();
  EXPECT_TRUE(next->claim(0ms, 10).rows.at(0).reclaimed);
}

TEST_P(ClaimingTest, AnExpiredLockDoesNotMakeADelayedRowDue) {
  OUTBOX_NEEDS(capabilities().row_claims);
  const auto claimer = store().join(kClaimer);
  claimer->renew();
  write({event({.id = "e", .available_at = now() + 1h})}, {.owner = "one that died"});
  advance(6min);
  EXPECT_TRUE(claimer->claim(0ms, 10).rows.empty());
  advance(1h);
  EXPECT_EQ(ids(claimer->claim(0ms, 10).rows), Ids{"e"});
}

TEST_P(ClaimingTest, ARetryFreesTheRowForAnybodyWhenItIsDue) {
  OUTBOX_NEEDS(capabilities().row_claims);
  write(event({.id = "e"}));
  const auto first = store().join(kClaimer);
  const auto second = store().join(kClaimer);
  first->renew();
  second->renew();
  ASSERT_EQ(first->claim(0ms, 10).rows.size(), 1u);
  StatusUpdate retry = update("e", Kind::retry);
  retry.attempts = 1;
  retry.error = "no";
  retry.delay = 2s;
  EXPECT_TRUE(first->apply(0, std::vector{retry}).stale.empty());
  EXPECT_EQ(record("e").locked_by, "");
  EXPECT_TRUE(first->apply(0, std::vector{retry}).stale.empty()) << "a repeat";
  EXPECT_TRUE(second->claim(0ms, 10).rows.empty());
  advance(3s);
  const Rows claimed = second->claim(0ms, 10);
  ASSERT_EQ(ids(claimed.rows), Ids{"e"});
  EXPECT_EQ(claimed.rows[0].attempts, 1);
  EXPECT_EQ(first->apply(0, std::vector{retry}).stale, Stale{0}) << "it is another's now";
}

TEST_P(ClaimingTest, RepeatedUpdatesOfAClaimerAreNotStale) {
  OUTBOX_NEEDS(capabilities().row_claims);
  write({event({.id = "a"}), event({.id = "b"})});
  const auto claimer = store().join(kClaimer);
  claimer->renew();
  ASSERT_EQ(claimer->claim(0ms, 10).rows.size(), 2u);
  const std::vector updates{update("a", Kind::done), update("b", Kind::dead)};
  EXPECT_TRUE(claimer->apply(0, updates).stale.empty());
  EXPECT_TRUE(claimer->apply(0, updates).stale.empty());
  EXPECT_EQ(record("a").row.status, Status::done);
  EXPECT_EQ(record("b").row.status, Status::dead);
  advance(1h);
  EXPECT_TRUE(claimer->claim(0ms, 10).rows.empty()) << "finished rows are not claimed";
}

TEST_P(ClaimingTest, FinishedRowsAreNotGivenBack) {
  OUTBOX_NEEDS(capabilities().row_claims);
  write(event({.id = "e"}));
  const auto claimer = store().join(kClaimer);
  claimer->renew();
  const Rows claimed = claimer->claim(0ms, 10);
  claimer->apply(0, std::vector{update("e", Kind::done)});
  claimer->unclaim(refs(claimed.rows));
  claimer->leave();
  EXPECT_EQ(record("e").row.status, Status::done);
  EXPECT_EQ(record("e").hold, std::nullopt);
}

}  // namespace
}  // namespace outbox::conformance
