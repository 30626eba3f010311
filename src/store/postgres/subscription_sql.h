// The statements that make, change and end subscriptions; written as in sql.h. All but the lists
// run in a transaction that has taken its turn (kTurn).
#pragma once

#include "client/postgres/statement.h"

namespace outbox::postgres::sql {

inline constexpr Sql kSubscriptions{"list the subscriptions", R"sql(
SELECT name, since, stopped IS NOT NULL, coalesce(stopped, '') FROM {subscription} ORDER BY name
)sql"};

// One change at a time; reads go on.
inline constexpr Sql kTurn{"take a turn to change subscriptions", R"sql(
LOCK TABLE {subscription} IN SHARE ROW EXCLUSIVE MODE
)sql"};

// Whether an instance has ever registered in this table.
inline constexpr Sql kEverServed{"look whether events were ever delivered", R"sql(
SELECT is_called FROM {epoch}
)sql"};

// As if one had.
inline constexpr Sql kKeepDefault{"keep the default subscription", R"sql(
SELECT nextval('{epoch}')
)sql"};

// Instances of $1 that may still deliver.
inline constexpr Sql kServing{"look who serves a subscription", R"sql(
SELECT name, host, pid FROM {instance}
WHERE subscription = $1 AND beat_at + lease >= clock_timestamp() ORDER BY epoch
)sql"};

// Nothing may be purged from now on that $1 has not seen; $2 says that it is not served yet.
inline constexpr Sql kHoldForSubscription{"create a subscription", R"sql(
WITH named AS (
  INSERT INTO {subscription} (name, stopped) VALUES ($1, $2)
  ON CONFLICT (name) DO UPDATE SET since = excluded.since, stopped = excluded.stopped
)
INSERT INTO {cursor} (subscription, shard, position, snapshot)
SELECT $1, shard, 0, pg_current_snapshot() FROM generate_series(0, 15) AS shard
ON CONFLICT (subscription, shard) DO NOTHING
)sql"};

// What this statement's snapshot shows is behind it. The numbers are found by the index, one look
// for each shard.
inline constexpr Sql kBeginNow{"begin a subscription", R"sql(
UPDATE {cursor} AS cursor
SET position = coalesce((SELECT max(seq) FROM {table} WHERE shard = cursor.shard), 0),
    snapshot = pg_current_snapshot()
WHERE subscription = $1
)sql"};

// From here on somebody can lease its shards.
inline constexpr Sql kServeSubscription{"open a subscription", R"sql(
WITH opened AS (
  UPDATE {subscription} SET since = clock_timestamp(), stopped = NULL WHERE name = $1
)
INSERT INTO {shard} (subscription, shard) SELECT $1, shard FROM generate_series(0, 15) AS shard
ON CONFLICT (subscription, shard) DO NOTHING
)sql"};

// In the order in which renewals lock them, too.
inline constexpr Sql kLockSubscription{"lock a subscription", R"sql(
SELECT shard FROM {shard} WHERE subscription = $1 ORDER BY shard FOR UPDATE
)sql"};

// Instances wait for their updates that are under way; later ones are fenced, as nothing is theirs.
inline constexpr Sql kLockInstances{"lock the instances of a subscription", R"sql(
SELECT owner FROM {instance} WHERE subscription = $1 ORDER BY owner FOR UPDATE
)sql"};

// Nobody serves it, and it keeps nothing from being purged. What waits for it stays.
inline constexpr Sql kStopSubscription{"stop a subscription", R"sql(
WITH closed AS (DELETE FROM {shard} WHERE subscription = $1),
passed AS (DELETE FROM {cursor} WHERE subscription = $1)
UPDATE {subscription} SET since = clock_timestamp(), stopped = $2 WHERE name = $1
)sql"};

inline constexpr Sql kDropSubscription{"drop a subscription", R"sql(
WITH closed AS (DELETE FROM {shard} WHERE subscription = $1),
passed AS (DELETE FROM {cursor} WHERE subscription = $1),
waiting AS (DELETE FROM {delivery} WHERE subscription = $1),
told AS (DELETE FROM {unblocked} WHERE subscription = $1)
DELETE FROM {subscription} WHERE name = $1
)sql"};

inline constexpr Sql kRenameSubscription{"rename a subscription", R"sql(
WITH gone AS (DELETE FROM {instance} WHERE subscription = $1),
shards AS (UPDATE {shard} SET subscription = $2, owner = NULL, draining = false
           WHERE subscription = $1),
passed AS (UPDATE {cursor} SET subscription = $2 WHERE subscription = $1),
waiting AS (UPDATE {delivery} SET subscription = $2 WHERE subscription = $1),
told AS (UPDATE {unblocked} SET subscription = $2 WHERE subscription = $1)
UPDATE {subscription} SET name = $2 WHERE name = $1
)sql"};

// Those that have not finished an event that occurred before $1.
inline constexpr Sql kLagging{"look for subscriptions that lag", R"sql(
SELECT name, oldest.created_at FROM {subscription} AS receiver CROSS JOIN LATERAL (
  SELECT min(created_at) AS created_at FROM {unfinished}
  WHERE subscription = receiver.name AND status IN (0, 2) AND created_at < $1
) AS oldest
WHERE stopped IS NULL AND oldest.created_at IS NOT NULL ORDER BY name
)sql"};

}  // namespace outbox::postgres::sql
