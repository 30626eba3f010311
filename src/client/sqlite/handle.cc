#include "client/sqlite/handle.h"

#include <cerrno>
#include <cstring>
#include <string>

#include "base/quote.h"
#include "outbox/error.h"

namespace outbox::sqlite {
namespace {

enum class Kind { retryable, permanent, misuse };

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
    case SQLITE_AUTH:
      return {Kind::permanent,
              "this process may not write to the file or its folder; change their permissions"};
    case SQLITE_CANTOPEN:
      if (out_of_files(db)) {
        return {Kind::retryable, "no file descriptors are left; raise the limit (ulimit -n)"};
      }
      return {Kind::permanent,
              "check that the folder exists and that this process may read and write in it"};
    case SQLITE_CONSTRAINT:
      return {Kind::permanent, nullptr};
    case SQLITE_ERROR:
    case SQLITE_MISUSE:
    case SQLITE_RANGE:
      return {Kind::misuse, nullptr};
    default:
      return {Kind::permanent, nullptr};
  }
}

}  // namespace

void throw_failure(sqlite3* db, int code, std::string_view doing, std::string_view where) {
  const ErrorClass meaning = meaning_of(db, code);
  std::string message = "cannot ";
  message.append(doing).append(" (").append(where).append("): ");
  message.append(printable(db != nullptr ? sqlite3_errmsg(db) : sqlite3_errstr(code)));
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
    case Kind::permanent:
      break;
  }
  throw PermanentError(message);
}

}  // namespace outbox::sqlite
