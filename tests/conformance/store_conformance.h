// One suite that every store runs: what an engine may rely on, whatever the
// database.
//
// To run it on a store of your own, compile the *_test.cc files of this folder
// that are named after a subject (writing_test.cc, reading_test.cc, ...)
// together with one file like this:
//
//   #include "store_conformance.h"
//
//   class MyBackend final : public outbox::conformance::Backend {
//    public:
//     std::shared_ptr<outbox::Store> open(const outbox::conformance::Wishes& wishes) override {
//       return my::open(fresh_database(), {.clock = &clock_, .remove = wishes.remove_done, ...});
//     }
//     void advance(std::chrono::microseconds by) override { clock_.advance(by); }
//     std::vector<std::string> archived(outbox::Store& store) override { ... }
//
//    private:
//     outbox::testing::ManualClock clock_;
//   };
//
//   OUTBOX_STORE_CONFORMANCE(My, factory<MyBackend>("Plain"));
//
// What the store says in its capabilities() decides which tests apply to it.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "outbox/admin/admin.h"
#include "outbox/event.h"
#include "outbox/testing.h"

namespace outbox::conformance {

using namespace std::chrono_literals;

// What a test wants of the store that it opens.
struct Wishes {
  bool remove_done = false;  // delete events that are delivered
  std::size_t connections = 8;
  std::chrono::milliseconds wait_timeout{20'000};
};

// A row as another program might insert it, by plain SQL.
struct RawRow {
  std::string id{};
  std::optional<std::string> headers{};  // nullopt: NULL
};

// How a store's database says what the tests ask it past the store.
struct SqlWords {
  std::string table{};
  std::string set_time_zone{};         // of a session, to one that is not UTC; empty if it has none
  std::string micros_of_created_at{};  // since 1970
  std::string json_x{};                // the member x of a payload, as text
  std::string json_n_deep_1{};         // the second element of its n.deep
  std::string a_day_ago{};
};

class Database;  // database.h
class Remote;    // network.h

// How the suite gets at a store. A new one for every test.
class Backend {
 public:
  virtual ~Backend() = default;

  // Why there is nothing to test here, such as a server that is not running: the tests
  // are skipped then. Empty: all is well.
  virtual std::string missing() const { return {}; }

  // On an empty database. Called at most once.
  virtual std::shared_ptr<Store> open(const Wishes& wishes) = 0;

  // Lets time pass for the store: by moving the clock that it was given or, if
  // it goes by a server's clock, by moving everything in the tables back.
  virtual void advance(std::chrono::microseconds by) = 0;

  // Whether advance() moves what is in the tables: a time that was noted before it
  // stands there as an earlier one then.
  virtual bool moves_rows() const { return false; }

  // How far the store's time may be from what the test reckons, if it goes by
  // another clock than Store::clock().
  virtual std::chrono::microseconds clock_error() const { return 0us; }

  // Inserts a row by plain SQL, with an own transaction. False if there is none: the tests of such
  // rows are skipped then.
  bool insert_raw(Store& store, const RawRow& row) const;

  // Whether Wishes::remove_done can be fulfilled.
  virtual bool removes_done() const { return true; }

  // How SQL is to call a table of the user's own, beside the store's.
  virtual std::string user_table(const std::string& name) const { return name; }

  // Runs `work`, which looks for rows and then changes them, and lets another program make its
  // own change in between: `sql`, in which {table} stands for the table. False if nobody can:
  // the tests of what happens in between are skipped then.
  virtual bool interrupt(Store& /*store*/, const std::string& /*sql*/,
                         const std::function<void()>& /*work*/) {
    return false;
  }

  // Absent if the store knows no SQL. Asked for once the store is open.
  virtual std::optional<SqlWords> sql_words() const { return std::nullopt; }

  // For tests that open the store by themselves, instead of open(). Absent if there is no SQL; the
  // latter also if the database is at no other end of a network.
  virtual Database* database() { return nullptr; }
  virtual Remote* remote() { return nullptr; }

  // Ids and payloads ("id=payload") in the archive, sorted.
  virtual std::vector<std::string> archived(Store& store) = 0;
};

// The options of a store on a database as a test wishes them.
template <class Options>
Options wished(Options options, const Wishes& wishes) {
  using OnDone = decltype(options.on_done);
  options.on_done = wishes.remove_done ? OnDone::remove : OnDone::keep;
  options.connections = wishes.connections;
  options.wait_timeout = wishes.wait_timeout;
  return options;
}

struct Factory {
  std::string name;
  std::function<std::unique_ptr<Backend>()> make;

  friend void PrintTo(const Factory& factory, std::ostream* out) { *out << factory.name; }
};

// `arguments` go to the backend's constructor.
template <class B, class... Args>
Factory factory(std::string name, Args... arguments) {
  return {std::move(name), [arguments...] { return std::make_unique<B>(arguments...); }};
}

// A live instance, and what it owns.
struct Owner {
  std::unique_ptr<Instance> instance;
  Lease lease;

  Instance* operator->() const { return instance.get(); }

  // As an engine does: what is updated has been read, and what the store has taken in memory is
  // flushed after a while.
  UpdateResult apply(std::span<const StatusUpdate> updates) const;
  const std::vector<int>& shards() const { return lease.shards; }
  void release(int shard) {
    instance->release(shard);
    std::erase(lease.draining, shard);
  }
};

// The fixture. A test opens the store by using it, or by open() with its wishes.
class StoreTest : public ::testing::TestWithParam<Factory> {
 protected:
  void SetUp() override {
    backend_ = GetParam().make();
    if (const std::string missing = backend_->missing(); !missing.empty()) GTEST_SKIP() << missing;
  }

  Store& open(const Wishes& wishes);
  Store& store() { return store_ ? *store_ : open({}); }
  Backend& backend() { return *backend_; }
  Capabilities capabilities() { return store().capabilities(); }
  Time now() { return store().clock().now(); }
  void advance(std::chrono::microseconds by) { backend_->advance(by); }

  // Fills in what a test does not care about: type, payload, and times (now).
  Event event(EventFields fields);

  // Inserts the events in a transaction of their own.
  std::vector<RowRef> write(const std::vector<Event>& events, const InsertOptions& options = {});
  RowRef write(const Event& event) { return write(std::vector{event}).at(0); }

  // Events of one aggregate, hence in one shard.
  std::vector<RowRef> write_aggregate(const std::string& aggregate_id,
                                      const std::vector<std::string>& ids);

  // Joins and renews. Fails the test if it does not own everything.
  Owner own_everything(InstanceOptions options = {});

  // All that is ready, by seq; a store sorts within each shard only.
  std::vector<Row> ready(const Owner& owner);

  // The row must exist.
  EventRecord record(const std::string& id);
  RowRef ref(const std::string& id) { return record(id).row.ref; }

  // An update of the row as it is now; the caller fills in the rest.
  StatusUpdate update(const std::string& id, StatusUpdate::Kind kind);

  // DEAD of that error, finished or (with a lane) first in its lane.
  StatusUpdate dead(const std::string& id, const std::string& error = {}, LaneKey lane = kNoLane);

  // Updates it, and fails the test if that is fenced or stale.
  void apply(const Owner& owner, const std::vector<StatusUpdate>& updates);

  // A time that was noted before an advance() by `since`, as the store has it now.
  Time noted(Time time, std::chrono::microseconds since) {
    return backend_->moves_rows() ? time - since : time;
  }
  std::optional<Time> noted(std::optional<Time> time, std::chrono::microseconds since) {
    return time ? std::optional(noted(*time, since)) : std::nullopt;
  }

  // As an engine does with rows that it reads before they are available: they wait for their time.
  // Stores that know of it themselves return none.
  void hold_delayed(const Owner& owner);

  // That a time lies where it should, within the backend's clock error.
  void expect_time(std::chrono::microseconds actual, std::chrono::microseconds expected);
  void expect_due_in(const EventRecord& record, std::chrono::microseconds delay);

 private:
  std::unique_ptr<Backend> backend_;
  std::shared_ptr<Store> store_;
};

// That a refused update has changed nothing.
void expect_same(const EventRecord& actual, const EventRecord& expected);

// `sql` with the table's name for each {table}.
std::string for_table(std::string sql, const std::string& table);

std::vector<std::string> ids(const std::vector<Row>& rows);
std::vector<std::string> ids(const std::vector<EventRecord>& records);

// From the environment's OUTBOX_TEST_SEED, or else random. Print it.
std::uint64_t test_seed();

// One class a subject, so that a failing test's name says what it is about.
class WritingTest : public StoreTest {};
class PayloadsTest : public StoreTest {};
class StatementsTest : public StoreTest {};
class ReadingTest : public StoreTest {};
class OneOrderTest : public StoreTest {
 protected:
  void SetUp() override;

  // Events "e<first>" and so on, of many aggregates; every third is of the same one. Their ids.
  struct Spread {
    int first = 0;
    int count = 0;
  };
  std::vector<std::string> write_spread(const Spread& spread);

  // Reads until there is no more, and as an engine does: what it has not seen before counts.
  std::vector<std::string> read_on(const Owner& owner, std::size_t limit);
  void forget() { known_.clear(); }

  // Updates them DONE.
  void finish(const Owner& owner, const std::vector<std::string>& finished);

 private:
  std::set<std::string> known_;
};
class UpdatingTest : public StoreTest {
 protected:
  void finish_odd_ids();
};
class FencingTest : public StoreTest {};
class OwnershipTest : public StoreTest {};
class ClaimingTest : public StoreTest {};
class HoldingTest : public StoreTest {};
class OperatorsTest : public StoreTest {};
class DeadEventsTest : public StoreTest {};
class PurgeTest : public StoreTest {};
class SubscriptionsTest : public StoreTest {
 protected:
  void SetUp() override;

  // An instance of that subscription that owns everything.
  Owner serve(const std::string& name);
  std::shared_ptr<Store> of(const std::string& name) { return store().subscription(name); }
  Admin& admin() { return store().admin(); }
  std::vector<std::string> names();
};

}  // namespace outbox::conformance

// Skips the rest of a test on stores that cannot do it.
#define OUTBOX_NEEDS(condition) \
  if (!(condition)) GTEST_SKIP() << "the store lacks: " #condition

#define OUTBOX_STORE_CONFORMANCE_SUBJECT(prefix, subject, ...) \
  INSTANTIATE_TEST_SUITE_P(                                    \
      prefix, subject, ::testing::Values(__VA_ARGS__),         \
      [](const ::testing::TestParamInfo<Factory>& parameter) { return parameter.param.name; })

// Runs the suite on the stores of the given factories.
#define OUTBOX_STORE_CONFORMANCE(prefix, ...)                               \
  namespace outbox::conformance {                                           \
  OUTBOX_STORE_CONFORMANCE_SUBJECT(prefix, WritingTest, __VA_ARGS__);       \
  OUTBOX_STORE_CONFORMANCE_SUBJECT(prefix, PayloadsTest, __VA_ARGS__);      \
  OUTBOX_STORE_CONFORMANCE_SUBJECT(prefix, StatementsTest, __VA_ARGS__);    \
  OUTBOX_STORE_CONFORMANCE_SUBJECT(prefix, ReadingTest, __VA_ARGS__);       \
  OUTBOX_STORE_CONFORMANCE_SUBJECT(prefix, OneOrderTest, __VA_ARGS__);      \
  OUTBOX_STORE_CONFORMANCE_SUBJECT(prefix, UpdatingTest, __VA_ARGS__);      \
  OUTBOX_STORE_CONFORMANCE_SUBJECT(prefix, FencingTest, __VA_ARGS__);       \
  OUTBOX_STORE_CONFORMANCE_SUBJECT(prefix, OwnershipTest, __VA_ARGS__);     \
  OUTBOX_STORE_CONFORMANCE_SUBJECT(prefix, ClaimingTest, __VA_ARGS__);      \
  OUTBOX_STORE_CONFORMANCE_SUBJECT(prefix, HoldingTest, __VA_ARGS__);       \
  OUTBOX_STORE_CONFORMANCE_SUBJECT(prefix, OperatorsTest, __VA_ARGS__);     \
  OUTBOX_STORE_CONFORMANCE_SUBJECT(prefix, DeadEventsTest, __VA_ARGS__);    \
  OUTBOX_STORE_CONFORMANCE_SUBJECT(prefix, PurgeTest, __VA_ARGS__);         \
  OUTBOX_STORE_CONFORMANCE_SUBJECT(prefix, SubscriptionsTest, __VA_ARGS__); \
  }                                                                         \
  static_assert(true, "so that a semicolon may follow")
