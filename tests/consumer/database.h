// What the tests of the patterns share: each runs on every store that is built.
//
//   class InboxTest : public PatternTest {};
//   TEST_P(InboxTest, ...) { ... }
//   OUTBOX_ON_EVERY_DATABASE(InboxTest);
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "chaos/database.h"
#include "harness/process.h"
#include "outbox/spi/store.h"
#include "support/services.h"
#include "support/stores.h"

namespace outbox::patterns {

// A test with an empty database of its own, opened for it.
//
// SQL in tests has its values written out: placeholders differ.
class PatternTest : public ::testing::TestWithParam<chaos::TemporaryDatabase> {
 protected:
  void SetUp() override {
    if (GetParam().server != nullptr) OUTBOX_NEEDS_SERVICE(GetParam().server);
    database_ = GetParam().make();
    store_ = database_->open();
  }

  chaos::Database& database() { return *database_; }
  const std::shared_ptr<Store>& store() const { return store_; }
  Dialect dialect() const { return store_->capabilities().dialect; }

  // Before processes are copied of this one: they must inherit no connection and no
  // thread. Nobody else may hold the store then.
  void close_store() {
    ASSERT_EQ(store_.use_count(), 1);
    store_.reset();
  }
  void open_store() { store_ = database_->open(); }

  // A transaction of its own.
  std::int64_t execute(const std::string& sql) { return store_->connect()->execute(sql, {}); }
  std::vector<ResultRow> query(const std::string& sql) { return store_->connect()->query(sql, {}); }
  std::int64_t number(const std::string& sql) { return query(sql).at(0).get<std::int64_t>(0); }

  // Until so many transactions wait for a lock in this database; false if they do not. On
  // SQLite, where the second transaction waits to begin, nobody can tell: at once.
  bool wait_for_waiters(int count = 1) {
    if (dialect() == Dialect::sqlite) return true;
    return test::eventually([&] { return waiters() >= count; });
  }

  // `column`, of the table `outbox_event_<table>`, so much earlier in all rows.
  void shift(const std::string& table, const std::string& column, std::chrono::seconds by) {
    const std::string seconds = std::to_string(by.count());
    std::string earlier = column + " - " + seconds + " * 1000000";
    if (dialect() == Dialect::postgres) earlier = column + " - " + seconds + " * interval '1 s'";
    if (dialect() == Dialect::mysql) earlier = column + " - INTERVAL " + seconds + " SECOND";
    execute("UPDATE " + store_->side_table(table) + " SET " + column + " = " + earlier);
  }

 private:
  std::int64_t waiters() {
    const auto on = store_->connect();
    const auto number = [&](const char* sql) {
      return on->query(sql, {}).at(0).get<std::int64_t>(0);
    };
    if (dialect() == Dialect::postgres) {
      return number(
          "SELECT count(DISTINCT waits.pid) FROM pg_locks waits"
          " JOIN pg_locks uses ON uses.pid = waits.pid AND uses.locktype = 'relation'"
          " JOIN pg_class ON pg_class.oid = uses.relation"
          " WHERE NOT waits.granted AND relnamespace = current_schema()::regnamespace");
    }
    // MariaDB looks again only when nobody asked for a tenth of a second, so those who ask
    // take turns.
    number("SELECT get_lock('outbox tests look for waiters', 60)");
    std::this_thread::sleep_for(std::chrono::milliseconds{110});
    const std::int64_t found = number(
        "SELECT count(*) FROM information_schema.innodb_trx"
        " JOIN information_schema.processlist ON id = trx_mysql_thread_id"
        " WHERE trx_state = 'LOCK WAIT' AND db = database()");
    number("SELECT release_lock('outbox tests look for waiters')");
    return found;
  }

  std::unique_ptr<chaos::Database> database_;
  std::shared_ptr<Store> store_;
};

}  // namespace outbox::patterns
