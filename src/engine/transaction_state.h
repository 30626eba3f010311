// The open transaction behind Transaction and Savepoint.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "outbox/spi/store.h"
#include "outbox/writer.h"

namespace outbox::internal {

class OpenTransactions;

// A transaction of one writer, with what is to happen after it. Registered as the open one of the
// thread that began it until it is over or detached; of several, the newest counts. Used by one
// thread at a time, whichever.
class TransactionState {
 public:
  TransactionState(Writer& writer, std::unique_ptr<Connection> connection);
  ~TransactionState();
  TransactionState(const TransactionState&) = delete;
  TransactionState& operator=(const TransactionState&) = delete;

  // The innermost open transaction of this writer on this thread, or null.
  static TransactionState* find(const Writer& writer);

  Writer& writer() { return writer_; }
  bool over() const noexcept { return over_; }
  void detach();
  Connection& connection();

  std::size_t savepoint();
  void release(std::size_t depth);
  void rollback_to(std::size_t depth);

  void after_commit(std::function<void()> callback);
  void after_rollback(std::function<void()> callback);
  void wrote(std::vector<Written> events);

  void commit();
  void rollback();

 private:
  // What was registered since the savepoint of this level was set.
  struct Level {
    std::vector<std::function<void()>> after_commit{};
    std::vector<std::function<void()>> after_rollback{};
    std::vector<Written> events{};
  };

  void check_usable() const;
  void assign_row_refs();
  void undo_all();
  void undo(Level level);
  void run(const std::vector<std::function<void()>>& callbacks, const char* when) const;

  Writer& writer_;
  std::unique_ptr<Connection> connection_;
  const std::shared_ptr<OpenTransactions> open_;  // of the thread that began it
  std::vector<Level> levels_{1};                  // the first is the transaction itself
  bool over_ = false;
};

}  // namespace outbox::internal
