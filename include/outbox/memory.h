// A store in memory: for tests, and for what need not outlive the process.
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

  // As in a database server: instances lease shards of the aggregates. At most 16 with concurrent
  // transactions.
  int shards = 16;

  // As in a database server: transactions run at the same time, and commit in another order than
  // they began. Otherwise one waits for the end of the other.
  bool concurrent_transactions = false;

  std::size_t connections = 8;
  std::chrono::milliseconds wait_timeout{5'000};
  const Clock* clock = nullptr;  // null: host_clock()
};

// Everything a database store does, leases and take-overs included, so that
// several engines of one process can share it.
// It knows no SQL: execute() and query() throw MisuseError.
OUTBOX_EXPORT std::shared_ptr<Store> open(Options options = {});

// What purge() put into the archive, in that order: where a database has its
// archive table. Throws MisuseError for another kind of store.
OUTBOX_EXPORT std::vector<EventRecord> archived(Store& store);

}  // namespace outbox::memory
