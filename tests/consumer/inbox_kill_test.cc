// Consumers that are killed between effect, record and commit.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "database.h"
#include "outbox/consumer/inbox.h"
#include "outbox/error.h"
#include "outbox/outbox.h"
#include "shared_memory.h"

namespace outbox::patterns {
namespace {

using namespace std::chrono_literals;

// Where a consumer dies.
enum class Gap { before_record, before_effect, after_effect, before_commit, after_commit };
constexpr Gap kGaps[] = {Gap::before_record, Gap::before_effect, Gap::after_effect,
                         Gap::before_commit, Gap::after_commit};

using harness::kKilled;

class InboxKill : public PatternTest {
 protected:
  void SetUp() override {
    PatternTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    execute("CREATE TABLE effect (event_id VARCHAR(128) NOT NULL)");
  }

  static void act(Transaction& tx, const std::string& id) {
    tx.execute("INSERT INTO effect VALUES ('" + id + "')");
  }

  template <class AtGap>
  static void deliver(Writer& writer, Inbox& inbox, const std::string& id, const AtGap& at) {
    auto tx = writer.begin();
    at(Gap::before_record);
    inbox.once(tx, "billing", id, [&] {
      at(Gap::before_effect);
      act(tx, id);
      at(Gap::after_effect);
    });
    at(Gap::before_commit);
    tx.commit();
    at(Gap::after_commit);
  }

  // Until it is neither deadlocked nor kept waiting by the remains of the dead.
  static void deliver_patiently(Writer& writer, Inbox& inbox, const std::string& id) {
    for (;;) {
      try {
        return deliver(writer, inbox, id, [](Gap) {});
      } catch (const RetryableError&) {
      }
    }
  }

  std::int64_t effects(const std::string& id) {
    return number("SELECT count(*) FROM effect WHERE event_id = '" + id + "'");
  }
};

OUTBOX_ON_EVERY_DATABASE(InboxKill);

TEST_P(InboxKill, AConsumerKilledInAnyGapLeavesOneEffectOnceTheEventComesAgain) {
  for (const Gap gap : kGaps) {
    const std::string id = "event " + std::to_string(static_cast<int>(gap));
    SCOPED_TRACE(id);
    close_store();
    harness::Process consumer([&] {
      const auto store = database().open();
      Writer writer{store};
      Inbox inbox{store};
      deliver(writer, inbox, id, [&](Gap here) {
        if (here == gap) raise(SIGKILL);
      });
      return 0;
    });
    ASSERT_EQ(consumer.wait(60s), kKilled);
    open_store();
    Writer writer{store()};
    Inbox inbox{store()};
    // What was not committed may still be on its way to be undone.
    if (gap == Gap::after_commit) {
      EXPECT_EQ(effects(id), 1);
    }
    deliver_patiently(writer, inbox, id);
    EXPECT_EQ(effects(id), 1);
  }
}

// At a moment that nobody chose, in the middle of a COMMIT as well.
TEST_P(InboxKill, AConsumerKilledAtAnyMomentLeavesOneEffectOfEachEvent) {
  constexpr int kKills = 12;
  const unsigned seed = std::random_device{}();
  RecordProperty("seed", std::to_string(seed));
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  SharedMemory<std::atomic<std::int64_t>> begun;  // the last event that was
  for (int kill = 0; kill < kKills; ++kill) {
    close_store();
    harness::Process consumer([&] {
      const auto store = database().open();
      Writer writer{store};
      Inbox inbox{store};
      deliver_patiently(writer, inbox, std::to_string(begun->load()));  // it comes again
      for (;;) deliver_patiently(writer, inbox, std::to_string(++*begun));
      return 0;
    });
    const std::int64_t before = *begun;
    ASSERT_TRUE(test::eventually([&] { return *begun > before; }));
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20'000));
    consumer.signal(SIGKILL);
    ASSERT_EQ(consumer.wait(60s), kKilled);
    open_store();
  }
  Writer writer{store()};
  Inbox inbox{store()};
  deliver_patiently(writer, inbox, std::to_string(begun->load()));
  EXPECT_EQ(number("SELECT count(DISTINCT event_id) FROM effect"), *begun + 1) << "zero effects";
  EXPECT_EQ(number("SELECT count(*) FROM effect"), *begun + 1) << "two effects";
}

// The whole way: the event is delivered again because the dead one has not finished it.
TEST_P(InboxKill, AnEngineThatIsKilledInAnyGapHasOneEffectInTheEnd) {
  SharedMemory<std::atomic<int>> deaths;
  constexpr Gap kReached[] = {Gap::before_record, Gap::before_effect, Gap::after_effect,
                              Gap::after_commit};
  {
    Writer writer{store()};
    auto tx = writer.begin();
    tx.write(
        {.type = "Placed", .aggregate_type = "Order", .aggregate_id = "o1", .payload = json("{}")});
    tx.commit();
  }
  close_store();
  const auto run = [&] {
    const auto store = database().open();
    Writer writer{store};
    Inbox inbox{store};
    const auto at = [&](Gap gap) {
      const int death = *deaths;
      if (death < static_cast<int>(std::size(kReached)) && kReached[death] == gap) {
        ++*deaths;
        raise(SIGKILL);
      }
    };
    const auto consumer = inbox.listener(writer, "billing", [&](Transaction& tx, const Event&) {
      at(Gap::before_effect);
      act(tx, "e");
      at(Gap::after_effect);
    });
    Listeners on;
    on.add("Order", "Placed", [&](const Event& event, const Delivery& delivery) {
      at(Gap::before_record);
      Outcome outcome = consumer->on_event(event, delivery);
      at(Gap::after_commit);
      return outcome;
    });
    Outbox box{store,
               on,
               {.poll_interval = 50ms, .lease = {.duration = 2s}, .log = [](const LogRecord&) {}}};
    box.start();
    return box.wait_idle(60s) ? 0 : 1;
  };
  for (std::size_t death = 0; death < std::size(kReached); ++death) {
    harness::Process engine(run);
    ASSERT_EQ(engine.wait(90s), kKilled) << death;
  }
  harness::Process engine(run);
  EXPECT_EQ(engine.wait(90s), harness::ExitStatus{});
  open_store();
  EXPECT_EQ(effects("e"), 1);
}

}  // namespace
}  // namespace outbox::patterns
