// Writes events in the transaction of the change that they report.
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

  // Written on a connection of the user's own: its commit may never be reported.
  bool own_connection = false;

  // With row claims: the row was inserted as claimed by the instance that wrote
  // it.
  bool claimed = false;

  // When the INSERT had returned: a delay ends no later than this plus the delay.
  Clock::Steady inserted_at{};
};

// Sees events on their way into the table. Called on the writing thread; may
// be shared by several writers, so it must be thread-safe.
class OUTBOX_EXPORT WriterHook {
 public:
  virtual ~WriterHook() = default;

  // May change, add or remove drafts. Throwing aborts the write.
  virtual void before_write(std::vector<Draft>& /*drafts*/) {}

  // Exceptions from the functions below are logged and swallowed.
  virtual void after_write(std::span<const Written> /*events*/) {}
  virtual void after_commit(std::span<const Written> /*events*/) {}

  // After a rollback of the transaction or a savepoint. After an unknown outcome,
  // outcome_unknown() is called instead.
  virtual void after_rollback(std::span<const Written> /*events*/) {}
  virtual void outcome_unknown(std::span<const Written> /*events*/) {}
};

// Returned by write() on a connection of your own: the library cannot see how that
// transaction ends, so tell it. If you don't, the outcome counts as unknown, which is safe: if the
// rows exist, the poller finds them a little later. Only these calls tell hooks how it ended.
//
// Copies stand for the same events: use one. Not thread-safe, but may move between threads.
class OUTBOX_EXPORT WriteToken {
 public:
  WriteToken(std::vector<Written> events, std::vector<std::shared_ptr<WriterHook>> hooks,
             Logger log);

  const std::vector<std::string>& ids() const noexcept { return ids_; }

  // Call after COMMIT has returned: delivery starts at once, and WriterHook::after_commit() is
  // called. If COMMIT failed and its outcome is unknown, call neither.
  void committed();

  // Call after a rollback, of the transaction or of the savepoint that the events were written in:
  // WriterHook::after_rollback() is called.
  //
  // Only the first call counts.
  void rolled_back();

 private:
  void tell(void (WriterHook::*member)(std::span<const Written>));

  std::vector<std::string> ids_;
  std::vector<Written> events_;
  std::vector<std::shared_ptr<WriterHook>> hooks_;
  Logger log_;
};

struct WriterOptions {
  // Called in this order (after_commit and the like, too).
  std::vector<std::shared_ptr<WriterHook>> hooks{};

  // With row claims: the owner that the rows are inserted as claimed by. An empty function,
  // or an empty name, leaves them free.
  std::function<std::string()> claim_owner{};

  // The watch of an engine that hears of commits from the hooks; see InsertOptions::told.
  std::function<const Watch*()> told{};

  // Empty: standard_error_log().
  Logger log{};
};

// Begins transactions and writes events in them. It knows the open transaction
// of each thread, so you need not pass it down the call stack. Programs whose work
// moves between threads (Asio, thread pools) pass the Transaction on instead, see there.
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

  // A separate transaction, even if this thread has others open: the innermost is the
  // thread's open one until it ends, then the one around it again. It takes a connection
  // of its own, sees no changes of the others, and must not need their locks: it
  // would wait for its own thread. Throws MisuseError if one is open and the store has one
  // writer at a time, as SQLite does.
  Transaction begin_new();

  bool in_transaction() const;

  // Write in this thread's open transaction and return the ids, in order.
  // Throw MisuseError if there is none (even for an empty list) or if
  // a draft is invalid; nothing is written then. If a hook removes the event,
  // write() returns an empty id.
  std::string write(Draft draft);
  std::string write(const Name& type, std::string json_payload);
  std::vector<std::string> write_all(std::vector<Draft> drafts);

  // The same in a transaction on a connection of your own, which the library never begins or ends:
  // see outbox::wrap() in postgres.h, mysql.h, sqlite.h and the headers of adapter/, and
  // write_async() in adapter/executor.h.
  WriteToken write(Connection& own, Draft draft);
  WriteToken write_all(Connection& own, std::vector<Draft> drafts);

  Store& store() const { return *store_; }

 private:
  friend class internal::TransactionState;
  friend class internal::AsyncWrite;
  friend class Transaction;

  // The drafts as the hooks leave them, as events.
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
