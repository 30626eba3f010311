#include "simulation/judge.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "outbox/memory.h"

namespace outbox::simulation {
namespace {

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
    const auto connection = server_->connect();
    connection->begin();
    connection->insert(events, {});
    judge_.inserted(connection.get(), events);
    judge_.committing(connection.get());
    connection->commit();
    judge_.committed(connection.get());
  }

  void begins(const Event& event, int attempt = 1, int process = 1, std::int64_t epoch = 1) {
    judge_.begins(process, event, {.attempt = attempt, .epoch = epoch});
  }
  void delivers(const Event& event, Outcome::Kind outcome = Outcome::Kind::done, int attempt = 1) {
    begins(event, attempt);
    judge_.ends(1, event, outcome);
  }

  std::string seen() const { return violations_.empty() ? "" : violations_.front(); }

  std::shared_ptr<Store> server_ = memory::open();
  std::vector<std::string> violations_;
  Judge judge_{
      *server_,
      {.max_attempts = 3},
      [this](const std::string& what) { violations_.push_back(what.substr(0, what.find(':'))); },
      {}};
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
  judge_.inserted(&transaction, std::vector{event("1")});
  judge_.rolled_back(&transaction);
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
  judge_.inserted(&other, std::vector{event("1")});
  commit({event("2")});
  judge_.committing(&other);
  judge_.committed(&other);
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
  judge_.fault();
  delivers(event("1"));
  EXPECT_EQ(seen(), "");
}

TEST_F(SimulationJudgeTest, AnAttemptThatDidNotFailDoesNotCount) {
  commit({event("1")});
  judge_.fault();
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
  judge_.conclude();
  EXPECT_EQ(seen(), "lost");
}

}  // namespace
}  // namespace outbox::simulation
