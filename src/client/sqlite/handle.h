// SQLite's C objects in typed holders, and its result codes as the library's
// errors.
#pragma once

#include <sqlite3.h>

#include <memory>
#include <string_view>

#include "base/handle.h"
#include "base/sql_text.h"

namespace outbox::sqlite {

// v2: a statement that the user left open on our handle delays the close instead of failing it.
using DatabaseHandle = std::unique_ptr<sqlite3, Destroyer<sqlite3_close_v2>>;
using StatementHandle = std::unique_ptr<sqlite3_stmt, Destroyer<sqlite3_finalize>>;

// Throws what `code`, an extended one, means for the caller: RetryableError for what passes
// (busy, disk full, input/output), PermanentError for a database that can't be
// used as it is. What is left is a DatabaseError if the statement was the user's; else
// PermanentError for a violated constraint, MisuseError for SQL that is wrong.
// `doing` completes "cannot ..."; `where` names the database.
[[noreturn]] void throw_failure(sqlite3* db, int code, std::string_view doing,
                                std::string_view where, Whose whose = Whose::ours);

}  // namespace outbox::sqlite
