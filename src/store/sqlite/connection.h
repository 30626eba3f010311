// What inserts events, and the connection that a user's transaction runs on.
#pragma once

#include <memory>

#include "outbox/spi/store.h"
#include "store/common/connection.h"
#include "store/sqlite/store_config.h"

namespace outbox::sqlite {

// Inserts all events or, if it throws, none. Throws MisuseError that names the
// id if one is in the table already. A transaction must be open.
std::vector<RowRef> insert_rows(Session& session, std::span<const Event> events,
                                const InsertOptions& options);

// A connection from the pool. Used by one thread at a time.
class PooledConnection final : public Connection {
 public:
  explicit PooledConnection(PoolHandle handle) : handle_(std::move(handle)) {}

  void begin() override;
  void commit() override;
  void rollback() override;
  bool in_transaction() const override { return database().began(); }

  void savepoint(const std::string& name) override;
  void release(const std::string& name) override;
  void rollback_to(const std::string& name) override;

  std::int64_t execute(std::string_view sql, std::span<const Parameter> values) override;
  std::vector<ResultRow> query(std::string_view sql, std::span<const Parameter> values) override;
  std::vector<RowRef> insert(std::span<const Event> events, const InsertOptions& options) override;

  sqlite3* handle() const { return database().handle(); }

 private:
  Database& database() const { return *handle_; }
  void check_usable() const;
  void check_in_transaction(const char* call) const;
  template <class Work>
  auto run_statement(std::string_view sql, std::span<const Parameter> values, Work work);

  // Runs the work, and notes whether SQLite has rolled the transaction back after it.
  template <class Work>
  auto watched(Work work);

  const PoolHandle handle_;
  FirstFailure failure_;  // that made SQLite do so
};

}  // namespace outbox::sqlite
