// What operators do to a table that keeps progress by position, where it is not what admin_sql.h
// has for both kinds; written as there. Rows are looked for shard by shard, in the order of the
// index on (shard, seq).
//
// `{behind}` is whether the row `event` of the table is finished for every subscription,
// `{has copies}` whether it has a delivery row for any, and `{told}` the events of a shard with
// what became of them for one.
#pragma once

#include <string_view>

#include "client/postgres/statement.h"
#include "store/postgres/position_sql.h"

namespace outbox::postgres {

inline constexpr std::string_view kBehind = R"sql((event.hold IS NULL OR NOT EXISTS (
    SELECT FROM {cursor} AS cursor
    WHERE cursor.shard = event.shard AND NOT (
      event.seq <= cursor.position AND event.seq <> ALL (cursor.open)
      AND (pg_visible_in_snapshot(event.xid, cursor.snapshot)
           OR coalesce(event.seq <= cursor.late_after
                       AND pg_visible_in_snapshot(event.xid, cursor.target), false))))))sql";

inline constexpr std::string_view kHasCopies = R"sql(EXISTS (
    SELECT FROM {subscription} AS receiver JOIN {delivery} AS delivery
      ON delivery.subscription = receiver.name AND delivery.event_id = event.event_id))sql";

// All events of the shard of `cursor`, as they would show it if they had a status each: `{told}`.
inline constexpr std::string_view kTold = R"sql(
  SELECT event.seq, event.shard, CASE WHEN NOT now.finished THEN event.hold END AS hold,
    event.event_id, event.event_type, event.aggregate_type, event.aggregate_id, event.tenant_id,
    CASE WHEN now.finished THEN 1::smallint ELSE event.status END AS status,
    event.attempts, event.crashes, event.available_at, event.created_at, event.content_type,
    event.progress, event.headers, event.payload, event.payload_bytes, event.last_error,
    event.locked_by,
    CASE WHEN now.finished THEN greatest(event.created_at, event.available_at) END AS done_at
  FROM {table} AS event CROSS JOIN LATERAL (
    SELECT event.hold IS NULL
      OR (event.seq <= cursor.position AND event.seq <> ALL (cursor.open)
          AND (pg_visible_in_snapshot(event.xid, cursor.snapshot)
               OR coalesce(event.seq <= cursor.late_after
                           AND pg_visible_in_snapshot(event.xid, cursor.target), false)))
      AS finished
  ) AS now
  WHERE event.shard = cursor.shard
    AND NOT EXISTS (SELECT FROM {delivery} AS delivery
                    WHERE delivery.subscription = cursor.subscription
                      AND delivery.event_id = event.event_id)
  UNION ALL
  SELECT seq, shard, hold, event_id, event_type, aggregate_type, aggregate_id, tenant_id, status,
    attempts, crashes, available_at, created_at, content_type, progress, headers, payload,
    payload_bytes, last_error, locked_by, done_at
  FROM {delivery} AS delivery
  WHERE delivery.subscription = cursor.subscription AND delivery.shard = cursor.shard)sql";

namespace sql::by_position {

inline constexpr Sql kListAny{"list events", R"sql(
SELECT item.* FROM {cursor} AS cursor CROSS JOIN LATERAL (
  SELECT {record} FROM ({told}) AS event
  WHERE seq > $1 AND {filter} ORDER BY seq LIMIT $2
) AS item
WHERE cursor.subscription = {own}
ORDER BY item.seq LIMIT $2
)sql"};

inline constexpr Sql kMatchFinished{"look for finished events", R"sql(
SELECT item.* FROM {cursor} AS cursor CROSS JOIN LATERAL (
  SELECT seq, event_id FROM ({told}) AS event
  WHERE seq > $1 AND status IN (1, 3) AND {filter} ORDER BY seq LIMIT $2
) AS item
WHERE cursor.subscription = {own}
ORDER BY item.seq LIMIT $2
)sql"};

// DEAD ones have a delivery row, which is changed as an event is with progress by row. DONE ones
// get one that is due now.
inline constexpr Sql kReplay{"replay events", R"sql(
WITH changed AS (
  UPDATE {delivery}
  SET status = 0, attempts = 0, crashes = 0, available_at = now(),
      hold = CASE WHEN hold > 0 THEN hold ELSE -(extract(epoch FROM now()) * 1000000)::bigint END,
      done_at = NULL, last_error = NULL
  WHERE event_id = ANY ($1::text[]) AND $2::bigint IS NULL AND status = 3{and own} AND {filter}
  RETURNING shard, hold
), told AS (
  INSERT INTO {unblocked} (subscription, shard, lane)
  SELECT DISTINCT {own}, shard, hold FROM changed WHERE hold > 0
), delivered AS (
  SELECT event_id FROM {state} WHERE event_id = ANY ($1::text[]) AND status = 1{and own} AND {filter}
), copied AS (
  INSERT INTO {delivery} (subscription, hold, status, attempts, crashes, available_at, seq,
    created_at, shard, event_id, event_type, aggregate_type, aggregate_id, tenant_id, content_type,
    headers, payload, payload_bytes)
  SELECT {own}, -(extract(epoch FROM now()) * 1000000)::bigint, 0, 0, 0, now(), seq,
    created_at, shard, event_id, event_type, aggregate_type, aggregate_id, tenant_id, content_type,
    headers, payload, payload_bytes
  FROM {table} WHERE event_id IN (SELECT event_id FROM delivered)
  ON CONFLICT (subscription, event_id) DO NOTHING
  RETURNING shard
)
SELECT (SELECT count(*) FROM changed) + (SELECT count(*) FROM copied)
)sql"};

// The event goes as well, unless it is dead for another subscription, too. If there is another one,
// not before everybody's position has passed it where it is stored.
inline constexpr Sql kDiscard{"discard events", R"sql(
WITH changed AS (
  DELETE FROM {delivery} AS waiting
  WHERE event_id = ANY ($1::text[]) AND $2::bigint IS NULL AND status = 3{and own} AND {filter}
    AND NOT (EXISTS (SELECT FROM {cursor} WHERE subscription <> {own})
             AND EXISTS (SELECT FROM {table} AS event
                         WHERE event.event_id = waiting.event_id AND NOT {behind}))
  RETURNING event_id, shard, hold
), removed AS (
  DELETE FROM {table} AS event USING changed
  WHERE event.event_id = changed.event_id
    AND NOT EXISTS (SELECT FROM {delivery} AS other
                    WHERE other.event_id = event.event_id AND other.subscription <> {own})
), told AS (
  INSERT INTO {unblocked} (subscription, shard, lane)
  SELECT DISTINCT {own}, shard, hold FROM changed WHERE hold > 0
)
SELECT count(*) FROM changed
)sql"};

// --- Purge: $3 is the status, or NULL for any; $4 the time ---

// Up to where the slowest subscription has read; in words that the server can estimate, so that it
// goes along the index and ends when it has enough. Without cursors, nobody is to read any more.
inline constexpr Sql kOldDone{"look for old delivered events", R"sql(
SELECT item.* FROM (
  SELECT shard, min(position) AS position
  FROM generate_series(0, 15) AS shard LEFT JOIN {cursor} AS cursor USING (shard) GROUP BY shard
) AS slowest CROSS JOIN LATERAL (
  SELECT seq, event_id FROM {table} AS event
  WHERE $3::bigint = 1 AND shard = slowest.shard AND seq > $1
    AND coalesce(slowest.position, seq) - seq >= 0
    AND greatest(created_at, available_at) < $4 AND {behind} AND NOT {has copies}
  ORDER BY seq LIMIT $2
) AS item
ORDER BY item.seq LIMIT $2
)sql"};

inline constexpr Sql kOldAny{"look for old events", R"sql(
SELECT item.* FROM generate_series(0, 15) AS number CROSS JOIN LATERAL (
  (SELECT seq, event_id FROM {table}
   WHERE $3::bigint IS NULL AND shard = number AND seq > $1 AND created_at < $4
   ORDER BY seq LIMIT $2)
  UNION
  (SELECT seq, event_id FROM {subscription} AS receiver CROSS JOIN LATERAL (
     SELECT seq, event_id FROM {delivery}
     WHERE $3::bigint IS NULL AND subscription = receiver.name AND shard = number AND seq > $1
       AND created_at < $4
     ORDER BY seq LIMIT $2
   ) AS copies)
) AS item
ORDER BY item.seq LIMIT $2
)sql"};

inline constexpr Sql kCountOld{"count old events", R"sql(
SELECT (SELECT count(*) FROM {table} AS event
        WHERE CASE WHEN $1::bigint IS NULL THEN created_at < $2
                   ELSE $1 = 1 AND greatest(created_at, available_at) < $2 AND {behind}
                        AND NOT {has copies} END)
  + (SELECT count(DISTINCT event_id) FROM {delivery} AS delivery
     WHERE $1::bigint IS NULL AND created_at < $2
       AND NOT EXISTS (SELECT FROM {table} AS event WHERE event.event_id = delivery.event_id))
)sql"};

// The condition is that of the DELETE itself: a row goes if it is finished for everybody when it
// goes. Each event counts once.
inline constexpr std::string_view kPurgeText = R"sql(
WITH copies AS (
  DELETE FROM {delivery} AS waiting
  WHERE event_id = ANY ($1::text[])
    AND (($2::bigint IS NULL AND created_at < $3)
      OR (status = $2 AND done_at < $3 AND hold IS NULL
          AND NOT EXISTS (SELECT FROM {table} AS event
                          WHERE event.event_id = waiting.event_id AND NOT {behind})))
  RETURNING *
), removed AS (
  DELETE FROM {table} AS event
  WHERE event_id = ANY ($1::text[])
    AND (($2::bigint IS NULL AND created_at < $3)
      OR event_id IN (SELECT event_id FROM copies)
      OR ($2 = 1 AND greatest(created_at, available_at) < $3 AND {behind} AND NOT {has copies}))
  RETURNING event.*, {behind} AS behind
))sql";
inline constexpr std::string_view kCounted = R"sql(
SELECT event_id FROM copies UNION SELECT event_id FROM removed
)sql";
inline constexpr std::string_view kArchived = R"sql(
INSERT INTO {archive} (
  seq, event_id, event_type, aggregate_type, aggregate_id, tenant_id, status, attempts, crashes,
  available_at, created_at, done_at, content_type, progress, headers, last_error, payload,
  payload_bytes)
(SELECT DISTINCT ON (event_id)
  seq, event_id, event_type, aggregate_type, aggregate_id, tenant_id, status, attempts, crashes,
  available_at, created_at, done_at, content_type, progress, headers, last_error, payload,
  payload_bytes
FROM copies ORDER BY event_id, subscription)
UNION ALL
SELECT
  seq, event_id, event_type, aggregate_type, aggregate_id, tenant_id,
  CASE WHEN behind THEN 1 ELSE status END, attempts, crashes, available_at, created_at,
  CASE WHEN behind THEN greatest(created_at, available_at) END, content_type, progress, headers,
  last_error, payload, payload_bytes
FROM removed WHERE event_id NOT IN (SELECT event_id FROM copies)
ORDER BY seq
)sql";
inline constexpr auto kPurgeAndCount = internal::kJoined<kPurgeText, kCounted>;
inline constexpr auto kPurgeToArchive = internal::kJoined<kPurgeText, kArchived>;
inline constexpr Sql kPurge{"purge events", {kPurgeAndCount.data(), kPurgeAndCount.size()}};
inline constexpr Sql kArchive{"archive events", {kPurgeToArchive.data(), kPurgeToArchive.size()}};

}  // namespace sql::by_position
}  // namespace outbox::postgres
