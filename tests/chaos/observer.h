// What the supervisor sees of the database, through a connection of its own.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "oracle.h"

struct sqlite3;

namespace outbox::chaos {

// Reads only, apart from the tables that it creates. Used by one thread.
class Observer {
 public:
  // Opens the file, creates the outbox's and the application's tables.
  explicit Observer(const std::string& database);
  ~Observer();
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

  std::vector<Committed> committed();
  std::size_t pending();
  std::size_t dead();

  // The greatest number of deaths that any unfinished event is suspected of.
  std::int64_t most_crashes();

  // The process that owns the table, or owned it last; 0 before the first.
  pid_t owner();

  // A line for each event that is not DONE, up to a few.
  std::vector<std::string> unfinished();

 private:
  class Rows;
  std::int64_t number(const char* sql);

  struct Close {
    void operator()(sqlite3* db) const;
  };
  std::unique_ptr<sqlite3, Close> db_;
};

}  // namespace outbox::chaos
