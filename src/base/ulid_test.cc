#include "base/ulid.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "outbox/event.h"

namespace outbox {
namespace {

using namespace std::chrono_literals;

class FakeClock final : public Clock {
 public:
  Time now() const override { return time.load(); }
  Steady steady() const override { return {}; }

  std::atomic<Time> time{Time{1'700'000'000s}};
};

std::string text_of(const Ulid& ulid) {
  const UlidText text = encode(ulid);
  return {text.data(), text.size()};
}

constexpr std::uint64_t kAll = ~std::uint64_t{0};

TEST(Ulid, IsWrittenInCrockfordsBase32) {
  EXPECT_EQ(text_of({}), "00000000000000000000000000");
  EXPECT_EQ(text_of({.ms = kMaxUlidMs, .high = 0xFFFF, .low = kAll}), "7ZZZZZZZZZZZZZZZZZZZZZZZZZ");
  EXPECT_EQ(text_of({.ms = 1'469'918'176'385}), "01ARYZ6S410000000000000000");
  EXPECT_EQ(text_of({.low = 0b00001'00010'00011}), "00000000000000000000000123");
  EXPECT_EQ(text_of({.high = 0x8000}), "0000000000G000000000000000");
  EXPECT_EQ(text_of({.high = 1, .low = std::uint64_t{1} << 40}), "0000000000000G000100000000");
}

TEST(Ulid, CountsOnWhileTheTimeStandsStillOrGoesBack) {
  std::mt19937_64 random(1);
  const Ulid last{.ms = 100, .high = 1, .low = 5};
  EXPECT_EQ(next_ulid(last, 100, random), (Ulid{.ms = 100, .high = 1, .low = 6}));
  EXPECT_EQ(next_ulid(last, 99, random), (Ulid{.ms = 100, .high = 1, .low = 6}));
  EXPECT_EQ(next_ulid({.ms = 100, .high = 1, .low = kAll}, 100, random),
            (Ulid{.ms = 100, .high = 2, .low = 0}));
}

TEST(Ulid, TakesTheNextMillisecondWhenTheRandomPartIsUsedUp) {
  std::mt19937_64 random(1);
  const Ulid last{.ms = 100, .high = 0xFFFF, .low = kAll};
  const Ulid next = next_ulid(last, 100, random);
  EXPECT_EQ(next.ms, 101U);
  EXPECT_GT(text_of(next), text_of(last));
}

TEST(Ulid, TakesANewRandomPartWhenTheTimeMovesOn) {
  std::mt19937_64 random(1);
  const Ulid first = next_ulid({}, 100, random);
  const Ulid second = next_ulid(first, 101, random);
  EXPECT_EQ(second.ms, 101U);
  EXPECT_NE(second.low, first.low);
}

TEST(NewId, HasTwentySixCharactersOfTheAlphabet) {
  const std::string id = new_id();
  EXPECT_EQ(id.size(), 26U);
  EXPECT_EQ(id.find_first_not_of("0123456789ABCDEFGHJKMNPQRSTVWXYZ"), std::string::npos);
}

TEST(NewId, GrowsWhateverTheClockDoes) {
  FakeClock clock;
  std::string last = new_id(clock);
  for (const auto step : {0us, 0us, 1us, 1'000us, -3'600'000'000us, 0us, 5'000'000us, -1us}) {
    clock.time = clock.time.load() + step;
    for (int i = 0; i < 10; ++i) {
      const std::string next = new_id(clock);
      ASSERT_LT(last, next);
      last = next;
    }
  }
}

TEST(NewId, SurvivesAClockBefore1970) {
  FakeClock clock;
  const std::string last = new_id(clock);
  clock.time = Time{-1h};
  EXPECT_LT(last, new_id(clock));
}

TEST(NewId, GrowsInEveryThreadAndIsNeverGivenTwice) {
  constexpr std::size_t kThreads = 4;
  constexpr std::size_t kIds = 20'000;
  FakeClock clock;
  std::vector<std::vector<std::string>> ids(kThreads);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        for (std::size_t n = 0; n < kIds; ++n) {
          if (n % 100 == 0) clock.time = clock.time.load() + (n % 300 == 0 ? -5ms : 3ms);
          ids[i].push_back(new_id(clock));
        }
      });
    }
  }
  std::set<std::string> all;
  for (const auto& of_thread : ids) {
    EXPECT_TRUE(std::is_sorted(of_thread.begin(), of_thread.end()));
    all.insert(of_thread.begin(), of_thread.end());
  }
  EXPECT_EQ(all.size(), kThreads * kIds);
}

TEST(NewId, DiffersBetweenParentAndChildAfterAFork) {
  const FakeClock clock;
  const std::string before = new_id(clock);
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    for (int i = 0; i < 3; ++i) {
      const std::string id = new_id(clock);
      if (write(pipe_ends[1], id.data(), id.size()) < 0) _exit(1);
    }
    _exit(0);
  }
  std::set<std::string> ids;
  for (int i = 0; i < 3; ++i) {
    ids.insert(new_id(clock));
    std::string of_child(26, ' ');
    ASSERT_EQ(read(pipe_ends[0], of_child.data(), of_child.size()), 26);
    EXPECT_LT(before, of_child);
    ids.insert(of_child);
  }
  EXPECT_EQ(ids.size(), 6U);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  close(pipe_ends[0]);
  close(pipe_ends[1]);
}

}  // namespace
}  // namespace outbox
