#include "base/connection_pool.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace outbox {
namespace {

using namespace std::chrono_literals;

// A connection that knows what was done to it.
struct FakeDatabase {
  int number = 0;
  bool lost = false;
  bool in_transaction = false;
};

using Pool = ConnectionPool<FakeDatabase>;

class ConnectionPoolTest : public ::testing::Test {
 protected:
  std::shared_ptr<Pool> make_pool(std::size_t size, std::unique_ptr<FakeDatabase> first = nullptr) {
    return std::make_shared<Pool>(
        PoolOptions<FakeDatabase>{
            .size = size,
            .wait_timeout = 1ms,
            .description = "the shop",
            .hint = "raise the limit",
            .open =
                [this] {
                  if (server_is_away_) throw RetryableError("the server is unreachable");
                  return std::make_unique<FakeDatabase>(FakeDatabase{.number = ++opened_});
                },
            .make_ready =
                [](FakeDatabase& database) {
                  database.in_transaction = false;
                  return !database.lost;
                },
            .is_healthy = [](FakeDatabase& database) { return !database.lost; }},
        std::move(first));
  }

  int opened_ = 0;
  bool server_is_away_ = false;
};

TEST_F(ConnectionPoolTest, OpensNoMoreThanAreUsedAtOnce) {
  const auto pool = make_pool(3);
  for (int i = 0; i < 5; ++i) pool->take();
  EXPECT_EQ(opened_, 1);
  const auto one = pool->take();
  const auto two = pool->take();
  EXPECT_EQ(opened_, 2);
}

TEST_F(ConnectionPoolTest, LendsTheOneThatCameBackLast) {
  const auto pool = make_pool(2);
  auto one = pool->take();
  auto two = pool->take();
  one.reset();
  two.reset();
  EXPECT_EQ(pool->take()->number, 2);
}

TEST_F(ConnectionPoolTest, BeginsWithTheConnectionItWasGiven) {
  const auto pool = make_pool(1, std::make_unique<FakeDatabase>(FakeDatabase{.number = 77}));
  EXPECT_EQ(pool->take()->number, 77);
  EXPECT_EQ(opened_, 0);
}

TEST_F(ConnectionPoolTest, WhoeverWaitedInVainIsToldForWhatAndWhatToDo) {
  const auto pool = make_pool(2);
  const auto one = pool->take();
  const auto two = pool->take();
  try {
    pool->take();
    FAIL() << "a third connection from a pool of two";
  } catch (const RetryableError& error) {
    EXPECT_STREQ(error.what(),
                 "no connection was free for 1 ms (the shop): all 2 are in use; raise the limit");
  }
}

TEST_F(ConnectionPoolTest, AConnectionIsMadeReadyWhenItComesBack) {
  const auto pool = make_pool(1);
  auto handle = pool->take();
  FakeDatabase& database = *handle;
  database.in_transaction = true;
  handle.reset();
  EXPECT_FALSE(database.in_transaction) << "it lies idle in a transaction";
}

TEST_F(ConnectionPoolTest, AConnectionThatComesBackLostIsClosed) {
  const auto pool = make_pool(1);
  pool->take()->lost = true;
  EXPECT_EQ(pool->take()->number, 2);
}

TEST_F(ConnectionPoolTest, ConnectionsThatWereLostWhileIdleAreClosed) {
  const auto pool = make_pool(2);
  auto one = pool->take();
  auto two = pool->take();
  FakeDatabase& first = *one;
  FakeDatabase& second = *two;
  one.reset();
  two.reset();
  first.lost = second.lost = true;
  EXPECT_EQ(pool->take()->number, 3);
}

TEST_F(ConnectionPoolTest, AConnectionThatCouldNotBeOpenedTakesNoPlace) {
  const auto pool = make_pool(1);
  server_is_away_ = true;
  EXPECT_THROW(pool->take(), RetryableError);
  server_is_away_ = false;
  EXPECT_EQ(pool->take()->number, 1);
}

TEST_F(ConnectionPoolTest, ALeaseKeepsItsPoolAlive) {
  auto pool = make_pool(1);
  const std::weak_ptr<Pool> watched = pool;
  auto handle = pool->take();
  pool.reset();
  EXPECT_FALSE(watched.expired());
  handle = Pool::Handle();
  EXPECT_TRUE(watched.expired());
}

TEST_F(ConnectionPoolTest, AForkGivesNothingBackAndGetsNothing) {
  const auto pool = make_pool(2);
  auto handle = pool->take();
  FakeDatabase& database = *handle;
  database.in_transaction = true;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    handle.reset();
    bool refused = false;
    try {
      pool->take();
    } catch (const MisuseError&) {
      refused = true;
    }
    _exit(refused && database.in_transaction ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace outbox
