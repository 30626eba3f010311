// The in-memory store: for tests, and for events that need not outlive the process.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "outbox/admin/admin.h"
#include "outbox/clock.h"
#include "outbox/export.h"

namespace outbox::memory {

enum class OnDone { keep, remove };

struct Options {
  OnDone on_done = OnDone::keep;

  // Instances lease shards of the aggregates, as on a database server. At most 16 with concurrent
  // transactions.
  int shards = 16;

  // Transactions run concurrently, and may commit in another order than they began, as on a
  // database server. Otherwise each waits for the end of the one before.
  bool concurrent_transactions = false;

  std::size_t connections = 8;
  std::chrono::milliseconds wait_timeout{5'000};
  const Clock* clock = nullptr;  // null: host_clock()
};

// Does everything a database store does, leases and take-overs included, so that
// several engines of one process can share it.
// It has no SQL: execute() and query() throw MisuseError.
OUTBOX_EXPORT std::shared_ptr<Store> open(Options options = {});

// The events that purge() has archived, in that order, in place of a database's
// archive table. Throws MisuseError for another kind of store.
OUTBOX_EXPORT std::vector<EventRecord> archived(Store& store);

}  // namespace outbox::memory
