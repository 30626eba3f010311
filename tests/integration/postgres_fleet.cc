#include "postgres_fleet.h"

#include <atomic>
#include <csignal>
#include <functional>
#include <mutex>
#include <random>
#include <stdexcept>
#include <thread>

#include "outbox/postgres.h"
#include "role_signals.h"
#include "workload.h"

namespace outbox::counted {
namespace {

using namespace std::chrono_literals;
using chaos::Movement;

constexpr int kAggregates = 40;
constexpr std::size_t kAtOnce = 10;  // events of one transaction
constexpr std::chrono::minutes kPatience{4};

// The next $2 numbers of the aggregate $1; the last of them.
constexpr const char* kNextNumbers =
    "UPDATE counter SET last = last + $2 WHERE aggregate = $1 RETURNING last";

constexpr const char* kLocksOfTheDead =
    "SELECT count(*) FROM outbox_event WHERE hold IS NOT NULL"
    " AND locked_by NOT IN (SELECT owner FROM outbox_event_instance)";

std::string with_search_path(const std::string& url, const std::string& schema) {
  return url + "?options=-csearch_path%3D" + schema;
}

std::shared_ptr<Store> open(const std::string& url) {
  return postgres::open(url, {.log = [](LogLevel, std::string_view) {}});
}

// Another one each time, and in another order in each process.
class Aggregates {
 public:
  std::string next() { return "a" + std::to_string(number_(random_)); }

 private:
  std::mt19937 random_{static_cast<std::mt19937::result_type>(getpid())};
  std::uniform_int_distribution<int> number_{0, kAggregates - 1};
};

void write_events(Writer& writer, std::size_t events) {
  Aggregates aggregates;
  for (std::size_t left = events; left > 0;) {
    const std::size_t count = std::min(left, kAtOnce);
    const std::string aggregate = aggregates.next();
    auto tx = writer.begin();
    const auto last = tx.query(kNextNumbers, aggregate, static_cast<std::int64_t>(count));
    std::vector<Draft> drafts;
    for (std::size_t n = count; n-- > 0;) {
      const Movement movement{
          .aggregate = aggregate,
          .number = std::get<std::int64_t>(last[0][0]) - static_cast<std::int64_t>(n)};
      drafts.push_back({.type = "Moved",
                        .aggregate_type = "Account",
                        .aggregate_id = aggregate,
                        .payload = json(chaos::to_payload(movement))});
    }
    tx.write_all(drafts);
    tx.commit();
    left -= count;
  }
}

}  // namespace

Fleet::Fleet(const FleetOptions& options)
    : options_(options),
      url_(with_search_path(test::postgres_url(), schema_.name())),
      database_(chaos::postgres_database(url_)),
      ledger_(directory_.file("ledger")),
      observer_(*database_),
      sql_(url_) {
  observer_.note_registrations();
  sql_.execute("INSERT INTO counter SELECT 'a' || n, 0 FROM generate_series(0, " +
               std::to_string(kAggregates - 1) + ") n");
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
  return {.mode = Mode::multi_node,
          .ordering = options_.ordering,
          .hot_capacity = kCapacity / 2,
          .cold_capacity = kCapacity / 2,
          .poll_interval = 1s,
          .row_claims = options_.row_claims,
          .lock_timeout = options_.lock_timeout,
          .lease = options_.lease,
          .retry = std::make_shared<ExponentialBackoff>(
              ExponentialBackoffOptions{.base = 1ms, .max = 20ms}),
          .max_attempts = 1'000'000,
          .log = [](LogLevel, std::string_view) {}};
}

// --- In the other processes ---

int Fleet::deliver(std::size_t events) {
  const chaos::RoleSignals signals;
  std::mutex mutex;
  std::atomic<int> calls{0};
  Listeners on;
  on.add("Account", "Moved", [&](const Event& event, const Delivery& delivery) -> Outcome {
    // Before it has delivered anything: no duplicate.
    if (calls++ % 211 == 7) return Outcome::failed("now and then");
    const std::string line = chaos::to_line({.id = event.id(),
                                             .aggregate = event.aggregate_id(),
                                             .number = chaos::parse_payload(event.payload()).number,
                                             .epoch = delivery.epoch,
                                             .attempt = delivery.attempt});
    const std::lock_guard lock(mutex);
    ledger_.append(line);
    return Outcome::done();
  });
  Outbox box{open(url_), on, options()};
  box.start();
  {
    const std::jthread writer([&] { write_events(box.writer(), events); });
    while (signals.wait() != SIGTERM) {
    }
  }
  box.close();
  return 0;
}

int Fleet::write(std::size_t events) {
  Writer writer{open(url_)};
  write_events(writer, events);
  return 0;
}

int Fleet::write_by_sql(std::size_t events) {
  test::Sql sql(url_);
  Aggregates aggregates;
  for (std::size_t left = events; left > 0;) {
    const std::string count = std::to_string(std::min(left, kAtOnce));
    const std::string aggregate = aggregates.next();
    sql.execute("WITH mine AS (UPDATE counter SET last = last + " + count + " WHERE aggregate = '" +
                aggregate +
                "' RETURNING last)"
                " INSERT INTO outbox_event"
                " (event_id, event_type, aggregate_type, aggregate_id, payload)"
                " SELECT gen_random_uuid(), 'Moved', 'Account', '" +
                aggregate + "', '{\"number\":' || n || ',\"aggregate\":\"" + aggregate +
                "\"}' FROM mine, generate_series(last - " + count + " + 1, last) AS n ORDER BY n");
    left -= std::min(left, kAtOnce);
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
       [&] { return chaos::read_lines(directory_.file("ledger")).size() >= count; });
}

void Fleet::wait_for_members(std::size_t count) {
  wait(std::to_string(count) + " members", [&] {
    return sql_.value("SELECT count(*) FROM outbox_event_instance") == std::to_string(count);
  });
}

void Fleet::wait_until_forgotten(const Member& instance) {
  wait("a take-over", [&] {
    return sql_.value("SELECT count(*) FROM outbox_event_instance WHERE pid = " +
                      std::to_string(instance.pid())) == "0";
  });
  wait("the end of its locks", [&] { return sql_.value(kLocksOfTheDead) == "0"; });
}

void Fleet::wait_until_delivered() {
  for (const auto& writer : writers_) {
    const auto ended = writer->wait(kPatience);
    if (!ended || !ended->empty()) {
      throw std::runtime_error("a writer ended with " + ended.value_or("nothing"));
    }
  }
  wait("the end of all events", [&] { return observer_.pending() == 0; });
}

chaos::Verdict Fleet::finish(std::size_t events, std::size_t deaths) {
  wait("all events in the table",
       [&] { return sql_.value("SELECT count(*) FROM outbox_event") == std::to_string(events); });
  wait_until_delivered();
  for (const auto& instance : instances_) instance->signal(SIGTERM);
  for (const auto& instance : instances_) {
    const auto ended = instance->wait(kPatience);
    if (ended != "" && ended != "signal 9") {
      throw std::runtime_error("an instance ended with " + ended.value_or("nothing"));
    }
  }
  std::vector<chaos::Committed> committed;
  for (const test::Row& row : sql_.query("SELECT event_id, payload FROM outbox_event")) {
    const Movement movement = chaos::parse_payload(*row[1]);
    committed.push_back(
        {.id = *row[0], .aggregate = movement.aggregate, .number = movement.number});
  }
  chaos::Verdict verdict = chaos::judge(committed, chaos::read_ledger(directory_.file("ledger")),
                                        {.ordered = options_.ordering == Ordering::per_aggregate,
                                         .duplicate_bound = (deaths + lost_leases()) * kCapacity});
  verdict.dead = observer_.dead();
  return verdict;
}

}  // namespace outbox::counted
