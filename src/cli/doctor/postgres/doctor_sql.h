// What `outbox doctor` asks a PostgreSQL server; the placeholders are those of
// store/postgres/store_config.h.
#pragma once

#include <string_view>

namespace outbox::cli::postgres_sql {

inline constexpr std::string_view kServer =
    "SELECT current_setting('server_version'), current_user";
inline constexpr std::string_view kTime =
    "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
inline constexpr std::string_view kEncoding = "SELECT current_setting('server_encoding')";

// Whether it is a standby, and what transactions begin with.
inline constexpr std::string_view kReadOnly =
    "SELECT pg_is_in_recovery(), current_setting('transaction_read_only') = 'on'";

// Whether each table is there, so that what follows can name them.
inline constexpr std::string_view kTables = R"sql(
SELECT to_regclass('{table}') IS NOT NULL AND to_regclass('{sequence}') IS NOT NULL
   AND to_regclass('{migration}') IS NOT NULL AND to_regclass('{instance}') IS NOT NULL
   AND to_regclass('{shard}') IS NOT NULL AND to_regclass('{epoch}') IS NOT NULL
   AND to_regclass('{archive}') IS NOT NULL
)sql";

// For each duty of docs/databases.md what the role lacks; NULL if nothing. Where
// columns are named, privileges on those are enough.
inline constexpr std::string_view kPrivileges = R"sql(
SELECT duty, string_agg(lacks || ' on ' || object::regclass, '; ' ORDER BY number)
FROM (
  SELECT duty, object, min(number) AS number,
         string_agg(privilege, ', ' ORDER BY number) FILTER (WHERE NOT CASE
           WHEN privilege = 'USAGE' THEN has_sequence_privilege(object, privilege)
           WHEN columns IS NULL THEN has_table_privilege(object, privilege)
           ELSE (SELECT bool_and(has_column_privilege(object, name, privilege))
                 FROM unnest(columns) AS name) END) AS lacks
  FROM (VALUES
    (1, 'write', 'INSERT', '{table}',
     ARRAY['event_id', 'event_type', 'aggregate_type', 'aggregate_id', 'tenant_id', 'content_type',
           'headers', 'payload', 'payload_bytes', 'created_at', 'available_at', 'hold',
           'locked_by', 'locked_at']),
    (2, 'write', 'SELECT', '{table}', ARRAY['event_id', 'seq', 'shard']),
    (3, 'write', 'SELECT', '{migration}', NULL),
    (4, 'deliver', 'SELECT', '{table}', NULL),
    (5, 'deliver', 'UPDATE', '{table}',
     ARRAY['status', 'hold', 'attempts', 'crashes', 'available_at', 'done_at', 'locked_by',
           'locked_at', 'last_error', 'progress']),
    (6, 'deliver', 'SELECT', '{sequence}', NULL),
    (7, 'deliver', 'SELECT', '{instance}', NULL),
    (8, 'deliver', 'INSERT', '{instance}', NULL),
    (9, 'deliver', 'UPDATE', '{instance}', ARRAY['beat_at']),
    (10, 'deliver', 'DELETE', '{instance}', NULL),
    (11, 'deliver', 'USAGE', '{epoch}', NULL),
    (12, 'deliver', 'SELECT', '{shard}', NULL),
    (13, 'deliver', 'UPDATE', '{shard}', ARRAY['owner', 'draining', 'candidates']),
    (14, 'deliver', 'SELECT', '{migration}', NULL),
    (15, 'replay and purge', 'SELECT', '{table}', NULL),
    (16, 'replay and purge', 'DELETE', '{table}', NULL),
    (17, 'replay and purge', 'UPDATE', '{table}',
     ARRAY['status', 'hold', 'attempts', 'crashes', 'available_at', 'done_at', 'locked_by',
           'locked_at', 'last_error', 'progress']),
    (18, 'replay and purge', 'INSERT', '{archive}', NULL),
    (19, 'replay and purge', 'SELECT', '{instance}', NULL),
    (20, 'replay and purge', 'SELECT', '{shard}', NULL),
    (21, 'replay and purge', 'SELECT', '{migration}', NULL),
    -- By position. There are no such tables otherwise.
    (22, 'deliver', 'SELECT', '{subscription}', NULL),
    (23, 'deliver', 'SELECT', '{cursor}', NULL),
    (24, 'deliver', 'UPDATE', '{cursor}',
     ARRAY['position', 'snapshot', 'open', 'target', 'late_after']),
    (25, 'deliver', 'SELECT', '{delivery}', NULL),
    (26, 'deliver', 'INSERT', '{delivery}', NULL),
    (27, 'deliver', 'UPDATE', '{delivery}', NULL),
    (28, 'deliver', 'DELETE', '{delivery}', NULL),
    (29, 'replay and purge', 'SELECT', '{subscription}', NULL),
    (30, 'replay and purge', 'SELECT', '{cursor}', NULL),
    (31, 'replay and purge', 'SELECT', '{delivery}', NULL),
    (32, 'replay and purge', 'INSERT', '{delivery}', NULL),
    (33, 'replay and purge', 'UPDATE', '{delivery}', NULL),
    (34, 'replay and purge', 'DELETE', '{delivery}', NULL)
  ) AS need (number, duty, privilege, object, columns)
  WHERE to_regclass(object) IS NOT NULL
  GROUP BY duty, object
) AS checked
GROUP BY duty ORDER BY min(number)
)sql";

// The sequence behind an identity column hands numbers out by the session if it
// keeps more than one: then a later commit may have the lower number.
inline constexpr std::string_view kSequenceCache = R"sql(
SELECT seqcache FROM pg_sequence WHERE seqrelid = '{sequence}'::regclass
)sql";

// What this role could still open.
inline constexpr std::string_view kConnections = R"sql(
SELECT least(
    server.most - (SELECT sum(numbackends) FROM pg_stat_database),
    CASE WHEN datconnlimit >= 0
      THEN datconnlimit - (SELECT numbackends FROM pg_stat_database
                           WHERE datname = current_database()) END,
    CASE WHEN rolconnlimit >= 0
      THEN rolconnlimit - (SELECT count(*) FROM pg_stat_activity WHERE usename = rolname) END),
  server.most
FROM (SELECT current_setting('max_connections')::bigint
           - current_setting('superuser_reserved_connections')::bigint AS most) AS server,
  pg_database, pg_roles
WHERE datname = current_database() AND rolname = current_user
)sql";

inline constexpr std::string_view kVacuum = R"sql(
SELECT n_live_tup, n_dead_tup,
       extract(epoch FROM clock_timestamp() - greatest(last_autovacuum, last_vacuum))::bigint,
       current_setting('autovacuum') = 'on'
         AND NOT coalesce(reloptions && ARRAY['autovacuum_enabled=false', 'autovacuum_enabled=off'],
                          false)
FROM pg_stat_all_tables JOIN pg_class ON pg_class.oid = relid
WHERE relid = '{table}'::regclass
)sql";

// What keeps the vacuum from removing dead rows, and the reader from passing over
// numbers that were given out; $1 is the age in seconds. Of other roles' sessions a
// role without pg_read_all_stats sees no times.
inline constexpr std::string_view kOldTransactions = R"sql(
SELECT what, extract(epoch FROM clock_timestamp() - since)::bigint AS age FROM (
  SELECT 'session ' || pid || coalesce(' (' || nullif(application_name, '') || ')', ''), xact_start
  FROM pg_stat_activity
  WHERE datname = current_database() AND pid <> pg_backend_pid()
    AND backend_type IS DISTINCT FROM 'autovacuum worker'
  UNION ALL
  SELECT 'prepared transaction ' || quote_literal(gid), prepared
  FROM pg_prepared_xacts WHERE database = current_database()
) AS open (what, since)
WHERE since <= clock_timestamp() - $1::bigint * interval '1 second'
ORDER BY age DESC
)sql";

inline constexpr std::string_view kSeesAllSessions = R"sql(
SELECT pg_has_role(current_user, 'pg_read_all_stats', 'USAGE')
)sql";

inline constexpr std::string_view kPinningSlots = R"sql(
SELECT slot_name FROM pg_replication_slots WHERE xmin IS NOT NULL AND NOT active
)sql";

// --- Rows that contradict themselves (check_rows) ---

// Reads no row where the server has looked at all of them itself, and lets no wrong one in.
inline constexpr std::string_view kFindBroken = R"sql(
SELECT event_id, status::bigint FROM {table}
WHERE NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = '{table}'::regclass
                  AND '"' || conname || '"' = '{index state}' AND convalidated)
  AND CASE status WHEN 0 THEN hold IS NULL WHEN 2 THEN hold IS NULL WHEN 1 THEN hold IS NOT NULL
           WHEN 3 THEN hold <= 0 ELSE true END
ORDER BY seq LIMIT 1000
)sql";

inline constexpr std::string_view kFixBroken = R"sql(
UPDATE {table}
SET status = CASE WHEN status IN (0, 1, 2, 3) THEN status ELSE 3 END,
    hold = CASE WHEN status IN (0, 2) THEN CASE WHEN isfinite(available_at)
      THEN -greatest(least(extract(epoch FROM available_at) * 1000000, 9e18)::bigint, 1)
      ELSE -1 END END,
    done_at = CASE WHEN status NOT IN (0, 2) THEN coalesce(done_at, clock_timestamp()) END,
    last_error = CASE WHEN status IN (0, 1, 2, 3) THEN last_error
      ELSE 'outbox doctor --repair: the status was none of 0 to 3; the event may have been '
        || 'delivered' END
WHERE event_id = $1
  AND CASE status WHEN 0 THEN hold IS NULL WHEN 2 THEN hold IS NULL WHEN 1 THEN hold IS NOT NULL
           WHEN 3 THEN hold <= 0 ELSE true END
)sql";

}  // namespace outbox::cli::postgres_sql
