// Every statement that the engine has the store run, in one place; those for
// operators are in admin_sql.h.
//
// `{table}` stands for the table's quoted name, `{x}` for that of `<table>_x`,
// and `{columns}` for what decode_row() reads. Status: 0 NEW, 1 DONE, 2 RETRY,
// 3 DEAD. A test checks that no read of the engine scans or sorts.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/sql_text.h"
#include "client/sqlite/statement.h"

namespace outbox::sqlite {

namespace sql {

// --- Transactions ---

// Differs from last time if another connection has committed.
inline constexpr Sql kDataVersion{"look for commits", "PRAGMA data_version"};

// --- Writing ---

inline constexpr int kInsertParameters = 13;

namespace internal {

inline constexpr std::string_view kInsertHead =
    "INSERT INTO {table} (event_id, event_type, aggregate_type, aggregate_id, tenant_id,"
    " content_type, headers, payload, created_at, available_at, hold, locked_by, locked_at)"
    " VALUES ";
inline constexpr std::string_view kInsertRow = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";

template <std::size_t Rows>
inline constexpr auto kInsertText = kRepeatedRow<kInsertHead, kInsertRow, Rows>;

}  // namespace internal

template <std::size_t Rows>
inline constexpr Sql kInsert{
    "insert events", {internal::kInsertText<Rows>.data(), internal::kInsertText<Rows>.size()}};

inline constexpr Sql kUninsert{"take back inserted events", R"sql(
DELETE FROM {table} WHERE seq BETWEEN ?1 AND ?2
)sql"};

inline constexpr Sql kExists{"look for an event", R"sql(
SELECT 1 FROM {table} WHERE event_id = ?1
)sql"};

// --- Reading; a row whose status and hold contradict each other is in none of these ---

inline constexpr Sql kReady{"read ready events", R"sql(
SELECT {columns} FROM {table}
WHERE hold = 0 AND seq > ?1 AND status IN (0, 2)
ORDER BY seq LIMIT ?2
)sql"};

inline constexpr Sql kEarliest{"read when the next event is due", R"sql(
SELECT max(hold) FROM {table} WHERE hold < ?1 AND typeof(hold) = 'integer'
)sql"};

inline constexpr Sql kDueAt{"read due events", R"sql(
SELECT {columns} FROM {table}
WHERE hold = ?1 AND status IN (0, 2)
ORDER BY seq LIMIT ?2
)sql"};

inline constexpr Sql kHeld{"read the events of a lane", R"sql(
SELECT {columns} FROM {table}
WHERE hold = ?1 AND status IN (0, 2, 3)
ORDER BY seq LIMIT ?2
)sql"};

inline constexpr Sql kHeldLane{"read the next lane", R"sql(
SELECT hold, seq, status, available_at, locked_by, locked_at FROM {table}
WHERE hold = (SELECT min(hold) FROM {table}
              WHERE hold > ?1 AND hold <= 9223372036854775807  -- texts are greater
                AND typeof(hold) = 'integer' AND status IN (0, 2, 3))
  AND status IN (0, 2, 3)
ORDER BY seq LIMIT 1
)sql"};

inline constexpr Sql kUnblocked{"look for unblocked lanes", R"sql(
SELECT id, lane FROM {unblocked} ORDER BY id LIMIT ?1
)sql"};

inline constexpr Sql kForgetUnblocked{"forget unblocked lanes", R"sql(
DELETE FROM {unblocked} WHERE id IN (SELECT value FROM json_each(?1))
)sql"};

// --- Delays, after the clock was set back ---
//
// A row that nobody has claimed and that waits for a delay has in locked_at when it began to.
// Values that cannot be reckoned with are left alone.

inline constexpr Sql kWaiting{"look for delays", R"sql(
SELECT seq FROM {table} INDEXED BY {waits}
WHERE locked_by IS NULL AND locked_at IS NOT NULL AND hold IS NOT NULL
  AND (locked_at < ?1 OR locked_at > ?2)
)sql"};

// Moves the rows ?1 back by ?2, but for those that began to wait from ?3 to ?4.
inline constexpr Sql kShiftWaits{"set delays back with the clock", R"sql(
UPDATE {table}
SET available_at = available_at - ?2, locked_at = locked_at - ?2,
    hold = CASE WHEN hold < 0 THEN -max(available_at - ?2, 1) ELSE hold END
WHERE seq IN (SELECT value FROM json_each(?1))
  AND locked_by IS NULL AND hold IS NOT NULL AND (locked_at < ?3 OR locked_at > ?4)
  AND typeof(locked_at) = 'integer' AND locked_at BETWEEN 0 AND 253402300799999999
  AND typeof(available_at) = 'integer' AND available_at BETWEEN 0 AND 253402300799999999
)sql"};

// Delays that began after ?1, which is now, start over; up to ?2 rows.
inline constexpr Sql kRestartDelays{"restart delays", R"sql(
UPDATE {table}
SET available_at = ?1 + max(available_at - locked_at, 0), locked_at = ?1,
    hold = CASE WHEN hold < 0 THEN -max(?1 + max(available_at - locked_at, 0), 1) ELSE hold END
WHERE seq IN (
  SELECT seq FROM {table} INDEXED BY {waits}
  WHERE locked_by IS NULL AND locked_at IS NOT NULL AND hold IS NOT NULL AND locked_at > ?1
    AND typeof(locked_at) = 'integer' AND locked_at BETWEEN 0 AND 253402300799999999
    AND typeof(available_at) = 'integer' AND available_at BETWEEN 0 AND 253402300799999999
  LIMIT ?2)
)sql"};

// Claims that were made later than ?1, which is now, would expire too late.
inline constexpr Sql kFutureClaim{"look for claims of later than now", R"sql(
SELECT 1 FROM {table}
WHERE hold IS NOT NULL AND locked_by IS NOT NULL AND locked_at > ?1 LIMIT 1
)sql"};

inline constexpr Sql kRestartClaims{"set claims back with the clock", R"sql(
UPDATE {table} SET locked_at = ?1
WHERE hold IS NOT NULL AND locked_by IS NOT NULL AND locked_at > ?1
)sql"};

inline constexpr Sql kFutureWait{"look for delays that began later than now", R"sql(
SELECT 1 FROM {table} INDEXED BY {waits}
WHERE locked_by IS NULL AND locked_at IS NOT NULL AND hold IS NOT NULL AND locked_at > ?1
  AND typeof(locked_at) = 'integer' AND locked_at BETWEEN 0 AND 253402300799999999
  AND typeof(available_at) = 'integer' AND available_at BETWEEN 0 AND 253402300799999999
LIMIT 1
)sql"};

// --- Row claims: ?1 locks up to here have expired, ?2 created up to here ---

inline constexpr Sql kClaimableReady{"look for ready events to claim", R"sql(
SELECT {columns} FROM {table}
WHERE hold = 0 AND status IN (0, 2)
  AND (locked_by IS NULL OR locked_at <= ?1)
  AND (created_at <= ?2 OR typeof(created_at) <> 'integer')
ORDER BY seq LIMIT ?3
)sql"};

inline constexpr Sql kClaimableDue{"look for due events to claim", R"sql(
SELECT {columns} FROM {table}
WHERE hold < 0 AND hold >= ?4 AND typeof(hold) = 'integer' AND status IN (0, 2)
  AND (locked_by IS NULL OR locked_at <= ?1)
  AND (created_at <= ?2 OR typeof(created_at) <> 'integer')
ORDER BY hold DESC LIMIT ?3
)sql"};

inline constexpr Sql kLocked{"look for expired claims", R"sql(
SELECT seq FROM {table}
WHERE seq IN (SELECT value FROM json_each(?1)) AND locked_by IS NOT NULL
)sql"};

inline constexpr Sql kClaim{"claim events", R"sql(
UPDATE {table} SET locked_by = ?1, locked_at = ?2
WHERE seq IN (SELECT value FROM json_each(?3))
)sql"};

inline constexpr Sql kUnclaim{"give claimed events back", R"sql(
UPDATE {table} SET locked_by = NULL, locked_at = NULL
WHERE seq IN (SELECT value FROM json_each(?1)) AND locked_by = ?2 AND status IN (0, 2)
)sql"};

inline constexpr Sql kClaimedBy{"look for claimed events", R"sql(
SELECT seq FROM {table} WHERE hold IS NOT NULL AND locked_by = ?1
)sql"};

// --- Updating ---
//
// ?1 is the row, ?2 the owner with row claims, NULL without, and ?3 the event: after an edit by
// hand the number may be another one's. (An id that another program stored as a BLOB is read,
// and so compared, as text.) Finished rows keep the owner: it tells whose work it was.

inline constexpr Sql kDone{"update an event DONE", R"sql(
UPDATE {table}
SET status = 1, done_at = ?4, hold = NULL
WHERE seq = ?1 AND CAST(event_id AS TEXT) = ?3
  AND status IN (0, 2) AND (?2 IS NULL OR locked_by = ?2)
)sql"};

// ?1 and ?3 are JSON arrays. All of these events are DONE: whichever of the rows has which of
// the ids does not matter.
inline constexpr Sql kDoneMany{"update events DONE", R"sql(
UPDATE {table}
SET status = 1, done_at = ?4, hold = NULL
WHERE seq IN (SELECT value FROM json_each(?1))
  AND CAST(event_id AS TEXT) IN (SELECT value FROM json_each(?3))
  AND status IN (0, 2) AND (?2 IS NULL OR locked_by = ?2)
)sql"};

inline constexpr Sql kRemoveMany{"delete delivered events", R"sql(
DELETE FROM {table}
WHERE seq IN (SELECT value FROM json_each(?1))
  AND CAST(event_id AS TEXT) IN (SELECT value FROM json_each(?3))
  AND status IN (0, 2) AND (?2 IS NULL OR locked_by = ?2)
)sql"};

inline constexpr Sql kRemove{"delete a delivered event", R"sql(
DELETE FROM {table}
WHERE seq = ?1 AND CAST(event_id AS TEXT) = ?3
  AND status IN (0, 2) AND (?2 IS NULL OR locked_by = ?2)
)sql"};

inline constexpr Sql kRetry{"update an event RETRY", R"sql(
UPDATE {table}
SET status = 2, attempts = ?4, crashes = 0, last_error = ?5, progress = ?6,
    available_at = ?7, hold = ?8, locked_by = NULL, locked_at = ?9
WHERE seq = ?1 AND CAST(event_id AS TEXT) = ?3
  AND status IN (0, 2) AND (?2 IS NULL OR locked_by = ?2)
)sql"};

inline constexpr Sql kDefer{"defer an event", R"sql(
UPDATE {table}
SET crashes = ?7, progress = ?4, last_error = coalesce(?9, last_error),
    available_at = ?5, hold = ?6, locked_by = NULL, locked_at = ?8
WHERE seq = ?1 AND CAST(event_id AS TEXT) = ?3
  AND status IN (0, 2) AND (?2 IS NULL OR locked_by = ?2)
)sql"};

inline constexpr Sql kDead{"update an event DEAD", R"sql(
UPDATE {table}
SET status = 3, attempts = ?4, last_error = ?5, progress = ?6,
    done_at = ?7, hold = ?8
WHERE seq = ?1 AND CAST(event_id AS TEXT) = ?3
  AND status IN (0, 2) AND (?2 IS NULL OR locked_by = ?2)
)sql"};

inline constexpr Sql kHold{"hold an event", R"sql(
UPDATE {table}
SET hold = CASE WHEN ?4 > 0 THEN ?4 ELSE -max(CAST(available_at AS INTEGER), 1) END,
    locked_by = NULL, locked_at = NULL
WHERE seq = ?1 AND CAST(event_id AS TEXT) = ?3
  AND status IN (0, 2) AND (?2 IS NULL OR locked_by = ?2)
)sql"};

inline constexpr Sql kCrashes{"count a crash", R"sql(
UPDATE {table} SET crashes = ?4
WHERE seq = ?1 AND CAST(event_id AS TEXT) = ?3
  AND status IN (0, 2) AND (?2 IS NULL OR locked_by = ?2)
)sql"};

inline constexpr Sql kUnblock{"take a dead event out of its lane", R"sql(
UPDATE {table} SET hold = NULL
WHERE seq = ?1 AND CAST(event_id AS TEXT) = ?3 AND status = 3 AND (?2 IS NULL OR locked_by = ?2)
)sql"};

inline constexpr Sql kState{"read the state of an event", R"sql(
SELECT status, attempts, hold, locked_by, last_error FROM {table}
WHERE seq = ?1 AND CAST(event_id AS TEXT) = ?2
)sql"};

// --- Ownership ---

inline constexpr Sql kEpoch{"read the epoch", R"sql(
SELECT epoch FROM {instance} WHERE id = 1
)sql"};

inline constexpr Sql kOwner{"read the last owner", R"sql(
SELECT epoch, clean, owner, capacity FROM {instance} WHERE id = 1
)sql"};

inline constexpr Sql kTakeOver{"take over", R"sql(
INSERT INTO {instance} (id, epoch, clean, owner, capacity, name, host, pid, registered_at)
VALUES (1, ?1, 0, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (id) DO UPDATE
SET epoch = excluded.epoch, clean = 0, owner = excluded.owner, capacity = excluded.capacity,
    name = excluded.name, host = excluded.host, pid = excluded.pid,
    registered_at = excluded.registered_at
)sql"};

inline constexpr Sql kLeave{"leave", R"sql(
UPDATE {instance} SET clean = 1 WHERE id = 1 AND epoch = ?1
)sql"};

// --- Schema ---

inline constexpr Sql kHasMigrations{"look for the schema", R"sql(
SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1
)sql"};

inline constexpr Sql kSchemaVersion{"read the version of the schema", R"sql(
SELECT coalesce(max(version), 0) FROM {migration}
)sql"};

inline constexpr Sql kMigrations{"read which migrations were applied", R"sql(
SELECT version, name, applied_at FROM {migration} ORDER BY version
)sql"};

inline constexpr Sql kRecordMigration{"record a migration", R"sql(
INSERT INTO {migration} (version, name, applied_at) VALUES (?1, ?2, ?3)
)sql"};

}  // namespace sql
}  // namespace outbox::sqlite
