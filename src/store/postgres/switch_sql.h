// The statements that switch a table between the two kinds of progress; written as in sql.h.
// Scripts have names filled in by expand(), and can be repeated.
#pragma once

#include <string_view>

#include "client/postgres/statement.h"

namespace outbox::postgres::sql::switching {

// --- The switch is an instance, the first of all: the others drain what they own, as they would
// --- for any that wants everything. $1 is its owner. ---

inline constexpr Sql kRegister{"register for the switch", R"sql(
INSERT INTO {instance} ({own column}owner, epoch, lease, capacity, exclusive, claims, name, host, pid,
  process)
VALUES ({own value}$1, -1, interval '30 seconds', 0, true, false, 'outbox switch', $2, $3, $4)
)sql"};

inline constexpr Sql kClaimers{"look for instances that claim rows", R"sql(
SELECT name, host, pid FROM {instance}
WHERE claims AND beat_at + lease >= clock_timestamp() ORDER BY epoch
)sql"};

// Who still owns some of it.
inline constexpr Sql kOwners{"look who delivers", R"sql(
SELECT coalesce(instance.name, ''), coalesce(instance.host, ''), coalesce(instance.pid, 0), count(*)
FROM {shard} AS shard LEFT JOIN {instance} AS instance USING (owner)
WHERE shard.owner IS DISTINCT FROM $1
GROUP BY instance.name, instance.host, instance.pid ORDER BY 1
)sql"};

// --- Row to position ---

inline constexpr Sql kHasXid{"look for the column xid", R"sql(
SELECT FROM pg_attribute
WHERE attrelid = '{table}'::regclass AND attname = 'xid' AND NOT attisdropped
)sql"};

// With lock_timeout: writers must not queue behind it for long. Rows that are there count as
// visible in every snapshot, and are: nobody writes while this has its lock.
inline constexpr std::string_view kAddXid = R"sql(
ALTER TABLE {table} ADD COLUMN xid xid8 NOT NULL DEFAULT '0';
ALTER TABLE {table} ALTER COLUMN xid SET DEFAULT pg_current_xact_id();
)sql";

// Behind 1001_cursors: in one statement, hence of one snapshot. What is pending and ready is above
// the position; if there is nothing, all that is there is below it.
inline constexpr std::string_view kSetPositions = R"sql(
UPDATE {cursor} AS cursor SET snapshot = pg_current_snapshot(), position = coalesce(
  (SELECT min(seq) - 1 FROM {table} WHERE shard = cursor.shard AND hold = 0),
  (SELECT max(seq) FROM {table} WHERE shard = cursor.shard), 0);
)sql";

// What waits or is dead is a delivery row from now on; its event counts as finished, so that no
// look returns it when the delivery row is gone.
inline constexpr std::string_view kCopyWaiting = R"sql(
INSERT INTO {delivery} (subscription, seq, hold, done_at, locked_by, locked_at, {copied})
SELECT {own}, seq, hold, done_at, locked_by, locked_at, {copied} FROM {table}
WHERE (hold IS NOT NULL AND hold <> 0) OR status = 3;
UPDATE {table} SET status = 1, hold = NULL, done_at = coalesce(done_at, clock_timestamp())
WHERE hold IS NOT NULL AND hold <> 0;
)sql";

// --- Position to row ---

// Of $3 ready rows beyond the number $2 in the shard $1, those that are behind become DONE.
// Returned are the last one of all, and how many there were.
inline constexpr Sql kFinishBehind{"update delivered events", R"sql(
WITH next AS MATERIALIZED (
  SELECT seq, event_id, {behind} AND NOT {has copies} AS is_behind
  FROM {table} AS event WHERE shard = $1 AND hold = 0 AND seq > $2 ORDER BY seq LIMIT $3
), finished AS (
  UPDATE {table} AS event
  SET status = 1, hold = NULL, done_at = greatest(event.created_at, event.available_at)
  FROM next WHERE next.is_behind AND event.event_id = next.event_id AND event.hold IS NOT NULL
)
SELECT max(seq), count(*) FROM next
)sql"};

// The same of all that is left.
inline constexpr std::string_view kFinishRest = R"sql(
UPDATE {table} AS event
SET status = 1, hold = NULL, done_at = greatest(event.created_at, event.available_at)
WHERE hold IS NOT NULL AND {behind} AND NOT {has copies};
)sql";

// Delivery rows go back where they came from; the events of some were purged.
inline constexpr std::string_view kPutBack = R"sql(
UPDATE {table} AS event SET hold = delivery.hold, status = delivery.status,
  attempts = delivery.attempts, crashes = delivery.crashes, available_at = delivery.available_at,
  done_at = delivery.done_at, progress = delivery.progress, last_error = delivery.last_error,
  locked_by = NULL, locked_at = NULL
FROM {delivery} AS delivery WHERE event.event_id = delivery.event_id;
INSERT INTO {table} (seq, hold, done_at, available_at, created_at, attempts, crashes, status,
  event_id, event_type, aggregate_type, aggregate_id, tenant_id, content_type, progress, headers,
  last_error, payload, payload_bytes)
OVERRIDING SYSTEM VALUE
SELECT seq, hold, done_at, available_at, created_at, attempts, crashes, status, event_id,
  event_type, aggregate_type, aggregate_id, tenant_id, content_type, progress, headers, last_error,
  payload, payload_bytes
FROM {delivery} AS delivery
WHERE NOT EXISTS (SELECT FROM {table} AS event WHERE event.event_id = delivery.event_id);
)sql";

inline constexpr std::string_view kDropCursors = R"sql(
DROP VIEW {state}, {unfinished};
DROP TABLE {delivery}, {cursor}, {subscription};
DELETE FROM {instance};
DELETE FROM {unblocked};
ALTER TABLE {instance} DROP COLUMN subscription;
ALTER TABLE {unblocked} DROP COLUMN subscription;
ALTER TABLE {shard} DROP CONSTRAINT {index shard_pkey}, DROP COLUMN subscription,
  ADD CONSTRAINT {index shard_pkey} PRIMARY KEY (shard);
UPDATE {shard} SET owner = NULL, draining = false, candidates = NULL;
DELETE FROM {migration} WHERE version = 1000;
)sql";

}  // namespace outbox::postgres::sql::switching
