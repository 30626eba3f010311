#include "fleet.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <functional>
#include <mutex>
#include <random>
#include <stdexcept>
#include <thread>

#include "workload.h"

namespace outbox::counted {
namespace {

using namespace std::chrono_literals;
using chaos::Movement;

constexpr std::size_t kAtOnce = 10;  // events of one transaction
constexpr std::chrono::minutes kPatience{4};

// Another one each time, and in another order in each process.
class Aggregates {
 public:
  std::string next() { return "a" + std::to_string(number_(random_)); }

 private:
  std::mt19937 random_{static_cast<std::mt19937::result_type>(getpid())};
  std::uniform_int_distribution<int> number_{0, chaos::kAggregates - 1};
};

// Whose numbers, and with them whose lock, all writers take where there is one order of all.
constexpr const char* kTurn = "a0";

void write_events(Writer& writer, std::size_t events, bool one_order) {
  Aggregates aggregates;
  for (std::size_t left = events; left > 0;) {
    const std::size_t count = std::min(left, kAtOnce);
    const std::string aggregate = one_order ? kTurn : aggregates.next();
    auto tx = writer.begin();
    const std::int64_t last = chaos::next_numbers(tx.connection(), aggregate, count);
    std::vector<Draft> drafts;
    for (std::size_t n = count; n-- > 0;) {
      const Movement movement{.aggregate = aggregate,
                              .number = last - static_cast<std::int64_t>(n)};
      drafts.push_back({.type = "Moved",
                        .aggregate_type = "Account",
                        .aggregate_id = one_order ? aggregates.next() : aggregate,
                        .payload = json(chaos::to_payload(movement))});
    }
    tx.write_all(drafts);
    tx.commit();
    left -= count;
  }
}

}  // namespace

Fleet::Fleet(const chaos::TemporaryDatabase& database, const FleetOptions& options)
    : options_(options),
      database_(database.make()),
      ledger_(directory_.file("ledger")),
      observer_(*database_) {
  observer_.note_registrations();
}

Fleet::~Fleet() = default;

Fleet::Member& Fleet::start_instance(std::size_t events) {
  return *instances_.emplace_back(
      std::make_unique<Member>([this, events] { return deliver(events); }));
}

void Fleet::start_writer(std::size_t events) {
  writers_.push_back(std::make_unique<Member>([this, events] { return write(events); }));
}

void Fleet::start_plain_writer(std::size_t events) {
  writers_.push_back(std::make_unique<Member>([this, events] { return write_by_sql(events); }));
}

Options Fleet::options() const {
  return {.mode = options_.mode,
          .ordering = options_.ordering,
          .poll_interval = std::min<std::chrono::milliseconds>(1s, database_->poll_interval()),
          .row_claims = options_.row_claims,
          .queue = {.hot_capacity = kCapacity / 2, .cold_capacity = kCapacity / 2},
          .retry = {.policy = std::make_shared<ExponentialBackoff>(
                        ExponentialBackoffOptions{.base = 1ms, .max = 20ms}),
                    .max_attempts = 1'000'000},
          .lease = {.duration = options_.lease, .claim = options_.lock_timeout},
          .log = [](const LogRecord&) {}};
}

// --- In the other processes ---

int Fleet::deliver(std::size_t events) {
  harness::Signals signals{SIGTERM, SIGUSR1};
  std::mutex mutex;
  std::atomic<int> calls{0};
  Listeners on;
  on.add("Account", "Moved", [&](const Event& event, const Delivery& delivery) -> Outcome {
    // Before it has delivered anything: no duplicate.
    if (calls++ % 211 == 7) return Outcome::failed("now and then");
    const Movement movement = chaos::parse_payload(event.payload());
    const std::string line =
        harness::Message{.id = event.id(),
                         .aggregate = one_order() ? movement.aggregate : event.aggregate_id(),
                         .number = movement.number,
                         .epoch = delivery.epoch,
                         .attempt = delivery.attempt}
            .line();
    const std::lock_guard lock(mutex);
    ledger_.append(line);
    return Outcome::done();
  });
  Outbox box{database_->open(), on, options()};
  box.start();
  {
    const std::jthread writer([&] { write_events(box.writer(), events, one_order()); });
    while (signals.wait() != SIGTERM) {
    }
  }
  box.close();
  return 0;
}

int Fleet::write(std::size_t events) {
  Writer writer{database_->open()};
  write_events(writer, events, one_order());
  return 0;
}

int Fleet::write_by_sql(std::size_t events) {
  const auto store = database_->open();
  const auto own = database_->connect(*store);
  Aggregates aggregates;
  for (std::size_t left = events; left > 0;) {
    const std::size_t count = std::min(left, kAtOnce);
    const std::string aggregate = one_order() ? kTurn : aggregates.next();
    own->begin();
    const std::int64_t last = chaos::next_numbers(own->connection(), aggregate, count);
    std::string rows;
    for (std::size_t n = count; n-- > 0;) {
      const Movement movement{.aggregate = aggregate,
                              .number = last - static_cast<std::int64_t>(n)};
      rows += (rows.empty() ? "('" : ", ('") + new_id() + "', 'Moved', 'Account', '" +
              (one_order() ? aggregates.next() : aggregate) + "', '" + chaos::to_payload(movement) +
              "')";
    }
    own->execute(
        "INSERT INTO outbox_event (event_id, event_type, aggregate_type, aggregate_id, payload)"
        " VALUES " +
        rows);
    own->commit();
    left -= count;
  }
  return 0;
}

// --- In the test's process ---

void Fleet::wait(const std::string& what, const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= deadline)
      throw std::runtime_error("waited for " + what);
    std::this_thread::sleep_for(20ms);
  }
}

void Fleet::wait_for_arrivals(std::size_t count) {
  wait(std::to_string(count) + " arrivals",
       [&] { return harness::read_lines(directory_.file("ledger")).size() >= count; });
}

void Fleet::wait_for_members(std::size_t count) {
  wait(std::to_string(count) + " members", [&] { return observer_.owners().size() == count; });
}

void Fleet::wait_until_forgotten(const Member& instance) {
  wait("a take-over", [&] { return !has_member(instance); });
  wait("the end of its locks", [&] { return observer_.locks_of_the_dead() == 0; });
}

bool Fleet::has_member(const Member& instance) {
  const std::vector<pid_t> pids = observer_.owners();
  return std::find(pids.begin(), pids.end(), instance.pid()) != pids.end();
}

void Fleet::wait_until_delivered() {
  for (const auto& writer : writers_) {
    const auto ended = writer->wait(kPatience);
    if (ended != harness::ExitStatus{}) {
      throw std::runtime_error("a writer ended with " + to_string(ended));
    }
  }
  wait("the end of all events", [&] { return observer_.pending() == 0; });
}

harness::Verdict Fleet::finish(std::size_t events, std::size_t deaths) {
  wait("all events in the table", [&] { return observer_.events() == events; });
  wait_until_delivered();
  for (const auto& instance : instances_) instance->signal(SIGTERM);
  for (const auto& instance : instances_) {
    const auto ended = instance->wait(kPatience);
    if (ended != harness::ExitStatus{} && ended != harness::kKilled) {
      throw std::runtime_error("an instance ended with " + to_string(ended));
    }
  }
  harness::Verdict verdict =
      harness::judge(observer_.written(), harness::read_messages(directory_.file("ledger")),
                     {.ordered = options_.ordering == Ordering::per_aggregate,
                      .duplicate_bound = (deaths + lost_leases()) * kCapacity});
  verdict.dead = observer_.dead();
  return verdict;
}

using namespace std::chrono_literals;

void share(const chaos::TemporaryDatabase& database, std::size_t events,
           const FleetOptions& options) {
  ASSERT_EQ(events % 5, 0u);
  Fleet fleet(database, options);
  for (int n = 0; n < 2; ++n) fleet.start_instance(events / 5);
  for (int n = 0; n < 2; ++n) fleet.start_instance();
  fleet.start_writer(events / 5);
  for (int n = 0; n < 2; ++n) fleet.start_plain_writer(events / 5);
  const harness::Verdict verdict = fleet.finish(events);
  EXPECT_TRUE(verdict.clean()) << verdict;
  EXPECT_EQ(fleet.lost_leases(), 0u) << "on a machine this busy nothing can be told";
}

void share_through_faults(const chaos::TemporaryDatabase& database, std::size_t events,
                          FleetOptions options) {
  ASSERT_EQ(events % 5, 0u);
  options.lease = 5s;
  options.lock_timeout = 5s;
  Fleet fleet(database, options);
  Fleet::Member& killed = fleet.start_instance();
  Fleet::Member& stopped = fleet.start_instance();
  for (int n = 0; n < 2; ++n) fleet.start_instance(events / 5);
  fleet.wait_for_members(4);
  for (int n = 0; n < 2; ++n) fleet.start_writer(events / 5);
  fleet.start_plain_writer(events / 5);
  fleet.wait_for_arrivals(events / 10);
  killed.signal(SIGKILL);
  fleet.wait_for_arrivals(events / 5);
  stopped.signal(SIGSTOP);
  fleet.start_instance();
  fleet.wait_until_forgotten(stopped);
  stopped.signal(SIGCONT);
  fleet.wait_for_members(4);
  const harness::Verdict verdict = fleet.finish(events, 1);
  EXPECT_TRUE(verdict.clean()) << verdict;
  EXPECT_GE(fleet.lost_leases(), 1u);
}

}  // namespace outbox::counted
