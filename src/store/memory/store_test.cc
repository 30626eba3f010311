// What only the memory store promises; the rest is in tests/conformance.
#include <gtest/gtest.h>

#include <string>

#include "outbox/error.h"
#include "outbox/memory.h"

namespace outbox::memory {
namespace {

using namespace std::chrono_literals;

TEST(MemoryStore, RefusesOptionsThatMakeNoSense) {
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

}  // namespace
}  // namespace outbox::memory
