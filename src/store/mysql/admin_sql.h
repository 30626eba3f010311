// The statements of operators. For the names in them see sql.h; {?filter} is what
// an EventFilter asks for, {?old} what a purge removes, each condition with AND before it.
#pragma once

#include "client/mysql/literal.h"
#include "store/common/admin.h"

namespace outbox::mysql::sql {

// Where to look for rows of these statuses.
inline constexpr SqlPart kAmongDead{"{dead}"};
inline constexpr SqlPart kAmongUnfinished{"{unfinished}"};
inline constexpr SqlPart kAmongAll{"{anywhere}"};

static_assert(kGlobalAggregate == "__GLOBAL__", "the statements spell it out");

// --- Looking ---

inline constexpr SqlTemplate kHasPending{"look for pending events", R"sql(
SELECT 1 FROM {unfinished} LIMIT 1
)sql"};

inline constexpr SqlTemplate kCountPending{"count pending events", R"sql(
SELECT count(*), sum(status = 2), sum(hold < -{now}), sum(hold > 0),
       min(CASE WHEN hold BETWEEN -{now} AND 0 THEN created_at END), 0
FROM {unfinished}
)sql"};

inline constexpr SqlTemplate kCountAllDead{"count dead events", R"sql(
SELECT count(*) FROM {dead}
)sql"};

inline constexpr SqlTemplate kFind{"find an event", R"sql(
SELECT {record} FROM {table} WHERE event_id = ?
)sql"};

inline constexpr SqlTemplate kSeqOf{"find an event", R"sql(
SELECT max(seq) FROM {table} WHERE event_id = ?
)sql"};

inline constexpr SqlTemplate kList{"list events", R"sql(
SELECT {record} FROM {?among}{?filter} AND seq > ? ORDER BY seq LIMIT ?
)sql"};

inline constexpr SqlTemplate kCount{"count events", R"sql(
SELECT count(*) FROM {?among}{?filter}
)sql"};

inline constexpr SqlTemplate kDeadGroups{"group dead events", R"sql(
SELECT coalesce(nullif(aggregate_type, ''), '__GLOBAL__') AS aggregate, event_type,
       left(coalesce(last_error, ''), 200) AS error, count(*) AS number, min(done_at),
       max(done_at), max(event_id)
FROM {dead}{?filter}
GROUP BY aggregate, event_type, error
ORDER BY number DESC, aggregate, event_type, error LIMIT ?
)sql"};

inline constexpr SqlTemplate kLaneOverview{"read a lane", R"sql(
SELECT aggregate_type, aggregate_id, event_id, status, attempts, last_error
FROM {table} FORCE INDEX (by_hold) WHERE shard = ? AND hold = ? ORDER BY seq LIMIT ?
)sql"};

inline constexpr SqlTemplate kMembers{"list the instances", R"sql(
SELECT name, host, pid, registered_at, beat_at + INTERVAL lease MICROSECOND >= utc_timestamp(6),
       epoch, process
FROM {instance} WHERE NOT claims ORDER BY epoch
)sql"};

inline constexpr SqlTemplate kOwners{"list the shards", R"sql(
SELECT shard, epoch FROM {shard} ORDER BY shard
)sql"};

// --- What an EventFilter may ask for ---

inline constexpr std::string_view kOfType = " AND event_type = ?";
inline constexpr std::string_view kOfAggregateType =
    " AND coalesce(nullif(aggregate_type, ''), '__GLOBAL__') = ?";
inline constexpr std::string_view kOfAggregate = " AND aggregate_id = ?";
inline constexpr std::string_view kOfTenant = " AND tenant_id = ?";
inline constexpr std::string_view kWithError = " AND locate(?, last_error) > 0";
inline constexpr std::string_view kOccurredFrom = " AND created_at >= ?";
inline constexpr std::string_view kOccurredUntil = " AND created_at < ?";
inline constexpr std::string_view kFinishedFrom = " AND done_at >= ?";
inline constexpr std::string_view kFinishedUntil = " AND done_at < ?";
inline constexpr std::string_view kOfStatus = " AND (1 << status) & ? <> 0";

// What a purge removes.
inline constexpr std::string_view kFinishedBefore =
    " AND hold IS NULL AND status = ? AND done_at < ?";
inline constexpr std::string_view kOccurredBefore = " AND created_at < ?";

// --- Bulk operations ---
//
// First the numbers of rows are looked for, which locks nothing; then what is still as it was
// when it was found is changed.

inline constexpr SqlTemplate kMatchFinished{"look for finished events", R"sql(
SELECT seq FROM {anywhere}{?filter} AND seq > ? ORDER BY seq LIMIT ?
)sql"};

inline constexpr SqlTemplate kMatchDead{"look for dead events", R"sql(
SELECT seq FROM {dead}{?filter} AND seq > ? ORDER BY seq LIMIT ?
)sql"};

inline constexpr SqlTemplate kOld{"look for old events", R"sql(
SELECT seq FROM {?among}{?old} AND seq > ? ORDER BY seq LIMIT ?
)sql"};

inline constexpr SqlTemplate kCountOld{"count old events", R"sql(
SELECT count(*) FROM {?among}{?old}
)sql"};

// The server assigns from left to right, and what was assigned is what is read after
// that: status is the last.
inline constexpr SqlTemplate kReplay{"replay events", R"sql(
UPDATE {by_number} SET
  progress = CASE WHEN status = 3 THEN progress END,
  hold = CASE WHEN hold > 0 THEN hold ELSE -{now} END,
  attempts = 0, crashes = 0, available_at = utc_timestamp(6), done_at = NULL,
  last_error = NULL, locked_by = NULL, locked_at = NULL, status = 0
WHERE seq IN (?) AND status IN (1, 3){?filter}
)sql"};

inline constexpr SqlTemplate kDiscard{"discard events", R"sql(
DELETE event FROM {by_number} WHERE seq IN (?) AND status = 3{?filter}
)sql"};

inline constexpr SqlTemplate kBlocked{"look for lanes that are blocked", R"sql(
SELECT shard, hold FROM {by_number} WHERE seq IN (?) AND status = 3 AND hold > 0 FOR UPDATE
)sql"};

inline constexpr SqlTemplate kNoteUnblocked{"note unblocked lanes", R"sql(
INSERT INTO {unblocked} (shard, lane) VALUES {?lanes}
)sql"};

inline constexpr SqlTemplate kPurge{"purge events", R"sql(
DELETE event FROM {by_number} WHERE seq IN (?){?old}
)sql"};

inline constexpr SqlTemplate kLockOld{"archive events", R"sql(
SELECT seq FROM {by_number} WHERE seq IN (?){?old} FOR UPDATE
)sql"};

inline constexpr SqlTemplate kArchive{"archive events", R"sql(
INSERT INTO {archive} (seq, event_id, event_type, aggregate_type, aggregate_id, tenant_id, status,
  attempts, crashes, available_at, created_at, done_at, locked_by, locked_at, content_type,
  progress, headers, last_error, payload, payload_bytes)
SELECT seq, event_id, event_type, aggregate_type, aggregate_id, tenant_id, status,
  attempts, crashes, available_at, created_at, done_at, locked_by, locked_at, content_type,
  progress, headers, last_error, payload, payload_bytes
FROM {by_number} WHERE seq IN (?){?old} ORDER BY seq
)sql"};

}  // namespace outbox::mysql::sql
