// Keeps the tables of the patterns small.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>

#include "base/schedule.h"
#include "outbox/log.h"
#include "outbox/spi/store.h"

namespace outbox::internal {

// Which rows go. The texts are SQL as dialect.h spells it.
struct OldRowsOptions {
  std::string what{};       // for messages: "inbox"
  std::string table{};      // "{inbox}"
  std::string key{};        // its columns: "consumer, event_id"
  std::string since{};      // the column with the time that they age from; indexed
  std::string condition{};  // what else must hold, without values; empty: nothing

  std::chrono::seconds retention{};
  std::chrono::milliseconds interval{};  // see Schedule
  std::size_t batch = 500;
  Logger log{};  // not empty
};

// Removes rows whose retention is over by the database's clock, the oldest first. Rows that
// are younger by then are left alone, even if they change meanwhile. May run in several
// processes. Thread-safe.
class OldRows {
 public:
  // Throws MisuseError that names the option as a member of `options_name` if
  // retention, interval or batch is not positive, or if the store speaks no SQL.
  OldRows(std::shared_ptr<Store> store, OldRowsOptions options, const std::string& options_name);

  // Until none is left, or a stop, which ends it after the batch under way; how many. Each
  // batch is a transaction of its own.
  std::int64_t purge(const std::stop_token& stop);

  // For start() and close(): purges now and then, and logs how many.
  Schedule& schedule() { return schedule_; }

 private:
  // Constant after construction.
  const std::shared_ptr<Store> store_;
  const OldRowsOptions options_;
  const std::string find_;
  const std::string remove_;

  Schedule schedule_;  // last: its thread uses the others
};

}  // namespace outbox::internal
