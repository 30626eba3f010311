#include "client/sqlite/handle.h"

#include <cerrno>
#include <cstring>
#include <string>

#include "base/quote.h"
#include "outbox/error.h"

namespace outbox::sqlite {
namespace {

// `refused`: the statement, not the database, is to blame.
enum class Kind { retryable, permanent, refused, misuse };

struct ErrorClass {
  Kind kind;
  const char* hint;
};

// Out of file descriptors is a bad moment, not a bad database.
bool out_of_files(sqlite3* db) {
  const int system_error = sqlite3_system_errno(db);
  return system_error == EMFILE || system_error == ENFILE;
}

ErrorClass meaning_of(sqlite3* db, int code) {
  if (code == SQLITE_BUSY_SNAPSHOT) {
    return {Kind::retryable,
            "another connection wrote after this transaction had begun to read; start it with "
            "BEGIN IMMEDIATE"};
  }
  switch (code & 0xff) {
    case SQLITE_BUSY:
      return {Kind::retryable,
              "another process or connection kept the database locked for longer than "
              "sqlite::Options::wait_timeout; end its transaction or raise the limit"};
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
      return {Kind::retryable, "another connection kept the database locked; try again"};
    case SQLITE_FULL:
      return {Kind::retryable, "the disk is full or PRAGMA max_page_count is reached; make room"};
    case SQLITE_IOERR:
      return {Kind::retryable, "the disk failed; check the file system"};
    case SQLITE_NOMEM:
      return {Kind::retryable, "out of memory"};
    case SQLITE_INTERRUPT:
    case SQLITE_ABORT:
      return {Kind::retryable, "the statement was interrupted"};
    case SQLITE_NOTADB:
      return {Kind::permanent,
              "the file is not an SQLite database, or is encrypted; check the path"};
    case SQLITE_CORRUPT:
      return {Kind::permanent, "the file is damaged; run PRAGMA integrity_check, restore a backup"};
    case SQLITE_READONLY:
    case SQLITE_PERM:
      return {Kind::permanent,
              "this process may not write to the file or its folder; change their permissions"};
    case SQLITE_CANTOPEN:
      if (out_of_files(db)) {
        return {Kind::retryable, "no file descriptors are left; raise the limit (ulimit -n)"};
      }
      return {Kind::permanent,
              "check that the folder exists and that this process may read and write in it"};
    case SQLITE_MISUSE:
    case SQLITE_RANGE:
      return {Kind::misuse, nullptr};
    default:
      return {Kind::refused, nullptr};
  }
}

bool is_undefined(std::string_view message) {
  return message.starts_with("no such ") || message.find(" has no column named ") != message.npos;
}

DatabaseError::Kind kind_of(int code, std::string_view message) {
  using enum DatabaseError::Kind;
  switch (code) {
    case SQLITE_CONSTRAINT_UNIQUE:
    case SQLITE_CONSTRAINT_PRIMARYKEY:
    case SQLITE_CONSTRAINT_ROWID:
      return unique_violation;
    case SQLITE_CONSTRAINT_FOREIGNKEY:
      return foreign_key_violation;
    case SQLITE_CONSTRAINT_NOTNULL:
      return not_null_violation;
    case SQLITE_CONSTRAINT_CHECK:
      return check_violation;
    case SQLITE_CONSTRAINT_DATATYPE:
    case SQLITE_MISMATCH:
    case SQLITE_TOOBIG:
      return invalid_data;
    case SQLITE_AUTH:
      return permission_denied;
    default:
      break;
  }
  // One code for all that is wrong with a statement: only its text tells more.
  if ((code & 0xff) != SQLITE_ERROR) return other;
  if (is_undefined(message)) return undefined_object;
  const bool unreadable = message.find("syntax error") != message.npos ||
                          message.starts_with("unrecognized token") ||
                          message.starts_with("incomplete input");
  return unreadable ? syntax_error : other;
}

// What stands behind the colon of "UNIQUE constraint failed: orders.id".
std::string constraint_of(int code, std::string_view message) {
  constexpr std::string_view kBefore = "constraint failed: ";
  const auto at = message.find(kBefore);
  if ((code & 0xff) != SQLITE_CONSTRAINT || at == message.npos) return {};
  std::string_view name = message.substr(at + kBefore.size());
  if (name.starts_with("index '") && name.ends_with("'")) {
    name.remove_prefix(std::string_view("index '").size());
    name.remove_suffix(1);
  }
  return printable(name);
}

[[noreturn]] void throw_refused(const std::string& message, int code, std::string_view said,
                                Whose whose) {
  // The library's own tables are part of the database, which cannot be used as it is.
  if (whose == Whose::users_on_our_tables && is_undefined(said)) {
    throw PermanentError(message + "; the table is missing: run outbox migrate up");
  }
  if (whose != Whose::ours) {
    throw DatabaseError(message, {.kind = kind_of(code, said),
                                  .native_code = code,
                                  .constraint = constraint_of(code, said)});
  }
  if ((code & 0xff) == SQLITE_ERROR) throw MisuseError(message);
  throw PermanentError(message);
}

}  // namespace

void throw_failure(sqlite3* db, int code, std::string_view doing, std::string_view where,
                   Whose whose) {
  const ErrorClass meaning = meaning_of(db, code);
  std::string message = "cannot ";
  message.append(doing).append(" (").append(where).append("): ");
  const std::string said = db != nullptr ? sqlite3_errmsg(db) : sqlite3_errstr(code);
  message.append(printable(said));
  message.append(" [SQLite error ").append(std::to_string(code));
  if ((code & 0xff) == SQLITE_CANTOPEN && db != nullptr && sqlite3_system_errno(db) != 0) {
    message.append(", ").append(std::strerror(sqlite3_system_errno(db)));
  }
  message.append("]");
  if (meaning.hint != nullptr) message.append("; ").append(meaning.hint);

  switch (meaning.kind) {
    case Kind::retryable:
      throw RetryableError(message);
    case Kind::misuse:
      throw MisuseError(message);
    case Kind::refused:
      throw_refused(message, code, said, whose);
    case Kind::permanent:
      break;
  }
  throw PermanentError(message);
}

}  // namespace outbox::sqlite
