// The suite on the tracker in memory, and what is its own.
#include "consumer/memory_tracker.h"

#include "consumer/tracker_conformance.h"
#include "outbox/testing.h"

namespace outbox::test {
namespace {

using namespace std::chrono_literals;

class MemoryBackend final : public TrackerBackend {
 public:
  std::shared_ptr<ConsumptionTracker> open(TrackerOptions options) override {
    return memory_tracker(options, clock_);
  }
  void advance(std::chrono::milliseconds by) override { clock_.advance(by); }
  bool shared() const override { return false; }

 private:
  testing::ManualClock clock_;
};

TEST(MemoryTrackerTest, KeepsNoMoreThanTheEventsOfTheRetention) {
  testing::ManualClock clock;
  internal::MemoryTracker tracker({.lease = 1s, .retention = 100s}, clock);
  std::size_t most = 0;
  for (int i = 0; i < 10'000; ++i) {
    const std::string id = std::to_string(i);
    const auto start = tracker.start("g", id);
    switch (i % 3) {
      case 0:
        tracker.finish("g", id, start.fence);
        break;
      case 1:
        tracker.abandon("g", id, start.fence);
        break;
      default:  // it died
        break;
    }
    clock.advance(1s);
    most = std::max(most, tracker.size());
  }
  EXPECT_LE(most, 101U);
  EXPECT_GE(most, 99U);
}

TEST(MemoryTrackerTest, TheTimeOfDayMayStep) {
  testing::ManualClock clock;
  const auto tracker = memory_tracker({.lease = 60s, .retention = 3600s}, clock);
  tracker->start("g", "e");
  clock.step(24h);
  EXPECT_EQ(tracker->start("g", "e").state, ConsumptionTracker::State::in_progress);
}

OUTBOX_TRACKER_CONFORMANCE(Memory, [] { return std::make_unique<MemoryBackend>(); });

}  // namespace
}  // namespace outbox::test
