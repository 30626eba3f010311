// Lanes behind dead events, and operators in another process who free them.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "database.h"
#include "outbox/outbox.h"
#include "outbox/testing.h"
#include "support/services.h"
#include "support/stores.h"

namespace outbox {
namespace {

using namespace std::chrono_literals;

constexpr int kAggregates = 2'000;

// An engine that never polls by itself, and many aggregates that wait behind a dead head.
class BlockedLanes : public ::testing::TestWithParam<chaos::TemporaryDatabase> {
 protected:
  void SetUp() override {
    if (GetParam().server != nullptr) OUTBOX_NEEDS_SERVICE(GetParam().server);
    database_ = GetParam().make();
    store_ = database_->open();
    elsewhere_ = database_->open();
    write_all("head", "1");
    Listeners on;
    on.add("Order", "Happened", [this](const Event& event) -> Outcome {
      const std::lock_guard lock(mutex_);
      if (dying_ && event.payload() == "1") return Outcome::permanent("bad");
      delivered_.push_back(event.id());
      return Outcome::done();
    });
    box_ = std::make_unique<Outbox>(store_, on,
                                    Options{.poll_interval = std::chrono::hours{1},
                                            .dead = {.then = OnDead::block},
                                            .log = log_.log()});
    box_->start();
    ASSERT_TRUE(test::eventually([&] { return elsewhere_->counts().dead == kAggregates; }));
    write_all("next", "2");
    box_->wake();
    ASSERT_TRUE(test::eventually([&] { return elsewhere_->counts().held == kAggregates; }));
    const std::lock_guard lock(mutex_);
    dying_ = false;
  }

  // One event for each aggregate.
  void write_all(const std::string& prefix, const std::string& payload) {
    std::vector<Event> events;
    for (int number = 0; number < kAggregates; ++number) {
      EventFields fields{.id = prefix + std::to_string(number),
                         .type = "Happened",
                         .aggregate_type = "Order",
                         .aggregate_id = std::to_string(number),
                         .payload = json(payload)};
      fields.occurred_at = fields.available_at = host_clock().now();
      events.push_back(Event::restore(std::move(fields)));
    }
    const auto connection = test::begun(*elsewhere_);
    connection->insert(events, {});
    connection->commit();
  }

  std::vector<std::string> delivered() {
    const std::lock_guard lock(mutex_);
    return delivered_;
  }

  std::unique_ptr<chaos::Database> database_;
  testing::RecordingLog log_;
  std::shared_ptr<Store> store_;
  std::shared_ptr<Store> elsewhere_;  // as another process has it
  std::mutex mutex_;
  bool dying_ = true;
  std::vector<std::string> delivered_;
  std::unique_ptr<Outbox> box_;
};

TEST_P(BlockedLanes, AHeadThatIsReplayedElsewhereIsFoundAmongThousands) {
  ASSERT_TRUE(elsewhere_->admin().replay("head1234"));
  ASSERT_TRUE(test::eventually([&] { return delivered().size() == 2; }));
  EXPECT_EQ(delivered(), (std::vector<std::string>{"head1234", "next1234"}));
}

TEST_P(BlockedLanes, AHeadThatIsDiscardedElsewhereIsFoundAmongThousands) {
  ASSERT_TRUE(elsewhere_->admin().discard("head77"));
  ASSERT_TRUE(test::eventually([&] { return !delivered().empty(); }));
  EXPECT_EQ(delivered(), std::vector<std::string>{"next77"});
}

TEST_P(BlockedLanes, AllThatAreReplayedByAFilterAreFound) {
  for (Changed step{.more = true}; step.more;) {
    step = elsewhere_->admin().replay(EventFilter{}, step.through, 500);
  }
  ASSERT_TRUE(test::eventually([&] { return delivered().size() == 2 * kAggregates; }));
  std::set<std::string> heads;
  for (const std::string& id : delivered()) {
    if (id.starts_with("head")) {
      heads.insert(id.substr(4));
    } else {
      EXPECT_TRUE(heads.contains(id.substr(4))) << id << " came before its head";
    }
  }
}

TEST_P(BlockedLanes, OneThatIsFreedByHandIsFoundByAndBy) {
  elsewhere_->connect()->execute("DELETE FROM outbox_event WHERE event_id = 'head5'", {});
  // Each call looks at some of them, as the poll interval does when it is over.
  ASSERT_TRUE(test::eventually([&] {
    box_->wake();
    return !delivered().empty();
  }));
  EXPECT_EQ(delivered(), std::vector<std::string>{"next5"});
}

OUTBOX_ON_EVERY_DATABASE(BlockedLanes);

}  // namespace
}  // namespace outbox
