// A watch asks for new numbers, and calls unless all of them are of writers that it hears from.
#include <array>
#include <atomic>
#include <thread>

#include "store/mysql/own_numbers.h"
#include "store/mysql/test_support.h"

namespace outbox::mysql {
namespace {

class MysqlWatchTest : public MysqlTest {
 protected:
  void SetUp() override {
    MysqlTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    store_ = open_store();
    write(nullptr);
    watch_ = store_->watch([this] { ++calls_; });
    EXPECT_TRUE(eventually([&] { return calls_ > 0; }));
  }
  void TearDown() override { watch_.reset(); }

  void write(const Watch* told) {
    const std::array events{simple_event(std::to_string(next_++))};
    const auto connection = begun(*store_);
    connection->insert(events, {.told = told});
    connection->commit();
  }

  std::shared_ptr<Store> store_;
  std::atomic<int> calls_{0};
  int next_ = 0;
  std::unique_ptr<Watch> watch_;  // last: it calls
};

TEST_F(MysqlWatchTest, CallsForCommitsThatItHasNotHeardOf) {
  const int before = calls_;
  write(nullptr);
  EXPECT_TRUE(eventually([&] { return calls_ > before; }));
}

TEST_F(MysqlWatchTest, CallsForOthersAmongThoseThatItHasHeardOf) {
  const int before = calls_;
  write(watch_.get());
  sql().execute("INSERT INTO outbox_event (event_id, event_type, payload) VALUES ('x', 'T', '{}')");
  write(watch_.get());
  EXPECT_TRUE(eventually([&] { return calls_ > before; }));
}

// They may have a transaction open whose numbers are lower.
TEST_F(MysqlWatchTest, CallsForAllWhileOthersAreActive) {
  write(nullptr);
  const int before = calls_;
  EXPECT_TRUE(eventually([&] { return calls_ > before; }));
  const int then = calls_;
  write(watch_.get());
  EXPECT_TRUE(eventually([&] { return calls_ > then; }));
}

TEST_F(MysqlWatchTest, DoesNotCallForThoseThatItHearsOf) {
  constexpr int kWritten = 100;
  const int before = calls_;
  for (int n = 0; n < kWritten; ++n) write(watch_.get());
  // Nothing tells from outside that it has asked, and found nothing new.
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(calls_, before);
}

TEST(OwnNumbers, AreForgottenOnceTheyWereAskedFor) {
  OwnNumbers numbers;
  const Watch* const told = reinterpret_cast<const Watch*>(&numbers);  // NOLINT: only compared
  EXPECT_FALSE(numbers.are_all(told, 0, 1));
  numbers.add(told, std::array{RowRef{.seq = 4}, RowRef{.seq = 5}, RowRef{.seq = 7}});
  EXPECT_TRUE(numbers.are_all(told, 3, 5));
  EXPECT_FALSE(numbers.are_all(told, 3, 5));
  EXPECT_FALSE(numbers.are_all(told, 5, 7)) << "6 is somebody else's";
  numbers.add(told, std::array{RowRef{.seq = 8}});
  EXPECT_FALSE(numbers.are_all(nullptr, 7, 8));
  numbers.forget(told);
  EXPECT_FALSE(numbers.are_all(told, 7, 8));
}

}  // namespace
}  // namespace outbox::mysql
