// Prepared statements, one run of them, and those that are kept on a connection.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/sql_text.h"
#include "client/sqlite/handle.h"
#include "outbox/spi/store.h"

namespace outbox::sqlite {

// A statement of the library's own; sql.h lists them. `purpose` completes
// "cannot ..." in an error. Statements are kept by the address of this object.
struct Sql {
  std::string_view purpose;
  std::string_view text;
};

// Bytes, where a plain string_view is text.
struct Bytes {
  std::string_view data;
};

// A prepared statement. `where` names the database in errors and must outlive
// it, as must `users`. Used by one thread at a time.
class Statement {
 public:
  // Throws as throw_failure() does if the text is wrong, and MisuseError if it holds more or less
  // than one statement. `users`: it is a user's, on a session of this context.
  Statement(sqlite3* db, std::string_view text, std::string purpose, const std::string& where,
            const SqlContext* users = nullptr);

  int parameters() const { return sqlite3_bind_parameter_count(handle_.get()); }
  bool read_only() const { return sqlite3_stmt_readonly(handle_.get()) != 0; }

 private:
  friend class Run;

  [[noreturn]] void fail(Whose whose) const;
  Whose whose() const;

  sqlite3* db_;
  StatementHandle handle_;
  std::string purpose_;
  const std::string* where_;
  const SqlContext* users_;
};

// One run of a statement: bound, stepped and, at the end, reset, which is what
// ends SQLite's read transaction. What is bound must outlive the run, and each
// run binds all parameters. Used by one thread at a time.
class Run {
 public:
  template <class... Args>
  explicit Run(Statement& statement, const Args&... args) : statement_(statement) {
    bind_all(args...);
  }
  ~Run() { sqlite3_reset(handle()); }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  // Parameters count from 1.
  void bind(int index, std::nullptr_t);
  void bind(int index, std::int64_t value);
  void bind(int index, std::string_view text);
  void bind(int index, Bytes bytes);
  void bind(int index, double value);
  void bind_value(int index, const Parameter& value);
  template <std::integral T>
  void bind(int index, T value) {
    bind(index, static_cast<std::int64_t>(value));
  }
  template <class T>
  void bind(int index, const std::optional<T>& value) {
    value ? bind(index, *value) : bind(index, nullptr);
  }

  template <class... Args>
  void bind_all(const Args&... args) {
    [[maybe_unused]] int index = 0;
    (bind(++index, args), ...);
  }

  // True if there is a row to be read, false at the end. Throws as
  // throw_failure() does.
  bool step();

  // As step(), for those who want to look at the primary result code first.
  int try_step() { return sqlite3_step(handle()) & 0xff; }
  [[noreturn]] void fail() { statement_.fail(statement_.whose()); }

  // For a COMMIT of the user's transaction.
  [[noreturn]] void fail_as_users() { statement_.fail(Whose::users); }

  // Runs to the end; how many rows were changed.
  std::int64_t finish();

  // Columns count from 0. Views last until the next step. Text of NULL is
  // empty.
  int columns() const { return sqlite3_column_count(handle()); }
  std::vector<std::string> column_names() const;
  int type(int column) const { return sqlite3_column_type(handle(), column); }
  bool is_null(int column) const { return type(column) == SQLITE_NULL; }
  std::int64_t integer(int column) const { return sqlite3_column_int64(handle(), column); }
  std::string_view text(int column) const;
  std::string_view bytes(int column) const;
  std::optional<std::string_view> optional_text(int column) const {
    return is_null(column) ? std::nullopt : std::optional(text(column));
  }
  std::optional<std::int64_t> optional_integer(int column) const {
    return is_null(column) ? std::nullopt : std::optional(integer(column));
  }
  Value value(int column) const;

 private:
  sqlite3_stmt* handle() const { return statement_.handle_.get(); }
  void check_bind(int code);

  Statement& statement_;
};

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
