// What `outbox doctor` asks a MariaDB or MySQL server; the placeholders are those of
// store/mysql/store_config.h.
#pragma once

#include <string_view>

namespace outbox::cli::mysql_sql {

inline constexpr std::string_view kServer = "SELECT version(), current_user()";
inline constexpr std::string_view kTime =
    "SELECT timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(6))";

inline constexpr std::string_view kSettings = "SHOW GLOBAL VARIABLES";

// What this user could still open; of others' sessions it is only told how many there are.
inline constexpr std::string_view kOpenSessions =
    "SHOW GLOBAL STATUS WHERE Variable_name = 'Threads_connected'";
inline constexpr std::string_view kOwnSessions = R"sql(
SELECT count(*), @@session.max_user_connections
FROM information_schema.processlist WHERE user = substring_index(user(), '@', 1)
)sql";

// By their age in seconds. When they began is told in the zone of the server's host.
inline constexpr std::string_view kZoneOfHost = "SET time_zone = 'SYSTEM'";
inline constexpr std::string_view kTransactions = R"sql(
SELECT trx_mysql_thread_id, timestampdiff(SECOND, trx_started, now()) AS age
FROM information_schema.innodb_trx
WHERE trx_mysql_thread_id <> connection_id() ORDER BY age DESC
)sql";

// How many versions of rows wait to be removed: MariaDB says it to everybody.
inline constexpr std::string_view kOldVersionsStatus =
    "SHOW GLOBAL STATUS WHERE Variable_name = 'Innodb_history_list_length'";
inline constexpr std::string_view kOldVersionsMetric = R"sql(
SELECT name, count FROM information_schema.innodb_metrics WHERE name = 'trx_rseg_history_len'
)sql";

// --- Of what this user may see of the tables ---
//
// Each ends in the names of the database and the table.

inline constexpr std::string_view kEngines = R"sql(
SELECT table_name, coalesce(engine, 'nothing') FROM information_schema.tables WHERE )sql";

inline constexpr std::string_view kCollations = R"sql(
SELECT table_name, column_name, collation_name FROM information_schema.columns
WHERE collation_name IS NOT NULL
  AND collation_name NOT IN ('utf8mb4_nopad_bin', 'utf8mb4_0900_bin') AND )sql";

inline constexpr std::string_view kIndexes = R"sql(
SELECT index_name, group_concat(column_name ORDER BY seq_in_index)
FROM information_schema.statistics WHERE index_name IN ('PRIMARY', 'by_id', 'by_hold', 'by_death')
  AND )sql";

// --- Privileges ---

// Privileges come from a user's grants, its roles, patterns of names and columns: the
// server itself knows best. It explains what it would also do, and does not do it.
struct Need {
  std::string_view duty;
  std::string_view privilege;
  std::string_view table;  // its suffix
  std::string_view probe;
};

inline constexpr std::string_view kInsertsEvents = R"sql(
EXPLAIN INSERT INTO {table} (event_id, event_type, aggregate_type, aggregate_id, tenant_id,
  content_type, headers, payload, payload_bytes, created_at, available_at, hold, locked_by, locked_at)
VALUES ('x', 'x', NULL, NULL, NULL, NULL, NULL, '{}', NULL, now(6), now(6), 0, NULL, NULL)
)sql";
inline constexpr std::string_view kReadsEvents = "EXPLAIN SELECT * FROM {table} WHERE FALSE";
inline constexpr std::string_view kChangesEvents = R"sql(
EXPLAIN UPDATE {table} SET status = 0, hold = 0, attempts = 0, crashes = 0, available_at = now(6),
  done_at = NULL, locked_by = NULL, locked_at = NULL, last_error = NULL, progress = NULL
WHERE FALSE
)sql";
inline constexpr std::string_view kReadsInstances = "EXPLAIN SELECT * FROM {instance} WHERE FALSE";
inline constexpr std::string_view kReadsShards = "EXPLAIN SELECT * FROM {shard} WHERE FALSE";
inline constexpr std::string_view kReadsMigrations =
    "EXPLAIN SELECT * FROM {migration} WHERE FALSE";

// For each duty of docs/databases.md.
inline constexpr Need kNeeds[] = {
    {"write", "INSERT", "", kInsertsEvents},
    {"write", "SELECT", "_migration", kReadsMigrations},
    {"deliver", "SELECT", "", kReadsEvents},
    {"deliver", "UPDATE", "", kChangesEvents},
    {"deliver", "SELECT", "_instance", kReadsInstances},
    {"deliver", "INSERT", "_instance",
     "EXPLAIN INSERT INTO {instance} (owner, lease, capacity, exclusive, claims, name, host, pid, "
     "process) VALUES ('x', 1, 1, 0, 0, 'x', 'x', 1, 'x')"},
    {"deliver", "UPDATE", "_instance",
     "EXPLAIN UPDATE {instance} SET beat_at = now(6) WHERE FALSE"},
    {"deliver", "DELETE", "_instance", "EXPLAIN DELETE FROM {instance} WHERE FALSE"},
    {"deliver", "SELECT", "_shard", kReadsShards},
    {"deliver", "UPDATE", "_shard",
     "EXPLAIN UPDATE {shard} SET epoch = NULL, draining = 0, candidates = NULL WHERE FALSE"},
    {"deliver", "SELECT", "_flush", "EXPLAIN SELECT * FROM {flush} WHERE FALSE"},
    {"deliver", "UPDATE", "_flush", "EXPLAIN UPDATE {flush} SET flushes = 0 WHERE FALSE"},
    {"deliver", "SELECT", "_migration", kReadsMigrations},
    {"replay and purge", "SELECT", "", kReadsEvents},
    {"replay and purge", "UPDATE", "", kChangesEvents},
    {"replay and purge", "DELETE", "", "EXPLAIN DELETE FROM {table} WHERE FALSE"},
    {"replay and purge", "INSERT", "_archive",
     "EXPLAIN INSERT INTO {archive} (seq, event_id, event_type, status, attempts, crashes, "
     "available_at, created_at) VALUES (1, 'x', 'x', 1, 0, 0, now(6), now(6))"},
    {"replay and purge", "SELECT", "_instance", kReadsInstances},
    {"replay and purge", "SELECT", "_shard", kReadsShards},
    {"replay and purge", "SELECT", "_migration", kReadsMigrations},
};

// --- Rows that contradict themselves (check_rows) ---

inline constexpr std::string_view kFindBroken = R"sql(
SELECT event_id, status FROM {table}
WHERE status NOT IN (0, 1, 2, 3) OR (status IN (0, 2) AND hold IS NULL)
   OR (status = 1 AND hold IS NOT NULL) OR (status = 3 AND hold <= 0)
ORDER BY seq LIMIT 1000
)sql";

// The status comes last: the server reads what was assigned before.
inline constexpr std::string_view kFixBroken = R"sql(
UPDATE {table}
SET hold = CASE WHEN status IN (0, 2)
      THEN -greatest(timestampdiff(MICROSECOND, '1970-01-01', available_at), 1) END,
    done_at = CASE WHEN status NOT IN (0, 2) THEN coalesce(done_at, utc_timestamp(6)) END,
    last_error = CASE WHEN status IN (0, 1, 2, 3) THEN last_error
      ELSE 'outbox doctor --repair: the status was none of 0 to 3; the event may have been delivered'
      END,
    status = CASE WHEN status IN (0, 1, 2, 3) THEN status ELSE 3 END
WHERE event_id = ?
  AND (status NOT IN (0, 1, 2, 3) OR (status IN (0, 2) AND hold IS NULL)
       OR (status = 1 AND hold IS NOT NULL) OR (status = 3 AND hold <= 0))
)sql";

}  // namespace outbox::cli::mysql_sql
