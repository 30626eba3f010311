#include "engine/poller.h"

#include <functional>

#include "engine/engine_options.h"
#include "engine/test_fixture.h"
#include "outbox/error.h"
#include "outbox/memory.h"

namespace outbox::testing {
namespace {

constexpr LaneKey kLane = 7;

// Takes every row, and tells how far its shard had been read when a lane was.
class LaneIntake final : public internal::Intake {
 public:
  std::size_t room() override { return has_room ? 100 : 0; }
  std::size_t in_flight() override { return 0; }
  bool handle(Row row) override {
    rows.push_back(row.ref);
    return true;
  }
  internal::LaneRead next_lane(std::span<const Seq> read_through) override {
    if (!std::exchange(wants_lane, false)) return {};
    on_next_lane();
    return {.key = kLane, .limit = 1, .read_through = read_through[0]};
  }
  void load_lane(const internal::LaneRead& lane, Rows /*rows*/, bool /*candidate*/) override {
    lane_read_through = lane.read_through;
  }

  bool has_room = true;
  bool wants_lane = false;
  std::function<void()> on_next_lane = [] {};
  std::vector<RowRef> rows;
  Seq lane_read_through = 0;
};

// A reader that has met three rows, and read everything.
class ReaderTest : public ::testing::Test {
 protected:
  ReaderTest() {
    Writer writer{store_};
    auto tx = writer.begin();
    tx.write_all(std::vector<Draft>(3, order_event("1", "1")));
    tx.commit();
    poller_.on_lease(instance_->renew(), Clock::Steady::max());
    while (poller_.read()) continue;
  }

  // Reads a lane, and nothing else.
  void read_lane() {
    intake_.has_room = false;
    intake_.wants_lane = true;
    poller_.read();
  }

  const std::shared_ptr<Store> store_ = memory::open();
  const std::shared_ptr<Instance> instance_ = store_->join({});
  LaneIntake intake_;
  internal::Poller poller_{instance_, intake_, internal::checked(PollerOptions{})};
};

TEST_F(ReaderTest, ALaneIsReadThroughWhatHasBeenMet) {
  ASSERT_EQ(intake_.rows.size(), 3u);
  read_lane();
  EXPECT_GE(intake_.lane_read_through, intake_.rows.back().seq);
}

// Its row comes first, and may belong to the lane.
TEST_F(ReaderTest, ALaneIsNotReadBeyondARowThatWasLeftBehind) {
  ASSERT_EQ(intake_.rows.size(), 3u);
  poller_.leave_behind(intake_.rows[1]);
  poller_.leave_behind(intake_.rows[2]);
  read_lane();
  EXPECT_LT(intake_.lane_read_through, intake_.rows[1].seq);
  intake_.has_room = true;
  while (poller_.read()) continue;
  EXPECT_EQ(intake_.rows.size(), 5u);
  read_lane();
  EXPECT_GE(intake_.lane_read_through, intake_.rows.back().seq);
}

TEST_F(ReaderTest, ARowIsLeftBehindWhileARoundIsUnderWay) {
  ASSERT_EQ(intake_.rows.size(), 3u);
  intake_.on_next_lane = [&] { poller_.leave_behind(intake_.rows[0]); };
  read_lane();
  EXPECT_LT(intake_.lane_read_through, intake_.rows[0].seq);
}

// As after a failover, when a renewal has registered at the new primary and its answer was lost.
TEST_F(ReaderTest, RowsReadUnderALaterRegistrationAreNotDeliveredInTheOldEpoch) {
  ASSERT_EQ(intake_.rows.size(), 3u);
  instance_->leave();
  ASSERT_NE(instance_->renew().epoch, 0);
  poller_.look_everywhere();
  EXPECT_THROW(poller_.read_now(), RetryableError);
  EXPECT_EQ(intake_.rows.size(), 3u);
}

// Until the keeper, which is another thread, has registered it again: what it would find could not
// be updated, and would be found again and again.
TEST_F(ReaderTest, AFencedInstanceReadsNothing) {
  internal::Poller poller{instance_, intake_, internal::checked(PollerOptions{})};
  intake_.rows.clear();
  poller.read_now();
  ASSERT_EQ(intake_.rows.size(), 3u);
  poller.fenced(instance_->renew().epoch);
  poller.read_now();
  EXPECT_EQ(intake_.rows.size(), 3u);
}

}  // namespace
}  // namespace outbox::testing
