// From the draft to the commit: an open transaction, and what its end sets off.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/rate_limit.h"
#include "base/thread.h"
#include "engine/engine.h"
#include "outbox/log.h"
#include "outbox/spi/store.h"
#include "outbox/writer.h"

namespace outbox::internal {

// Calls one member of every hook, in order; what they throw is logged, and does not reach the
// caller.
void call_hooks(std::span<const std::shared_ptr<WriterHook>> hooks, const Logger& log,
                void (WriterHook::*member)(std::span<const Written>),
                const std::vector<Written>& events);

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

// With order a commit merely wakes the reader, which alone admits events. Without, the event goes
// from memory into the hot queue; it is reserved before its row can be visible, so that the reader
// cannot take it as well.
//
// Thread-safe.
class CommitHook final : public WriterHook {
 public:
  // `wake`, which may be empty, wakes the reader of an engine without a poller of its own.
  explicit CommitHook(std::shared_ptr<Engine> engine, std::function<void()> wake = {});

  void after_write(std::span<const Written> events) override;
  void after_commit(std::span<const Written> events) override;
  void after_rollback(std::span<const Written> events) override;
  void outcome_unknown(std::span<const Written> events) override;

 private:
  bool takes(const Written& written) const;
  void leave_to_reader(const Written& written);
  void read_left_behind(const Written& written);
  void refuse(const Event& event);
  bool was_refused(const Event& event);
  Clock::Steady due(const Written& written) const;

  // Constant after construction.
  const std::shared_ptr<Engine> engine_;
  const std::function<void()> wake_;
  const Engine::Direct direct_;
  const Clock& clock_;
  const Logger log_;

  RateLimit warnings_{std::chrono::seconds{10}};

  // Of open transactions: those that could not be reserved. Hardly ever any.
  Atomic<bool> any_refused_{false};
  Mutex mutex_;
  std::set<std::string> refused_ OUTBOX_GUARDED_BY(mutex_);
};

}  // namespace outbox::internal
