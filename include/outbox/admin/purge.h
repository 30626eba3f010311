// Keeps the table small: removes what has been finished for long enough.
//
//   outbox::Purger purger{store, {.done_retention = 24h, .archive = true}};
//   purger.start();          // now, and then every hour
//   purger.run_once();       // or just this once
//
// Events that are delivered need not be kept at all: the stores' `on_done`
// option deletes them at once, which is cheaper than to purge them later.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>

#include "outbox/export.h"
#include "outbox/log.h"
#include "outbox/spi/store.h"

namespace outbox {

struct PurgeOptions {
  // How long events stay after they became DONE, or DEAD; nullopt: for ever.
  // Events that are NEW or RETRY are never removed, nor DEAD ones for which their
  // aggregate waits (see OnDead).
  std::optional<std::chrono::seconds> done_retention{std::chrono::hours{7 * 24}};
  std::optional<std::chrono::seconds> dead_retention{std::chrono::hours{30 * 24}};

  // For tables that are only appended to, because something else than an engine
  // reads them: removes everything that occurred so long ago, delivered or not.
  // If it is set, the retentions above do not count.
  std::optional<std::chrono::seconds> age{};

  // Move rows to the table `<table>_archive` instead of deleting them. Nothing
  // reads or cleans that table.
  bool archive = false;

  // Rows that one transaction removes, and how long to leave the database to
  // the writers before the next one.
  std::size_t batch = 500;
  std::chrono::milliseconds pause{0};

  // From the end of one round to the beginning of the next, give or take a
  // tenth, so that many processes do not all come at once.
  std::chrono::milliseconds interval{std::chrono::hours{1}};

  Logger log{};  // empty: standard_error_log()
};

// How many rows were, or would be, removed; `aged` by PurgeOptions::age.
struct Purged {
  std::int64_t done = 0;
  std::int64_t dead = 0;
  std::int64_t aged = 0;

  std::int64_t total() const { return done + dead + aged; }
  friend bool operator==(const Purged&, const Purged&) = default;
};

// Removes old rows in batches, each a short transaction, until none is left.
// May run in several processes and beside the engines. Thread-safe.
class OUTBOX_EXPORT Purger {
 public:
  // Throws MisuseError if the store is null or the options are invalid.
  Purger(std::shared_ptr<Store> store, PurgeOptions options = {});
  ~Purger();  // closes
  Purger(const Purger&) = delete;
  Purger& operator=(const Purger&) = delete;

  // One round, here and now. Errors of the store reach the caller; the batches
  // before are done. A stop ends it after the batch under way.
  Purged run_once(std::stop_token stop = {});

  // What run_once() would remove now.
  Purged preview();

  // Begins with a round at once, on a thread of its own; rounds that fail are
  // logged, and the next one comes all the same. Throws MisuseError when called
  // twice or after close().
  void start();

  // Ends the round under way after its batch, and waits for that. Idempotent,
  // and fine without start(). Throws MisuseError in a callback of its own.
  void close();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace outbox
