// The statements of progress by position, beside those of sql.h and admin_sql.h; written as there.
// Reads and updates of what waits are those of sql.h, on `<table>_delivery`.
//
// `{own}` is the subscription as a literal, `{copied}` the columns that a delivery row has
// of its event. A test checks that no read scans or sorts.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "client/postgres/statement.h"

namespace outbox::postgres {

inline constexpr std::string_view kCopiedColumnNames =
    "available_at, created_at, attempts, crashes, status, shard, event_id, event_type,"
    " aggregate_type, aggregate_id, tenant_id, content_type, progress, headers, last_error, "
    "payload,"
    " payload_bytes";

// Whether there is a delivery row of an event: `{has copy}`.
inline constexpr std::string_view kHasCopy =
    "EXISTS (SELECT FROM {delivery} AS delivery"
    " WHERE subscription = {own} AND delivery.event_id = event.event_id) AS has_copy";

namespace sql {

namespace internal {

template <const std::string_view&... Parts>
inline constexpr auto kJoined = [] {
  std::array<char, (Parts.size() + ...)> text{};
  auto end = text.begin();
  ((end = std::copy(Parts.begin(), Parts.end(), end)), ...);
  return text;
}();

}  // namespace internal

// --- Reading: what a row is, behind the columns of {light} ---
//
//   has_copy   whether there is a delivery row of it, which counts in its place
//   is_late    whether it has come late

// The cursors of the shards $1 as they are stored, and up to which number there may be delivery
// rows. Which process answers is told with every look: what it said counts for no other one.
inline constexpr Sql kCursors{"read positions", R"sql(
SELECT shard, position, snapshot::text, open::text, coalesce(target::text, ''),
       coalesce(late_after, 0), pg_backend_pid(),
       coalesce((SELECT max(seq) FROM {delivery} AS delivery
                 WHERE delivery.subscription = cursor.subscription
                   AND delivery.shard = cursor.shard), 0)
FROM {cursor} AS cursor WHERE subscription = {own} AND shard = ANY ($1::bigint[])
)sql"};

// A look at the shards $1 from the positions $2 and the snapshots $3 on; $4: see kCursors. One
// statement, hence one snapshot, which the first row tells. Up to $5 rows have come late, and up to
// $6 stand above the positions, shard by shard until there are enough.
//
// Late is what the old snapshot did not show: the transactions that it lists, if they have ended,
// and those that began after it. The comparison of (xid, seq) as a pair is no matter of style: with
// `xid = x AND seq <= position` the server goes by the index on (shard, seq), from its beginning.
inline constexpr std::string_view kLookText = R"sql(
WITH part AS MATERIALIZED (
  SELECT shard, position, snapshot::pg_snapshot AS snapshot, copied
  FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[])
    AS part (shard, position, snapshot, copied)
)
SELECT NULL::bigint AS seq, NULL::smallint, NULL::bigint, NULL::text, NULL::text, NULL::text,
  NULL::text, NULL::text, NULL::smallint, NULL::integer, NULL::integer, NULL::timestamptz,
  NULL::timestamptz, NULL::text, NULL::text, NULL::text, pg_current_snapshot()::text, NULL::bytea,
  clock_timestamp(), NULL::boolean, pg_backend_pid()::bigint, NULL::boolean, NULL::boolean
UNION ALL
(SELECT late.*, true FROM (
  SELECT item.* FROM part CROSS JOIN LATERAL pg_snapshot_xip(part.snapshot) AS running (xid)
  CROSS JOIN LATERAL (
    SELECT {light}, seq <= part.copied AND {has copy}
    FROM {table} AS event
    WHERE shard = part.shard AND (xid, seq) > (running.xid, 0::bigint)
      AND (xid, seq) <= (running.xid, part.position) AND hold IS NOT NULL
    ORDER BY xid, seq LIMIT $5
  ) AS item
  WHERE pg_visible_in_snapshot(running.xid, pg_current_snapshot())
  UNION ALL
  SELECT item.* FROM part CROSS JOIN LATERAL (
    SELECT {light}, seq <= part.copied AND {has copy}
    FROM {table} AS event
    WHERE shard = part.shard AND xid >= pg_snapshot_xmax(part.snapshot) AND seq <= part.position
      AND hold IS NOT NULL
    ORDER BY xid, seq LIMIT $5
  ) AS item
) AS late LIMIT $5)
UNION ALL
(SELECT item.*, false FROM part CROSS JOIN LATERAL (
  SELECT {light}, seq <= part.copied AND {has copy}
  FROM {table} AS event
  WHERE shard = part.shard AND seq > part.position AND hold IS NOT NULL
  ORDER BY seq LIMIT $6
) AS item)sql";
inline constexpr std::string_view kShardByShard = " LIMIT $6)";
inline constexpr std::string_view kInOneOrder = " ORDER BY item.seq LIMIT $6)";
inline constexpr auto kLookShardByShard = internal::kJoined<kLookText, kShardByShard>;
inline constexpr Sql kLook{"look for new events",
                           {kLookShardByShard.data(), kLookShardByShard.size()}};

// The same with what stands above the positions in one order of seq: $6 rows of each shard are
// looked at.
inline constexpr auto kLookAtAll = internal::kJoined<kLookText, kInOneOrder>;
inline constexpr Sql kLookInOrder{"look for new events", {kLookAtAll.data(), kLookAtAll.size()}};

// The rows of numbers that are open.
inline constexpr Sql kOpen{"read open events", R"sql(
SELECT {light}, {has copy}
FROM unnest($1::bigint[], $2::bigint[]) AS item (of_shard, number)
JOIN {table} AS event ON event.shard = item.of_shard AND event.seq = item.number
)sql"};

// Where the late rows of a look begin that were too many: $1 shards, $2 positions, $3 snapshots
// before, $4 the snapshot of the look. The order is for the planner: with another index it would
// begin at the lowest row.
inline constexpr Sql kFirstLate{"look for late events", R"sql(
SELECT part.shard, first.seq
FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS part (shard, position, snapshot)
CROSS JOIN LATERAL (
  SELECT min(late.seq) AS seq FROM (
    SELECT seq FROM {table}
    WHERE shard = part.shard AND xid >= pg_snapshot_xmin(part.snapshot::pg_snapshot)
      AND seq <= part.position AND NOT pg_visible_in_snapshot(xid, part.snapshot::pg_snapshot)
      AND pg_visible_in_snapshot(xid, $4::text::pg_snapshot)
    ORDER BY xid, seq OFFSET 0
  ) AS late
) AS first
WHERE first.seq IS NOT NULL
)sql"};

// A page of them for each shard: $5 rows of those with numbers from $2 (not included) to $3, that
// $4 did not show and the snapshot of that look ($6) does. $7 as $4 of kLook.
inline constexpr Sql kLatePage{"read late events", R"sql(
SELECT item.* FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $6::text[],
                          $7::bigint[])
  AS part (shard, after, through, snapshot, target, copied)
CROSS JOIN LATERAL (
  SELECT {light}, seq <= part.copied AND {has copy}
  FROM {table} AS event
  WHERE shard = part.shard AND seq > part.after AND seq <= part.through
    AND pg_visible_in_snapshot(xid, part.target::pg_snapshot)
    AND NOT pg_visible_in_snapshot(xid, part.snapshot::pg_snapshot) AND hold IS NOT NULL
  ORDER BY seq LIMIT $5
) AS item
)sql"};

// As kPayloads, of events.
inline constexpr Sql kEventPayloads{"read large payloads", R"sql(
SELECT seq, payload, payload_bytes FROM {table} WHERE event_id = ANY ($1::text[])
)sql"};

// --- Updating: $1 the owner, $2 its epoch, as in sql.h ---

// Stores the cursors of the shards $4, on the connection that has looked ($3: its process).
// Returned are those that were stored, and what else there is to say.
inline constexpr Sql kFlush{"store positions", R"sql(
WITH mine AS MATERIALIZED (
  SELECT shard.shard FROM {instance} AS instance JOIN {shard} AS shard USING (owner)
  WHERE instance.owner = $1 AND instance.epoch = $2 FOR SHARE OF instance
), changed AS (
  UPDATE {cursor} AS cursor
  SET position = item.position, snapshot = item.snapshot::pg_snapshot,
      open = item.open::bigint[], target = item.target::pg_snapshot, late_after = item.late_after
  FROM unnest($4::bigint[], $5::bigint[], $6::text[], $7::text[], $8::text[], $9::bigint[])
    AS item (shard, position, snapshot, open, target, late_after)
  WHERE cursor.subscription = {own} AND cursor.shard = item.shard
    AND cursor.shard IN (SELECT shard FROM mine) AND pg_backend_pid() = $3
  RETURNING cursor.shard
)
SELECT shard FROM changed UNION ALL SELECT -1 WHERE EXISTS (SELECT FROM mine)
UNION ALL SELECT -2 WHERE pg_backend_pid() <> $3
)sql"};
inline constexpr std::int64_t kNotFenced = -1;
inline constexpr std::int64_t kOtherProcess = -2;

// Copies open events, as they are and ready, for an update that follows in the same transaction.
// One that is there already (a repeat) stays.
inline constexpr Sql kCopy{"copy events", R"sql(
WITH mine AS MATERIALIZED (
  SELECT shard.shard FROM {instance} AS instance JOIN {shard} AS shard USING (owner)
  WHERE instance.owner = $1 AND instance.epoch = $2 FOR SHARE OF instance
)
INSERT INTO {delivery} (subscription, seq, hold, {copied})
SELECT {own}, seq, 0, {copied}
FROM unnest($3::bigint[], $4::bigint[], $5::text[]) AS item (of_shard, number, id)
JOIN {table} AS event ON event.shard = item.of_shard AND event.seq = item.number
  AND NOT event.event_id IS DISTINCT FROM item.id
WHERE event.shard IN (SELECT shard FROM mine)
ON CONFLICT (subscription, event_id) DO NOTHING
)sql"};

// Those of the events that have no delivery row.
inline constexpr Sql kPlaces{"look for events", R"sql(
SELECT event_id, shard, seq FROM {table} AS event
WHERE event_id = ANY ($1::text[])
  AND NOT EXISTS (SELECT FROM {delivery} AS delivery
                  WHERE subscription = {own} AND delivery.event_id = event.event_id)
)sql"};

}  // namespace sql
}  // namespace outbox::postgres
