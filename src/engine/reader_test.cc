#include "engine/reader.h"

#include <functional>

#include "engine/driver.h"
#include "engine/test_fixture.h"
#include "outbox/error.h"
#include "outbox/memory.h"

namespace outbox::testing {
namespace {

constexpr LaneKey kLane = 7;

// Takes every row, and tells how far its shard had been read when a lane was.
class LaneHandler final : public PollHandler {
 public:
  std::size_t room() override { return has_room ? 100 : 0; }
  std::size_t in_flight() override { return 0; }
  bool handle(Row row) override {
    rows.push_back(row.ref);
    return true;
  }
  LaneRead next_lane(std::span<const Seq> read_through) override {
    if (!std::exchange(wants_lane, false)) return {};
    on_next_lane();
    return {.key = kLane, .limit = 1, .read_through = read_through[0]};
  }
  void load_lane(const LaneRead& lane, Rows /*rows*/, bool /*candidate*/) override {
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
    reader_.set_lease(instance_->renew());
    while (reader_.round()) continue;
  }

  // Reads a lane, and nothing else.
  void read_lane() {
    handler_.has_room = false;
    handler_.wants_lane = true;
    reader_.round();
  }

  const std::shared_ptr<Store> store_ = memory::open();
  const std::shared_ptr<Instance> instance_ = store_->join({});
  LaneHandler handler_;
  internal::Reader reader_{instance_, handler_, {}};
};

TEST_F(ReaderTest, ALaneIsReadThroughWhatHasBeenMet) {
  ASSERT_EQ(handler_.rows.size(), 3u);
  read_lane();
  EXPECT_GE(handler_.lane_read_through, handler_.rows.back().seq);
}

// Its row comes first, and may belong to the lane.
TEST_F(ReaderTest, ALaneIsNotReadBeyondARowThatWasLeftBehind) {
  ASSERT_EQ(handler_.rows.size(), 3u);
  reader_.leave_behind(handler_.rows[1]);
  reader_.leave_behind(handler_.rows[2]);
  read_lane();
  EXPECT_LT(handler_.lane_read_through, handler_.rows[1].seq);
  handler_.has_room = true;
  while (reader_.round()) continue;
  EXPECT_EQ(handler_.rows.size(), 5u);
  read_lane();
  EXPECT_GE(handler_.lane_read_through, handler_.rows.back().seq);
}

TEST_F(ReaderTest, ARowIsLeftBehindWhileARoundIsUnderWay) {
  ASSERT_EQ(handler_.rows.size(), 3u);
  handler_.on_next_lane = [&] { reader_.leave_behind(handler_.rows[0]); };
  read_lane();
  EXPECT_LT(handler_.lane_read_through, handler_.rows[0].seq);
}

// As after a failover, when a renewal has registered at the new primary and its answer was lost.
TEST_F(ReaderTest, RowsReadUnderALaterRegistrationAreNotDeliveredInTheOldEpoch) {
  ASSERT_EQ(handler_.rows.size(), 3u);
  instance_->leave();
  ASSERT_NE(instance_->renew().epoch, 0);
  reader_.look_everywhere();
  EXPECT_THROW(reader_.round(), RetryableError);
  EXPECT_EQ(handler_.rows.size(), 3u);
}

// Until the keeper, which is another thread, has registered it anew: what it would find could not
// be marked, and would be found again and again.
TEST_F(ReaderTest, AFencedInstanceReadsNothing) {
  internal::Driver driver{
      instance_, handler_, {.log = standard_error_log(), .clock = &host_clock()}, {}};
  handler_.rows.clear();
  driver.read_now();
  ASSERT_EQ(handler_.rows.size(), 3u);
  driver.fenced(instance_->renew().epoch);
  driver.read_now();
  EXPECT_EQ(handler_.rows.size(), 3u);
}

}  // namespace
}  // namespace outbox::testing
