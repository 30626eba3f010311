// The fence: two engines on one store, and an update that comes too late.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <stdexcept>

#include "faulty_store.h"
#include "harness/verdict.h"
#include "outbox/error.h"
#include "outbox/memory.h"
#include "outbox/outbox.h"
#include "outbox/testing.h"

namespace outbox::chaos {
namespace {

using namespace std::chrono_literals;

// In which time the late owner's update is certainly there, also on a busy machine.
constexpr std::chrono::milliseconds kRetry{3'000};

// How the late owner's call ends.
enum class Late { permanently_failed, failed, done_but_never_sent };

// The first owner is frozen inside a listener until it has lost its lease and
// the second one has tried the event and waits for its retry. Then it thaws,
// and what it thinks of the event reaches the store.
class FenceTest : public ::testing::Test {
 protected:
  harness::Verdict run(const Faults& faults, Late late) {
    auto store = std::make_shared<FaultyStore>(memory::open({.shards = 1}), faults);
    std::vector<harness::Message> arrivals;
    testing::Signal first_inside;
    testing::Signal second_tried;
    testing::Signal thaw;
    testing::Signal first_updated;
    testing::Signal second_updated;

    Listeners first_on;
    first_on.add("Account", "Moved", [&](const Event&) -> Outcome {
      first_inside.raise();
      EXPECT_TRUE(thaw.wait());
      switch (late) {
        case Late::permanently_failed:
          return Outcome::permanent("the connection is gone");
        case Late::failed:
          return Outcome::failed("the connection is gone", 1h);
        case Late::done_but_never_sent:
          break;
      }
      return Outcome::done();
    });
    Listeners second_on;
    second_on.add("Account", "Moved", [&](const Event& event) -> Outcome {
      if (second_tried.count() == 0) {
        second_tried.raise();
        return Outcome::failed("not now", kRetry);
      }
      arrivals.push_back({.id = event.id(), .aggregate = event.aggregate_id(), .number = 1});
      return Outcome::done();
    });

    Outbox first{store, first_on, options("first", first_updated)};
    first.start();
    std::string id;
    {
      auto tx = first.begin();
      id = tx.write({.type = "Moved",
                     .aggregate_type = "Account",
                     .aggregate_id = "a",
                     .payload = json("1")});
      tx.commit();
    }
    EXPECT_TRUE(first_inside.wait());
    store->state().freeze("first");
    Outbox second{store, second_on, options("second", second_updated)};
    second.start();
    EXPECT_TRUE(second_updated.wait());
    thaw.raise();
    EXPECT_TRUE(first_updated.wait());
    const bool idle =
        second.wait_idle(late == Late::failed && faults.drop_fence ? 2 * kRetry : 20s);
    second.close();
    store->state().thaw();
    first.close();

    const std::vector<harness::Committed> committed{{.id = id, .aggregate = "a", .number = 1}};
    harness::Verdict verdict = harness::judge(committed, arrivals, {});
    const Counts counts = store->counts();
    verdict.dead = static_cast<std::size_t>(counts.dead);
    verdict.pending = static_cast<std::size_t>(counts.pending);
    EXPECT_EQ(idle, verdict.pending == 0);
    return verdict;
  }

 private:
  // Hears of an engine's updates, whatever became of them.
  class Updated final : public Metrics {
   public:
    explicit Updated(testing::Signal& updated) : updated_(updated) {}
    void add(Counter counter, std::uint64_t) noexcept override {
      switch (counter) {
        case Counter::stale_updates:
        case Counter::success:
        case Counter::failure:
        case Counter::dead:
          updated_.raise();
          break;
        default:
          break;
      }
    }
    void set(Gauge, double) noexcept override {}
    void observe(Timing, std::chrono::nanoseconds) noexcept override {}

   private:
    testing::Signal& updated_;
  };

  Options options(const std::string& name, testing::Signal& updated) {
    return {.lease = {.duration = 300ms},
            .name = name,
            .log = log_.log(),
            .metrics = std::make_shared<Updated>(updated)};
  }

  testing::RecordingLog log_;
};

TEST_F(FenceTest, WithoutItALateDeadUpdateLosesTheEventAndIsReported) {
  const harness::Verdict found = run({.drop_fence = true}, Late::permanently_failed);
  EXPECT_EQ(found.lost, 1u) << found;
  EXPECT_EQ(found.dead, 1u);
  EXPECT_FALSE(found.clean());
}

TEST_F(FenceTest, WithoutItALateDoneUpdateLosesTheEventAndIsReported) {
  const harness::Verdict found = run({.drop_fence = true}, Late::done_but_never_sent);
  EXPECT_EQ(found.lost, 1u) << found;
  EXPECT_FALSE(found.clean());
}

// The second owner finds the event delayed by an hour.
TEST_F(FenceTest, WithoutItALateRetryUpdateHoldsTheEventUpAndIsReported) {
  const harness::Verdict found = run({.drop_fence = true}, Late::failed);
  EXPECT_EQ(found.lost, 1u) << found;
  EXPECT_EQ(found.pending, 1u);
  EXPECT_FALSE(found.clean());
}

TEST_F(FenceTest, WithItNoLateUpdateChangesAnything) {
  for (const Late late : {Late::permanently_failed, Late::failed, Late::done_but_never_sent}) {
    const harness::Verdict found = run({}, late);
    EXPECT_TRUE(found.clean()) << "late update " << static_cast<int>(late) << "\n" << found;
  }
}

}  // namespace
}  // namespace outbox::chaos
