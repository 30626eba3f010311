#include "base/connection_pool.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "outbox/error.h"
#include "outbox/testing.h"

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
                  if (unreachable_) throw RetryableError("the server is unreachable");
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
  bool unreachable_ = false;
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

TEST_F(ConnectionPoolTest, ATimeoutSaysWhatWasAwaitedAndWhatToDo) {
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
  unreachable_ = true;
  EXPECT_THROW(pool->take(), RetryableError);
  unreachable_ = false;
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

using namespace std::chrono_literals;
using std::chrono::steady_clock;

TEST(FairSlots, GivesOutAsManyAsThereAre) {
  FairSlots slots(2);
  EXPECT_TRUE(slots.take(steady_clock::now()));
  EXPECT_TRUE(slots.take(steady_clock::now()));
  EXPECT_FALSE(slots.take(steady_clock::now() + 1ms));
  slots.give_back();
  EXPECT_TRUE(slots.take(steady_clock::now()));
}

TEST(FairSlots, AWaiterThatGaveUpIsNotServed) {
  FairSlots slots(1);
  ASSERT_TRUE(slots.take(steady_clock::now()));
  EXPECT_FALSE(slots.take(steady_clock::now() + 1ms));
  slots.give_back();
  EXPECT_TRUE(slots.take(steady_clock::now())) << "the place was handed to nobody";
}

TEST(FairSlots, ServesThoseWhoWaitInTheirOrder) {
  FairSlots slots(1);
  ASSERT_TRUE(slots.take(steady_clock::now()));
  std::vector<int> order;  // guarded by the slot
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < 5; ++i) {
    threads.emplace_back([&, i] {
      EXPECT_TRUE(slots.take(steady_clock::now() + 20s));
      order.push_back(static_cast<int>(i));
      slots.give_back();
    });
    while (slots.waiting() <= i) std::this_thread::yield();
  }
  slots.give_back();
  threads.clear();
  EXPECT_EQ(order, (std::vector{0, 1, 2, 3, 4}));
}

TEST(FairSlots, ANewcomerDoesNotOvertakeOneThatWaits) {
  FairSlots slots(1);
  ASSERT_TRUE(slots.take(steady_clock::now()));
  testing::Signal enough;
  std::jthread waiting([&] {
    EXPECT_TRUE(slots.take(steady_clock::now() + 20s));
    enough.wait();
    slots.give_back();
  });
  while (slots.waiting() == 0) std::this_thread::yield();
  slots.give_back();
  EXPECT_FALSE(slots.take(steady_clock::now())) << "handed over, even if it has not woken up yet";
  enough.raise();
}

using namespace std::chrono_literals;

// Some moment.
constexpr Reconnection::Instant kNow{1'000s};

bool allowed(Reconnection& reconnection, Reconnection::Instant now) {
  try {
    reconnection.check(now);
    return true;
  } catch (const RetryableError&) {
    return false;
  }
}

TEST(Reconnection, TheFirstAttemptIsMadeAtOnce) {
  Reconnection reconnection;
  EXPECT_TRUE(allowed(reconnection, kNow));
}

TEST(Reconnection, ThePausesDoubleUpToHalfASecond) {
  Reconnection reconnection;
  auto now = kNow;
  for (const auto pause : {50ms, 100ms, 200ms, 400ms, 400ms, 400ms}) {
    EXPECT_TRUE(allowed(reconnection, now));
    reconnection.failed("unreachable", now);
    EXPECT_FALSE(allowed(reconnection, now + pause - 1ms)) << pause.count();
    now += pause * 5 / 4;
  }
}

TEST(Reconnection, AfterALongOutageTheServerIsAskedWithinHalfASecondOfItsReturn) {
  Reconnection reconnection;
  auto now = kNow;
  for (int i = 0; i < 10'000; ++i) {
    now += 10ms;
    if (allowed(reconnection, now)) reconnection.failed("unreachable", now);
  }
  EXPECT_TRUE(allowed(reconnection, now + 500ms));
}

TEST(Reconnection, OneAttemptBeginsAtATimeAndAHangingOneKeepsNobodyFromTrying) {
  Reconnection reconnection;
  reconnection.failed("unreachable", kNow);
  EXPECT_TRUE(allowed(reconnection, kNow + 100ms));  // and hangs
  EXPECT_FALSE(allowed(reconnection, kNow + 101ms)) << "one begins at a time";
  EXPECT_TRUE(allowed(reconnection, kNow + 600ms)) << "which also hangs";
  reconnection.failed("no answer", kNow + 10s);
  EXPECT_TRUE(allowed(reconnection, kNow + 10s)) << "its pause began with it";
}

TEST(Reconnection, ThoseWhoFailTogetherCountAsOne) {
  Reconnection reconnection;
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(allowed(reconnection, kNow));
  for (int i = 0; i < 8; ++i) reconnection.failed("unreachable", kNow);
  EXPECT_TRUE(allowed(reconnection, kNow + 63ms)) << "the first pause";
}

TEST(Reconnection, InBetweenCallersAreToldWhatTheLastAttemptWasTold) {
  Reconnection reconnection;
  reconnection.failed("no route", kNow - 1h);
  EXPECT_TRUE(allowed(reconnection, kNow));
  reconnection.failed("refused", kNow);
  try {
    reconnection.check(kNow + 10ms);
    FAIL() << "it is too early";
  } catch (const RetryableError& error) {
    const std::string message = error.what();
    EXPECT_TRUE(message.starts_with("refused; the next attempt is made in ")) << message;
  }
}

TEST(Reconnection, AServerThatIsBackIsAskedAtOnceWhenItGoesAgain) {
  Reconnection reconnection;
  for (int i = 0; i < 5; ++i) reconnection.failed("unreachable", kNow);
  reconnection.succeeded();
  EXPECT_TRUE(allowed(reconnection, kNow));
  reconnection.failed("unreachable again", kNow);
  EXPECT_TRUE(allowed(reconnection, kNow + 63ms)) << "the pauses start over";
}

}  // namespace
}  // namespace outbox
