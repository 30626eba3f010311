#include "simulation/judge.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "outbox/memory.h"

namespace outbox::simulation {
namespace {

using namespace std::chrono_literals;

class SimulationJudgeTest : public testing::Test {
 protected:
  static Event event(const std::string& id, const std::string& aggregate = "a") {
    EventFields fields;
    fields.id = id;
    fields.type = "T";
    fields.aggregate_type = "A";
    fields.aggregate_id = aggregate;
    fields.payload = json("{}");
    return Event::restore(fields);
  }

  // A transaction of its own, on the server, too.
  void commit(std::vector<Event> events) {
    const auto connection = cluster_->store().connect();
    connection->begin();
    connection->insert(events, {});
    judge_->inserted(connection.get(), events, judge_->now());
    judge_->committing(connection.get(), 0);
    connection->commit();
    judge_->committed(connection.get(), 0);
  }

  void begins(const Event& event, int attempt = 1, int process = 1, std::int64_t epoch = 1) {
    judge_->begins(process, event, {.attempt = attempt, .epoch = epoch});
  }
  void delivers(const Event& event, Outcome::Kind outcome = Outcome::Kind::done, int attempt = 1) {
    begins(event, attempt);
    judge_->ends(1, event, outcome);
  }

  std::string seen() const { return violations_.empty() ? "" : violations_.front(); }

  std::unique_ptr<Judge> make(JudgeOptions options) {
    options.max_attempts = 3;
    return std::make_unique<Judge>(
        cluster_, std::move(options),
        [this](const std::string& what) { violations_.push_back(what.substr(0, what.find(':'))); },
        std::function<void(const std::string&)>());
  }

  void updates(const char* id, StatusUpdate::Kind kind) {
    judge_->updated(0, 1, std::vector<StatusUpdate>{{.event_id = id, .kind = kind}}, {});
  }

  // After it has died.
  void discard(const char* id) {
    commit({event(id)});
    delivers(event(id), Outcome::Kind::permanent);
    updates(id, StatusUpdate::Kind::dead);
    judge_->discarded(id);
  }
  void remove_rows() {
    cluster_->store().admin().purge(Purgeable::any_age, Time::max(), 0, 100, false);
  }

  std::shared_ptr<Cluster> cluster_ = std::make_shared<Cluster>(memory::Options{});
  std::vector<std::string> violations_;
  std::unique_ptr<Judge> judge_ = make({});
};

TEST_F(SimulationJudgeTest, WhatIsDeliveredInOrderIsFine) {
  commit({event("1"), event("2")});
  commit({event("3")});
  for (const char* id : {"1", "2", "3"}) delivers(event(id));
  EXPECT_EQ(seen(), "");
}

TEST_F(SimulationJudgeTest, AGhostIsDeliveredWithoutACommit) {
  delivers(event("1"));
  EXPECT_EQ(seen(), "ghost");
}

TEST_F(SimulationJudgeTest, WhatWasRolledBackIsAGhost) {
  const int transaction = 0;
  judge_->inserted(&transaction, std::vector{event("1")}, judge_->now());
  judge_->rolled_back(&transaction);
  delivers(event("1"));
  EXPECT_EQ(seen(), "ghost");
}

TEST_F(SimulationJudgeTest, NobodyPassesWhatWasCommittedBeforeIt) {
  commit({event("1")});
  commit({event("2")});
  delivers(event("2"));
  EXPECT_EQ(seen(), "order");
}

TEST_F(SimulationJudgeTest, NobodyPassesWhatFailed) {
  commit({event("1"), event("2")});
  delivers(event("1"), Outcome::Kind::failed);
  delivers(event("2"));
  EXPECT_EQ(seen(), "order");
}

TEST_F(SimulationJudgeTest, TransactionsSideBySideHaveNoOrder) {
  const int other = 0;
  judge_->inserted(&other, std::vector{event("1")}, judge_->now());
  commit({event("2")});
  judge_->committing(&other, 0);
  judge_->committed(&other, 0);
  delivers(event("2"));
  delivers(event("1"));
  EXPECT_EQ(seen(), "");
}

TEST_F(SimulationJudgeTest, WhoIsDeadIsPassed) {
  commit({event("1"), event("2")});
  delivers(event("1"), Outcome::Kind::permanent);
  delivers(event("2"));
  EXPECT_EQ(seen(), "");
}

TEST_F(SimulationJudgeTest, OneOfALaneAtATime) {
  commit({event("1")});
  begins(event("1"));
  begins(event("1"));
  EXPECT_EQ(seen(), "two at once");
}

TEST_F(SimulationJudgeTest, AnEpochIsOfOneProcess) {
  commit({event("1"), event("2", "b")});
  begins(event("1"), 1, 1);
  begins(event("2", "b"), 1, 2);
  EXPECT_EQ(seen(), "two owners");
}

TEST_F(SimulationJudgeTest, NothingIsRepeatedWithoutAFault) {
  commit({event("1")});
  delivers(event("1"));
  delivers(event("1"));
  EXPECT_EQ(seen(), "repeat");
}

TEST_F(SimulationJudgeTest, AfterAFaultItMay) {
  commit({event("1")});
  delivers(event("1"));
  judge_->fault({}, {});
  delivers(event("1"));
  EXPECT_EQ(seen(), "");
}

TEST_F(SimulationJudgeTest, WhatWasDoneBeforeTheFaultIsNotRepeated) {
  commit({event("1")});
  delivers(event("1"));
  updates("1", StatusUpdate::Kind::done);
  judge_->fault(Instant{1s}, Instant{2s});
  delivers(event("1"));
  EXPECT_EQ(seen(), "repeat");
}

TEST_F(SimulationJudgeTest, WhatBeginsLongAfterTheFaultIsNotRepeated) {
  judge_ = make({.lease = 3s});
  commit({event("1")});
  judge_->fault(Instant{-5s}, Instant{-4s});
  delivers(event("1"));
  delivers(event("1"));
  EXPECT_EQ(seen(), "repeat");
}

TEST_F(SimulationJudgeTest, NothingIsDeliveredOfAShardThatWasReleased) {
  commit({event("1")});
  memory::Database& database = *cluster_->primary()->database;
  const memory::MemberId member = database.members.new_id();
  const Lease renewed = database.members.renew(member, {.lease = 1h}, database.now());
  judge_->renewed(renewed.epoch, member);
  judge_->owns(1, event("1"), renewed.epoch, {});
  EXPECT_EQ(seen(), "");
  for (const int shard : renewed.shards) database.members.release(member, shard);
  judge_->owns(1, event("1"), renewed.epoch, {});
  EXPECT_EQ(seen(), "released");
}

TEST_F(SimulationJudgeTest, NothingIsDeadWithoutAReason) {
  commit({event("1"), event("2", "b"), event("3", "c")});
  delivers(event("1"), Outcome::Kind::permanent);
  updates("1", StatusUpdate::Kind::dead);
  for (int process = 1; process <= 4; ++process) judge_->was_killed(process);
  updates("2", StatusUpdate::Kind::dead);
  EXPECT_EQ(seen(), "");
  delivers(event("3", "c"), Outcome::Kind::failed);
  updates("3", StatusUpdate::Kind::retry);
  updates("3", StatusUpdate::Kind::dead);
  EXPECT_EQ(seen(), "dead");
}

TEST_F(SimulationJudgeTest, NothingIsDeliveredBeforeItsTime) {
  Draft draft{.type = "T", .aggregate_type = "A", .aggregate_id = "a", .payload = json("{}")};
  draft.id = "1";
  draft.deliver_after = 1s;
  const Event late = make_event(std::move(draft));
  commit({late});
  delivers(late);
  EXPECT_EQ(seen(), "early");
}

TEST_F(SimulationJudgeTest, WhatSomebodyFinishedByHandIsNotMissedAndHoldsNobodyUp) {
  commit({event("1"), event("2")});
  judge_->finished_by_hand("1");
  delivers(event("2"));
  judge_->conclude();
  EXPECT_EQ(seen(), "");
}

TEST_F(SimulationJudgeTest, AnIdThatWasRolledBackMayBeWrittenAgain) {
  const std::vector<Event> events{event("1")};
  judge_->inserted(this, events, judge_->now());
  judge_->rolled_back(this);
  commit({event("1")});
  delivers(event("1"));
  judge_->conclude();
  EXPECT_EQ(seen(), "");
}

TEST_F(SimulationJudgeTest, AnAttemptThatDidNotFailDoesNotCount) {
  commit({event("1")});
  judge_->fault({}, {});
  delivers(event("1"), Outcome::Kind::done, 2);
  EXPECT_EQ(seen(), "attempts");
}

TEST_F(SimulationJudgeTest, WithoutAFaultEachFailureCounts) {
  commit({event("1")});
  delivers(event("1"), Outcome::Kind::failed);
  delivers(event("1"), Outcome::Kind::done, 1);
  EXPECT_EQ(seen(), "attempts");
}

TEST_F(SimulationJudgeTest, WhatWasCommittedAndNeverDeliveredIsLost) {
  commit({event("1")});
  judge_->conclude();
  EXPECT_EQ(seen(), "lost");
}

TEST_F(SimulationJudgeTest, WithBlockNobodyPassesTheDead) {
  judge_ = make({.on_dead = OnDead::block});
  commit({event("1"), event("2")});
  delivers(event("1"), Outcome::Kind::permanent);
  delivers(event("2"));
  EXPECT_EQ(seen(), "order");
}

TEST_F(SimulationJudgeTest, WhatWasDiscardedIsPassedAndNotDeliveredAgain) {
  judge_ = make({.on_dead = OnDead::block});
  commit({event("1"), event("2")});
  delivers(event("1"), Outcome::Kind::permanent);
  judge_->discarded("1");
  delivers(event("2"));
  EXPECT_EQ(seen(), "");
  delivers(event("1"), Outcome::Kind::done, 2);
  EXPECT_EQ(seen(), "final");
}

// An owner whose claim had expired comes back with its result, and finds no row.
TEST_F(SimulationJudgeTest, WhatWasDiscardedIsTakenForDoneByAServerThatRemovesIt) {
  judge_ = make({.removes_done = true});
  discard("1");
  remove_rows();
  updates("1", StatusUpdate::Kind::done);
  EXPECT_EQ(seen(), "");
}

TEST_F(SimulationJudgeTest, WhatWasDiscardedHasNoRow) {
  judge_ = make({.removes_done = true});
  discard("1");
  updates("1", StatusUpdate::Kind::done);
  EXPECT_EQ(seen(), "final");
}

TEST_F(SimulationJudgeTest, AServerThatKeepsWhatIsDoneKnowsThatItWasDiscarded) {
  judge_ = make({.removes_done = false});
  discard("1");
  remove_rows();
  updates("1", StatusUpdate::Kind::done);
  EXPECT_EQ(seen(), "final");
}

TEST_F(SimulationJudgeTest, WhatIsDoneStaysSo) {
  commit({event("1")});
  updates("1", StatusUpdate::Kind::done);
  updates("1", StatusUpdate::Kind::done);
  EXPECT_EQ(seen(), "");
  updates("1", StatusUpdate::Kind::retry);
  EXPECT_EQ(seen(), "final");
}

TEST_F(SimulationJudgeTest, WhatIsDeadMayBeReplayed) {
  commit({event("1")});
  delivers(event("1"), Outcome::Kind::permanent);
  updates("1", StatusUpdate::Kind::dead);
  judge_->replayed("1");
  updates("1", StatusUpdate::Kind::done);
  EXPECT_EQ(seen(), "");
}

TEST_F(SimulationJudgeTest, AHandlerHasAnEventOnce) {
  judge_ = make({.handlers = {"mail", "stock"}});
  commit({event("1")});
  judge_->handler_begins(1, event("1"), {}, "mail");
  judge_->handler_ends(event("1"), "mail", Outcome::Kind::done);
  judge_->handler_begins(1, event("1"), {}, "stock");
  EXPECT_EQ(seen(), "");
  judge_->handler_begins(1, event("1"), {}, "mail");
  EXPECT_EQ(seen(), "repeat");
}

TEST_F(SimulationJudgeTest, WhatIsWrittenAfterTheFaultsIsDeliveredOnce) {
  judge_->fault({}, {});
  judge_->calm();
  commit({event("1")});
  delivers(event("1"));
  delivers(event("1"));
  EXPECT_EQ(seen(), "repeat");
}

TEST_F(SimulationJudgeTest, WhatTheServerHasLostIsNotMissed) {
  judge_->replication_stops();
  cluster_->stop_replication();
  commit({event("1")});
  cluster_->promote({});
  judge_->promoted();
  judge_->conclude();
  EXPECT_EQ(seen(), "");
}

TEST_F(SimulationJudgeTest, WhatWasRolledBackToASavepointIsAGhost) {
  const int transaction = 0;
  judge_->savepoint(&transaction, "here");
  judge_->inserted(&transaction, std::vector{event("1")}, judge_->now());
  judge_->rolled_back_to(&transaction, "here");
  judge_->committing(&transaction, 0);
  judge_->committed(&transaction, 0);
  delivers(event("1"));
  EXPECT_EQ(seen(), "ghost");
}

TEST_F(SimulationJudgeTest, NothingIsDeliveredAfterTheEndOfALease) {
  judge_ = make({.lease = 3s});
  const Instant begin{1h};
  judge_->renewed(1, begin);
  judge_->owns(1, event("1"), 1, begin + 3s);
  judge_->owns(2, event("1"), 1, begin + 9s);  // it has never renewed, or was frozen since
  EXPECT_EQ(seen(), "");
  judge_->owns(1, event("1"), 1, begin + 4s);
  EXPECT_EQ(seen(), "lease");
}

}  // namespace
}  // namespace outbox::simulation
