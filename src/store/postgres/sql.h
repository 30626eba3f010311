// Every statement that the engine has the store run, in one place; those for
// operators are in admin_sql.h.
//
// `{table}` stands for the table's quoted name, `{x}` for that of `<table>_x`,
// and `{columns}` for what decode_row() reads. `{waiting}` is where events wait for a retry or in
// their lane: the table itself or, with progress by position, `<table>_delivery`, which has rows of
// several subscriptions: `{and own}` and its likes mean those of the instance's (see Naming).
// Status: 0 NEW, 1 DONE, 2 RETRY, 3 DEAD. Times are the server's: clock_timestamp(), which goes on
// within a transaction. A test checks that no read of the engine scans or sorts.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "client/postgres/statement.h"
#include "model/event_row.h"
#include "model/shards.h"

namespace outbox::postgres {

// What decode_row() reads, in this order: `{columns}`. What a statement
// selects beside them comes behind. The server's clock is read with each row, after
// the snapshot was taken: a row in it that was available when it was committed is
// available now.
inline constexpr std::string_view kRowColumnNames =
    "seq, shard, hold, event_id, event_type, aggregate_type, aggregate_id, tenant_id, status,"
    " attempts, crashes, available_at, created_at, content_type, progress, headers, payload,"
    " payload_bytes, clock_timestamp() AS read_at";

// The same with large payloads left out (see decode_light_rows()): `{light}`. To ask
// for their size does not read them.
inline constexpr std::string_view kLightColumnNames =
    "seq, shard, hold, event_id, event_type, aggregate_type, aggregate_id, tenant_id, status,"
    " attempts, crashes, available_at, created_at, content_type, progress, headers,"
    " CASE WHEN octet_length(payload) <= 8192 THEN payload END AS payload,"
    " CASE WHEN octet_length(payload_bytes) <= 8192 THEN payload_bytes END AS payload_bytes,"
    " clock_timestamp() AS read_at, payload IS NOT NULL AS is_json,"
    " coalesce(octet_length(payload), octet_length(payload_bytes))::bigint AS payload_size";
static_assert(kInlinePayload == 8'192, "the columns spell it out");

}  // namespace outbox::postgres

namespace outbox::postgres::sql {

// --- Writing ---
//
// Whether an event is delayed was decided by the writer's clock: hold says so. One
// that is not must not wait because the server's clock is behind: least(). One that waits for a
// delay (hold > 0, see available_of()) does so by the server's clock.

inline constexpr Sql kInsert{"insert an event", R"sql(
INSERT INTO {table} (event_id, event_type, aggregate_type, aggregate_id, tenant_id, content_type,
  headers, payload, payload_bytes, created_at, available_at, hold, locked_by, locked_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10,
  CASE WHEN $12 = 0 THEN least($11, clock_timestamp())
    WHEN $12 > 0 THEN statement_timestamp()
      + (extract(epoch FROM $11) * 1000000)::bigint * interval '1 microsecond'
    ELSE $11 END,
  CASE WHEN $12 > 0 THEN -(extract(epoch FROM statement_timestamp()) * 1000000)::bigint
      - (extract(epoch FROM $11) * 1000000)::bigint
    ELSE $12 END, $13,
  CASE WHEN $13 IS NOT NULL THEN clock_timestamp() END)
RETURNING seq, shard
)sql"};

// The same for arrays of values; the rows take their seq in this order.
inline constexpr Sql kInsertMany{"insert events", R"sql(
INSERT INTO {table} (event_id, event_type, aggregate_type, aggregate_id, tenant_id, content_type,
  headers, payload, payload_bytes, created_at, available_at, hold, locked_by, locked_at)
SELECT event_id, event_type, aggregate_type, aggregate_id, tenant_id, content_type,
  headers, payload, payload_bytes, timestamptz 'epoch' + created_at * interval '1 microsecond',
  CASE WHEN hold = 0
    THEN least(timestamptz 'epoch' + available_at * interval '1 microsecond', clock_timestamp())
    WHEN hold > 0 THEN statement_timestamp() + available_at * interval '1 microsecond'
    ELSE timestamptz 'epoch' + available_at * interval '1 microsecond' END,
  CASE WHEN hold > 0
    THEN -(extract(epoch FROM statement_timestamp()) * 1000000)::bigint - available_at
    ELSE hold END,
  CASE WHEN hold = 0 THEN $13 END,
  CASE WHEN hold = 0 AND $13 IS NOT NULL THEN clock_timestamp() END
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],
            $8::text[], $9::bytea[], $10::bigint[], $11::bigint[], $12::bigint[])
  WITH ORDINALITY AS item (event_id, event_type, aggregate_type, aggregate_id, tenant_id,
    content_type, headers, payload, payload_bytes, created_at, available_at, hold, number)
ORDER BY number
RETURNING seq, shard
)sql"};

// The same for another client library, with the values written into it: text in
// hexadecimal, in which only the server sees UTF-8.
inline constexpr Sql kInsertByExecutor{"insert events", R"sql(
INSERT INTO {table} (event_id, event_type, aggregate_type, aggregate_id, tenant_id, content_type,
  headers, payload, payload_bytes, created_at, available_at, hold, locked_by, locked_at)
SELECT convert_from(decode(event_id, 'hex'), 'UTF8'), convert_from(decode(event_type, 'hex'), 'UTF8'),
  convert_from(decode(aggregate_type, 'hex'), 'UTF8'),
  convert_from(decode(aggregate_id, 'hex'), 'UTF8'), convert_from(decode(tenant_id, 'hex'), 'UTF8'),
  convert_from(decode(content_type, 'hex'), 'UTF8'), convert_from(decode(headers, 'hex'), 'UTF8'),
  convert_from(decode(payload, 'hex'), 'UTF8'), decode(payload_bytes, 'hex'),
  timestamptz 'epoch' + created_at * interval '1 microsecond',
  CASE WHEN hold = 0
    THEN least(timestamptz 'epoch' + available_at * interval '1 microsecond', clock_timestamp())
    WHEN hold > 0 THEN statement_timestamp() + available_at * interval '1 microsecond'
    ELSE timestamptz 'epoch' + available_at * interval '1 microsecond' END,
  CASE WHEN hold > 0
    THEN -(extract(epoch FROM statement_timestamp()) * 1000000)::bigint - available_at
    ELSE hold END,
  CASE WHEN hold = 0 THEN convert_from(decode(owner[1], 'hex'), 'UTF8') END,
  CASE WHEN hold = 0 AND owner[1] IS NOT NULL THEN clock_timestamp() END
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],
            $8::text[], $9::text[], $10::bigint[], $11::bigint[], $12::bigint[])
  WITH ORDINALITY AS item (event_id, event_type, aggregate_type, aggregate_id, tenant_id,
    content_type, headers, payload, payload_bytes, created_at, available_at, hold, number),
  (SELECT $13::text[]) AS claimed (owner)
ORDER BY number
RETURNING seq, shard
)sql"};

namespace internal {

// A statement that reads the same of all shards, in one order of seq, $2 rows at most: `part` for
// each, with the shard's number for each ?. The server merges the parts, and reads of them together
// no row more than it returns and one of each.
class InOneOrder {
 public:
  explicit constexpr InOneOrder(std::string_view part) {
    add("SELECT item.* FROM (");
    for (int shard = 0; shard < kShards; ++shard) {
      add(shard == 0 ? "(" : ") UNION ALL (");
      for (const char c : part) {
        if (c == '?') {
          if (shard >= 10) put(static_cast<char>('0' + shard / 10));
          put(static_cast<char>('0' + shard % 10));
        } else {
          put(c);
        }
      }
    }
    add(")) AS item ORDER BY item.seq LIMIT $2");
  }

  constexpr std::string_view text() const { return {text_.data(), size_}; }

 private:
  constexpr void put(char c) { text_[size_++] = c; }
  constexpr void add(std::string_view text) {
    for (const char c : text) put(c);
  }

  std::array<char, 4'096> text_{};
  std::size_t size_ = 0;
};

}  // namespace internal

// --- Reading ---
//
// Each names the statuses that it means: should a row contradict itself (status DONE with a
// hold, say, in a table whose rows were not checked), it stops nobody.

// Shard by shard, each from its floor on, until there are enough: with LIMIT and
// without a sort the server reads no row more than it returns.
inline constexpr Sql kReady{"read ready events", R"sql(
SELECT item.* FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS part (shard, floor, number)
CROSS JOIN LATERAL (
  SELECT {light} FROM {waiting}
  WHERE shard = part.shard{and own} AND hold = 0 AND seq > part.floor AND status IN (0, 2)
  ORDER BY seq LIMIT $3
) AS item
LIMIT $3
)sql"};

// The same of all shards in one order: $1 has their floors.
inline constexpr internal::InOneOrder kReadyInOrderText(R"sql(
SELECT {light} FROM {table}
WHERE shard = ? AND hold = 0 AND seq > ($1::bigint[])[1 + ?] AND status IN (0, 2)
ORDER BY seq
)sql");
inline constexpr Sql kReadyInOrder{"read ready events", kReadyInOrderText.text()};

// Up to which seq numbers have been given out, and who may still be writing with one
// of those: in this order, and before the read that relies on it. A writer locks the
// table before it takes a number, and lets go when its rows are visible or gone.
inline constexpr Sql kLastSeq{"read the last number", R"sql(
SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {sequence}
)sql"};
inline constexpr Sql kWriters{"look for open writers", R"sql(
SELECT DISTINCT virtualtransaction, pid IS NULL FROM pg_locks
WHERE locktype = 'relation' AND relation = '{table}'::regclass
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND mode = 'RowExclusiveLock' AND granted AND pid IS DISTINCT FROM pg_backend_pid()
)sql"};

// In how many microseconds the first event is due, all shards together: in the past if
// there is something to read.
inline constexpr Sql kFirstDue{"read when the first event is due", R"sql(
SELECT -max(first.hold) - (extract(epoch FROM now()) * 1000000)::bigint
FROM unnest($1::bigint[]) AS part (shard)
CROSS JOIN LATERAL (
  SELECT hold FROM {waiting}
  WHERE shard = part.shard{and own} AND hold < 0 AND status IN (0, 2) ORDER BY hold DESC LIMIT 1
) AS first
)sql"};

// The $2 earliest, those due at the same moment by seq. A backward walk over the
// index would turn the latter round; so only the last moment is found by it, and the
// rows are read forward.
inline constexpr Sql kDue{"read due events", R"sql(
WITH earliest AS MATERIALIZED (
  SELECT due.hold FROM unnest($1::bigint[]) AS part (shard)
  CROSS JOIN LATERAL (
    SELECT hold FROM {waiting}
    WHERE shard = part.shard{and own} AND hold < 0
      AND hold >= -(extract(epoch FROM now()) * 1000000)::bigint AND status IN (0, 2)
    ORDER BY hold DESC LIMIT $2
  ) AS due
  ORDER BY due.hold DESC LIMIT $2
), last AS (SELECT min(hold) AS hold FROM earliest)
SELECT item.* FROM last CROSS JOIN unnest($1::bigint[]) AS part (shard)
CROSS JOIN LATERAL (
  (SELECT {light} FROM {waiting}
   WHERE shard = part.shard{and own} AND hold > last.hold AND hold < 0 AND status IN (0, 2)
   ORDER BY hold DESC LIMIT $2)
  UNION ALL
  (SELECT {light} FROM {waiting}
   WHERE shard = part.shard{and own} AND hold = last.hold AND hold < 0 AND status IN (0, 2)
   ORDER BY seq LIMIT $2)
) AS item
ORDER BY item.hold DESC, item.seq LIMIT $2
)sql"};

// The same of those that are not due yet.
inline constexpr Sql kNextDue{"read when the next event is due", R"sql(
SELECT -max(next.hold) - (extract(epoch FROM now()) * 1000000)::bigint
FROM unnest($1::bigint[]) AS part (shard)
CROSS JOIN LATERAL (
  SELECT hold FROM {waiting}
  WHERE shard = part.shard{and own} AND hold < 0
    AND hold < -(extract(epoch FROM now()) * 1000000)::bigint AND status IN (0, 2)
  ORDER BY hold DESC LIMIT 1
) AS next
)sql"};

inline constexpr Sql kHeld{"read the events of a lane", R"sql(
SELECT {light} FROM {waiting}
WHERE shard = $1{and own} AND hold = $2 AND hold > 0 AND status IN (0, 2, 3) ORDER BY seq LIMIT $3
)sql"};

// The same of several lanes, of a shard each: $1 has their keys by shard, and 0 where there is
// none.
inline constexpr internal::InOneOrder kHeldInOrderText(R"sql(
SELECT {light} FROM {waiting}
WHERE shard = ?{and own} AND hold = ($1::bigint[])[1 + ?] AND hold > 0 AND status IN (0, 2, 3)
ORDER BY seq
)sql");
inline constexpr Sql kHeldInOrder{"read the events of a lane", kHeldInOrderText.text()};

inline constexpr Sql kHeldLanes{"read held lanes", R"sql(
WITH RECURSIVE lane (key) AS (
  SELECT (SELECT min(hold) FROM {waiting} WHERE shard = $1{and own} AND hold > $2)
  UNION ALL
  SELECT (SELECT min(hold) FROM {waiting} WHERE shard = $1{and own} AND hold > lane.key)
  FROM lane WHERE lane.key IS NOT NULL
)
SELECT lane.key, head.seq, head.status, head.available_at, clock_timestamp()
FROM lane CROSS JOIN LATERAL (
  SELECT seq, status, available_at FROM {waiting}
  WHERE shard = $1{and own} AND hold = lane.key AND status IN (0, 2, 3) ORDER BY seq LIMIT 1
) AS head
WHERE lane.key IS NOT NULL LIMIT $3
)sql"};

inline constexpr Sql kUnblocked{"look for unblocked lanes", R"sql(
SELECT id, shard, lane FROM {unblocked} WHERE shard = ANY ($1::bigint[]){and own} ORDER BY id LIMIT $2
)sql"};

inline constexpr Sql kForgetUnblocked{"forget unblocked lanes", R"sql(
DELETE FROM {unblocked} WHERE id = ANY ($1::bigint[])
)sql"};

// The payloads that the reads above left out.
inline constexpr Sql kPayloads{"read large payloads", R"sql(
SELECT seq, payload, payload_bytes FROM {waiting} WHERE event_id = ANY ($1::text[]){and own}
)sql"};

// --- Row claims: $1 shards, $2 owner, $3 ms until a lock expires, $4 skip those that
// --- occurred less than this many ms ago, $5 limit, $6 bytes ---
//
// What has waited once before comes first, so that a long backlog of fresh rows
// cannot starve it. Rows that others are just taking are passed over. When an event
// occurred is what the writer's clock said, which may be ahead: only $4 asks for it. The row
// that reaches that many bytes of payload is the last one.

inline constexpr Sql kClaim{"claim events", R"sql(
WITH due AS MATERIALIZED (
  SELECT item.* FROM unnest($1::bigint[]) AS part (shard)
  CROSS JOIN LATERAL (
    SELECT event_id, locked_by, coalesce(octet_length(payload), octet_length(payload_bytes)) AS size
    FROM {table}
    WHERE shard = part.shard AND hold < 0
      AND hold >= -(extract(epoch FROM now()) * 1000000)::bigint AND status IN (0, 2)
      AND (locked_by IS NULL OR locked_at <= now() - $3 * interval '1 millisecond')
      AND ($4 = 0 OR created_at <= now() - $4 * interval '1 millisecond')
    ORDER BY hold DESC LIMIT $5 FOR UPDATE SKIP LOCKED
  ) AS item LIMIT $5
), ready AS MATERIALIZED (
  SELECT item.* FROM unnest($1::bigint[]) AS part (shard)
  CROSS JOIN LATERAL (
    SELECT event_id, locked_by, coalesce(octet_length(payload), octet_length(payload_bytes)) AS size
    FROM {table}
    WHERE shard = part.shard AND hold = 0 AND status IN (0, 2)
      AND (locked_by IS NULL OR locked_at <= now() - $3 * interval '1 millisecond')
      AND ($4 = 0 OR created_at <= now() - $4 * interval '1 millisecond')
    ORDER BY seq LIMIT $5 - (SELECT count(*) FROM due) FOR UPDATE SKIP LOCKED
  ) AS item LIMIT $5 - (SELECT count(*) FROM due)
), chosen AS (
  SELECT * FROM (
    SELECT *, sum(size) OVER (ROWS UNBOUNDED PRECEDING) - size AS before
    FROM (SELECT * FROM due UNION ALL SELECT * FROM ready) AS found
  ) AS summed WHERE before < $6
), claimed AS (
  UPDATE {table} AS event SET locked_by = $2, locked_at = clock_timestamp()
  FROM chosen WHERE event.event_id = chosen.event_id
  RETURNING event.*, chosen.locked_by IS NOT NULL AS reclaimed
)
SELECT {columns}, reclaimed FROM claimed ORDER BY seq
)sql"};

inline constexpr Sql kUnclaim{"give claimed events back", R"sql(
UPDATE {table} AS event SET locked_by = NULL, locked_at = NULL
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS item (shard, hold, seq)
WHERE event.shard = item.shard AND event.hold = item.hold AND event.seq = item.seq
  AND event.locked_by = $4 AND event.status IN (0, 2)
)sql"};

inline constexpr Sql kUnclaimAll{"give all claimed events back", R"sql(
UPDATE {table} SET locked_by = NULL, locked_at = NULL
WHERE hold IS NOT NULL AND locked_by = $1 AND status IN (0, 2)
)sql"};

// --- For the connection that they run on ---

// What settings.h says.

// --- Updating: $1 the owner, $2 its epoch, or NULL with row claims ---
//
// `mine` are the shards that the owner holds. It locks the owner's row until the end
// of the transaction, so that nobody can take over in between; a take-over that was
// quicker leaves it empty, and nothing is changed. Returned are the rows that were
// changed and, unless it is fenced, a 0. Finished rows keep locked_by: it tells whose
// work it was.
//
// A number alone does not name an event: a server that has lost commits gives it out again.
// So the id is compared too, in a way that leaves the planner the index on `hold`.

inline constexpr Sql kDone{"update events DONE", R"sql(
WITH mine AS MATERIALIZED (
  SELECT shard.shard FROM {instance} AS instance JOIN {shard} AS shard USING (owner)
  WHERE instance.owner = $1 AND instance.epoch = $2 FOR SHARE OF instance
), changed AS (
  UPDATE {table} AS event SET status = 1, done_at = clock_timestamp(), hold = NULL
  FROM unnest($3::bigint[], $4::bigint[], $5::bigint[], $6::text[]) AS item (shard, hold, seq, id)
  WHERE event.shard = item.shard AND event.hold = item.hold AND event.seq = item.seq
    AND NOT event.event_id IS DISTINCT FROM item.id AND event.status IN (0, 2)
    AND CASE WHEN $2 IS NULL THEN event.locked_by = $1
             ELSE event.shard IN (SELECT shard FROM mine) END
  RETURNING event.seq
)
SELECT seq FROM changed UNION ALL SELECT 0 WHERE $2 IS NULL OR EXISTS (SELECT FROM mine)
)sql"};

inline constexpr Sql kRemove{"delete delivered events", R"sql(
WITH mine AS MATERIALIZED (
  SELECT shard.shard FROM {instance} AS instance JOIN {shard} AS shard USING (owner)
  WHERE instance.owner = $1 AND instance.epoch = $2 FOR SHARE OF instance
), changed AS (
  DELETE FROM {waiting} AS event
  USING unnest($3::bigint[], $4::bigint[], $5::bigint[], $6::text[]) AS item (shard, hold, seq, id)
  WHERE event.shard = item.shard{and own} AND event.hold = item.hold AND event.seq = item.seq
    AND NOT event.event_id IS DISTINCT FROM item.id AND event.status IN (0, 2)
    AND CASE WHEN $2 IS NULL THEN event.locked_by = $1
             ELSE event.shard IN (SELECT shard FROM mine) END
  RETURNING event.seq
)
SELECT seq FROM changed UNION ALL SELECT 0 WHERE $2 IS NULL OR EXISTS (SELECT FROM mine)
)sql"};

// All other updates. `kind` is StatusUpdate::Kind: 1 retry, 2 defer, 3 dead, 4 hold, 5 candidate,
// 6 unblock. `lane` is where a row waits with others, 0 if alone: then until
// `available`.
inline constexpr Sql kChange{"update events", R"sql(
WITH mine AS MATERIALIZED (
  SELECT shard.shard FROM {instance} AS instance JOIN {shard} AS shard USING (owner)
  WHERE instance.owner = $1 AND instance.epoch = $2 FOR SHARE OF instance
), wanted AS (
  SELECT *, clock_timestamp() + delay * interval '1 microsecond' AS available
  FROM unnest($3::bigint[], $4::bigint[], $5::bigint[], $6::text[], $7::bigint[], $8::bigint[],
              $9::bigint[], $10::bigint[], $11::bigint[], $12::text[], $13::text[])
    AS item (shard, hold, seq, id, kind, lane, attempts, crashes, delay, error, progress)
), changed AS (
  UPDATE {waiting} AS event SET
    status = CASE kind WHEN 1 THEN 2 WHEN 3 THEN 3 ELSE event.status END,
    attempts = CASE WHEN kind IN (1, 3) THEN item.attempts ELSE event.attempts END,
    crashes = CASE kind WHEN 1 THEN 0 WHEN 2 THEN item.crashes WHEN 5 THEN item.crashes
                        ELSE event.crashes END,
    last_error = CASE WHEN kind IN (1, 3) THEN error
                      WHEN kind = 2 THEN coalesce(error, event.last_error)
                      ELSE event.last_error END,
    progress = CASE WHEN kind IN (1, 2, 3) THEN item.progress ELSE event.progress END,
    available_at = CASE WHEN kind IN (1, 2) THEN available ELSE event.available_at END,
    done_at = CASE kind WHEN 3 THEN clock_timestamp() ELSE event.done_at END,
    hold = CASE
      WHEN kind = 5 THEN event.hold
      WHEN kind = 6 THEN NULL
      WHEN lane > 0 THEN lane
      WHEN kind = 3 THEN NULL
      ELSE -greatest(1, (extract(epoch FROM least(
        CASE kind WHEN 4 THEN event.available_at ELSE available END,
        timestamptz '9999-12-31 UTC')) * 1000000)::bigint) END,
    locked_by = CASE WHEN kind IN (1, 2, 4) THEN NULL ELSE event.locked_by END,
    locked_at = CASE WHEN kind IN (1, 2, 4) THEN NULL ELSE event.locked_at END
  FROM wanted AS item
  WHERE event.shard = item.shard{and own} AND event.hold = item.hold AND event.seq = item.seq
    AND NOT event.event_id IS DISTINCT FROM item.id
    AND CASE kind WHEN 6 THEN event.status = 3 ELSE event.status IN (0, 2) END
    AND CASE WHEN $2 IS NULL THEN event.locked_by = $1
             ELSE event.shard IN (SELECT shard FROM mine) END
  RETURNING event.seq
)
SELECT seq FROM changed UNION ALL SELECT 0 WHERE $2 IS NULL OR EXISTS (SELECT FROM mine)
)sql"};

inline constexpr Sql kStates{"read the states of events", R"sql(
SELECT event_id, status, attempts, hold, locked_by, last_error FROM {waiting}
WHERE event_id = ANY ($1::text[]){and own}
)sql"};

// --- Ownership ---
//
// A renewal is one transaction in one round trip: kLockShards, kBeat, kEvict, kShare,
// kLease, kNeighbours. The first makes renewals take turns, in the server alone: a
// process that is stopped in the middle of its renewal stops nobody.

inline constexpr Sql kLockShards{"lock the shards to renew", R"sql(
SELECT shard FROM {shard}{where own} ORDER BY shard FOR UPDATE
)sql"};

// An instance that is no longer registered has been declared dead. A server that has lost commits
// gives numbers out again: an owner's epoch exceeds whatever it had before ($10). There is nothing
// to register for without shards: the subscription is stopped, or gone.
inline constexpr Sql kRegister{"register", R"sql(
INSERT INTO {instance} ({own column}owner, epoch, lease, capacity, exclusive, claims, name, host,
  pid, process)
SELECT {own value}$1, greatest(nextval('{epoch}'), $10 + 1), $2 * interval '1 millisecond', $3, $4,
  $5, $6, $7, $8, $9
WHERE EXISTS (SELECT FROM {shard}{where own})
)sql"};
inline constexpr Sql kBeat{"renew the lease", R"sql(
UPDATE {instance} SET beat_at = clock_timestamp()
WHERE owner = $1 AND EXISTS (SELECT FROM {shard}{where own})
RETURNING epoch
)sql"};

// Those whose lease has expired, if $2 says so, and those known to be dead ($3). The
// deletion waits for an update of theirs that is under way; later ones are fenced.
inline constexpr Sql kEvict{"evict dead instances", R"sql(
WITH dead AS (
  DELETE FROM {instance}
  WHERE owner <> $1{and own}
    AND (($2 AND beat_at + lease < clock_timestamp()) OR owner = ANY ($3::text[]))
  RETURNING owner, capacity
)
UPDATE {shard} AS shard
SET owner = NULL, draining = false, candidates = greatest(shard.candidates, dead.capacity)
FROM dead WHERE shard.owner = dead.owner
)sql"};

// Forgets the candidates that the owner has heard of ($2: the shards), drains shards
// beyond its share and takes free ones up to it. Shares are as even as whole
// shards allow, the oldest get one more; but the oldest that wants everything gets
// everything, and while the oldest of all claims rows nobody owns shards.
inline constexpr Sql kShare{"share the shards out", R"sql(
WITH living AS (
  SELECT owner, row_number() OVER (ORDER BY epoch, owner) - 1 AS rank, count(*) OVER () AS number,
         first_value(owner) OVER (ORDER BY exclusive DESC, epoch, owner) AS sole,
         bool_or(exclusive) OVER () AS any_exclusive
  FROM {instance} WHERE NOT claims{and own}
), share AS (
  SELECT CASE WHEN (SELECT claims FROM {instance}{where own} ORDER BY epoch, owner LIMIT 1) THEN 0
              WHEN any_exclusive THEN CASE WHEN sole = owner THEN 16 ELSE 0 END
              ELSE 16 / number + CASE WHEN rank < 16 % number THEN 1 ELSE 0 END END AS size
  FROM living WHERE owner = $1
), candidate AS (
  -- First what is owned, of that first what is not being drained; then what is free.
  SELECT shard, owner IS NULL AS free,
         row_number() OVER (ORDER BY owner IS NULL, draining, shard) AS number
  FROM {shard} WHERE (owner = $1 OR owner IS NULL){and own}
)
UPDATE {shard} AS shard
SET owner = $1, draining = candidate.number > share.size,
    candidates = CASE WHEN NOT candidate.free AND shard.shard = ANY ($2::bigint[]) THEN NULL
                    ELSE shard.candidates END
FROM candidate, share
WHERE shard.shard = candidate.shard{and own} AND (NOT candidate.free OR candidate.number <= share.size)
)sql"};

inline constexpr Sql kLease{"read what is owned", R"sql(
SELECT shard, draining, candidates FROM {shard} WHERE owner = $1 ORDER BY shard
)sql"};

// Those on the same host, whose processes can be looked for; and whether anybody
// stands in the way of one that claims rows.
inline constexpr Sql kNeighbours{"look at the other instances", R"sql(
SELECT owner, pid, process, EXISTS (SELECT FROM {shard} WHERE owner IS NOT NULL{and own}),
       (SELECT claims FROM {instance}{where own} ORDER BY epoch, owner LIMIT 1)
FROM {instance} WHERE host = $1{and own}
)sql"};

inline constexpr Sql kRelease{"release a shard", R"sql(
UPDATE {shard} SET owner = NULL, draining = false WHERE shard = $2 AND owner = $1 AND draining
)sql"};

inline constexpr Sql kLeaveShards{"release the shards", R"sql(
UPDATE {shard} SET owner = NULL, draining = false WHERE owner = $1
)sql"};
inline constexpr Sql kLeave{"leave", R"sql(
DELETE FROM {instance} WHERE owner = $1
)sql"};

// --- Which database it is: of a server and its standbys the same ---

inline constexpr Sql kDatabaseId{"find out which database it is", R"sql(
SELECT system_identifier,
       (SELECT oid::bigint FROM pg_catalog.pg_database WHERE datname = current_database())
FROM pg_catalog.pg_control_system()
)sql",
                                 false};

}  // namespace outbox::postgres::sql
