// What only the memory store promises; the rest is in tests/conformance.
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "outbox/error.h"
#include "outbox/memory.h"
#include "outbox/testing.h"
#include "store/memory/database.h"

namespace outbox::memory {
namespace {

using namespace std::chrono_literals;

Event simple(const std::string& id) {
  Draft draft{.type = "T", .payload = json("{}")};
  draft.id = id;
  return make_event(std::move(draft));
}

TEST(MemoryStore, RefusesInvalidOptions) {
  EXPECT_THROW(open({.shards = 0}), MisuseError);
  EXPECT_THROW(open({.connections = 0}), MisuseError);
}

TEST(MemoryStore, KnowsNoSql) {
  const auto store = open();
  EXPECT_EQ(store->capabilities().dialect, Dialect::none);
  EXPECT_THROW(store->side_table("inbox"), MisuseError);
  const auto connection = store->connect();
  connection->begin();
  EXPECT_THROW(connection->execute("DELETE FROM orders", {}), MisuseError);
  EXPECT_THROW(connection->query("SELECT 1", {}), MisuseError);
}

TEST(MemoryStore, SaysThatATransactionWaitedTooLongForAnother) {
  const auto store = open({.wait_timeout = 1ms});
  const auto first = store->connect();
  const auto second = store->connect();
  first->begin();
  try {
    second->begin();
    FAIL() << "two transactions at a time";
  } catch (const RetryableError& error) {
    EXPECT_NE(std::string(error.what()).find("wait_timeout = 1 ms"), std::string::npos)
        << error.what();
  }
  EXPECT_FALSE(second->in_transaction());
  first->commit();
  second->begin();
  EXPECT_TRUE(second->in_transaction());
}

TEST(MemoryStore, ConcurrentTransactionsCommitInAnyOrderAndNoneIsPassedBy) {
  const auto store = open({.shards = 1, .concurrent_transactions = true});
  const auto reader = store->join({.name = "reader"});
  const std::vector<int> shards = reader->renew().shards;
  const auto found = [&] {
    std::vector<std::string> ids;
    for (const Row& row : reader->ready(shards, 0, 10).rows) {
      ids.push_back(row.event.id());
    }
    return ids;
  };
  const auto first = store->connect();
  const auto second = store->connect();
  first->begin();
  second->begin();
  const std::vector<Event> late{simple("late")};
  first->insert(late, {});
  second->insert(std::vector<Event>{simple("early")}, {});
  EXPECT_THROW(second->insert(late, {}), MisuseError);  // its id is given out
  second->commit();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(found(), (std::vector<std::string>{"early"}));
  first->commit();
  EXPECT_EQ(found(), (std::vector<std::string>{"late", "early"}));
  EXPECT_THROW(open({.shards = 17, .concurrent_transactions = true}), MisuseError);
}

TEST(MemoryStore, AClockThatIsSetBackMakesNoDelayLonger) {
  testing::ManualClock clock;
  const auto store = open({.clock = &clock});
  const auto instance = store->join({});
  const Lease lease = instance->renew();
  const auto write = [&](const std::string& id, std::optional<std::chrono::microseconds> after) {
    const Event event =
        make_event({.type = "T", .payload = json("{}"), .deliver_after = after, .id = id}, clock);
    const auto connection = store->connect();
    connection->begin();
    connection->insert({&event, 1}, {});
    connection->commit();
  };
  write("e", {});
  const StatusUpdate update{.row = store->admin().find("e")->row.ref,
                            .event_id = "e",
                            .kind = StatusUpdate::Kind::retry,
                            .delay = 1s};
  EXPECT_TRUE(instance->apply(lease.epoch, {&update, 1}).stale.empty());
  clock.step(-24h);
  write("after", 2s);
  clock.advance(1s);
  DueRows due = instance->due(lease.shards, 10);
  ASSERT_EQ(due.rows.size(), 1u);
  EXPECT_EQ(due.rows[0].event.id(), "e");
  EXPECT_EQ(due.next_in, 1s);
}

TEST(MemoryStore, ConnectionsAndInstancesMayOutliveTheStore) {
  auto store = open();
  const auto connection = store->connect();
  const auto instance = store->join({});
  const auto watch = store->watch([] {});
  store.reset();
  connection->begin();
  connection->commit();
  EXPECT_EQ(instance->renew().shards.size(), 16u);
}

using namespace std::chrono_literals;

TEST(FairGate, LetsInAsManyAsThereArePlaces) {
  FairGate gate(2);
  EXPECT_TRUE(gate.enter(0ms));
  EXPECT_TRUE(gate.enter(0ms));
  EXPECT_FALSE(gate.enter(1ms));
  gate.leave();
  EXPECT_TRUE(gate.enter(0ms)) << "the one that gave up does not stand in the way";
}

TEST(FairGate, LetsEverybodyInSoonerOrLater) {
  FairGate gate(1);
  int inside = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] {
        for (int n = 0; n < 200; ++n) {
          ASSERT_TRUE(gate.enter(20s));
          ++inside;  // a race, if two were let in
          gate.leave();
        }
      });
    }
  }
  EXPECT_EQ(inside, 1'600);
}

}  // namespace

}  // namespace outbox::memory
