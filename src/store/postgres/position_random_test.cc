// Writers that end their transactions in any way and at any time, and owners that die: nothing is
// lost, invented or out of order, and little is repeated.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "store/postgres/position_reader.h"
#include "store/postgres/test_support.h"

namespace outbox::postgres {
namespace {

using Ids = std::vector<std::string>;

std::uint64_t test_seed() {
  const char* given = std::getenv("OUTBOX_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
}

// What was committed, by aggregate in the order of the commits. Thread-safe.
class Ledger {
 public:
  void committed(const std::map<std::string, Ids>& events) {
    const std::lock_guard lock(mutex_);
    for (const auto& [aggregate, ids] : events) {
      Ids& all = events_[aggregate];
      all.insert(all.end(), ids.begin(), ids.end());
    }
  }
  std::map<std::string, Ids> all() const {
    const std::lock_guard lock(mutex_);
    return events_;
  }
  std::size_t size() const {
    std::size_t sum = 0;
    for (const auto& [aggregate, ids] : all()) sum += ids.size();
    return sum;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, Ids> events_;
};

class PostgresPositionRandomTest : public PostgresTest {
 protected:
  // Transactions of one writer, one after the other, each with aggregates of its own.
  void write(int writer, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    const auto pick = [&](int below) {
      return static_cast<int>(random() % static_cast<unsigned>(below));
    };
    test::Sql connection;
    int number = 0;
    for (int transaction = 0; transaction < 120; ++transaction) {
      std::map<std::string, Ids> written;
      const auto insert = [&](bool remembered) {
        const std::string aggregate = std::to_string(writer) + "-" + std::to_string(pick(3));
        const std::string id = aggregate + ":" + std::to_string(++number);
        connection.execute("INSERT INTO " + table() +
                           " (event_id, event_type, aggregate_id, payload) VALUES ('" + id +
                           "', 'T', '" + aggregate + "', '{}')");
        if (remembered) written[aggregate].push_back(id);
      };
      connection.execute("BEGIN");
      for (int n = 1 + pick(4); n > 0; --n) insert(true);
      if (pick(4) == 0) {
        connection.execute("SAVEPOINT s");
        const bool kept = pick(2) == 0;
        insert(kept);
        connection.execute(kept ? "RELEASE s" : "ROLLBACK TO s");
      }
      if (pick(3) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(pick(20)));
      const bool kept = pick(6) != 0;
      connection.execute(kept ? "COMMIT" : "ROLLBACK");
      if (kept) ledger_.committed(written);
    }
    --writers_;
  }

  Ledger ledger_;
  std::atomic<int> writers_{0};
};

// An owner and what it has in flight.
struct Owner {
  std::unique_ptr<Instance> instance;
  Lease lease;
  std::map<std::string, RowRef> in_flight{};
  std::size_t unflushed = 0;
};

TEST_F(PostgresPositionRandomTest, NothingIsLostInventedOrOutOfOrder) {
  const std::uint64_t seed = test_seed();
  SCOPED_TRACE("OUTBOX_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto pick = [&](std::size_t below) { return static_cast<std::size_t>(random() % below); };
  const auto store = open_store({.progress = Progress::position, .notify = false});
  constexpr int kWriters = 6;
  writers_ = kWriters;
  std::vector<std::jthread> writing;
  for (int writer = 0; writer < kWriters; ++writer) {
    writing.emplace_back([this, writer, own = random()] { write(writer, own); });
  }

  std::map<std::string, Ids> delivered;  // first deliveries, by aggregate
  std::set<std::string> known;
  std::size_t repeats = 0;
  std::size_t allowed = 0;
  int kills = 0;
  int cuts = 0;
  Owner owner;
  const auto join = [&] {
    owner = {.instance = store->join({.lease = 60s}), .lease = {}};
    owner.lease = owner.instance->renew();
  };
  const auto kill = [&] {
    allowed += owner.in_flight.size() + owner.unflushed;
    owner.instance.reset();
    sql().execute("UPDATE " + table() + "_instance SET beat_at = beat_at - interval '1 hour'");
    join();
    ++kills;
  };
  const auto cut = [&] {
    sql().execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%" +
                  schema() + "%_cursor%' AND pid <> pg_backend_pid()");
    ++cuts;
  };
  const auto deliver = [&] {
    const Rows rows =
        owner.instance->ready(owner.lease.shards, owner.in_flight.size(), 1 + pick(60));
    for (const Row& row : rows.rows) {
      const std::string& id = row.event.id();
      if (!owner.in_flight.emplace(id, row.ref).second) continue;
      if (known.insert(id).second) {
        delivered[row.event.aggregate_id()].push_back(id);
      } else {
        ++repeats;
      }
    }
  };
  const auto finish = [&] {
    std::vector<StatusUpdate> updates;
    for (const auto& [id, ref] : owner.in_flight) {
      if (pick(3) == 0) continue;
      // Now and then one may have killed the process: it keeps its place.
      const bool candidate = pick(40) == 0;
      updates.push_back({.row = ref,
                         .event_id = id,
                         .kind = candidate ? StatusUpdate::Kind::crashes : StatusUpdate::Kind::done,
                         .crashes = 1});
    }
    const UpdateResult result = owner.instance->apply(owner.lease.epoch, updates);
    EXPECT_FALSE(result.fenced);
    EXPECT_TRUE(result.stale.empty());
    for (const StatusUpdate& update : updates) {
      if (update.kind != StatusUpdate::Kind::done) continue;
      owner.in_flight.erase(update.event_id);
      ++owner.unflushed;
    }
  };
  const auto flush = [&](bool at_once) {
    const FlushResult result = owner.instance->flush(owner.lease.epoch, at_once);
    EXPECT_FALSE(result.fenced);
    if (!result.next_in) owner.unflushed = 0;
  };

  join();
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  while (std::chrono::steady_clock::now() < deadline && !HasFailure()) {
    const bool over = writers_ == 0;
    try {
      if (over && owner.in_flight.empty()) {
        flush(true);
        if (!store->has_pending()) break;
      }
      deliver();
      if (pick(2) == 0) finish();
      if (pick(5) == 0) flush(pick(2) == 0);
    } catch (const RetryableError&) {
      continue;  // the connection was cut
    }
    if (pick(20) == 0) owner.instance->rewind(0);
    if (pick(40) == 0) kill();
    if (pick(60) == 0) cut();
  }
  writing.clear();
  EXPECT_EQ(delivered, ledger_.all());
  EXPECT_LE(repeats, allowed);
  EXPECT_FALSE(store->has_pending());
  EXPECT_EQ(store->admin().count({.status = {Status::done}}),
            static_cast<std::int64_t>(ledger_.size()));
  std::printf("%zu events, %d kills, %d cuts, %zu repeats of at most %zu\n", known.size(), kills,
              cuts, repeats, allowed);
}

}  // namespace
}  // namespace outbox::postgres
