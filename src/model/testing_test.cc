#include "outbox/testing.h"

#include <gtest/gtest.h>

#include <fstream>
#include <thread>

namespace outbox::testing {
namespace {

using namespace std::chrono_literals;

Event event(const std::string& id) {
  return Event::restore({.id = id, .type = "Made", .payload = json("{\"id\":\"" + id + "\"}")});
}

TEST(ManualClock, StandsStillUntilItIsMoved) {
  ManualClock clock;
  const Time now = clock.now();
  const Clock::Steady steady = clock.steady();
  EXPECT_EQ(clock.now(), now);
  clock.advance(3s);
  EXPECT_EQ(clock.now(), now + 3s);
  EXPECT_EQ(clock.steady(), steady + 3s);
}

TEST(ManualClock, StepsTheTimeOfDayOnly) {
  ManualClock clock;
  const Time now = clock.now();
  const Clock::Steady steady = clock.steady();
  clock.step(-1h);
  EXPECT_EQ(clock.now(), now - 1h);
  EXPECT_EQ(clock.steady(), steady);
}

TEST(Signal, WaitsUntilItWasRaisedOftenEnough) {
  Signal signal;
  EXPECT_FALSE(signal.wait(1, 0ms));
  std::jthread raiser([&] {
    signal.raise();
    signal.raise();
  });
  EXPECT_TRUE(signal.wait(2));
  EXPECT_EQ(signal.count(), 2u);
  EXPECT_FALSE(signal.wait(3, 0ms));
}

TEST(RecordingListener, RemembersWhatCameInWhichOrder) {
  RecordingListener listener;
  EXPECT_FALSE(listener.wait_for(1, 0ms));
  EXPECT_EQ(listener.on_event(event("a"), {.attempt = 2}).kind(), Outcome::Kind::done);
  listener.on_event(event("b"), {});
  EXPECT_TRUE(listener.wait_for(2, 0ms));
  EXPECT_EQ(listener.count(), 2u);
  EXPECT_EQ(listener.ids(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(listener.payloads(), (std::vector<std::string>{R"({"id":"a"})", R"({"id":"b"})"}));
  EXPECT_EQ(listener.calls().at(0).attempt, 2);
}

TEST(RecordingListener, GivesTheAnswerThatItWasTold) {
  RecordingListener listener([](const Event& e, const Delivery&) -> Outcome {
    if (e.id() == "bad") throw std::runtime_error("no");
    return Outcome::retry_after(1s);
  });
  EXPECT_EQ(listener.on_event(event("a"), {}).kind(), Outcome::Kind::retry_after);
  EXPECT_THROW(listener.on_event(event("bad"), {}), std::runtime_error);
  EXPECT_EQ(listener.count(), 2u) << "a call that failed is a call";
}

TEST(TemporaryFolder, IsNewEachTimeAndRemovedWithItsFiles) {
  std::filesystem::path path;
  {
    const TemporaryFolder folder;
    const TemporaryFolder another;
    path = folder.path();
    EXPECT_NE(path, another.path());
    std::ofstream(folder.file("shop.db")) << "rows";
    EXPECT_TRUE(std::filesystem::exists(path / "shop.db"));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(RecordingLog, KeepsLinesAndItsLogMayOutliveIt) {
  Logger log;
  {
    RecordingLog recording;
    log = recording.log();
    log({LogLevel::warning, "queue_full", "queue full"});
    EXPECT_TRUE(recording.contains("full"));
    EXPECT_FALSE(recording.contains("empty"));
    ASSERT_EQ(recording.lines().size(), 1u);
    EXPECT_EQ(recording.lines()[0].level, LogLevel::warning);
    EXPECT_EQ(recording.lines()[0].code, "queue_full");
  }
  log({LogLevel::error, "alone", "nobody listens any more"});
}

}  // namespace
}  // namespace outbox::testing
