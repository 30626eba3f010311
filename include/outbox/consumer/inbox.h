// Idempotent consumers whose effect is in a database.
//
// An outbox delivers at least once: after a crash an event may come again. The
// consumer records the events it has processed, in the same transaction as their
// effect:
//
//   outbox::Inbox inbox{store};                       // the consumer's own database
//   outbox::Writer writer{store};
//   auto tx = writer.begin();
//   inbox.once(tx, "billing", event.id(), [&] {
//     tx.execute("INSERT INTO invoices(order_id) VALUES (?)", event.aggregate_id());
//   });
//   tx.commit();
//
// or, as a listener that does all of that:
//
//   on.add("Order", "OrderPlaced", inbox.listener(writer, "billing",
//       [](outbox::Transaction& tx, const outbox::Event& event) { ... }));
//
// For effects outside a database see consumption.h; docs/patterns.md says which
// of them fits.
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <stop_token>
#include <string_view>
#include <utility>

#include "outbox/adapter/executor.h"
#include "outbox/event.h"
#include "outbox/export.h"
#include "outbox/listener.h"
#include "outbox/log.h"
#include "outbox/spi/store.h"
#include "outbox/transaction.h"
#include "outbox/writer.h"

namespace outbox {

// In code points. Ids may be longer than those of our own events: they may come
// from another system's.
inline constexpr std::size_t kMaxConsumerLength = 64;
inline constexpr std::size_t kMaxConsumedIdLength = 128;

struct InboxOptions {
  // How long records are kept after the effect. A repeat that comes later than
  // that has its effect a second time: keep them longer than any sender retries.
  std::chrono::seconds retention{std::chrono::hours{14 * 24}};

  // For start(): from the end of one purge to the beginning of the next, and how many
  // records one transaction removes.
  std::chrono::milliseconds purge_interval{std::chrono::hours{1}};
  std::size_t purge_batch = 500;

  Logger log{};  // empty: standard_error_log()
};

// The records of one database. Its tables come with the store's schema.
//
// Thread-safe. After fork() the child must not use it.
class OUTBOX_EXPORT Inbox {
 public:
  // Throws MisuseError if the store is null or has no SQL, or the options are
  // invalid.
  explicit Inbox(std::shared_ptr<Store> store, InboxOptions options = {});
  ~Inbox();  // closes
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

  // Calls `effect` unless this group of consumers has processed the event; returns whether it
  // was called. Record and effect are committed together, or not at all. If another
  // transaction is about to record the same event, waits until that has ended; throws
  // RetryableError if that takes too long, or if the database lets only one of them go on:
  // start over then.
  //
  // If the effect throws, the transaction is rolled back and over, so that nobody can
  // commit the record without its effect; the error reaches the caller.
  template <std::invocable Effect>
  bool once(Transaction& tx, std::string_view group, std::string_view event_id, Effect&& effect);

  // The same in a transaction of your own (see outbox::wrap() in postgres.h and the like):
  // true the first time, when the effect is up to you. If the effect
  // fails, roll back. Throws MisuseError if no transaction is open.
  [[nodiscard]] bool first(Connection& own, std::string_view group, std::string_view event_id);

  // The same, asynchronously, by an executor (adapter/executor.h): `done` is called once, when the
  // database has answered, with the error, or with whether this is the first time. The inbox must
  // live until then.
  using Answered = std::function<void(std::exception_ptr error, bool first)>;
  void first_async(AsyncExecutor executor, std::string_view group, std::string_view event_id,
                   Answered done);

  // A listener that begins a transaction of the writer, calls `effect` once for each
  // event, and commits. The effect must not end the transaction; it may write events in
  // it. The writer must be on this inbox's store, and outlive the listener, as must the
  // inbox. While the database is unreachable no attempts are spent (UnavailableError).
  std::shared_ptr<Listener> listener(
      Writer& writer, std::string_view group,
      std::function<void(Transaction& tx, const Event& event)> effect);

  // Forgets one event, so that its next delivery has its effect again; false if there
  // is no record of it. For operators.
  bool forget(std::string_view group, std::string_view event_id);

  // Removes the records that are older than the retention, in batches, and returns how many. A
  // stop request ends it after the current batch. start() does so regularly, on a thread of
  // its own; close() ends that.
  std::int64_t purge(std::stop_token stop = {});
  void start();
  void close();

 private:
  class Impl;

  // Rolls back, in whatever state it is.
  static void give_up(Transaction& tx) noexcept;

  std::unique_ptr<Impl> impl_;
};

// Lets only newer versions through: an event that is not newer than everything the group
// has seen of its aggregate is ignored. For consumers that hold a copy of
// the aggregate's state and must not go back in time.
//
//   if (guard.advance(tx, "search", "Article", id, version)) { ...replace the copy... }
//
// Keeps one row for each aggregate and group, for ever. Thread-safe.
class OUTBOX_EXPORT VersionGuard {
 public:
  // Throws MisuseError if the store is null or has no SQL.
  explicit VersionGuard(std::shared_ptr<Store> store);
  ~VersionGuard();
  VersionGuard(const VersionGuard&) = delete;
  VersionGuard& operator=(const VersionGuard&) = delete;

  // Whether the version is greater than all seen before. If so, it is recorded, once
  // the transaction commits. Two transactions with the same aggregate wait
  // for each other; RetryableError as in Inbox::once(). `own`: a connection with a
  // transaction of your own. Any version but the lowest std::int64_t is valid.
  [[nodiscard]] bool advance(Transaction& tx, std::string_view group,
                             std::string_view aggregate_type, std::string_view aggregate_id,
                             std::int64_t version);
  [[nodiscard]] bool advance(Connection& own, std::string_view group,
                             std::string_view aggregate_type, std::string_view aggregate_id,
                             std::int64_t version);

  // The same, asynchronously, as Inbox::first_async().
  using Answered = std::function<void(std::exception_ptr error, bool newer)>;
  void advance_async(AsyncExecutor executor, std::string_view group,
                     std::string_view aggregate_type, std::string_view aggregate_id,
                     std::int64_t version, Answered done);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// --- implementation of the templates ---

template <std::invocable Effect>
bool Inbox::once(Transaction& tx, std::string_view group, std::string_view event_id,
                 Effect&& effect) {
  if (!first(tx.connection(), group, event_id)) return false;
  try {
    std::forward<Effect>(effect)();
  } catch (...) {
    give_up(tx);
    throw;
  }
  return true;
}

}  // namespace outbox
