// The statements that the engine has the store run; those for operators are in
// admin_sql.h. An Sql is kept prepared; an SqlTemplate, whose shape depends on its
// values (lists of rows, of shards), is sent as text.
//
// `{table}` stands for the table's quoted name, `{x}` for that of `<table>_x`; the other names
// are those of the constants below. Status: 0 NEW, 1 DONE, 2 RETRY, 3 DEAD.
// Times are the server's, in UTC. The index is named where the optimizer would have a
// choice: its statistics are those of yesterday's table.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/sql_text.h"
#include "client/mysql/literal.h"
#include "client/mysql/statement.h"
#include "model/event_row.h"
#include "model/shards.h"

namespace outbox::mysql {

// What decode_row() reads, in this order: `{columns}` in statements. What a statement
// selects beside them comes behind.
inline constexpr std::string_view kRowColumnNames =
    "seq, shard, hold, event_id, event_type, aggregate_type, aggregate_id, tenant_id, status,"
    " attempts, crashes, available_at, created_at, content_type, progress, headers, payload,"
    " payload_bytes, utc_timestamp(6)";

// The same with large payloads left out (see decode_light_rows()): `{light}`.
inline constexpr std::string_view kLightColumnNames =
    "seq, shard, hold, event_id, event_type, aggregate_type, aggregate_id, tenant_id, status,"
    " attempts, crashes, available_at, created_at, content_type, progress, headers,"
    " CASE WHEN length(payload) <= 8192 THEN payload END,"
    " CASE WHEN length(payload_bytes) <= 8192 THEN payload_bytes END,"
    " utc_timestamp(6), payload IS NOT NULL, coalesce(length(payload), length(payload_bytes))";

static_assert(kInlinePayload == 8'192, "the columns spell it out");

// As an operator sees them: `{record}`.
inline constexpr std::string_view kRecordColumnNames =
    "seq, shard, hold, event_id, event_type, aggregate_type, aggregate_id, tenant_id, status,"
    " attempts, crashes, available_at, created_at, content_type, progress, headers, payload,"
    " payload_bytes, utc_timestamp(6), last_error, locked_by, done_at";

// The moment, as `hold` counts it: `{now}`.
inline constexpr std::string_view kNow =
    "timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(6))";

// Where rows are looked for by their numbers: `{by_number}`. Left to itself, the server looks
// at all rows of a small table, and waits for those that somebody is writing.
inline constexpr std::string_view kByNumber = "{table} AS event FORCE INDEX (PRIMARY)";

// Where operators look for rows, so that millions of delivered events cost a search for others
// nothing: the index, and the condition that it serves. `{dead}`, `{unfinished}`, `{anywhere}`.
inline constexpr std::string_view kDead = "{table} FORCE INDEX (by_death) WHERE dead = 1";
inline constexpr std::string_view kUnfinished =
    "{table} FORCE INDEX (by_hold) WHERE shard IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13,"
    " 14, 15) AND hold IS NOT NULL AND status IN (0, 2)";
static_assert(kShards == 16, "the statements spell it out");
inline constexpr std::string_view kAnywhere = "{table} FORCE INDEX (PRIMARY) WHERE TRUE";

}  // namespace outbox::mysql

namespace outbox::mysql::sql {

// --- Writing ---
//
// Whether an event is delayed was decided by the writer's clock: hold says so. One
// that is not must not wait because the server's clock is behind: least(). The values
// are those of NewRow.

inline constexpr std::string_view kInsertHead =
    "INSERT INTO {table} (event_id, event_type, aggregate_type, aggregate_id, tenant_id,"
    " content_type, headers, payload, payload_bytes, created_at, available_at, hold, locked_by,"
    " locked_at) VALUES ";
inline constexpr std::size_t kInsertParameters = 15;

namespace internal {

inline constexpr std::string_view kInsertRow =
    "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, least(?, coalesce(?, utc_timestamp(6))), ?, ?,"
    " if(?, utc_timestamp(6), NULL))";

template <std::size_t Rows>
inline constexpr auto kInsertText = kRepeatedRow<kInsertHead, kInsertRow, Rows>;

}  // namespace internal

template <std::size_t Rows>
inline constexpr Sql kInsert{
    Rows == 1 ? "insert an event" : "insert events",
    {internal::kInsertText<Rows>.data(), internal::kInsertText<Rows>.size()}};

// --- Reading ---
//
// A row that contradicts itself (DONE, and yet waiting) is passed over; where the table has
// its constraint there are none.

inline constexpr Sql kHeld{"read the events of a lane", R"sql(
SELECT {light} FROM {table} FORCE INDEX (by_hold)
WHERE shard = ? AND hold = ? AND status IN (0, 2, 3) ORDER BY seq LIMIT ?
)sql"};

// The same of several lanes: first the numbers of each, then the rows of the lowest of them.
inline constexpr SqlTemplate kHeldNumbers{"read the events of a lane", R"sql(
SELECT seq AS number FROM {table} FORCE INDEX (by_hold)
WHERE shard = ? AND hold = ? AND status IN (0, 2, 3) ORDER BY seq LIMIT ?)sql"};
inline constexpr SqlTemplate kHeldInOrder{"read the events of a lane", R"sql(
SELECT {light} FROM ({?numbers} ORDER BY number LIMIT ?) AS lane STRAIGHT_JOIN {by_number}
  ON seq = number WHERE hold > 0 AND status IN (0, 2, 3) ORDER BY seq
)sql"};

// The first row of the next lane.
inline constexpr Sql kNextLane{"read held lanes", R"sql(
SELECT hold, seq, status, available_at, utc_timestamp(6) FROM {table} FORCE INDEX (by_hold)
WHERE shard = ? AND hold > ? AND status IN (0, 2, 3) ORDER BY hold, seq LIMIT 1
)sql"};

// Of one shard, as the next ones: there is a SELECT for each in the statement.
inline constexpr SqlTemplate kReady{"read ready events", R"sql(
SELECT shard, seq FROM {table} FORCE INDEX (by_hold)
WHERE shard = ? AND hold = 0 ORDER BY seq LIMIT ?)sql"};

inline constexpr SqlTemplate kNextDue{"read when the next event is due", R"sql(
SELECT hold, {now} FROM {table} FORCE INDEX (by_hold)
WHERE shard = ? AND hold < ? AND status IN (0, 2) ORDER BY hold DESC LIMIT 1)sql"};

inline constexpr SqlTemplate kDueMoments{"read due events", R"sql(
SELECT hold FROM {table} FORCE INDEX (by_hold)
WHERE shard = ? AND hold < 0 AND hold >= ? AND status IN (0, 2) ORDER BY hold DESC LIMIT ?)sql"};

// Those later than a moment, and those of that moment.
inline constexpr SqlTemplate kDue{"read due events", R"sql(
SELECT hold, seq FROM {table} FORCE INDEX (by_hold)
WHERE shard = ? AND hold < 0 AND hold > ? AND status IN (0, 2) ORDER BY hold DESC LIMIT ?)
UNION ALL
(SELECT hold, seq FROM {table} FORCE INDEX (by_hold)
WHERE shard = ? AND hold = ? AND status IN (0, 2) ORDER BY seq LIMIT ?)sql"};

inline constexpr SqlTemplate kFetch{"read events", R"sql(
SELECT {light} FROM {by_number} WHERE seq IN (?) AND status IN (0, 2) AND {?condition}
)sql"};

inline constexpr SqlTemplate kLargePayloads{"read large payloads", R"sql(
SELECT seq, payload, payload_bytes FROM {by_number} WHERE seq IN (?)
)sql"};

inline constexpr SqlTemplate kUnblocked{"look for unblocked lanes", R"sql(
SELECT id, shard, lane FROM {unblocked} WHERE shard IN (?) ORDER BY id LIMIT ?
)sql"};

inline constexpr SqlTemplate kForgetUnblocked{"forget unblocked lanes", R"sql(
DELETE FROM {unblocked} WHERE id IN (?)
)sql"};

// See sync_log().
inline constexpr Sql kFlush{"flush the server's log after a read", R"sql(
UPDATE {flush} SET flushes = flushes + 1 WHERE shard = ?
)sql"};

// --- Wake-ups ---

inline constexpr Sql kLastNumber{"look for commits", R"sql(
SELECT max(seq) FROM {table}
)sql"};

// --- Ownership ---
//
// A renewal is kBeat, kInstances and a look at the shards (Ownership::look()), each by
// itself: an instance stopped in the middle of it stops nobody. Only what is to be changed
// is changed in a transaction, which begins with the same look FOR UPDATE: changes are
// made one after the other.
//
// An epoch is one's own only together with the name of its registration: a primary that has
// lost commits may have given it to somebody else.

inline constexpr Sql kBeat{"renew the lease", R"sql(
UPDATE {instance} SET beat_at = utc_timestamp(6) WHERE epoch = ? AND owner = ?
)sql"};

inline constexpr Sql kInstances{"look at the instances", R"sql(
SELECT epoch, beat_at + INTERVAL lease MICROSECOND < utc_timestamp(6), capacity, exclusive, claims,
       host, pid, process
FROM {instance} ORDER BY epoch
)sql"};

inline constexpr std::string_view kLookAtShards =
    "SELECT shard, epoch, draining, candidates, {?history} FROM {shard} ORDER BY shard";

inline constexpr SqlTemplate kForgetCandidates{"forget candidates", R"sql(
UPDATE {shard} SET candidates = NULL WHERE epoch = ? AND shard IN (?)
  AND EXISTS (SELECT 1 FROM {instance} AS registered WHERE registered.epoch = ? AND owner = ?)
)sql"};

inline constexpr SqlTemplate kShareOut{"share the shards out", R"sql(
UPDATE {shard} SET epoch = ?, draining = ? WHERE shard IN (?)
)sql"};

inline constexpr Sql kFindSelf{"find the registration", R"sql(
SELECT epoch FROM {instance} WHERE owner = ?
)sql"};

// A row without an owner, which is deleted at once, tells the number that comes next; the
// registration gets that, or a higher one, from which the server then counts on. Its clock
// tells epochs apart also from those that it has lost.
inline constexpr Sql kNextEpoch{"register", R"sql(
INSERT INTO {instance} (owner, lease, capacity, exclusive, claims, name, host, pid, process)
VALUES ('', 0, 0, FALSE, FALSE, '', '', 0, '')
)sql"};
inline constexpr Sql kRegister{"register", R"sql(
INSERT INTO {instance} (owner, lease, capacity, exclusive, claims, name, host, pid, process, epoch)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
)sql"};
inline constexpr Sql kLowestEpoch{"register", R"sql(
SELECT timestampdiff(SECOND, '1970-01-01', utc_timestamp())
)sql"};

// Waits for an update of the dead that is under way; later ones are fenced. One whose lease
// looked expired may have renewed it since.
inline constexpr Sql kEvict{"evict dead instances", R"sql(
DELETE FROM {instance} WHERE epoch = ?
)sql"};
inline constexpr Sql kEvictExpired{"evict dead instances", R"sql(
DELETE FROM {instance}
WHERE epoch = ? AND beat_at + INTERVAL lease MICROSECOND < utc_timestamp(6)
)sql"};
inline constexpr Sql kInherit{"evict dead instances", R"sql(
UPDATE {shard} SET epoch = NULL, draining = FALSE, candidates = greatest(coalesce(candidates, 0), ?)
WHERE epoch = ?
)sql"};

inline constexpr Sql kRelease{"release a shard", R"sql(
UPDATE {shard} SET epoch = NULL, draining = FALSE
WHERE shard = ? AND epoch = ? AND draining
  AND EXISTS (SELECT 1 FROM {instance} AS registered WHERE registered.epoch = ? AND owner = ?)
)sql"};
inline constexpr Sql kLeaveShards{"release the shards", R"sql(
UPDATE {shard} SET epoch = NULL, draining = FALSE WHERE epoch = ?
)sql"};
inline constexpr Sql kLeave{"leave", R"sql(
DELETE FROM {instance} WHERE epoch = ? AND owner = ?
)sql"};

// --- Updating ---

// A status update changes rows for the present owner alone. The owner's own row is locked:
// a take-over deletes that row, and so waits for an update that is under way.
inline constexpr SqlTemplate kOwned{"", R"sql(
  AND (SELECT epoch FROM {instance} WHERE epoch = ? AND owner = ? FOR UPDATE) IS NOT NULL
  AND find_in_set(shard, (SELECT group_concat(shard) FROM {shard} WHERE epoch = ?))
)sql"};
inline constexpr SqlTemplate kClaimed{"", R"sql(
  AND locked_by = ?
)sql"};

// A number alone may be that of another event: a primary that has lost commits gives
// theirs out again. The numbers alone are for the index: MariaDB would not go by it for
// one pair. Finished rows keep locked_by: it tells whose work it was.
inline constexpr SqlTemplate kDone{"update events DONE", R"sql(
UPDATE {by_number} SET status = 1, done_at = utc_timestamp(6), hold = NULL
WHERE seq IN (?) AND (seq, event_id) IN ({?pairs}) AND status IN (0, 2){?fence}
)sql"};
inline constexpr SqlTemplate kRemove{"delete delivered events", R"sql(
DELETE event FROM {by_number}
WHERE seq IN (?) AND (seq, event_id) IN ({?pairs}) AND status IN (0, 2){?fence}
)sql"};

// `lane` is where a row waits with others, 0 if alone: then until it is available.
inline constexpr SqlTemplate kChange{"update events", R"sql(
UPDATE ({?items}) AS item STRAIGHT_JOIN {by_number} ON seq = number AND event_id = id SET
  event.hold = CASE
    WHEN kind = 5 THEN event.hold
    WHEN kind = 6 THEN NULL
    WHEN lane > 0 THEN lane
    WHEN kind = 3 THEN NULL
    ELSE -greatest(1, timestampdiff(MICROSECOND, '1970-01-01',
      CASE kind WHEN 4 THEN event.available_at
                ELSE utc_timestamp(6) + INTERVAL delay MICROSECOND END)) END,
  event.available_at = CASE WHEN kind IN (1, 2) THEN utc_timestamp(6) + INTERVAL delay MICROSECOND
                            ELSE event.available_at END,
  event.attempts = CASE WHEN kind IN (1, 3) THEN tries ELSE event.attempts END,
  event.crashes = CASE kind WHEN 1 THEN 0 WHEN 2 THEN deaths WHEN 5 THEN deaths
                            ELSE event.crashes END,
  event.last_error = CASE WHEN kind IN (1, 3) THEN error
                          WHEN kind = 2 THEN coalesce(error, event.last_error)
                          ELSE event.last_error END,
  event.progress = CASE WHEN kind IN (1, 2, 3) THEN step ELSE event.progress END,
  event.done_at = CASE kind WHEN 3 THEN utc_timestamp(6) ELSE event.done_at END,
  event.locked_by = CASE WHEN kind IN (1, 2, 4) THEN NULL ELSE event.locked_by END,
  event.locked_at = CASE WHEN kind IN (1, 2, 4) THEN NULL ELSE event.locked_at END,
  event.status = CASE kind WHEN 1 THEN 2 WHEN 3 THEN 3 ELSE event.status END
WHERE event.hold = place
  AND CASE kind WHEN 6 THEN event.status = 3 ELSE event.status IN (0, 2) END{?fence}
)sql"};

inline constexpr SqlTemplate kStates{"read the states of events", R"sql(
SELECT seq, status, attempts, hold, locked_by, last_error, event_id, shard
FROM {by_number} WHERE seq IN (?)
)sql"};

inline constexpr Sql kLives{"check the registration", R"sql(
SELECT epoch FROM {instance} WHERE epoch = ? AND owner = ?
)sql"};

inline constexpr Sql kLease{"read what is owned", R"sql(
SELECT shard FROM {shard} WHERE epoch = ?
)sql"};

// --- Row claims ---

// When an event occurred is what the writer's clock said, which may be ahead: only kOlder asks
// for it.
inline constexpr SqlTemplate kClaimable{"", R"sql(
WHERE shard = ? AND {?when} AND status IN (0, 2)
  AND (locked_by IS NULL OR locked_at <= utc_timestamp(6) - INTERVAL ? MICROSECOND){?older}
)sql"};
inline constexpr SqlPart kReadyNow{"hold = 0"};
inline constexpr SqlPart kDueNow{"hold < 0 AND hold >= -{now}"};
inline constexpr SqlTemplate kOlder{"", R"sql(
  AND created_at <= utc_timestamp(6) - INTERVAL ? MICROSECOND)sql"};

// The number of a place where there is something to claim.
inline constexpr SqlTemplate kClaimPlace{"look for events to claim", R"sql(
(SELECT ? FROM {table} FORCE INDEX (by_hold){?claimable} LIMIT 1)
)sql"};

inline constexpr SqlTemplate kToClaim{"claim events", R"sql(
SELECT {light}, locked_by IS NOT NULL FROM {table} FORCE INDEX (by_hold){?claimable}
ORDER BY {?order} LIMIT ? FOR UPDATE SKIP LOCKED
)sql"};

inline constexpr SqlTemplate kClaim{"claim events", R"sql(
UPDATE {by_number} SET locked_by = ?, locked_at = utc_timestamp(6) WHERE seq IN (?)
)sql"};

// By number alone: after a failover that lost commits this may be another event, claimed
// again; then somebody else may get it too, which is a repeat.
inline constexpr SqlTemplate kUnclaim{"give claimed events back", R"sql(
UPDATE {by_number} SET locked_by = NULL, locked_at = NULL
WHERE seq IN (?) AND locked_by = ? AND status IN (0, 2)
)sql"};

inline constexpr Sql kUnclaimAll{"give all claimed events back", R"sql(
UPDATE {table} FORCE INDEX (by_hold) SET locked_by = NULL, locked_at = NULL
WHERE shard IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) AND hold IS NOT NULL
  AND locked_by = ? AND status IN (0, 2)
)sql"};

}  // namespace outbox::mysql::sql
