// What the supervisor sees of the database, through a connection of its own.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "database.h"
#include "harness/verdict.h"

namespace outbox::chaos {

// Reads only, apart from the tables that it creates. Waits while the server is
// away, for a minute at most. Used by one thread.
class Observer {
 public:
  // Creates the outbox's and the application's tables. The database outlives it.
  explicit Observer(Database& database);
  ~Observer();
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

  std::vector<harness::Committed> committed();

  // The same, where the application has no table of its own: what is in the outbox.
  std::vector<harness::Committed> written();

  std::size_t events();
  std::size_t pending();
  std::size_t dead();

  // The greatest number of deaths that any unfinished event is isolated of.
  std::int64_t most_crashes();

  // The processes that own events, or owned them last.
  std::vector<pid_t> owners();

  // Unfinished events that are claimed by instances that are not registered any more.
  std::size_t locks_of_the_dead();

  // How often an instance that lived on had lost what it owned, and came back.
  // Only where it is noted; see note_registrations().
  std::size_t lost_leases();

  // Has the database note when an instance registers. On servers only.
  void note_registrations();

  // A line for each event that is not DONE, up to a few.
  std::vector<std::string> unfinished();

 private:
  std::vector<ResultRow> query(std::string sql);
  std::int64_t number(const std::string& sql);

  Database& database_;
  const std::shared_ptr<Store> store_;
  const std::unique_ptr<OwnConnection> own_;
  bool noted_ = false;
};

}  // namespace outbox::chaos
