#include <atomic>

#include "store/sqlite/test_support.h"

namespace outbox::sqlite {
namespace {

class WatchTest : public SqliteTest {
 protected:
  std::unique_ptr<Watch> watch() {
    auto watch = store_->watch([this] { seen_.raise(); });
    EXPECT_NE(watch, nullptr);
    return watch;
  }

  // Whether a call comes that was not there before `work`.
  template <class Work>
  bool noticed(Work work) {
    const std::size_t before = seen_.count();
    work();
    return seen_.wait(before + 1);
  }

  const std::shared_ptr<Store> store_ = open_store();
  testing::Signal seen_;
};

TEST_F(WatchTest, NoticesCommitsOfThisProcess) {
  const auto watched = watch();
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(noticed([&] { write_event(*store_, simple_event(std::to_string(i))); })) << i;
  }
}

TEST_F(WatchTest, NoticesCommitsOfOtherConnections) {
  const ForeignConnection db(path());
  const auto watched = watch();
  EXPECT_TRUE(noticed([&] {
    db.run("INSERT INTO outbox_event (event_id, event_type, payload) VALUES ('a', 'T', '{}')");
  }));
}

TEST_F(WatchTest, NoticesCommitsOfOtherProcesses) {
  const Milestone go;
  ChildProcess other([&] {
    if (!go.wait()) return 1;
    write_event(*open_store(), simple_event("e"));
    return 0;
  });
  const auto watched = watch();
  EXPECT_TRUE(noticed([&] { go.reach(); }));
  EXPECT_EQ(other.wait(), 0);
}

TEST_F(WatchTest, NoticesTheLastCommitOfABurst) {
  std::atomic<int> committed{0};
  std::atomic<int> seen{0};
  const auto watched = store_->watch([&] {
    seen = committed.load();
    seen_.raise();
  });
  for (int i = 0; i < 300; ++i) {
    write_event(*store_, simple_event(std::to_string(i)));
    ++committed;
  }
  // A call after the last commit must come, however the ones before were
  // bundled.
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  while (seen < 299 && std::chrono::steady_clock::now() < deadline) {
    seen_.wait(seen_.count() + 1, 50ms);
  }
  EXPECT_GE(seen, 299);
}

TEST_F(WatchTest, GoesOnAfterACheckpointRestartedTheLog) {
  const ForeignConnection db(path());
  const auto watched = watch();
  EXPECT_TRUE(noticed([&] { write_event(*store_, simple_event("a")); }));
  db.run("PRAGMA wal_checkpoint(TRUNCATE)");
  EXPECT_TRUE(noticed([&] { write_event(*store_, simple_event("b")); }));
}

TEST_F(WatchTest, ARollbackIsNoCommit) {
  const auto watched = watch();
  const auto connection = store_->connect();
  connection->begin();
  const Event event = simple_event("e");
  connection->insert({&event, 1}, {});
  connection->rollback();
  EXPECT_FALSE(seen_.wait(1, 30ms));
}

TEST_F(WatchTest, StopsAtOnceAndCallsNobodyAfterwards) {
  auto watched = watch();
  const auto start = std::chrono::steady_clock::now();
  watched.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
  const std::size_t before = seen_.count();
  write_event(*store_, simple_event("e"));
  EXPECT_FALSE(seen_.wait(before + 1, 20ms));
}

TEST_F(WatchTest, AWatcherThatThrowsIsLoggedAndCalledAgain) {
  const testing::RecordingLog log;
  const auto store = open_store({.log = log.log()});
  const auto watched = store->watch([this] {
    seen_.raise();
    throw std::runtime_error("no");
  });
  EXPECT_TRUE(noticed([&] { write_event(*store, simple_event("a")); }));
  EXPECT_TRUE(noticed([&] { write_event(*store, simple_event("b")); }));
  EXPECT_TRUE(log.contains("a commit watcher threw: no"));
}

TEST_F(WatchTest, OutlivesTheStore) {
  auto store = open_store();
  const auto watched = store->watch([this] { seen_.raise(); });
  store.reset();
  EXPECT_TRUE(noticed([&] { write_event(*store_, simple_event("a")); }));
}

}  // namespace
}  // namespace outbox::sqlite
