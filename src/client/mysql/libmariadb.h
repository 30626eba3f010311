// libmariadb's handles in typed holders, and what its errors mean.
#pragma once

#include <mysql.h>

#include <memory>
#include <string>
#include <string_view>

#include "base/handle.h"
#include "base/sql_text.h"

namespace outbox::mysql {

using ConnectionHandle = std::unique_ptr<MYSQL, Destroyer<mysql_close>>;
using ResultHandle = std::unique_ptr<MYSQL_RES, Destroyer<mysql_free_result>>;
using StatementHandle = std::unique_ptr<MYSQL_STMT, Destroyer<mysql_stmt_close>>;

// What the server or the library complained of.
struct Failure {
  unsigned number = 0;
  std::string state{};
  std::string text{};

  static Failure of(MYSQL* connection);
  static Failure of(MYSQL_STMT* statement);

  // Whether the connection is of no more use.
  bool lost_connection() const;

  // Whether the open transaction is, or may be, rolled back by now. Statements after
  // that would be committed one by one.
  bool ended_transaction() const;

  // Whether the server answers, but is of no use: a replica, a node that lost its cluster,
  // or one that is being stopped. Another host may be.
  bool not_ready() const;

  // Of a COMMIT that failed: whether it certainly did not happen. A server that was cut off,
  // stopped or interrupted may have committed, or may do so yet when its cluster is back.
  bool undoes_commit() const;

  // Whether a prepared statement was unknown to the server.
  bool lost_statements() const;
};

// Throws what the failure of a statement means for the caller: RetryableError for what passes;
// else DatabaseError if it was the user's, PermanentError or MisuseError if not. `doing` completes
// "cannot ..."; `where` names the database.
[[noreturn]] void throw_failure(const Failure& failure, std::string_view doing,
                                std::string_view where, Whose whose = Whose::ours);

// For a connection that could not be made.
[[noreturn]] void throw_not_connected(const Failure& failure, std::string_view where);

}  // namespace outbox::mysql
