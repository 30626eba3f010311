// The statements behind what operators ask and do; written as in sql.h.
//
// `{filter}` stands for kFilter, `{record}` for what AdminStatements::record() reads.
// Searches for dead or unfinished rows go by their own partial indexes, so that
// millions of delivered events cost them nothing; a test checks it.
#pragma once

#include <string_view>

#include "client/postgres/statement.h"

namespace outbox::postgres {

// What AdminStatements::record() reads: `{record}`.
inline constexpr std::string_view kRecordColumnNames = "{columns}, last_error, locked_by, done_at";

namespace sql {

// An EventFilter: fixed text, into which values are bound. NULL matches all; $12
// has a bit for each status, 0 for any. $1 and $2 are the statement's own.
inline constexpr std::string_view kFilter = R"sql(($3::text IS NULL OR event_type = $3)
  AND ($4::text IS NULL OR coalesce(nullif(aggregate_type, ''), '__GLOBAL__') = $4)
  AND ($5::text IS NULL OR aggregate_id = $5)
  AND ($6::text IS NULL OR tenant_id = $6)
  AND ($7::text IS NULL OR strpos(last_error, $7) > 0)
  AND ($8::timestamptz IS NULL OR created_at >= $8)
  AND ($9::timestamptz IS NULL OR created_at < $9)
  AND ($10::timestamptz IS NULL OR done_at >= $10)
  AND ($11::timestamptz IS NULL OR done_at < $11)
  AND ($12::bigint = 0 OR ((1::bigint << status) & $12) <> 0))sql";

// --- Counting and looking ---

inline constexpr Sql kHasPending{"look for pending events", R"sql(
SELECT EXISTS (SELECT FROM {unfinished} WHERE hold IS NOT NULL AND status IN (0, 2){and own})
)sql"};

inline constexpr Sql kCountPending{"count pending events", R"sql(
SELECT count(*), count(*) FILTER (WHERE status = 2),
       count(*) FILTER (WHERE hold < -now.micros), count(*) FILTER (WHERE hold > 0),
       min(created_at) FILTER (WHERE hold BETWEEN -now.micros AND 0),
       coalesce(sum(coalesce(octet_length(payload), octet_length(payload_bytes))), 0)::bigint
FROM {unfinished}, (SELECT (extract(epoch FROM now()) * 1000000)::bigint AS micros) AS now
WHERE hold IS NOT NULL AND status IN (0, 2){and own}
)sql"};

inline constexpr Sql kCountAllDead{"count dead events", R"sql(
SELECT count(*) FROM {waiting} WHERE status = 3{and own}
)sql"};

inline constexpr Sql kFind{"find an event", R"sql(
SELECT {record} FROM {state} WHERE event_id = $1{and own}
)sql"};

inline constexpr Sql kLanes{"list held lanes", R"sql(
WITH RECURSIVE lane (shard, key) AS (
  SELECT shard.shard, (SELECT min(hold) FROM {waiting} WHERE shard = shard.shard{and own} AND hold > 0)
  FROM {shard} AS shard{where own}
  UNION ALL
  SELECT lane.shard, (SELECT min(hold) FROM {waiting}
                      WHERE shard = lane.shard{and own} AND hold > lane.key)
  FROM lane WHERE lane.key IS NOT NULL
)
SELECT shard, key FROM lane WHERE key IS NOT NULL LIMIT $1
)sql"};

inline constexpr Sql kLaneOverview{"read a lane", R"sql(
SELECT aggregate_type, aggregate_id, event_id, status, attempts, last_error FROM {waiting}
WHERE shard = $1{and own} AND hold = $2 AND hold > 0 AND status IN (0, 2, 3) ORDER BY seq LIMIT $3
)sql"};

inline constexpr Sql kMembers{"list the instances", R"sql(
SELECT name, host, pid, registered_at, beat_at + lease >= clock_timestamp(), epoch, process,
       coalesce((SELECT string_agg(shard::text, ',' ORDER BY shard) FROM {shard}
                 WHERE owner = instance.owner), '')
FROM {instance} AS instance WHERE NOT claims{and own} ORDER BY epoch
)sql"};

// --- By a filter; $1 is the row to begin after, $2 the limit ---

inline constexpr Sql kListDead{"list dead events", R"sql(
SELECT {record} FROM {waiting}
WHERE status = 3{and own} AND seq > $1 AND {filter}
ORDER BY seq LIMIT $2
)sql"};

inline constexpr Sql kListUnfinished{"list unfinished events", R"sql(
SELECT {record} FROM {unfinished}
WHERE hold IS NOT NULL AND status IN (0, 2){and own} AND seq > $1 AND {filter}
ORDER BY seq LIMIT $2
)sql"};

// The finished in the order of their index, and the others sorted.
inline constexpr Sql kListAny{"list events", R"sql(
SELECT * FROM (
  (SELECT {record} FROM {table}
   WHERE hold IS NULL AND seq > $1 AND {filter} ORDER BY seq LIMIT $2)
  UNION ALL
  (SELECT {record} FROM {table}
   WHERE hold IS NOT NULL AND seq > $1 AND {filter} ORDER BY seq LIMIT $2)
) AS found
ORDER BY seq LIMIT $2
)sql"};

// As the lists, but $1 and $2 are not used.
inline constexpr Sql kCountDead{"count dead events", R"sql(
SELECT count(*) FROM {waiting}
WHERE status = 3{and own} AND $1::bigint IS NULL AND $2::bigint IS NULL AND {filter}
)sql"};

inline constexpr Sql kCountUnfinished{"count unfinished events", R"sql(
SELECT count(*) FROM {unfinished}
WHERE hold IS NOT NULL AND status IN (0, 2){and own} AND $1::bigint IS NULL AND $2::bigint IS NULL
  AND {filter}
)sql"};

inline constexpr Sql kCountAny{"count events", R"sql(
SELECT count(*) FROM {state}
WHERE $1::bigint IS NULL AND $2::bigint IS NULL{and own} AND {filter}
)sql"};

inline constexpr Sql kDeadGroups{"group dead events", R"sql(
SELECT coalesce(nullif(aggregate_type, ''), '__GLOBAL__') AS aggregate, event_type,
       left(coalesce(last_error, ''), 200) AS error,
       count(*), min(done_at), max(done_at), max(event_id)
FROM {waiting} WHERE status = 3{and own} AND $1::bigint IS NULL AND {filter}
GROUP BY aggregate, event_type, error
ORDER BY count(*) DESC, aggregate, event_type, error LIMIT $2
)sql"};

// --- Replay and discard: rows are looked for first, and changed afterwards ---

inline constexpr Sql kMatchDead{"look for dead events", R"sql(
SELECT seq, event_id FROM {waiting}
WHERE status = 3{and own} AND seq > $1 AND {filter}
ORDER BY seq LIMIT $2
)sql"};

// DONE and DEAD; those that block a lane are found among the dead.
inline constexpr Sql kMatchFinished{"look for finished events", R"sql(
SELECT * FROM (
  (SELECT seq, event_id FROM {table}
   WHERE hold IS NULL AND seq > $1 AND {filter} ORDER BY seq LIMIT $2)
  UNION ALL
  (SELECT seq, event_id FROM {table}
   WHERE status = 3 AND hold IS NOT NULL AND seq > $1 AND {filter} ORDER BY seq LIMIT $2)
) AS found
ORDER BY seq LIMIT $2
)sql"};

// Those of the events $1 that still match: somebody may have changed them since they were looked
// for. If one blocked its lane, the lane's owner is told to look at it again. Returns how many
// there were; $2 is not used.
inline constexpr Sql kReplay{"replay events", R"sql(
WITH changed AS (
  UPDATE {table}
  SET status = 0, attempts = 0, crashes = 0, available_at = now(),
      hold = CASE WHEN hold > 0 THEN hold ELSE -(extract(epoch FROM now()) * 1000000)::bigint END,
      progress = CASE WHEN status = 3 THEN progress END,
      done_at = NULL, last_error = NULL, locked_by = NULL, locked_at = NULL
  WHERE event_id = ANY ($1::text[]) AND $2::bigint IS NULL AND status IN (1, 3) AND {filter}
  RETURNING shard, hold
), told AS (
  INSERT INTO {unblocked} (shard, lane) SELECT DISTINCT shard, hold FROM changed WHERE hold > 0
)
SELECT count(*) FROM changed
)sql"};

inline constexpr Sql kDiscard{"discard events", R"sql(
WITH changed AS (
  DELETE FROM {table}
  WHERE event_id = ANY ($1::text[]) AND $2::bigint IS NULL AND status = 3 AND {filter}
  RETURNING shard, hold
), told AS (
  INSERT INTO {unblocked} (shard, lane) SELECT DISTINCT shard, hold FROM changed WHERE hold > 0
)
SELECT count(*) FROM changed
)sql"};

// --- Purge: $3 is the status, or NULL for any; $4 the time. It is of the table, whose
// subscriptions
// --- it asks all ---

inline constexpr Sql kOldDead{"look for old dead events", R"sql(
SELECT seq, event_id FROM {waiting}
WHERE status = 3 AND $3::bigint = 3 AND seq > $1 AND done_at < $4 AND hold IS NULL
ORDER BY seq LIMIT $2
)sql"};

inline constexpr Sql kOldDone{"look for old delivered events", R"sql(
SELECT seq, event_id FROM {table}
WHERE status = $3 AND seq > $1 AND done_at < $4 AND hold IS NULL
ORDER BY seq LIMIT $2
)sql"};

inline constexpr Sql kOldAny{"look for old events", R"sql(
SELECT * FROM (
  (SELECT seq, event_id FROM {table}
   WHERE hold IS NULL AND $3::bigint IS NULL AND seq > $1 AND created_at < $4
   ORDER BY seq LIMIT $2)
  UNION ALL
  (SELECT seq, event_id FROM {table}
   WHERE hold IS NOT NULL AND $3::bigint IS NULL AND seq > $1 AND created_at < $4
   ORDER BY seq LIMIT $2)
) AS found
ORDER BY seq LIMIT $2
)sql"};

inline constexpr Sql kCountOldDead{"count old dead events", R"sql(
SELECT count(*) FROM {waiting}
WHERE status = 3 AND $1::bigint = 3 AND done_at < $2 AND hold IS NULL
)sql"};

inline constexpr Sql kCountOld{"count old events", R"sql(
SELECT count(*) FROM {table}
WHERE (status = $1 AND done_at < $2 AND hold IS NULL) OR ($1::bigint IS NULL AND created_at < $2)
)sql"};

// The same condition once more: somebody may have replayed the events $1 since they
// were found.
inline constexpr Sql kPurge{"purge events", R"sql(
DELETE FROM {table}
WHERE event_id = ANY ($1::text[])
  AND ((status = $2 AND done_at < $3 AND hold IS NULL) OR ($2::bigint IS NULL AND created_at < $3))
)sql"};

inline constexpr Sql kArchive{"archive events", R"sql(
WITH purged AS (
  DELETE FROM {table}
  WHERE event_id = ANY ($1::text[])
    AND ((status = $2 AND done_at < $3 AND hold IS NULL) OR ($2::bigint IS NULL AND created_at < $3))
  RETURNING *
)
INSERT INTO {archive} (
  seq, event_id, event_type, aggregate_type, aggregate_id, tenant_id, status, attempts, crashes,
  available_at, created_at, done_at, locked_by, locked_at, content_type, progress, headers,
  last_error, payload, payload_bytes)
SELECT
  seq, event_id, event_type, aggregate_type, aggregate_id, tenant_id, status, attempts, crashes,
  available_at, created_at, done_at, locked_by, locked_at, content_type, progress, headers,
  last_error, payload, payload_bytes
FROM purged ORDER BY seq
)sql"};

}  // namespace sql
}  // namespace outbox::postgres
