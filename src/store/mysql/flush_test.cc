#include "store/mysql/reader.h"
#include "store/mysql/test_support.h"

namespace outbox::mysql {
namespace {

// On the tests' usual server, which has a binary log; flush_long_test.cc has the other.
using MysqlFlushTest = MysqlTest;

TEST_F(MysqlFlushTest, WithABinaryLogNothingIsWritten) {
  ASSERT_EQ(sql().value("SELECT @@log_bin"), "1");
  const auto store = open_store();
  Database database(config());
  EXPECT_FALSE(database.session().shows_commits_early());
  sync_log(database.session(), 3);
  const auto instance = store->join({});
  const Lease lease = instance->renew();
  write_event(*store, simple_event("e"));
  EXPECT_EQ(instance->ready(lease.shards, 0, 10).rows.size(), 1U);
  EXPECT_EQ(sql().value("SELECT sum(flushes) FROM outbox_event_flush"), "0");
}

}  // namespace
}  // namespace outbox::mysql
