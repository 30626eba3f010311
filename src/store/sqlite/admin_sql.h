// The statements behind what operators ask and do; written as in sql.h.
//
// `{filter}` stands for kFilter, `{is_broken}` for kIsBroken, `{record}` for what
// AdminStatements::record() reads.
// Searches for dead or unfinished rows go by their own partial indexes, so that
// millions of delivered events cost them nothing; a test checks it.
#pragma once

#include <string_view>

#include "client/sqlite/statement.h"

namespace outbox::sqlite {

// What AdminStatements::record() reads: `{record}`.
inline constexpr std::string_view kRecordColumnNames = "{columns}, last_error, locked_by, done_at";

namespace sql {

// An EventFilter: fixed text, into which values are bound. NULL matches all; ?12
// has a bit for each status, none for any. ?1 and ?2 are the statement's own.
inline constexpr std::string_view kFilter = R"sql((?3 IS NULL OR event_type = ?3)
  AND (?4 IS NULL OR coalesce(nullif(aggregate_type, ''), '__GLOBAL__') = ?4)
  AND (?5 IS NULL OR aggregate_id = ?5)
  AND (?6 IS NULL OR tenant_id = ?6)
  AND (?7 IS NULL OR instr(last_error, ?7) > 0)
  AND (?8 IS NULL OR created_at >= ?8)
  AND (?9 IS NULL OR created_at < ?9)
  AND (?10 IS NULL OR done_at >= ?10)
  AND (?11 IS NULL OR done_at < ?11)
  AND (?12 = 0 OR (status IN (0, 1, 2, 3) AND ((1 << status) & ?12) <> 0)))sql";

// That status and hold contradict each other; as the index of those rows has it
// (schema/004_checks.sql).
inline constexpr std::string_view kIsBroken = R"sql(CASE status
    WHEN 0 THEN typeof(hold) <> 'integer'
    WHEN 1 THEN hold IS NOT NULL
    WHEN 2 THEN typeof(hold) <> 'integer'
    WHEN 3 THEN hold <= 0 OR typeof(hold) NOT IN ('integer', 'null')
    ELSE 1
  END)sql";

// --- Counting and looking ---

inline constexpr Sql kHasPending{"look for pending events", R"sql(
SELECT EXISTS (SELECT 1 FROM {table}
               WHERE hold IS NOT NULL AND typeof(hold) = 'integer' AND status IN (0, 2))
)sql"};

// ?1 is the hold of what is due now.
inline constexpr Sql kCountPending{"count pending events", R"sql(
SELECT count(*), total(status = 2), total(hold < ?1), total(hold > 0),
       min(CASE WHEN hold BETWEEN ?1 AND 0 THEN created_at END), 0
FROM {table} WHERE hold IS NOT NULL AND typeof(hold) = 'integer' AND status IN (0, 2)
)sql"};

inline constexpr Sql kCountBroken{"count broken rows", R"sql(
SELECT count(*) FROM {table} INDEXED BY {broken} WHERE {is_broken}
)sql"};

inline constexpr Sql kFirstBroken{"read a broken row", R"sql(
SELECT event_id, status, hold FROM {table} INDEXED BY {broken} WHERE {is_broken}
ORDER BY seq LIMIT 1
)sql"};

inline constexpr Sql kCountAllDead{"count dead events", R"sql(
SELECT count(*) FROM {table} WHERE status = 3
)sql"};

inline constexpr Sql kFind{"find an event", R"sql(
SELECT {record} FROM {table} WHERE event_id = ?1
)sql"};

inline constexpr Sql kLaneOverview{"read a lane", R"sql(
SELECT aggregate_type, aggregate_id, event_id, status, attempts, last_error FROM {table}
WHERE hold = ?1 AND status IN (0, 2, 3) ORDER BY seq LIMIT ?2
)sql"};

inline constexpr Sql kMember{"read the registered owner", R"sql(
SELECT name, host, pid, registered_at, clean, epoch FROM {instance} WHERE id = 1
)sql"};

// --- By a filter; ?1 is the row to begin after, ?2 the limit ---

inline constexpr Sql kListDead{"list dead events", R"sql(
SELECT {record} FROM {table}
WHERE status = 3 AND seq > ?1 AND {filter}
ORDER BY seq LIMIT ?2
)sql"};

// By the index of the unfinished (the plus signs keep SQLite from walking over the
// table), so it must sort; but numbers only: the rows are read when it is known
// which.
inline constexpr Sql kListUnfinished{"list unfinished events", R"sql(
SELECT {record} FROM {table}
WHERE seq IN (
  SELECT seq FROM {table}
  WHERE hold IS NOT NULL AND status IN (0, 2) AND +seq > ?1 AND {filter}
  ORDER BY +seq LIMIT ?2)
ORDER BY seq
)sql"};

inline constexpr Sql kListAny{"list events", R"sql(
SELECT {record} FROM {table}
WHERE seq > ?1 AND {filter}
ORDER BY seq LIMIT ?2
)sql"};

inline constexpr Sql kCountDead{"count dead events", R"sql(
SELECT count(*) FROM {table} WHERE status = 3 AND {filter}
)sql"};

inline constexpr Sql kCountUnfinished{"count unfinished events", R"sql(
SELECT count(*) FROM {table} WHERE hold IS NOT NULL AND status IN (0, 2) AND {filter}
)sql"};

inline constexpr Sql kCountAny{"count events", R"sql(
SELECT count(*) FROM {table} WHERE {filter}
)sql"};

inline constexpr Sql kDeadGroups{"group dead events", R"sql(
SELECT coalesce(nullif(aggregate_type, ''), '__GLOBAL__') AS owner, event_type,
       substr(coalesce(last_error, ''), 1, 200) AS error,
       count(*) AS events, min(done_at), max(done_at), max(event_id)
FROM {table} WHERE status = 3 AND {filter}
GROUP BY owner, event_type, error
ORDER BY events DESC, owner, event_type, error LIMIT ?2
)sql"};

// --- Replay and discard: rows are looked for first, and changed afterwards ---

inline constexpr Sql kMatchDead{"look for dead events", R"sql(
SELECT seq FROM {table}
WHERE status = 3 AND seq > ?1 AND {filter}
ORDER BY seq LIMIT ?2
)sql"};

inline constexpr Sql kMatchAny{"look for events", R"sql(
SELECT seq FROM {table}
WHERE seq > ?1 AND {filter}
ORDER BY seq LIMIT ?2
)sql"};

// The lanes that the dead among these rows block, before they are changed: their owner
// looks at them again.
inline constexpr Sql kNoteUnblocked{"note an unblocked lane", R"sql(
INSERT INTO {unblocked} (lane)
SELECT hold FROM {table} WHERE event_id = ?1 AND status = 3 AND hold > 0
)sql"};

inline constexpr Sql kNoteUnblockedMany{"note unblocked lanes", R"sql(
INSERT INTO {unblocked} (lane)
SELECT DISTINCT hold FROM {table}
WHERE seq IN (SELECT value FROM json_each(?1)) AND status = 3 AND hold > 0
)sql"};

inline constexpr Sql kReplay{"replay an event", R"sql(
UPDATE {table}
SET status = 0, attempts = 0, crashes = 0, available_at = ?2,
    hold = CASE WHEN hold > 0 AND typeof(hold) = 'integer' THEN hold ELSE -max(?2, 1) END,
    progress = CASE WHEN status = 3 THEN progress END,
    done_at = NULL, last_error = NULL, locked_by = NULL, locked_at = NULL
WHERE event_id = ?1 AND status IN (1, 3)
)sql"};

// Those of the rows ?1 that still match: since they were looked for, somebody may have changed
// them, or given their numbers to others. ?12 is not 0.
inline constexpr Sql kReplayMany{"replay events", R"sql(
UPDATE {table}
SET status = 0, attempts = 0, crashes = 0, available_at = ?2,
    hold = CASE WHEN hold > 0 AND typeof(hold) = 'integer' THEN hold ELSE -max(?2, 1) END,
    progress = CASE WHEN status = 3 THEN progress END,
    done_at = NULL, last_error = NULL, locked_by = NULL, locked_at = NULL
WHERE seq IN (SELECT value FROM json_each(?1)) AND {filter}
)sql"};

inline constexpr Sql kDiscard{"discard an event", R"sql(
DELETE FROM {table} WHERE event_id = ?1 AND status = 3
)sql"};

inline constexpr Sql kDiscardMany{"discard events", R"sql(
DELETE FROM {table}
WHERE seq IN (SELECT value FROM json_each(?1)) AND status = 3 AND ?2 IS NULL AND {filter}
)sql"};

// --- Purge: ?3 is the status, or NULL for any; ?4 the time ---

inline constexpr Sql kOldDead{"look for old dead events", R"sql(
SELECT seq FROM {table}
WHERE status = 3 AND ?3 = 3 AND seq > ?1 AND +done_at < ?4 AND hold IS NULL
ORDER BY seq LIMIT ?2
)sql"};

inline constexpr Sql kOld{"look for old events", R"sql(
SELECT seq FROM {table}
WHERE seq > ?1
  AND ((status = ?3 AND done_at < ?4 AND hold IS NULL) OR (?3 IS NULL AND created_at < ?4))
ORDER BY seq LIMIT ?2
)sql"};

inline constexpr Sql kCountOldDead{"count old dead events", R"sql(
SELECT count(*) FROM {table} WHERE status = 3 AND ?1 = 3 AND done_at < ?2 AND hold IS NULL
)sql"};

inline constexpr Sql kCountOld{"count old events", R"sql(
SELECT count(*) FROM {table}
WHERE (status = ?1 AND done_at < ?2) OR (?1 IS NULL AND created_at < ?2)
)sql"};

// The same condition once more, under the write lock: somebody may have replayed
// the rows ?1 since they were found.
inline constexpr Sql kArchive{"archive events", R"sql(
INSERT INTO {archive} (
  seq, event_id, event_type, aggregate_type, aggregate_id, tenant_id, status, attempts, crashes,
  hold, available_at, created_at, done_at, locked_by, locked_at, content_type, progress, headers,
  last_error, payload, archived_at)
SELECT
  seq, event_id, event_type, aggregate_type, aggregate_id, tenant_id, status, attempts, crashes,
  hold, available_at, created_at, done_at, locked_by, locked_at, content_type, progress, headers,
  last_error, payload, ?2
FROM {table}
WHERE seq IN (SELECT value FROM json_each(?1))
  AND ((status = ?3 AND done_at < ?4 AND hold IS NULL) OR (?3 IS NULL AND created_at < ?4))
ORDER BY seq
)sql"};

inline constexpr Sql kPurge{"purge events", R"sql(
DELETE FROM {table}
WHERE seq IN (SELECT value FROM json_each(?1))
  AND ((status = ?2 AND done_at < ?3 AND hold IS NULL) OR (?2 IS NULL AND created_at < ?3))
)sql"};

}  // namespace sql
}  // namespace outbox::sqlite
