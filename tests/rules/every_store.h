// The rules that an outbox keeps, whatever its database: each test of this folder runs on every
// store that is built, on an empty database of its own.
//
//   class OrderTest : public OnEveryStore {};
//   OUTBOX_ON_EVERY_STORE(OrderTest);
//   TEST_P(OrderTest, ...) { ... }
//
// They use public headers only, and a test says by OUTBOX_NEEDS what a store must be able to do.
//
// Time: the stores in memory and on SQLite go by the clock that they are given, which stands still
// until a test moves it. Servers go by their own, which nobody can move: there advance() makes
// everything in the tables earlier, and what the engines wait by jumps as far, while the time of
// day goes on as it does. So tests wait for minutes or hours, and ask whether something has come
// too early after advance_almost(), not a millisecond before.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "outbox/outbox.h"
#include "outbox/spi/store.h"
#include "outbox/testing.h"
#include "support/engine.h"
#include "support/faulty_store.h"
#include "support/services.h"

namespace outbox::testing {

// What a test wants of the store that it opens.
struct Wishes {
  // Of the store in memory; the others are as they are.
  int shards = 16;
  bool concurrent_transactions = false;

  // The host's clock, also where it could be another one: for tests that wait for what comes by
  // itself.
  bool host_clock = false;
};

// How a test gets at a store. A new one for every test.
class Backend {
 public:
  virtual ~Backend() = default;

  // On the test's database, which is empty when it begins. In memory, each store is one.
  virtual std::shared_ptr<Store> open(const Wishes& wishes) = 0;

  // Lets time pass for the store and the engines on it. No transaction may be open.
  virtual void advance(std::chrono::microseconds by) = 0;

  // Sets the host's time of day, as an operator would; what the host waits by goes on.
  virtual void step(std::chrono::microseconds by) = 0;

  // Whether it passes by advance() alone, unless the host's clock was wished for.
  virtual bool time_stands_still() const = 0;
};

struct StoreKind {
  const char* name;
  const char* server;  // the variable that names it; null: it has none
  std::unique_ptr<Backend> (*make)();
  Wishes wishes{};

  friend void PrintTo(const StoreKind& kind, std::ostream* out) { *out << kind.name; }
};

std::unique_ptr<Backend> memory_backend();
inline constexpr StoreKind kMemory{"Memory", nullptr, memory_backend};
#ifdef OUTBOX_WITH_SQLITE
std::unique_ptr<Backend> sqlite_backend();
inline constexpr StoreKind kSqlite{"Sqlite", nullptr, sqlite_backend};
#endif
#ifdef OUTBOX_WITH_POSTGRES
std::unique_ptr<Backend> postgres_backend();
inline constexpr StoreKind kPostgres{"Postgres", "OUTBOX_TEST_POSTGRES", postgres_backend};
std::unique_ptr<Backend> postgres_by_position_backend();
inline constexpr StoreKind kPostgresByPosition{"PostgresByPosition", "OUTBOX_TEST_POSTGRES",
                                               postgres_by_position_backend};
#endif
#ifdef OUTBOX_WITH_MYSQL
std::unique_ptr<Backend> mysql_backend();
inline constexpr StoreKind kMysql{"Mysql", "OUTBOX_TEST_MYSQL", mysql_backend};
#endif

// The key of the lane of "Order" and that aggregate, as rows have it in `hold`.
LaneKey lane_of(const std::string& aggregate_id);

// Outboxes on one store whose events all go to one listener.
class OnEveryStore : public ::testing::TestWithParam<StoreKind> {
 protected:
  void SetUp() override;

  // Another store, on the same database but in memory, with its own faults no longer.
  void use_store(const Wishes& wishes);

  Capabilities capabilities() const { return bare_store->capabilities(); }
  bool time_stands_still() const { return backend_->time_stands_still() && !host_clock_; }

  // Less, where each takes a round trip to a server.
  int many(int in_memory, int elsewhere) const {
    return capabilities().dialect == Dialect::none ? in_memory : elsewhere;
  }

  // Not started.
  std::unique_ptr<Outbox> make(Options options = {}, std::shared_ptr<Listener> to = {});
  std::unique_ptr<Outbox> open(Options options = {}, std::shared_ptr<Listener> to = {});

  // Of an outbox that a test makes by itself: what make() sets.
  Options with_defaults(Options options) const;

  // Writes without any engine's knowledge.
  std::string write_elsewhere(const Draft& draft) {
    Writer writer{bare_store};
    return write(writer, draft);
  }

  Status status(const std::string& id) { return store->admin().find(id)->row.status; }
  int attempts(const std::string& id) { return store->admin().find(id)->row.attempts; }
  bool is_done(const std::string& id) { return status(id) == Status::done; }

  // --- Time ---

  Time now() const { return store->clock().now(); }
  Clock::Steady steady() const { return store->clock().steady(); }
  void advance(std::chrono::microseconds by) { backend_->advance(by); }

  void set_clock(std::chrono::microseconds by) { backend_->step(by); }

  // Until shortly before that time has passed, and then the rest. On a server a test takes time by
  // itself; less than a minute.
  void advance_almost(std::chrono::microseconds time) { advance(time - rest()); }
  void advance_rest() { advance(rest()); }

  // Moves the clock by steps, so that whatever is due on the way happens.
  void pass(Outbox& box, std::chrono::milliseconds time, std::chrono::milliseconds step = 1s) {
    for (; time > 0ms; time -= step) {
      advance(std::min(time, step));
      box.wake();
    }
  }

  // Moves the clock until it is so.
  template <class Condition, class... Boxes>
  bool in_time(const Condition& condition, Boxes&... boxes) {
    return by_steps(1s, condition, boxes...);
  }

  // The same in steps well below a lease of some seconds.
  template <class Condition, class... Boxes>
  bool soon(const Condition& condition, Boxes&... boxes) {
    return by_steps(100ms, condition, boxes...);
  }

  RecordingLog log;
  std::shared_ptr<CountingMetrics> metrics = std::make_shared<CountingMetrics>();
  std::shared_ptr<RecordingListener> recorder = std::make_shared<RecordingListener>();
  std::shared_ptr<Faults> faults = std::make_shared<Faults>();

 private:
  std::chrono::microseconds rest() const;

  template <class Condition, class... Boxes>
  bool by_steps(std::chrono::milliseconds step, const Condition& condition, Boxes&... boxes) {
    return eventually([&] {
      advance(step);
      (boxes.wake(), ...);
      return condition();
    });
  }

  std::unique_ptr<Backend> backend_;  // outlives the stores
  bool host_clock_ = false;

 protected:
  std::shared_ptr<Store> bare_store;
  std::shared_ptr<Store> store;  // the same behind the faults
};

// As an engine does before it updates anything: registers, and reads what there is.
inline Lease renewed_and_read(Instance& instance) {
  Lease lease = instance.renew();
  instance.ready(lease.shards, 0, 1'000);
  return lease;
}

inline bool says(const Health& health, const std::string& text) {
  return std::any_of(health.reasons.begin(), health.reasons.end(),
                     [&](const std::string& one) { return one.find(text) != std::string::npos; });
}

}  // namespace outbox::testing

// Skips the rest of a test on stores that cannot do it.
#define OUTBOX_NEEDS(condition) \
  if (!(condition)) GTEST_SKIP() << "the store lacks: " #condition

#define OUTBOX_ON_STORE(kind, suite)                              \
  INSTANTIATE_TEST_SUITE_P(                                       \
      kind, suite, ::testing::Values(::outbox::testing::k##kind), \
      [](const ::testing::TestParamInfo<StoreKind>& store) { return store.param.name; })
#ifdef OUTBOX_WITH_SQLITE
#define OUTBOX_ON_SQLITE(suite) OUTBOX_ON_STORE(Sqlite, suite)
#else
#define OUTBOX_ON_SQLITE(suite) static_assert(true)
#endif
#ifdef OUTBOX_WITH_POSTGRES
#define OUTBOX_ON_POSTGRES(suite)   \
  OUTBOX_ON_STORE(Postgres, suite); \
  OUTBOX_ON_STORE(PostgresByPosition, suite)
#else
#define OUTBOX_ON_POSTGRES(suite) static_assert(true)
#endif
#ifdef OUTBOX_WITH_MYSQL
#define OUTBOX_ON_MYSQL(suite) OUTBOX_ON_STORE(Mysql, suite)
#else
#define OUTBOX_ON_MYSQL(suite) static_assert(true)
#endif

#define OUTBOX_ON_EVERY_STORE(suite) \
  OUTBOX_ON_STORE(Memory, suite);    \
  OUTBOX_ON_SQLITE(suite);           \
  OUTBOX_ON_POSTGRES(suite);         \
  OUTBOX_ON_MYSQL(suite)
