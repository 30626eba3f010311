#include "every_store.h"

#include <mutex>
#include <optional>

#include "model/lane_key.h"
#include "outbox/memory.h"
#ifdef OUTBOX_WITH_SQLITE
#include "outbox/sqlite.h"
#include "support/temporary_directory.h"
#endif
#ifdef OUTBOX_WITH_POSTGRES
#include "outbox/postgres.h"
#include "support/postgres.h"
#endif
#ifdef OUTBOX_WITH_MYSQL
#include "outbox/mysql.h"
#include "support/mysql.h"
#endif

namespace outbox::testing {
namespace {

using Micros = std::chrono::microseconds;

class MemoryBackend final : public Backend {
 public:
  std::shared_ptr<Store> open(const Wishes& wishes) override {
    return memory::open({.shards = wishes.shards,
                         .concurrent_transactions = wishes.concurrent_transactions,
                         .clock = wishes.host_clock ? nullptr : &clock_});
  }
  void advance(Micros by) override { clock_.advance(by); }
  void step(Micros by) override { clock_.step(by); }
  bool time_stands_still() const override { return true; }

 private:
  ManualClock clock_;
};

#ifdef OUTBOX_WITH_SQLITE
class SqliteBackend final : public Backend {
 public:
  std::shared_ptr<Store> open(const Wishes& wishes) override {
    return sqlite::open(
        directory_.file("outbox.db"),
        {.durability = sqlite::Durability::normal, .clock = wishes.host_clock ? nullptr : &clock_});
  }
  void advance(Micros by) override { clock_.advance(by); }
  void step(Micros by) override { clock_.step(by); }
  bool time_stands_still() const override { return true; }

 private:
  const test::TemporaryDirectory directory_;
  ManualClock clock_;
};
#endif

// The host's clocks. What the host waits by jumps when it is told to; its time of day does not, for
// then it is the rows that are earlier. Thread-safe.
class JumpingClock final : public Clock {
 public:
  Time now() const override { return outbox::host_clock().now() + Micros{wrong_}; }
  Steady steady() const override { return outbox::host_clock().steady() + Micros{ahead_}; }
  void advance(Micros by) { ahead_ += by.count(); }
  void step(Micros by) { wrong_ += by.count(); }

 private:
  std::atomic<Micros::rep> ahead_ = 0;
  std::atomic<Micros::rep> wrong_ = 0;
};

#ifdef OUTBOX_WITH_POSTGRES
class PostgresBackend final : public Backend {
 public:
  explicit PostgresBackend(Progress progress) : progress_(progress) {}

  std::shared_ptr<Store> open(const Wishes& /*wishes*/) override {
    return postgres::open(test::postgres_url(),
                          {.table = table_, .progress = progress_, .clock = &clock_});
  }

  // Each table is locked first, lest the engine's transactions and this one wait for each other;
  // and they are changed in transactions of their own, because the engine's lock rows of both.
  void advance(Micros by) override {
    if (!sql_) sql_.emplace();
    const auto [events, instances] =
        test::Sql::made_earlier(table_, by, false, progress_ == Progress::position);
    sql_->execute("BEGIN; LOCK TABLE " + locked() + " IN EXCLUSIVE MODE; " + events + "; COMMIT");
    sql_->execute("BEGIN; LOCK TABLE " + table_ + "_instance IN EXCLUSIVE MODE; " + instances +
                  "; COMMIT");
    clock_.advance(by);
  }
  void step(Micros by) override { clock_.step(by); }
  bool time_stands_still() const override { return false; }

 private:
  std::string locked() const {
    return progress_ == Progress::position ? table_ + ", " + table_ + "_delivery" : table_;
  }

  const Progress progress_;
  const test::Schema schema_;
  const std::string table_ = schema_.name() + ".outbox_event";
  std::optional<test::Sql> sql_;
  JumpingClock clock_;
};
#endif

#ifdef OUTBOX_WITH_MYSQL
class MysqlBackend final : public Backend {
 public:
  std::shared_ptr<Store> open(const Wishes& /*wishes*/) override {
    return mysql::open(database_.url() + "?ssl_mode=disabled", {.clock = &clock_});
  }

  // As on PostgreSQL.
  void advance(Micros by) override {
    if (!sql_) sql_.emplace(database_.url());
    const auto [events, instances] = test::Mysql::made_earlier("outbox_event", by, false);
    sql_->execute("LOCK TABLES outbox_event WRITE; " + events + "; UNLOCK TABLES");
    sql_->execute("LOCK TABLES outbox_event_instance WRITE; " + instances + "; UNLOCK TABLES");
    clock_.advance(by);
  }
  void step(Micros by) override { clock_.step(by); }
  bool time_stands_still() const override { return false; }

 private:
  const test::Database database_;
  std::optional<test::Mysql> sql_;
  JumpingClock clock_;
};
#endif

}  // namespace

std::unique_ptr<Backend> memory_backend() { return std::make_unique<MemoryBackend>(); }
#ifdef OUTBOX_WITH_SQLITE
std::unique_ptr<Backend> sqlite_backend() { return std::make_unique<SqliteBackend>(); }
#endif
#ifdef OUTBOX_WITH_POSTGRES
std::unique_ptr<Backend> postgres_backend() {
  return std::make_unique<PostgresBackend>(Progress::row);
}
std::unique_ptr<Backend> postgres_by_position_backend() {
  return std::make_unique<PostgresBackend>(Progress::position);
}
#endif
#ifdef OUTBOX_WITH_MYSQL
std::unique_ptr<Backend> mysql_backend() { return std::make_unique<MysqlBackend>(); }
#endif

LaneKey lane_of(const std::string& aggregate_id) { return lane_key("Order", aggregate_id); }

void OnEveryStore::SetUp() {
  if (GetParam().server != nullptr) OUTBOX_NEEDS_SERVICE(GetParam().server);
  backend_ = GetParam().make();
  use_store(GetParam().wishes);
}

void OnEveryStore::use_store(const Wishes& wishes) {
  host_clock_ = wishes.host_clock;
  store.reset();
  bare_store = backend_->open(wishes);
  store = faulty(bare_store, faults);
}

Options OnEveryStore::with_defaults(Options options) const {
  options.log = log.log();
  options.metrics = metrics;
  // A test's clock runs ahead of its threads: who stands still for a tenth of a second has not
  // stalled, nor lost its lease. Tests of these name times of their own, and other ones.
  if (options.timeouts.stalled == TimeoutOptions{}.stalled) options.timeouts.stalled = 100'000h;
  if (options.lease.duration == LeaseOptions{}.duration) options.lease.duration = 100'000h;
  return options;
}

std::unique_ptr<Outbox> OnEveryStore::make(Options options, std::shared_ptr<Listener> to) {
  Listeners on;
  on.add("Order", "Happened", to ? std::move(to) : std::static_pointer_cast<Listener>(recorder));
  return std::make_unique<Outbox>(store, on, with_defaults(std::move(options)));
}

std::unique_ptr<Outbox> OnEveryStore::open(Options options, std::shared_ptr<Listener> to) {
  auto box = make(std::move(options), std::move(to));
  box->start();
  return box;
}

std::chrono::microseconds OnEveryStore::rest() const {
  return backend_->time_stands_still() ? std::chrono::microseconds{1ms} : 1min;
}

}  // namespace outbox::testing
