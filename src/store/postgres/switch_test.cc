// A table changes its kind of progress while it is in use.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <mutex>
#include <thread>

#include "outbox/outbox.h"
#include "outbox/postgres.h"
#include "outbox/testing.h"
#include "store/postgres/test_support.h"
#include "support/postgres.h"
#include "support/stores.h"

namespace outbox::postgres {
namespace {

using namespace std::chrono_literals;
using test::contains;
using test::eventually;
using test::message_of;

// Notes what it received, and whether it was in order and once.
class Received {
 public:
  Listeners listeners() {
    Listeners on;
    on.add("Order", "Placed", [this](const Event& event) { note(event); });
    return on;
  }

  std::size_t count() const {
    const std::lock_guard lock(mutex_);
    return count_;
  }
  std::vector<std::string> faults() const {
    const std::lock_guard lock(mutex_);
    return faults_;
  }

 private:
  void note(const Event& event) {
    const int number = std::stoi(std::string(event.payload()));
    const std::lock_guard lock(mutex_);
    ++count_;
    int& last = last_[event.aggregate_id()];
    if (number != last + 1) {
      faults_.push_back(event.aggregate_id() + ": " + std::to_string(number) + " after " +
                        std::to_string(last));
    }
    last = number;
  }

  mutable std::mutex mutex_;
  std::size_t count_ = 0;
  std::map<std::string, int> last_;
  std::vector<std::string> faults_;
};

class SwitchTest : public ::testing::Test {
 protected:
  void SetUp() override { OUTBOX_NEEDS_SERVICE("OUTBOX_TEST_POSTGRES"); }

  std::string table() { return schema().name() + ".outbox_event"; }
  test::Schema& schema() {
    if (!schema_) schema_ = std::make_unique<test::Schema>();
    return *schema_;
  }
  std::shared_ptr<Store> store(std::optional<Progress> progress = std::nullopt) {
    return open(test::postgres_url(), {.table = table(), .progress = progress});
  }
  bool to(Progress kind, std::chrono::milliseconds patience = 20s) {
    return switch_progress(test::postgres_url(), kind,
                           {.table = table(), .patience = patience, .on_step = {}});
  }

  void write(Store& to, const std::string& aggregate) {
    Writer writer(std::shared_ptr<Store>(&to, [](Store*) {}));
    write(writer, aggregate);
  }
  void write(Writer& writer, const std::string& aggregate) {
    auto tx = writer.begin();
    tx.write({.type = "Placed",
              .aggregate_type = "Order",
              .aggregate_id = aggregate,
              .payload = json(std::to_string(++written_[aggregate]))});
    tx.commit();
    ++total_;
  }

  // What another instance makes of all that is ready.
  void finish(Store& at, StatusUpdate::Kind kind, LaneKey lane = kNoLane) {
    const auto instance = at.join({});
    const Lease lease = instance->renew();
    std::vector<StatusUpdate> updates;
    for (const Row& row : instance->ready(lease.shards, 0, 1'000).rows) {
      StatusUpdate update{.row = row.ref, .event_id = row.event.id(), .kind = kind, .lane = lane};
      update.delay = 1h;
      updates.push_back(update);
    }
    EXPECT_FALSE(instance->apply(lease.epoch, updates).fenced);
    instance->leave();
  }

  void forget_table() {
    schema_.reset();
    written_.clear();
  }

  std::map<std::string, int> written_;
  std::size_t total_ = 0;
  Received received_;

 private:
  std::unique_ptr<test::Schema> schema_;
};

outbox::Options quick() { return {.poll_interval = 100ms, .lease = {.duration = 1s}}; }

TEST_F(SwitchTest, ThereAndBackWithEverythingThatIsPending) {
  const auto by_row = store();
  for (const char* a : {"done", "done"}) write(*by_row, a);
  finish(*by_row, StatusUpdate::Kind::done);
  write(*by_row, "dead");
  finish(*by_row, StatusUpdate::Kind::dead);
  write(*by_row, "blocked");
  finish(*by_row, StatusUpdate::Kind::dead, 7'000);
  write(*by_row, "retry");
  finish(*by_row, StatusUpdate::Kind::retry, 8'000);
  for (const char* a : {"a", "b", "a"}) write(*by_row, a);
  const Counts before = by_row->counts();
  EXPECT_EQ(before.pending, 4);
  EXPECT_EQ(before.dead, 2);

  EXPECT_TRUE(to(Progress::position));
  EXPECT_FALSE(to(Progress::position)) << "it is";
  const auto by_position = store();
  EXPECT_EQ(by_position->capabilities().progress, Progress::position);
  const auto same = [&](Store& now) {
    const Counts counts = now.counts();
    EXPECT_EQ(counts.pending, before.pending);
    EXPECT_EQ(counts.dead, before.dead);
    EXPECT_EQ(counts.retry, before.retry);
    EXPECT_EQ(counts.held, before.held);
    EXPECT_EQ(now.admin().count({.status = {Status::done}}), 2);
  };
  same(*by_position);

  EXPECT_TRUE(to(Progress::row));
  EXPECT_FALSE(to(Progress::row)) << "it is";
  const auto again = store();
  EXPECT_EQ(again->capabilities().progress, Progress::row);
  same(*again);

  EXPECT_TRUE(to(Progress::position));
  const auto last = store();
  Outbox box(last, received_.listeners(), quick());
  box.start();
  EXPECT_TRUE(eventually([&] { return received_.count() == 3; })) << "a, b, a";
  DeadEvents(last).replay_all({});
  box.wake();
  EXPECT_TRUE(eventually([&] { return received_.count() == 5; })) << "and the dead";
  EXPECT_TRUE(eventually([&] { return last->counts().pending == 1; })) << "the retry";
}

TEST_F(SwitchTest, WhatWaitedIsDeliveredOnce) {
  const auto by_row = store();
  write(*by_row, "a");
  finish(*by_row, StatusUpdate::Kind::retry, 8'000);
  write(*by_row, "b");
  ASSERT_TRUE(to(Progress::position));
  const auto by_position = store();
  test::Sql().execute("UPDATE " + table() + "_delivery SET available_at = now(), hold = -1");
  Outbox box(by_position, received_.listeners(), quick());
  box.start();
  ASSERT_TRUE(box.wait_idle(20s));
  box.close();
  EXPECT_EQ(received_.count(), 2u);
  ASSERT_TRUE(to(Progress::row));
  EXPECT_FALSE(store()->has_pending());
}

// It is delivered long before a look gets to where it was.
TEST_F(SwitchTest, WhatWaitedBehindALongBacklogIsDeliveredOnce) {
  const auto by_row = store();
  test::Sql().execute("INSERT INTO " + table() +
                      " (event_id, event_type, aggregate_type, aggregate_id, payload) SELECT i, "
                      "'Placed', 'Order', i, '1' FROM generate_series(1, 5000) AS i; UPDATE " +
                      table() + " SET status = 2, hold = -1 WHERE seq > 4980");
  ASSERT_TRUE(to(Progress::position));
  Outbox box(store(), received_.listeners(), quick());
  box.start();
  ASSERT_TRUE(box.wait_idle(20s));
  box.close();
  EXPECT_EQ(received_.count(), 5'000u);
}

TEST_F(SwitchTest, AWriterThatIsOpenComesLate) {
  const auto by_row = store();
  Writer writer(by_row);
  Writer other(by_row);
  std::optional<Transaction> late;
  const SwitchOptions options{
      .table = table(), .patience = 2s, .on_step = [&](const std::string& step) {
        if (step != "taking over from those who deliver") return;
        late.emplace(writer.begin());
        late->write({.type = "Placed",
                     .aggregate_type = "Order",
                     .aggregate_id = "late",
                     .payload = json("1")});
        write(other, "after");
      }};
  write(other, "before");
  ASSERT_TRUE(switch_progress(test::postgres_url(), Progress::position, options));
  Outbox box(store(), received_.listeners(), quick());
  box.start();
  ASSERT_TRUE(box.wait_idle(20s));
  EXPECT_EQ(received_.count(), 2u);
  late->commit();
  EXPECT_TRUE(eventually([&] { return received_.count() == 3; }));
  EXPECT_EQ(received_.faults(), std::vector<std::string>{});
}

TEST_F(SwitchTest, AWriterThatKeepsTheTableLockedIsWaitedFor) {
  Writer writer(store());
  auto open = writer.begin();
  open.write(
      {.type = "Placed", .aggregate_type = "Order", .aggregate_id = "1", .payload = json("1")});
  EXPECT_TRUE(contains(message_of<RetryableError>([&] { to(Progress::position, 1s); }),
                       "an open transaction keeps the table locked"));
  open.rollback();
  EXPECT_TRUE(to(Progress::position));
}

TEST_F(SwitchTest, KilledInAnyGapItIsBegunAgain) {
  bool killed = true;
  for (const Progress kind : {Progress::position, Progress::row}) {
    for (int gap = 0; killed || gap == 0; ++gap) {
      forget_table();
      write(*store(kind == Progress::row ? Progress::position : Progress::row), "a");
      const pid_t child = fork();
      if (child == 0) {
        int steps = 0;
        const SwitchOptions options{.table = table(), .on_step = [&](const std::string&) {
                                      if (steps++ == gap) raise(SIGKILL);
                                    }};
        switch_progress(test::postgres_url(), kind, options);
        _exit(0);
      }
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      killed = WIFSIGNALED(status);
      EXPECT_EQ(store()->counts().pending, 1) << gap;
      to(kind);
      const auto switched = store();
      EXPECT_EQ(switched->capabilities().progress, kind) << gap;
      Received received;
      Outbox box(switched, received.listeners(), quick());
      box.start();
      EXPECT_TRUE(box.wait_idle(20s)) << gap;
      EXPECT_EQ(received.count(), 1u) << gap;
    }
    killed = true;
  }
}

TEST_F(SwitchTest, WhileEventsAreWrittenAndDelivered) {
  std::atomic<bool> stop{false};
  const auto writes_to = store();
  std::jthread writing([&] {
    Writer writer(writes_to);
    for (int n = 0; !stop; ++n) write(writer, std::to_string(n % 17));
  });
  auto box = std::make_unique<Outbox>(store(), received_.listeners(), quick());
  box->start();
  for (const Progress kind : {Progress::position, Progress::row, Progress::position}) {
    const std::size_t before = received_.count();
    EXPECT_TRUE(eventually([&] { return received_.count() > before + 50; }));
    ASSERT_TRUE(to(kind));
    EXPECT_TRUE(eventually([&] {
      const Health health = box->health();
      return std::any_of(health.reasons.begin(), health.reasons.end(), [](const auto& reason) {
        return reason.find("since it was switched") != std::string::npos;
      });
    }));
    box = std::make_unique<Outbox>(store(), received_.listeners(), quick());
    box->start();
  }
  stop = true;
  writing.join();
  ASSERT_TRUE(box->wait_idle(30s));
  EXPECT_EQ(received_.count(), total_);
  EXPECT_EQ(received_.faults(), std::vector<std::string>{});
}

TEST_F(SwitchTest, OneWhoDoesNotDrainIsNamedAndNothingIsChanged) {
  const auto by_row = store();
  const auto instance = by_row->join({.name = "stubborn", .exclusive = true});
  instance->renew();
  std::atomic<bool> stop{false};
  std::jthread renewing([&] {
    while (!stop) {
      instance->renew();
      std::this_thread::sleep_for(50ms);
    }
  });
  const std::string message = message_of<RetryableError>([&] { to(Progress::position, 2s); });
  stop = true;
  renewing.join();
  EXPECT_TRUE(contains(message, "\"stubborn\""));
  EXPECT_TRUE(contains(message, "the table stays as it is"));
  EXPECT_EQ(store()->capabilities().progress, Progress::row);
  EXPECT_EQ(instance->renew().shards.size(), 16u) << "it has everything again";
}

TEST_F(SwitchTest, IsRefusedWhereItCannotBe) {
  const auto by_row = store();
  const auto claims = by_row->join({.name = "claimer", .row_claims = true});
  claims->renew();
  EXPECT_TRUE(contains(message_of<MisuseError>([&] { to(Progress::position); }), "\"claimer\""));
  claims->leave();
  ASSERT_TRUE(to(Progress::position));
  const auto by_position = store();
  by_position->admin().create_subscription("default");
  by_position->admin().create_subscription("billing", Begin::now);
  EXPECT_TRUE(
      contains(message_of<MisuseError>([&] { to(Progress::row); }), "several subscriptions"));
}

}  // namespace
}  // namespace outbox::postgres
