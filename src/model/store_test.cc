#include "outbox/spi/store.h"

#include <gtest/gtest.h>

#include <future>

#include "model/instance_options.h"
#include "outbox/error.h"
#include "outbox/memory.h"

namespace outbox {
namespace {

using std::chrono::milliseconds;
using namespace std::chrono_literals;

TEST(InstanceOptionsTest, WhatMakesSenseStays) {
  const InstanceOptions options = checked({.lease = 7s, .lock_timeout = 3min});
  EXPECT_EQ(options.lease, 7s);
  EXPECT_EQ(options.lock_timeout, 3min);
}

TEST(InstanceOptionsTest, ALeaseOrALockThatIsOverBeforeItBeganIsRefused) {
  EXPECT_THROW(checked({.lease = 0ms}), MisuseError);
  EXPECT_THROW(checked({.lease = -1ms}), MisuseError);
  EXPECT_THROW(checked({.row_claims = true, .lock_timeout = 0ms}), MisuseError);
  EXPECT_NO_THROW(checked({.lock_timeout = 0ms})) << "nobody claims rows";
}

TEST(InstanceOptionsTest, WhatLastsForEverCanBeAddedToTheTime) {
  const InstanceOptions options =
      checked({.lease = milliseconds::max(), .lock_timeout = milliseconds::max()});
  EXPECT_EQ(options.lease, 365 * 24h);
  EXPECT_EQ(options.lock_timeout, 365 * 24h);
}

// The sum overflowed: the member took itself for dead, and its share of the
// shards was divided by the number of the living, none.
TEST(InstanceOptionsTest, AMemberWithALeaseForEverIsNotDead) {
  const auto store = memory::open();
  const auto instance = store->join({.lease = milliseconds::max()});
  EXPECT_EQ(instance->renew().shards.size(), 16u);
  EXPECT_THROW(store->join({.lease = -1ms}), MisuseError);
}

// "For ever" was over at once: no connection was free.
TEST(BoundedTest, AWaitForEverIsNotOverAtOnce) {
  const auto store = memory::open({.connections = 1, .wait_timeout = milliseconds::max()});
  auto first = store->connect();
  auto second = std::async(std::launch::async, [&] { return store->connect(); });
  EXPECT_EQ(second.wait_for(50ms), std::future_status::timeout);
  first.reset();
  EXPECT_NE(second.get(), nullptr);
}

TEST(Status, HasTheNamesAndNumbersThatOperatorsSee) {
  EXPECT_EQ(to_string(Status::pending), "NEW");
  EXPECT_EQ(to_string(Status::done), "DONE");
  EXPECT_EQ(to_string(Status::retry), "RETRY");
  EXPECT_EQ(to_string(Status::dead), "DEAD");
  EXPECT_EQ(static_cast<int>(Status::pending), 0);
  EXPECT_EQ(static_cast<int>(Status::done), 1);
  EXPECT_EQ(static_cast<int>(Status::retry), 2);
  EXPECT_EQ(static_cast<int>(Status::dead), 3);
}

TEST(Status, NamesANumberThatNoReleaseWrote) {
  EXPECT_EQ(to_string(static_cast<Status>(9)), "UNKNOWN");
}

}  // namespace
}  // namespace outbox
