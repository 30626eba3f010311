#include "simulation/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/thread.h"
#include "simulation/shrink.h"

namespace outbox::simulation {
namespace {

using namespace std::chrono_literals;

void run(std::uint64_t seed, std::function<void(Scheduler&)> main,
         Scheduler::Policy policy = Scheduler::Policy::random_walk) {
  Choices choices(seed);
  Scheduler scheduler(choices, policy);
  scheduler.run([&] { main(scheduler); });
}

// Who came after whom when three threads note their steps.
std::string interleaving(std::uint64_t seed, Scheduler::Policy policy) {
  std::string order;
  const auto steps = [&order](char name) {
    return [&order, name] {
      Atomic<int> shared{0};
      for (int i = 0; i < 30; ++i) {
        ++shared;
        order += name;
      }
    };
  };
  run(
      seed,
      [&](Scheduler&) {
        std::vector<Thread> threads;
        for (const char name : {'a', 'b', 'c'}) threads.emplace_back(steps(name));
      },
      policy);
  return order;
}

class SchedulerPolicyTest : public testing::TestWithParam<Scheduler::Policy> {};

INSTANTIATE_TEST_SUITE_P(Each, SchedulerPolicyTest,
                         testing::Values(Scheduler::Policy::random_walk,
                                         Scheduler::Policy::priorities));

TEST_P(SchedulerPolicyTest, ASeedIsOneInterleavingAndSeedsAreMany) {
  std::set<std::string> seen;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    seen.insert(interleaving(seed, GetParam()));
    EXPECT_EQ(interleaving(seed, GetParam()), interleaving(seed, GetParam()));
  }
  EXPECT_GE(seen.size(), 5U);
}

TEST_P(SchedulerPolicyTest, AMutexLetsOneInAtATime) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    int inside = 0;
    int most = 0;
    run(
        seed,
        [&](Scheduler& scheduler) {
          Mutex mutex;
          std::vector<Thread> threads;
          for (int i = 0; i < 4; ++i) {
            threads.emplace_back([&] {
              const MutexLock lock(mutex);
              most = std::max(most, ++inside);
              scheduler.point();
              --inside;
            });
          }
        },
        GetParam());
    EXPECT_EQ(most, 1);
  }
}

TEST(SchedulerTest, TimePassesOnlyWhenEverybodyWaits) {
  run(1, [](Scheduler& scheduler) {
    const Instant began = scheduler.now();
    std::vector<int> order;
    Thread slow([&] {
      sleep_for(2h);
      order.push_back(2);
    });
    Thread quick([&] {
      sleep_for(1h);
      order.push_back(1);
    });
    slow.join();
    quick.join();
    EXPECT_EQ(order, (std::vector{1, 2}));
    EXPECT_GE(scheduler.now() - began, 2h);
    EXPECT_LT(scheduler.now() - began, 2h + 1s);
  });
}

TEST(SchedulerTest, AWaitEndsByItsDeadlineOrByANotification) {
  run(1, [](Scheduler& scheduler) {
    Mutex mutex;
    CondVar changed;
    {
      const MutexLock lock(mutex);
      EXPECT_FALSE(changed.wait_until(mutex, scheduler.now() + 1s));
    }
    Thread other([&] {
      sleep_for(1s);
      const MutexLock lock(mutex);
      changed.notify_one();
    });
    const MutexLock lock(mutex);
    EXPECT_TRUE(changed.wait_until(mutex, scheduler.now() + 1h));
  });
}

TEST(SchedulerTest, ASleepEndsWithTheStopOfItsThread) {
  run(1, [](Scheduler& scheduler) {
    const Instant began = scheduler.now();
    bool stopped = false;
    {
      const Thread sleeper([&](const std::stop_token& stop) { stopped = sleep_for(1h, stop); });
      sleep_for(1s);
    }
    EXPECT_TRUE(stopped);
    EXPECT_LT(scheduler.now() - began, 1min);
  });
}

TEST(SchedulerTest, ALostWakeUpIsFound) {
  // The flag is set without the lock: between the look and the wait, in some interleavings.
  const auto deadlocks = [](std::uint64_t seed) {
    try {
      run(seed, [](Scheduler&) {
        Mutex mutex;
        CondVar changed;
        Atomic<bool> done{false};
        Thread waits([&] {
          const MutexLock lock(mutex);
          while (!done) changed.wait(mutex);
        });
        done = true;
        changed.notify_all();
      });
      return false;
    } catch (const Deadlock& found) {
      EXPECT_NE(std::string(found.what()).find("waits for a condition"), std::string::npos);
      return true;
    }
  };
  int found = 0;
  for (std::uint64_t seed = 1; seed <= 5'000; ++seed) found += deadlocks(seed) ? 1 : 0;
  EXPECT_GT(found, 0);
  EXPECT_LT(found, 2'500);
}

TEST(SchedulerTest, WhoIsKilledGoesNoFurtherButItsServerCallEnds) {
  run(1, [](Scheduler& scheduler) {
    bool served = false;
    bool went_on = false;
    scheduler.start_process(1, [&] {
      {
        const Scheduler::ServerCall call;
        sleep_for(1s);
        served = true;
      }
      went_on = true;
    });
    sleep_for(100ms);
    scheduler.kill(1);
    EXPECT_FALSE(scheduler.is_gone(1));
    sleep_for(2s);
    EXPECT_TRUE(served);
    EXPECT_FALSE(went_on);
    EXPECT_TRUE(scheduler.is_gone(1));
  });
}

TEST(SchedulerTest, WhoIsFrozenGoesOnAfterwards) {
  run(1, [](Scheduler& scheduler) {
    const Instant began = scheduler.now();
    Instant ended{};
    const auto thread = scheduler.start_process(1, [&] {
      sleep_for(1s);
      ended = scheduler.now();
    });
    scheduler.freeze(1, began + 1h);
    scheduler.join(thread);
    EXPECT_GE(ended - began, 1h);
  });
}

TEST(SchedulerTest, AnExceptionThatIsHandledInOneThreadIsNotSeenByAnother) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    run(seed, [](Scheduler& scheduler) {
      std::vector<Thread> threads;
      for (int i = 0; i < 3; ++i) {
        threads.emplace_back([&scheduler, i] {
          try {
            throw i;
          } catch (int) {
            for (int n = 0; n < 20; ++n) scheduler.point();
            try {
              throw;
            } catch (int again) {
              EXPECT_EQ(again, i);
            }
          }
        });
      }
    });
  }
}

// What the scheduler chooses, again and in fewer words.

TEST(Choices, ASeedGivesTheSameAnswersAgain) {
  Choices first(7);
  Choices second(7);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(first.below(10), second.below(10));
  EXPECT_EQ(first.answers(), second.answers());
}

TEST(Choices, AnswersAreRepeatedAndThenPlain) {
  Choices drawn(7);
  for (int i = 0; i < 20; ++i) drawn.below(5);
  Choices repeated(drawn.answers());
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(repeated.below(5), drawn.answers()[static_cast<std::size_t>(i)]);
  }
  EXPECT_EQ(repeated.below(5), 0U);
  EXPECT_FALSE(repeated.one_in(2));
}

TEST(Choices, AnAnswerBeyondTheQuestionIsBroughtIntoIt) {
  Choices repeated(Choices::Answers{7});
  EXPECT_EQ(repeated.below(5), 2U);
}

TEST(Shrink, WhatDoesNotMatterBecomesPlainOrIsCutOff) {
  Choices::Answers answers(200, 3);
  answers[120] = 9;
  std::size_t asked = 0;
  const auto fails = [&](const Choices::Answers& candidate) {
    ++asked;
    return std::find(candidate.begin(), candidate.end(), 9U) != candidate.end();
  };
  const Choices::Answers simple = shrink(answers, fails, 2'000);
  EXPECT_TRUE(fails(simple));
  EXPECT_EQ(std::count_if(simple.begin(), simple.end(), [](auto each) { return each != 0; }), 1);
  EXPECT_LE(simple.size(), 121U);
  EXPECT_LE(asked, 2'001U);
}

TEST(Shrink, ItStopsWhenItHasAskedOftenEnough) {
  std::size_t asked = 0;
  shrink(
      Choices::Answers(1'000, 1),
      [&](const Choices::Answers&) {
        ++asked;
        return false;
      },
      50);
  EXPECT_EQ(asked, 50U);
}

}  // namespace
}  // namespace outbox::simulation
