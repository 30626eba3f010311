// Keeps the table small: removes events that finished long enough ago.
//
//   outbox::Purger purger{store, {.done_retention = 24h, .archive = true}};
//   purger.start();          // now, and then every hour
//   purger.run_once();       // or just this once
//
// Delivered events need not be kept at all: the stores' `on_done` option
// deletes them at once, which is cheaper than purging them later.
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
  // Events that are NEW or RETRY are never removed, nor are DEAD ones that block their
  // aggregate (see OnDead).
  std::optional<std::chrono::seconds> done_retention{std::chrono::hours{7 * 24}};
  std::optional<std::chrono::seconds> dead_retention{std::chrono::hours{30 * 24}};

  // For append-only tables, which something other than an engine reads: removes
  // everything that occurred this long ago, delivered or not. If it is set, the
  // retentions above are ignored.
  std::optional<std::chrono::seconds> age{};

  // Stops subscriptions that have not finished an event which occurred this long ago, so that
  // what they have not received can be purged: see Admin::stop_lagging_subscriptions(). Nullopt:
  // they keep it for ever.
  std::optional<std::chrono::seconds> max_lag{};

  // Move rows to the table `<table>_archive` instead of deleting them. Nothing
  // reads or cleans that table.
  bool archive = false;

  // Rows that one transaction removes, and how long to leave the database to
  // its writers before the next one.
  std::size_t batch = 500;
  std::chrono::milliseconds pause{0};

  // From the end of one round to the beginning of the next, give or take a
  // tenth, so that many processes do not all run at once.
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

  // Runs one round in this thread. Errors of the store reach the caller; earlier
  // batches stay removed. A stop request ends the round after the current batch.
  Purged run_once(std::stop_token stop = {});

  // What run_once() would remove now.
  Purged preview();

  // Starts a thread that runs a round immediately and then at each interval. A failed
  // round is logged, and does not prevent the next one. Throws MisuseError when called
  // twice or after close().
  void start();

  // Ends the current round after its batch, and waits for that. Idempotent,
  // and fine without start(). Throws MisuseError in a callback of its own.
  void close();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace outbox
