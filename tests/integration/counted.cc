#include "counted.h"

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "outbox/outbox.h"
#include "outbox/sqlite.h"
#include "support/temporary_directory.h"

namespace outbox::counted {
namespace {

using namespace std::chrono_literals;

constexpr int kAggregates = 7;

Draft draft(int aggregate, const std::string& payload) {
  return {.type = "Happened",
          .aggregate_type = "Order",
          .aggregate_id = std::to_string(aggregate),
          .payload = json(payload)};
}

std::shared_ptr<Store> open(const test::TemporaryDirectory& directory) {
  return sqlite::open(directory.file("events.db"),
                      {.durability = sqlite::Durability::normal, .wait_timeout = 60s});
}

// In a process of its own, with nothing of this library: numbers each of its
// events within the aggregate by a counter that both writers lock.
int write_by_sql(const std::string& file, std::size_t events) {
  sqlite3* db = nullptr;
  if (sqlite3_open(file.c_str(), &db) != SQLITE_OK) return 1;
  sqlite3_busy_timeout(db, 60'000);
  for (std::size_t n = 0; n < events; ++n) {
    const std::string aggregate = std::to_string(n % kAggregates);
    const std::string sql =
        "BEGIN IMMEDIATE;"
        "UPDATE counter SET n = n + 1 WHERE aggregate = " +
        aggregate +
        ";"
        "INSERT INTO outbox_event(event_id, event_type, aggregate_type, aggregate_id, payload) "
        "SELECT 'sql-" +
        std::to_string(n) + "', 'Happened', 'Order', '" + aggregate +
        "', CAST(n AS TEXT) FROM counter WHERE aggregate = " + aggregate +
        ";"
        "COMMIT;";
    char* error = nullptr;
    if (sqlite3_exec(db, sql.c_str(), nullptr, nullptr, &error) != SQLITE_OK) {
      fprintf(stderr, "plain writer: %s\n", error);
      return 2;
    }
  }
  sqlite3_close(db);
  return 0;
}

}  // namespace

std::shared_ptr<Store> temporary_sqlite() {
  auto directory = std::make_shared<test::TemporaryDirectory>();
  auto store = open(*directory);
  // The directory goes after the store.
  return {store.get(), [directory, store](Store*) mutable {
            store.reset();
            directory.reset();
          }};
}

void deliver_each_once(const std::shared_ptr<Store>& store, std::size_t events) {
  std::vector<std::atomic<int>> deliveries(events);
  Listeners on;
  on.add("Order", "Happened", [&](const Event& event) {
    const auto n = static_cast<std::size_t>(std::stoul(event.payload()));
    ++deliveries[n];
    if (n % 64 == 0) std::this_thread::sleep_for(100us);  // slower than its writers at times
  });
  Outbox box{
      store,
      on,
      {.ordering = Ordering::none, .queue = {.hot_capacity = 200}, .log = [](const LogRecord&) {}}};
  box.start();
  constexpr std::size_t kWriters = 3;
  constexpr std::size_t kAtOnce = 10;
  {
    std::vector<std::jthread> writers;
    for (std::size_t w = 0; w < kWriters; ++w) {
      writers.emplace_back([&, w] {
        for (std::size_t n = w * kAtOnce; n < events; n += kWriters * kAtOnce) {
          auto tx = box.begin();
          for (std::size_t i = n; i < std::min(n + kAtOnce, events); ++i) {
            tx.write(draft(static_cast<int>(i % kAggregates), std::to_string(i)));
          }
          tx.commit();
        }
      });
    }
  }
  ASSERT_TRUE(box.wait_idle(300s));
  std::size_t lost = 0;
  std::size_t twice = 0;
  for (const auto& count : deliveries) {
    lost += count == 0;
    twice += count > 1;
  }
  EXPECT_EQ(lost, 0u);
  EXPECT_EQ(twice, 0u);
}

void keep_order_on_sqlite(std::size_t events) {
  const test::TemporaryDirectory directory;
  const std::string file = directory.file("events.db");
  {
    const auto store = open(directory);
    const auto connection = store->connect();
    connection->begin();
    connection->execute("CREATE TABLE counter(aggregate INTEGER PRIMARY KEY, n INTEGER)", {});
    for (int a = 0; a < kAggregates; ++a) {
      connection->execute("INSERT INTO counter VALUES (" + std::to_string(a) + ", 0)", {});
    }
    connection->commit();
  }
  // Before this process has any thread.
  const pid_t other = fork();
  if (other == 0) _exit(write_by_sql(file, events / 2));

  const auto store = open(directory);
  std::mutex mutex;
  std::map<std::string, std::vector<int>> delivered;
  std::atomic<int> calls{0};
  const auto receive = [&](const Event& event) -> Outcome {
    const int call = calls++;
    if (call % 97 == 13) return Outcome::failed("now and then");
    if (call % 101 == 17) return Outcome::retry_after(1ms);
    const std::lock_guard lock(mutex);
    delivered[event.aggregate_id()].push_back(std::stoi(event.payload()));
    return Outcome::done();
  };
  Listeners on;
  on.add("Order", "Happened", receive);
  const Options options{.poll_interval = 500ms,
                        .queue = {.cold_capacity = 64, .batch = 16},
                        .retry = {.policy = std::make_shared<ExponentialBackoff>(
                                      ExponentialBackoffOptions{.base = 1ms, .max = 5ms}),
                                  .max_attempts = 1'000'000},
                        .log = [](const LogRecord&) {}};
  constexpr std::size_t kLives = 5;
  const std::size_t mine = events - events / 2;
  for (std::size_t life = 0; life < kLives; ++life) {
    Outbox box{store, on, options};
    box.start();
    for (std::size_t n = life * mine / kLives; n < (life + 1) * mine / kLives; ++n) {
      const int aggregate = static_cast<int>(n % kAggregates);
      auto tx = box.begin();
      tx.execute("UPDATE counter SET n = n + 1 WHERE aggregate = ?", aggregate);
      const auto number =
          tx.query_one<std::int64_t>("SELECT n FROM counter WHERE aggregate = ?", aggregate);
      tx.write(draft(aggregate, std::to_string(number)));
      tx.commit();
    }
    if (life + 1 < kLives) continue;  // closed with work left to do
    int state = -1;
    ASSERT_EQ(waitpid(other, &state, 0), other);
    ASSERT_EQ(state, 0);
    ASSERT_TRUE(box.wait_idle(300s));
  }
  std::size_t total = 0;
  for (const auto& [aggregate, numbers] : delivered) {
    total += numbers.size();
    for (std::size_t n = 0; n < numbers.size(); ++n) {
      ASSERT_EQ(numbers[n], static_cast<int>(n) + 1) << "aggregate " << aggregate;
    }
  }
  EXPECT_EQ(total, events) << "a clean close and a restart lose nothing and repeat nothing";
}

}  // namespace outbox::counted
