// Rows whose status and hold contradict each other.
#pragma once

#include <cstdint>
#include <string>

#include "client/sqlite/statement.h"
#include "store/sqlite/database.h"

namespace outbox::sqlite {

// Any program may edit the table, and triggers can be switched off. Such a row is in no
// read of the engine's, so that it stops nobody but itself; it is counted and reported.
// Costs as much as there are of them, whatever the size of the table.
std::int64_t count_broken_rows(Database& database);

// What is wrong with the row that the run stands on; empty if nothing.
std::string contradiction(const Run& run, int status_column, int hold_column);

// Tells the log when there are more than before. Used by one thread at a time.
class BrokenRowsReport {
 public:
  // At most now and then, by the injected steady clock.
  void look(Database& database);

  // At once.
  void report(Database& database);

 private:
  Clock::Steady next_look_ = Clock::Steady::min();
  std::int64_t reported_ = 0;
};

}  // namespace outbox::sqlite
