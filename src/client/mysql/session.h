// Statements on one connection, kept prepared.
#pragma once

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
#include "client/mysql/statement.h"
#include "outbox/spi/store.h"

namespace outbox::mysql {

// A MYSQL that somebody else owns. Prepares the library's statements on it when they
// are used. Used by one thread at a time.
//
// A statement that the server would not take for its size (max_allowed_packet) is
// refused with MisuseError before it is sent: sending it would cost the connection.
class Session {
 public:
  // A connection of the user's own may have any character set, which is what the server
  // takes prepared texts for; the literals of `never` say theirs.
  enum class Prepare { never, at_once };

  // `max_packet`: how many bytes a statement may have.
  Session(MYSQL* connection, std::shared_ptr<const SqlContext> context, std::size_t max_packet,
          Prepare prepare);

  MYSQL* handle() const { return connection_; }
  const SqlContext& context() const { return *context_; }
  bool broken() const;

  // How many bytes a statement may have.
  std::size_t max_packet() const { return max_packet_; }

  // Whether statements are kept prepared, or all are sent as text.
  bool prepares() const { return prepare_ != Prepare::never; }

  // As the server said with its last answer that was no error.
  bool in_transaction() const;

  // The last error; its number is 0 if there was none. Tells whether the transaction
  // that was open survived it.
  const Failure& last_failure() const { return last_failure_; }

  // One statement of sql.h, or a built one. Throws as throw_failure() does.
  Result run(const Sql& sql, const Parameters& parameters);
  template <class... Args>
  Result run(const Sql& sql, const Args&... args) {
    return run(sql, Parameters(args...));
  }
  Result run(const Built& statement);

  // One statement without parameters.
  Result run_text(std::string_view text, std::string_view purpose);

  // The same for a text that may fail in any way. False if it did.
  bool try_text(std::string_view text) noexcept;

  // Runs a text that undoes what has failed, if there is still anything to undo. The
  // last failure stays what it was unless the connection is lost.
  void undo(std::string_view text) noexcept;

  // How far apart the numbers are that AUTO_INCREMENT gives to the rows of an INSERT.
  std::int64_t auto_increment_step();

  // Whether the server shows commits to others before they are on its disk, and would not
  // if it could help it: InnoDB does without a binary log, for as long as the flush takes.
  // Not where it was told not to flush at every commit: that was somebody's choice.
  bool shows_commits_early();

  // A statement of the user's, with ? for the values.
  std::int64_t execute(std::string_view text, std::span<const Parameter> values);
  std::vector<ResultRow> query(std::string_view text, std::span<const Parameter> values);

  // Before somebody may have changed the default database: a prepared statement keeps that
  // in which it was prepared.
  void forget_user_statements() noexcept { recent_.clear(); }

  // What was before it has nothing to do with the transaction that has just begun.
  void forget_failure() { last_failure_ = {}; }

  // In a child made by fork(): leaves the statements to the parent, whose connection
  // must not see them closed.
  void abandon() noexcept;

 private:
  struct Kept {
    std::string text;
    StatementHandle handle;  // null: not prepared yet
  };

  // Of the user's. Only those without a result: the columns of one may change.
  struct UserStatement {
    std::string text;
    StatementHandle handle;
  };

  // Only users go by the names of columns.
  Result::Names names() const {
    return whose_ == Whose::users ? Result::Names::keep : Result::Names::leave;
  }
  Kept& kept(const Sql& sql);
  MYSQL_STMT* prepared(Kept& statement, const Sql& sql);
  StatementHandle new_statement(std::string_view purpose);
  Result run(MYSQL_STMT* statement, const Parameters& parameters, std::string_view purpose);
  Result finish(MYSQL_STMT* statement, std::string_view purpose);
  void check_character_set(std::span<const Parameter> values);
  Result run_user_statement(std::string_view text, std::span<const Parameter> values);
  void check_size(std::size_t bytes, std::string_view purpose) const;
  [[noreturn]] void fail(const Failure& failure, std::string_view purpose);

  MYSQL* const connection_;
  const std::shared_ptr<const SqlContext> context_;
  const std::size_t max_packet_;
  Prepare prepare_;
  Whose whose_ = Whose::ours;
  Failure last_failure_;
  std::int64_t auto_increment_step_ = 0;     // 0: not asked for yet
  std::optional<bool> shows_commits_early_;  // absent: likewise
  std::unordered_map<const Sql*, Kept> kept_;
  std::list<UserStatement> recent_;  // last used first
};

}  // namespace outbox::mysql
