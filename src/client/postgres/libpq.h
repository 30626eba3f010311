// libpq's handles in typed holders, and what its errors mean.
#pragma once

#include <libpq-fe.h>

#include <memory>
#include <string>
#include <string_view>

#include "base/handle.h"
#include "base/sql_text.h"

namespace outbox::postgres {

using ConnectionHandle = std::unique_ptr<PGconn, Destroyer<PQfinish>>;
using ResultHandle = std::unique_ptr<PGresult, Destroyer<PQclear>>;

// Throws what the failure of a statement means for the caller: RetryableError for what passes;
// else DatabaseError if it was the user's, PermanentError or MisuseError if not. `doing` completes
// "cannot ..."; `where` names the database. `result` may be null if there is none: the connection
// was lost.
[[noreturn]] void throw_failure(PGconn* connection, const PGresult* result, std::string_view doing,
                                std::string_view where, Whose whose = Whose::ours);

// For a connection that could not be made.
[[noreturn]] void throw_not_connected(PGconn* connection, std::string_view where);

// The five characters that say what kind of error it was; empty if the server
// did not say.
std::string_view sql_state(const PGresult* result);

// A server's message, on one line.
std::string message_of(PGconn* connection, const PGresult* result);

}  // namespace outbox::postgres

namespace outbox::postgres::oid {

inline constexpr Oid kBool = 16;
inline constexpr Oid kBytea = 17;
inline constexpr Oid kInt8 = 20;
inline constexpr Oid kInt2 = 21;
inline constexpr Oid kInt4 = 23;
inline constexpr Oid kText = 25;
inline constexpr Oid kFloat4 = 700;
inline constexpr Oid kFloat8 = 701;
inline constexpr Oid kByteaArray = 1001;
inline constexpr Oid kTextArray = 1009;
inline constexpr Oid kInt8Array = 1016;
inline constexpr Oid kTimestamptz = 1184;

}  // namespace outbox::postgres::oid
