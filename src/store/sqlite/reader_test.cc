#include <atomic>
#include <functional>
#include <utility>

#include "store/sqlite/test_support.h"

namespace outbox::sqlite {
namespace {

constexpr int kShard[] = {0};
using Ids = std::vector<std::string>;

class ReaderTest : public SqliteTest {
 protected:
  ReaderTest() { instance_->renew(); }

  void write_many(int first, int last) {
    for (int i = first; i <= last; ++i) write_event(*store_, simple_event(std::to_string(i)));
  }

  Ids ready(std::size_t in_flight, std::size_t limit) {
    Ids ids;
    for (const Row& row : instance_->ready(kShard, in_flight, limit).rows) {
      ids.push_back(row.event.id());
    }
    return ids;
  }

  const std::shared_ptr<Store> store_ = open_store();
  std::unique_ptr<Instance> instance_ = store_->join({});
};

TEST_F(ReaderTest, DoesNotReadAgainWhatItHasReturned) {
  write_many(1, 5);
  EXPECT_EQ(ready(0, 2), (Ids{"1", "2"}));
  EXPECT_EQ(ready(2, 2), (Ids{"3", "4"}));
  EXPECT_EQ(ready(4, 2), (Ids{"5"}));
  EXPECT_EQ(ready(5, 2), Ids{});
  write_many(6, 6);
  EXPECT_EQ(ready(5, 2), (Ids{"6"}));
}

TEST_F(ReaderTest, ARewindStartsAtThatRow) {
  write_many(1, 5);
  ready(0, 5);
  instance_->rewind(4);
  EXPECT_EQ(ready(0, 5), (Ids{"4", "5"}));
  instance_->rewind(9);
  EXPECT_EQ(ready(0, 5), Ids{}) << "never forward";
  instance_->rewind(0);
  EXPECT_EQ(ready(0, 5).size(), 5u);
}

TEST_F(ReaderTest, AfterARewindItReadsPastWhatIsInFlight) {
  write_many(1, 6);
  EXPECT_EQ(ready(0, 4).size(), 4u);
  instance_->rewind(0);
  EXPECT_EQ(ready(4, 1), (Ids{"1", "2", "3", "4", "5"}));
}

TEST_F(ReaderTest, ANewEpochStartsAtTheLowestRow) {
  write_many(1, 2);
  EXPECT_EQ(ready(0, 5).size(), 2u);
  instance_->leave();
  instance_->renew();
  EXPECT_EQ(ready(0, 5).size(), 2u);
}

// Writers of other programs commit in the order of their numbers, too: whoever
// has the lower one has the lock.
TEST_F(ReaderTest, MissesNothingWhileOthersWrite) {
  constexpr int kEach = 200;
  std::atomic<int> writing{2};
  std::vector<std::jthread> writers;
  for (const char* name : {"a", "b"}) {
    writers.emplace_back([this, name, &writing] {
      const ForeignConnection db(path());
      for (int i = 0; i < kEach; ++i) {
        const std::string values = "('" + (name + std::to_string(i)) + "', 'T', '{}')";
        db.run("INSERT INTO outbox_event (event_id, event_type, payload) VALUES " + values);
      }
      --writing;
    });
  }
  Seq last = 0;
  std::size_t read = 0;
  for (bool final_round = false; !final_round;) {
    final_round = writing == 0;
    for (const Row& row : instance_->ready(kShard, 0, 1'000).rows) {
      EXPECT_GT(row.ref.seq, last);
      last = row.ref.seq;
      ++read;
    }
  }
  EXPECT_EQ(read, 2u * kEach);
}

// Lets something happen right after the time was asked for.
class InterruptedClock final : public Clock {
 public:
  Time now() const override {
    const Time time = host_clock().now();
    if (const auto interruption = std::exchange(next, {})) interruption();
    return time;
  }
  Steady steady() const override { return host_clock().steady(); }

  mutable std::function<void()> next{};
};

TEST_F(ReaderTest, ARowCommittedWhileTheClockWasReadPassedForADelayedOne) {
  const InterruptedClock clock;
  const auto store = open_store({.clock = &clock});
  instance_->leave();
  const auto instance = store->join({});
  instance->renew();
  write_many(1, 1);
  clock.next = [&] {
    // Not on the same tick of the clock.
    for (const Time begin = host_clock().now(); host_clock().now() == begin;) {
    }
    write_many(2, 2);
  };
  for (int read = 0; read < 2; ++read) {
    for (const Row& row : instance->ready(kShard, 0, 10).rows) {
      EXPECT_LE(row.available_in, 0us) << row.event.id();
    }
  }
}

TEST_F(ReaderTest, ManyRowsDueAtOneMomentComeInTheirOrderAndUpToTheLimit) {
  const ForeignConnection db(path());
  db.run(
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50) "
      "INSERT INTO outbox_event (event_id, event_type, payload, hold) "
      "SELECT i, 'T', '{}', CASE WHEN i > 40 THEN -5 ELSE -7 END FROM n");
  const DueRows due = instance_->due(kShard, 15);
  EXPECT_EQ(ids(due.rows), (Ids{"41", "42", "43", "44", "45", "46", "47", "48", "49", "50", "1",
                                "2", "3", "4", "5"}));
  EXPECT_TRUE(due.more);
}

}  // namespace
}  // namespace outbox::sqlite
