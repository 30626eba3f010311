// The statements of fixed shape that the engine has the store run. Those whose shape
// depends on their values (lists of rows, of shards) are built where they are used:
// reader.cc, updates.cc, claims.cc; those for operators are in operators.cc.
//
// `{table}` stands for the table's quoted name, `{x}` for that of `<table>_x`, and
// `{columns}` for what decode_row() reads. Status: 0 NEW, 1 DONE, 2 RETRY, 3 DEAD.
// Times are the server's, in UTC. The index is named where the optimizer would have a
// choice: its statistics are those of yesterday's table.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "client/mysql/statement.h"

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
constexpr auto insert_text() {
  std::array<char, kInsertHead.size() + Rows*(kInsertRow.size() + 1) - 1> text{};
  auto end = std::copy(kInsertHead.begin(), kInsertHead.end(), text.begin());
  for (std::size_t row = 0; row < Rows; ++row) {
    if (row > 0) *end++ = ',';
    end = std::copy(kInsertRow.begin(), kInsertRow.end(), end);
  }
  return text;
}

template <std::size_t Rows>
inline constexpr auto kInsertText = insert_text<Rows>();

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

// The first row of the next lane.
inline constexpr Sql kNextLane{"read the lanes that wait", R"sql(
SELECT hold, seq, status, available_at, utc_timestamp(6) FROM {table} FORCE INDEX (by_hold)
WHERE shard = ? AND hold > ? AND status IN (0, 2, 3) ORDER BY hold, seq LIMIT 1
)sql"};

// See sync_log().
inline constexpr Sql kFlush{"make sure that the events read are safe", R"sql(
UPDATE {flush} SET flushes = flushes + 1 WHERE shard = ?
)sql"};

// --- Wake-ups ---

inline constexpr Sql kLastNumber{"look for commits", R"sql(
SELECT max(seq) FROM {table}
)sql"};

// --- Ownership ---
//
// A renewal is kBeat, kInstances and a look at the shards (Ownership::look()), each by
// itself: whoever is stopped in the middle of it stops nobody. Only what is to be changed
// is changed in a transaction, which begins with the same look FOR UPDATE: changes are
// made one after the other.
//
// An epoch is one's own only together with the name of its registration: a primary that has
// lost commits may have given it to somebody else.

inline constexpr Sql kBeat{"renew the lease", R"sql(
UPDATE {instance} SET beat_at = utc_timestamp(6) WHERE epoch = ? AND owner = ?
)sql"};

inline constexpr Sql kInstances{"look at the instances", R"sql(
SELECT epoch, beat_at + INTERVAL lease MICROSECOND < utc_timestamp(6), capacity, whole, claims,
       host, pid, process
FROM {instance} ORDER BY epoch
)sql"};

inline constexpr Sql kFindSelf{"look whether it is registered", R"sql(
SELECT epoch FROM {instance} WHERE owner = ?
)sql"};

// A row without an owner, which is deleted at once, tells the number that comes next; the
// registration gets that, or a higher one, from which the server then counts on. Its clock
// tells epochs apart also from those that it has lost.
inline constexpr Sql kNextEpoch{"register", R"sql(
INSERT INTO {instance} (owner, lease, capacity, whole, claims, name, host, pid, process)
VALUES ('', 0, 0, FALSE, FALSE, '', '', 0, '')
)sql"};
inline constexpr Sql kRegister{"register", R"sql(
INSERT INTO {instance} (owner, lease, capacity, whole, claims, name, host, pid, process, epoch)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
)sql"};
inline constexpr Sql kLowestEpoch{"register", R"sql(
SELECT timestampdiff(SECOND, '1970-01-01', utc_timestamp())
)sql"};

// Waits for a update of the dead that is under way; later ones are fenced. Whoever is
// only taken for dead may have renewed its lease since it was looked at.
inline constexpr Sql kEvict{"take over from the dead", R"sql(
DELETE FROM {instance} WHERE epoch = ?
)sql"};
inline constexpr Sql kEvictExpired{"take over from the dead", R"sql(
DELETE FROM {instance}
WHERE epoch = ? AND beat_at + INTERVAL lease MICROSECOND < utc_timestamp(6)
)sql"};
inline constexpr Sql kInherit{"take over from the dead", R"sql(
UPDATE {shard} SET epoch = NULL, leaving = FALSE, suspects = greatest(coalesce(suspects, 0), ?)
WHERE epoch = ?
)sql"};

inline constexpr Sql kRelease{"give a shard back", R"sql(
UPDATE {shard} SET epoch = NULL, leaving = FALSE
WHERE shard = ? AND epoch = ? AND leaving
  AND EXISTS (SELECT 1 FROM {instance} AS registered WHERE registered.epoch = ? AND owner = ?)
)sql"};
inline constexpr Sql kLeaveShards{"give the shards back", R"sql(
UPDATE {shard} SET epoch = NULL, leaving = FALSE WHERE epoch = ?
)sql"};
inline constexpr Sql kLeave{"leave", R"sql(
DELETE FROM {instance} WHERE epoch = ? AND owner = ?
)sql"};

// --- Updating ---

inline constexpr Sql kLives{"look whether this instance is considered dead", R"sql(
SELECT epoch FROM {instance} WHERE epoch = ? AND owner = ?
)sql"};

inline constexpr Sql kLease{"read what is owned", R"sql(
SELECT shard FROM {shard} WHERE epoch = ?
)sql"};

// --- Row claims ---

inline constexpr Sql kUnclaimAll{"give all claimed events back", R"sql(
UPDATE {table} FORCE INDEX (by_hold) SET locked_by = NULL, locked_at = NULL
WHERE shard IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) AND hold IS NOT NULL
  AND locked_by = ? AND status IN (0, 2)
)sql"};

}  // namespace outbox::mysql::sql
