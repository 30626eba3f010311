// What the tests of the PostgreSQL store share.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "outbox/error.h"
#include "outbox/event.h"
#include "outbox/postgres.h"
#include "outbox/testing.h"
#include "support/postgres.h"
#include "support/stores.h"

namespace outbox::postgres {

using namespace std::chrono_literals;
using test::begun;
using test::contains;
using test::eventually;
using test::ids;
using test::message_of;
using test::simple_event;
using test::works_again;
using test::write_event;

// A schema of its own for each test.
class PostgresTest : public ::testing::Test {
 protected:
  void SetUp() override {
    OUTBOX_NEEDS_POSTGRES();
    schema_ = std::make_unique<test::Schema>();
    sql_ = std::make_unique<test::Sql>();
  }

  std::string table() const { return schema_->name() + ".outbox_event"; }
  const std::string& schema() const { return schema_->name(); }

  // Past the library.
  test::Sql& sql() { return *sql_; }

  std::shared_ptr<Store> open_store(Options options = {}) {
    return open_store_at(test::postgres_url(), std::move(options));
  }
  std::shared_ptr<Store> open_store_at(const std::string& url, Options options = {}) {
    options.table = table();
    if (!options.log) options.log = log_.log();
    return postgres::open(url, std::move(options));
  }

  testing::RecordingLog log_;

 private:
  std::unique_ptr<test::Schema> schema_;
  std::unique_ptr<test::Sql> sql_;
};

}  // namespace outbox::postgres
