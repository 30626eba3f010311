// What the tests of the PostgreSQL store share.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "outbox/error.h"
#include "outbox/event.h"
#include "outbox/postgres.h"
#include "outbox/testing.h"
#include "support/postgres.h"

namespace outbox::postgres {

using namespace std::chrono_literals;

// The message of the error of kind E that the work must throw.
template <class E, class Work>
std::string message_of(Work work) {
  try {
    work();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another kind of error: " << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

inline ::testing::AssertionResult contains(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "\"" << text << "\" does not contain \"" << part << "\"";
}

// Asks again until it holds, or for 20 seconds.
template <class Condition>
bool eventually(Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(5ms);
  }
  return true;
}

inline Event simple_event(const std::string& id, const std::string& payload = "{}") {
  EventFields fields;
  fields.id = id;
  fields.type = "Happened";
  fields.payload = json(payload);
  fields.occurred_at = fields.available_at = host_clock().now();
  return Event::restore(std::move(fields));
}

inline void write_event(Store& store, const Event& event) {
  const auto connection = store.connect();
  connection->begin();
  connection->insert({&event, 1}, {});
  connection->commit();
}

inline std::unique_ptr<Connection> begun(Store& store) {
  auto connection = store.connect();
  connection->begin();
  return connection;
}

inline std::vector<std::string> ids(const std::vector<Row>& rows) {
  std::vector<std::string> result;
  for (const Row& row : rows) result.push_back(row.event.id());
  return result;
}

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
