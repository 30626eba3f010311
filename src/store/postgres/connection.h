// The connection that a user's transaction runs on.
#pragma once

#include <memory>
#include <string>

#include "outbox/store.h"
#include "store/postgres/pool.h"

namespace outbox::postgres {

class Notifier;

// A connection from the pool. Used by one thread at a time.
class PooledConnection final : public Connection {
 public:
  // `notifier`: null if nobody is to be told of commits.
  PooledConnection(Lease lease, std::shared_ptr<Notifier> notifier);
  ~PooledConnection() override;
  PooledConnection(const PooledConnection&) = delete;
  PooledConnection& operator=(const PooledConnection&) = delete;

  void begin() override;
  void commit() override;
  void rollback() override;
  bool in_transaction() const override { return began_; }

  void savepoint(const std::string& name) override;
  void release(const std::string& name) override;
  void rollback_to(const std::string& name) override;

  std::int64_t execute(std::string_view sql, std::span<const Value> values) override;
  std::vector<ResultRow> query(std::string_view sql, std::span<const Value> values) override;
  std::vector<RowRef> insert(std::span<const Event> events, const InsertOptions& options) override;

  PGconn* handle() { return session().handle(); }

 private:
  const std::string& where() const { return lease_->environment().description; }
  Session& session();
  [[noreturn]] void throw_lost() const;
  void check_in_transaction(const char* call);

  const Lease lease_;
  const std::shared_ptr<Notifier> notifier_;
  bool began_ = false;
  bool inserted_ = false;  // events, in this transaction
};

}  // namespace outbox::postgres
