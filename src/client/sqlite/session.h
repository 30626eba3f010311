// The statements that are kept prepared on one connection.
#pragma once

#include <list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/sql_text.h"
#include "client/sqlite/statement.h"
#include "outbox/spi/store.h"

namespace outbox::sqlite {

// A sqlite3* that somebody else owns, with the library's statements on it and
// the last few of the user's. Prepares each on first use.
//
// Must be destroyed before the handle is closed. Used by one thread at a time.
class Session {
 public:
  Session(sqlite3* db, std::shared_ptr<const SqlContext> context);

  sqlite3* handle() const { return db_; }
  const std::shared_ptr<const SqlContext>& context() const { return context_; }

  // Whether SQLite is inside a transaction.
  bool in_transaction() const { return sqlite3_get_autocommit(db_) == 0; }

  // One of the statements in sql.h.
  Statement& operator[](const Sql& sql);

  // A statement of the user's. Throws DatabaseError if it is wrong, MisuseError if it begins or
  // ends a transaction or takes another number of values.
  Statement& user_statement(std::string_view text, std::size_t values);

  std::int64_t execute(std::string_view text, std::span<const Parameter> values);
  std::vector<ResultRow> query(std::string_view text, std::span<const Parameter> values);

 private:
  struct UserStatement {
    std::string text;
    Statement statement;
  };

  sqlite3* const db_;
  const std::shared_ptr<const SqlContext> context_;
  std::unordered_map<const Sql*, Statement> kept_;
  std::list<UserStatement> recent_;  // last used first
};

}  // namespace outbox::sqlite
