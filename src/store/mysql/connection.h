// What inserts events, and the connection that a user's transaction runs on.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "client/mysql/session.h"
#include "model/event_row.h"
#include "outbox/error.h"
#include "outbox/event.h"
#include "outbox/spi/json_codec.h"
#include "outbox/spi/store.h"
#include "store/common/connection.h"
#include "store/mysql/sql.h"
#include "store/mysql/store_config.h"

namespace outbox::mysql {

// The shard that the table's generated column puts an event into.
int shard_of(const Event& event);

// Inserts the events in the open transaction. Throws MisuseError that names the id if
// one is in the table already.
std::vector<RowRef> insert_rows(Session& session, std::span<const Event> events,
                                const InsertOptions& options);

// An INSERT of the first of these events, as many as one statement takes, for somebody else to run:
// in plain ASCII, with the addresses that the rows will have but for their seq.
struct InsertText {
  std::string sql{};
  std::vector<RowRef> refs{};
};
InsertText insert_text(const StoreConfig& config, std::span<const Event> events,
                       const InsertOptions& options);

// A connection from the pool. Used by one thread at a time.
//
// The server rolls a transaction back by itself (a deadlock), or commits it (a statement
// that changes tables), and runs what follows outside of it. Here nothing follows:
// after the first the transaction can only be rolled back, after the second it is over.
class PooledConnection final : public Connection {
 public:
  explicit PooledConnection(PoolHandle handle);
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

  std::int64_t execute(std::string_view sql, std::span<const Parameter> values) override;
  std::vector<ResultRow> query(std::string_view sql, std::span<const Parameter> values) override;

  std::vector<RowRef> insert(std::span<const Event> events, const InsertOptions& options) override;

  // Its user may change the default database.
  MYSQL* handle() {
    session().forget_user_statements();
    return session().handle();
  }

 private:
  // Runs work(session) in what is open, and watches what becomes of it.
  template <class Work>
  auto watched(Work work);

  void check_in_transaction(const char* call) const;
  const std::string& where() const { return config_of(*handle_).description; }
  Session& session();
  [[noreturn]] void throw_lost() const;
  [[noreturn]] void throw_rolled_back() const;

  const PoolHandle handle_;
  bool began_ = false;
  bool rolled_back_ = false;  // by the server, or perhaps
  FirstFailure failure_;      // that did so
};

template <class Work>
auto PooledConnection::watched(Work work) {
  Session& current = session();
  try {
    auto result = work(current);
    if (began_ && !current.in_transaction()) {
      began_ = false;
      throw MisuseError("a statement committed the transaction (" + where() +
                        "): DDL does so in MySQL; run them outside of "
                        "transactions");
    }
    return result;
  } catch (const Error&) {
    if (current.last_failure().ended_transaction()) {
      rolled_back_ = true;
      failure_.note();
    }
    throw;
  }
}

}  // namespace outbox::mysql
