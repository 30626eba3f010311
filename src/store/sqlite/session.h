// The statements that are kept prepared on one connection.
#pragma once

#include <list>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "outbox/store.h"
#include "store/sqlite/environment.h"
#include "store/sqlite/statement.h"

namespace outbox::sqlite {

// A sqlite3* that somebody else owns, with the library's statements on it and
// the last few of the user's. Prepares each on first use.
//
// Must be destroyed before the handle is closed. Used by one thread at a time.
class Session {
 public:
  Session(sqlite3* db, EnvironmentPtr environment);

  sqlite3* handle() const { return db_; }
  const Environment& environment() const { return *environment_; }
  const EnvironmentPtr& shared_environment() const { return environment_; }

  // Whether SQLite is inside a transaction.
  bool in_transaction() const { return sqlite3_get_autocommit(db_) == 0; }

  // One of the statements in sql.h.
  Statement& operator[](const Sql& sql);

  // A statement of the user's. Throws MisuseError if it is wrong, begins or
  // ends a transaction, or takes another number of values.
  Statement& user_statement(std::string_view text, std::size_t values);

  std::int64_t execute(std::string_view text, std::span<const Value> values);
  std::vector<ResultRow> query(std::string_view text, std::span<const Value> values);

 private:
  struct UserStatement {
    std::string text;
    Statement statement;
  };

  sqlite3* const db_;
  const EnvironmentPtr environment_;
  std::unordered_map<const Sql*, Statement> kept_;
  std::list<UserStatement> recent_;  // last used first
};

}  // namespace outbox::sqlite
