// Writes events in the transaction that they belong to.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "outbox/clock.h"
#include "outbox/event.h"
#include "outbox/export.h"
#include "outbox/log.h"
#include "outbox/spi/store.h"
#include "outbox/transaction.h"

namespace outbox {

namespace internal {
class AsyncWrite;
}

// An event and the row that holds it.
struct Written {
  Event event;
  RowRef row{};

  // Written on a connection of the user's own: its commit may never be told.
  bool own_connection = false;

  // With row claims: the row was inserted as claimed by the instance that wrote
  // it.
  bool claimed = false;

  // When the row was in the table: its delay is over by then plus the delay.
  Clock::Steady inserted_at{};
};

// Sees events on their way into the table. Called on the writing thread; may
// be shared by several writers, so it must be thread-safe.
class OUTBOX_EXPORT WriterHook {
 public:
  virtual ~WriterHook() = default;

  // May change, add or remove drafts. Throwing aborts the write.
  virtual void before_write(std::vector<Draft>& /*drafts*/) {}

  // What these three throw is logged and goes no further.
  virtual void after_write(std::span<const Written> /*events*/) {}
  virtual void after_commit(std::span<const Written> /*events*/) {}

  // After a rollback, or of a savepoint; never after an unknown outcome: then
  // outcome_unknown() is called.
  virtual void after_rollback(std::span<const Written> /*events*/) {}
  virtual void outcome_unknown(std::span<const Written> /*events*/) {}
};

// What write() on a connection of the user's own gives: the library cannot see how that
// transaction ends, so tell it. Saying nothing means that nobody knows, and is safe: if the rows
// exist, the reader finds them a little later. Hooks hear of an end only by these calls.
//
// Copies tell of the same events: use one. Not thread-safe, but free to travel.
class OUTBOX_EXPORT WriteToken {
 public:
  WriteToken(std::vector<Written> events, std::vector<std::shared_ptr<WriterHook>> hooks,
             Logger log);

  const std::vector<std::string>& ids() const noexcept { return ids_; }

  // Call after COMMIT has returned: delivery starts at once, and WriterHook::after_commit() is
  // called. If it has failed and nobody can tell whether it happened, call neither.
  void committed();

  // Call after a rollback, of the transaction or of the savepoint that the events were written in:
  // WriterHook::after_rollback() is called.
  //
  // Of several calls the first one counts.
  void rolled_back();

 private:
  void tell(void (WriterHook::*member)(std::span<const Written>));

  std::vector<std::string> ids_;
  std::vector<Written> events_;
  std::vector<std::shared_ptr<WriterHook>> hooks_;
  Logger log_;
};

struct WriterOptions {
  // Called in this order (after_commit and the like too).
  std::vector<std::shared_ptr<WriterHook>> hooks{};

  // With row claims: who the rows are inserted as claimed by; an empty name,
  // or none at all, leaves them free.
  std::function<std::string()> claim_owner{};

  // Empty: standard_error_log().
  Logger log{};
};

// Begins transactions and writes events in them. It knows the open transaction
// of each thread, so that code deep below begin() need not be handed it. Programs whose work
// moves between threads (Asio, thread pools) hand the Transaction on instead, see there.
//
// Thread-safe. After fork() the child must not use it.
class OUTBOX_EXPORT Writer {
 public:
  explicit Writer(std::shared_ptr<Store> store, WriterOptions options = {});
  ~Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // Throws MisuseError if this thread has an open transaction already.
  Transaction begin();

  // A transaction of its own, also if this thread has others open: the innermost is the
  // thread's open one until it ends, then the one around it again. It takes a connection
  // of its own, sees nothing of the others, and must not need what they have locked: it
  // would wait for its own thread. Throws MisuseError if one is open and the store has one
  // writer at a time, as SQLite has.
  Transaction begin_new();

  bool in_transaction() const;

  // Write in this thread's open transaction and return the ids, in order.
  // Throw MisuseError at once if there is none (also for an empty list) or if
  // a draft is wrong; nothing is written then. If a hook removes the event,
  // write() returns an empty id.
  std::string write(Draft draft);
  std::string write(const Name& type, std::string json_payload);
  std::vector<std::string> write_all(std::vector<Draft> drafts);

  // The same in a transaction on a connection of the user's own, which this never begins or ends:
  // see outbox::wrap() in postgres.h, mysql.h, sqlite.h and the headers of adapter/, and
  // write_async() in adapter/executor.h.
  WriteToken write(Connection& own, Draft draft);
  WriteToken write_all(Connection& own, std::vector<Draft> drafts);

  Store& store() const { return *store_; }

 private:
  friend class internal::TransactionState;
  friend class internal::AsyncWrite;
  friend class Transaction;

  // What is left of the drafts by the hooks.
  std::vector<Event> events_of(std::vector<Draft> drafts) const;
  std::vector<Written> insert(Connection& connection, std::vector<Draft> drafts,
                              bool own_connection);
  std::vector<std::string> write_in(internal::TransactionState& state, std::vector<Draft> drafts);
  internal::TransactionState& open_transaction(const char* call) const;
  void check_process() const;

  // Constant after construction.
  const std::shared_ptr<Store> store_;
  const Clock& clock_;
  const WriterOptions options_;
  const int pid_;
};

}  // namespace outbox
