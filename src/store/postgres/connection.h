// The connection that a user's transaction runs on.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "outbox/spi/store.h"
#include "store/common/first_failure.h"
#include "store/postgres/database.h"
#include "store/postgres/rows.h"

namespace outbox::postgres {

class Notifier;

// A connection from the pool. Used by one thread at a time.
class PooledConnection final : public Connection {
 public:
  // `notifier`: null if nobody is to be told of commits.
  PooledConnection(PoolHandle handle, std::shared_ptr<Notifier> notifier);
  ~PooledConnection() override;
  PooledConnection(const PooledConnection&) = delete;
  PooledConnection& operator=(const PooledConnection&) = delete;

  void begin() override;
  void commit() override;
  void rollback() override;
  bool in_transaction() const override { return phase_ != Phase::none; }

  void savepoint(const std::string& name) override;
  void release(const std::string& name) override;
  void rollback_to(const std::string& name) override;

  std::int64_t execute(std::string_view sql, std::span<const Parameter> values) override;
  std::vector<ResultRow> query(std::string_view sql, std::span<const Parameter> values) override;
  std::vector<RowRef> insert(std::span<const Event> events, const InsertOptions& options) override;
  std::vector<RowRef> deferred_rows() const override { return refs_; }

  PGconn* handle();

 private:
  // The server hears of a transaction with its first statement: that saves a round
  // trip.
  enum class Phase { none, announced, open };

  const std::string& where() const { return handle_->config().description; }
  template <class Use>
  auto use_session(const Use& use);
  template <class Use>
  auto use_new_or_open(const Use& use);
  void script(const std::string& text, const std::string& purpose);
  void end_transaction() noexcept;
  [[noreturn]] void throw_lost() const;
  void check_in_transaction(const char* call);
  bool commit_with_events();
  void insert_now();

  const PoolHandle handle_;
  const std::shared_ptr<Notifier> notifier_;
  Phase phase_ = Phase::none;
  bool inserted_ = false;  // events, in this transaction
  FirstFailure failure_;   // that the transaction cannot be committed after

  // With insert_at_commit: what is to be inserted; where what was put off landed; and
  // how many of those there were when a savepoint was set.
  struct SavepointMark {
    std::string savepoint;
    std::size_t refs;
  };
  std::vector<Insertion> waiting_;
  std::vector<RowRef> refs_;
  std::vector<SavepointMark> savepoints_;
};

}  // namespace outbox::postgres
