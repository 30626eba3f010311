// A server without a binary log, which shows commits before they are on its disk: on one
// of its own.
#include <algorithm>
#include <atomic>
#include <random>
#include <set>
#include <thread>

#include "base/mutex.h"
#include "outbox/testing.h"
#include "store/mysql/reader.h"
#include "store/mysql/test_support.h"
#include "support/own_server.h"
#include "support/tcp_proxy.h"

namespace outbox::mysql {
namespace {

class MysqlNoBinlogTest : public ::testing::Test {
 protected:
  void SetUp() override {
    OUTBOX_NEEDS_MYSQL();
    server_ = std::make_unique<test::OwnServer>("mariadb", "--no-binlog");
    sql_ = std::make_unique<test::Mysql>(server_->url());
  }

  test::Mysql& sql() { return *sql_; }
  std::shared_ptr<Store> open_store(const std::string& url, Options options = {}) {
    options.log = log_.log();
    return open(url, std::move(options));
  }

  // How often an engine has had the server flush its log.
  int flushes() { return std::stoi(sql().value("SELECT sum(flushes) FROM outbox_event_flush")); }

  testing::RecordingLog log_;
  std::unique_ptr<test::OwnServer> server_;
  std::unique_ptr<test::Mysql> sql_;
};

TEST_F(MysqlNoBinlogTest, EveryReadThatFindsRowsIsFollowedByOneWrite) {
  ASSERT_EQ(sql().value("SELECT @@log_bin"), "0");
  for (const bool prepare : {true, false}) {
    const auto store = open_store(server_->url(), {.prepare = prepare});
    sql().execute("DELETE FROM outbox_event; UPDATE outbox_event_flush SET flushes = 0");
    const auto instance = store->join({});
    const Lease lease = instance->renew();
    ASSERT_EQ(lease.shards.size(), 16U);
    EXPECT_TRUE(instance->ready(lease.shards, 0, 10).rows.empty());
    EXPECT_TRUE(instance->due(lease.shards, 10).rows.empty());
    EXPECT_TRUE(instance->held(0, 7, 10).rows.empty());
    EXPECT_EQ(flushes(), 0) << "there was nothing";

    // One look finds all of them, and two reads fetch them.
    for (int i = 0; i < 15; ++i) write_event(*store, simple_event(std::to_string(i)));
    EXPECT_EQ(instance->ready(lease.shards, 0, 10).rows.size(), 10U);
    EXPECT_EQ(instance->ready(lease.shards, 0, 10).rows.size(), 5U);
    EXPECT_EQ(flushes(), 1);
    EXPECT_TRUE(instance->ready(lease.shards, 0, 10).rows.empty());
    EXPECT_EQ(flushes(), 1) << "nothing new";

    sql().execute("UPDATE outbox_event SET hold = -1 WHERE event_id = '1'");
    EXPECT_EQ(instance->due(lease.shards, 10).rows.size(), 1U);
    EXPECT_EQ(flushes(), 2);

    sql().execute("UPDATE outbox_event SET hold = 7 WHERE event_id = '2'");
    const int shard = store->find("2")->row.ref.shard;
    EXPECT_EQ(instance->held(shard, 7, 10).rows.size(), 1U);
    EXPECT_EQ(flushes(), 3);
    instance->leave();
  }
}

TEST_F(MysqlNoBinlogTest, EnginesWriteToDifferentRows) {
  const auto store = open_store(server_->url());
  const auto one = store->join({});
  one->renew();
  const auto two = store->join({});
  two->renew();
  for (const int shard : one->renew().draining) one->release(shard);
  const Lease first = one->renew();
  const Lease second = two->renew();
  ASSERT_EQ(first.shards.size(), 8U);
  ASSERT_EQ(second.shards.size(), 8U);
  for (int i = 0; i < 200; ++i) write_event(*store, simple_event(std::to_string(i)));
  EXPECT_FALSE(one->ready(first.shards, 0, 10).rows.empty());
  EXPECT_FALSE(two->ready(second.shards, 0, 10).rows.empty());
  EXPECT_EQ(sql().value("SELECT count(*) FROM outbox_event_flush WHERE flushes = 1"), "2");
}

TEST_F(MysqlNoBinlogTest, ClaimsAreWritesThemselves) {
  const auto store = open_store(server_->url());
  const auto instance = store->join({.row_claims = true});
  instance->renew();
  write_event(*store, simple_event("e"));
  EXPECT_EQ(instance->claim(0ms, 10).rows.size(), 1U);
  EXPECT_EQ(flushes(), 0);
}

// Whoever lets the server lose commits gets no promise, and does not pay for one.
TEST_F(MysqlNoBinlogTest, WhereCommitsAreNotFlushedAtAllNothingIsWritten) {
  open_store(server_->url());
  for (const auto& [setting, early] : {std::pair{"0", false}, {"1", true}, {"2", false}}) {
    sql().execute(std::string("SET GLOBAL innodb_flush_log_at_trx_commit = ") + setting);
    Database database(config_at(server_->url()));
    EXPECT_EQ(database.session().shows_commits_early(), early) << setting;
    sync_log(database.session(), 0);
    EXPECT_EQ(database.session().shows_commits_early(), early) << setting;
  }
  EXPECT_EQ(flushes(), 1);
}

TEST_F(MysqlNoBinlogTest, ARowThatIsMissingIsNamedAndNothingIsHandedOut) {
  const auto store = open_store(server_->url());
  const auto instance = store->join({});
  const Lease lease = instance->renew();
  write_event(*store, simple_event("e"));
  sql().execute("DELETE FROM outbox_event_flush");
  const std::string message =
      message_of<PermanentError>([&] { instance->ready(lease.shards, 0, 10); });
  EXPECT_TRUE(contains(message, ".outbox_event_flush (shard) VALUES (")) << message;
  for (int shard = 0; shard < 16; ++shard) {
    sql().execute("INSERT INTO outbox_event_flush (shard) VALUES (" + std::to_string(shard) + ")");
  }
  EXPECT_EQ(ids(instance->ready(lease.shards, 0, 10).rows), std::vector<std::string>{"e"});
}

// The next connection might be to a server that has lost the rows.
TEST_F(MysqlNoBinlogTest, RowsWhoseConnectionIsLostBeforeTheWriteAreNotHandedOutButReadAgain) {
  test::TcpProxy network("127.0.0.1", test::port_of(server_->url()));
  const auto store = open_store(
      test::with_port(server_->url(), network.port()) + "?ssl_mode=disabled", {.prepare = false});
  const auto instance = store->join({});
  const Lease lease = instance->renew();
  write_event(*store, simple_event("held"));
  sql().execute("UPDATE outbox_event SET hold = 7");
  write_event(*store, simple_event("due"));
  sql().execute("UPDATE outbox_event SET hold = -1 WHERE event_id = 'due'");
  write_event(*store, simple_event("ready"));
  const int shard = store->find("held")->row.ref.shard;
  const auto ready = [&] { return ids(instance->ready(lease.shards, 0, 10).rows); };
  const auto due = [&] { return ids(instance->due(lease.shards, 10).rows); };
  const auto held = [&] { return ids(instance->held(shard, 7, 10).rows); };
  const auto loses_and_reads_again = [&](const auto& read, const std::string& id) {
    const int before = network.drops();
    network.drop_request("outbox_event_flush` SET");
    EXPECT_THROW(read(), RetryableError) << id;
    EXPECT_EQ(network.drops(), before + 1) << id;
    std::vector<std::string> found;
    EXPECT_TRUE(works_again([&] { found = read(); }));
    EXPECT_EQ(found, std::vector<std::string>{id});
  };
  loses_and_reads_again(ready, "ready");
  loses_and_reads_again(due, "due");
  loses_and_reads_again(held, "held");
}

// Many commit at once, so that at any moment some commit is seen and not yet on the disk.
TEST_F(MysqlNoBinlogTest, NothingIsHandedOutThatAServerThatIsKilledForgets) {
  constexpr int kKills = 8;
  constexpr int kWriters = 12;
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  open_store(server_->url());
  std::size_t handed_out = 0;
  for (int kill = 0; kill < kKills; ++kill) {
    std::atomic<bool> stop{false};
    std::vector<std::jthread> writers;
    for (int writer = 0; writer < kWriters; ++writer) {
      writers.emplace_back([&, writer] {
        try {
          test::Mysql mine(server_->url());
          for (int i = 0; !stop; ++i) {
            const std::string id =
                std::to_string(kill) + "-" + std::to_string(writer) + "-" + std::to_string(i);
            mine.execute("INSERT INTO outbox_event (event_id, event_type, payload) VALUES ('" + id +
                         "', 'T', '{}')");
          }
        } catch (const std::exception&) {
          // It was killed.
        }
      });
    }
    Mutex mutex;
    std::set<std::string> seen;
    std::jthread reader([&] {
      try {
        const auto store = open_store(server_->url());
        const auto instance = store->join({});
        const Lease lease = instance->renew();
        while (!stop) {
          const std::vector<std::string> found = ids(instance->ready(lease.shards, 0, 100).rows);
          MutexLock lock(mutex);
          seen.insert(found.begin(), found.end());
        }
      } catch (const std::exception&) {
        // It was killed.
      }
    });
    const std::size_t enough = 200 + random() % 200;
    EXPECT_TRUE(eventually([&] {
      MutexLock lock(mutex);
      return seen.size() >= enough;
    }));
    server_->restart(false);
    stop = true;
    writers.clear();
    reader.join();

    sql_ = std::make_unique<test::Mysql>(server_->url());
    std::set<std::string> kept;
    for (const auto& row : sql().query("SELECT event_id FROM outbox_event")) kept.insert(*row[0]);
    std::vector<std::string> invented;
    std::set_difference(seen.begin(), seen.end(), kept.begin(), kept.end(),
                        std::back_inserter(invented));
    EXPECT_TRUE(invented.empty()) << "kill " << kill << ": " << invented.size() << " of "
                                  << seen.size() << ", the first is " << invented.front();
    handed_out += seen.size();
    sql().execute(
        "DELETE FROM outbox_event; DELETE FROM outbox_event_instance;"
        "UPDATE outbox_event_shard SET epoch = NULL, leaving = FALSE, suspects = NULL");
  }
  EXPECT_GT(handed_out, static_cast<std::size_t>(kKills) * 200);
}

}  // namespace
}  // namespace outbox::mysql
