// What the tests of each store do with it.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "outbox/admin/admin.h"
#include "outbox/clock.h"
#include "outbox/error.h"
#include "outbox/event.h"

namespace outbox::test {

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
  using namespace std::chrono_literals;
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(5ms);
  }
  return true;
}

// Tries again until it works: at most the longest pause between attempts to connect.
template <class Work>
bool works_again(Work work) {
  return eventually([&] {
    try {
      work();
      return true;
    } catch (const RetryableError&) {
      return false;
    }
  });
}

inline Event simple_event(const std::string& id, const std::string& payload = "{}") {
  EventFields fields;
  fields.id = id;
  fields.type = "Happened";
  fields.payload = json(payload);
  fields.occurred_at = fields.available_at = host_clock().now();
  return Event::restore(std::move(fields));
}

// A connection with a transaction on it.
inline std::unique_ptr<Connection> begun(Store& store) {
  auto connection = store.connect();
  connection->begin();
  return connection;
}

inline void write_event(Store& store, const Event& event) {
  const auto connection = begun(store);
  connection->insert({&event, 1}, {});
  connection->commit();
}

inline std::vector<std::string> ids(const std::vector<outbox::Row>& rows) {
  std::vector<std::string> result;
  for (const outbox::Row& row : rows) result.push_back(row.event.id());
  return result;
}

}  // namespace outbox::test
