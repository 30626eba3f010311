-- What a table needs beside its rows to keep progress by position; the second part of 1000_position,
-- and of a switch (switch.cc).

-- The receivers of the events. One that is stopped says why.
CREATE TABLE {subscription} (
  name    text        PRIMARY KEY,
  since   timestamptz NOT NULL DEFAULT clock_timestamp(),
  stopped text
);
INSERT INTO {subscription} (name) VALUES ({own});

-- Each has leases of its own: without rows here it is not served. The column has no default in the
-- table of instances: a program that knows of no subscriptions cannot register.
ALTER TABLE {instance} ADD COLUMN subscription text NOT NULL;
ALTER TABLE {shard} ADD COLUMN subscription text NOT NULL DEFAULT {own};
ALTER TABLE {shard} ALTER COLUMN subscription DROP DEFAULT,
  DROP CONSTRAINT {index shard_pkey}, ADD PRIMARY KEY (subscription, shard);
ALTER TABLE {unblocked} ADD COLUMN subscription text NOT NULL DEFAULT {own};

-- How far a subscription has read a shard: everything with seq <= position that is visible in
-- `snapshot` is finished, except the numbers in `open`. While more rows have come late than fit into
-- a read, so is what is visible in `target` with seq <= late_after.
CREATE TABLE {cursor} (
  subscription text        NOT NULL,
  shard        smallint    NOT NULL,
  position     bigint      NOT NULL,
  snapshot     pg_snapshot NOT NULL,
  open         bigint[]    NOT NULL DEFAULT ARRAY[]::bigint[],
  target       pg_snapshot,
  late_after   bigint,
  PRIMARY KEY (subscription, shard)
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 100, autovacuum_vacuum_scale_factor = 0);
INSERT INTO {cursor} (subscription, shard, position, snapshot)
SELECT {own}, shard, 0, pg_current_snapshot() FROM generate_series(0, 15) AS shard;

-- What failed, waits, is held or is dead: a copy of the event, and what became of it for this
-- subscription. The columns are those of the events.
CREATE TABLE {delivery} (
  seq            bigint      NOT NULL,
  hold           bigint,
  available_at   timestamptz NOT NULL,
  created_at     timestamptz NOT NULL,
  done_at        timestamptz,
  locked_at      timestamptz,
  attempts       integer     NOT NULL,
  crashes        integer     NOT NULL,
  status         smallint    NOT NULL,
  shard          smallint    NOT NULL,
  subscription   text        NOT NULL,
  event_id       text        NOT NULL,
  event_type     text        NOT NULL,
  aggregate_type text,
  aggregate_id   text,
  tenant_id      text,
  content_type   text,
  locked_by      text,
  progress       text,
  headers        text,
  last_error     text,
  payload        text,
  payload_bytes  bytea,
  PRIMARY KEY (subscription, event_id),
  CONSTRAINT {index delivery_state} CHECK (CASE status
    WHEN 0 THEN hold IS NOT NULL
    WHEN 2 THEN hold IS NOT NULL
    WHEN 3 THEN hold IS NULL OR hold > 0
    ELSE false END)
) WITH (
  autovacuum_vacuum_scale_factor = 0.01,
  autovacuum_vacuum_threshold = 5000,
  autovacuum_vacuum_cost_delay = 1
);
CREATE INDEX {index waits} ON {delivery} (subscription, shard, hold, seq) WHERE hold IS NOT NULL;
CREATE INDEX {index dead_copies} ON {delivery} (subscription, seq) WHERE status = 3;
CREATE INDEX {index copied} ON {delivery} (subscription, shard, seq);

-- What is not finished, as the events would show it if they had a status each. Each part goes by an
-- index: what is above the position, what has come late, what is open, and what waits. (With
-- OFFSET the server plans a part by itself.)
CREATE VIEW {unfinished} AS
SELECT cursor.subscription, event.seq, event.shard, event.hold, event.event_id, event.event_type,
  event.aggregate_type, event.aggregate_id, event.tenant_id, event.status, event.attempts,
  event.crashes, event.available_at, event.created_at, event.content_type, event.progress,
  event.headers, event.payload, event.payload_bytes, event.last_error, event.locked_by,
  event.done_at
FROM {cursor} AS cursor CROSS JOIN LATERAL (
  SELECT * FROM {table} WHERE shard = cursor.shard AND seq > cursor.position
  UNION ALL
  SELECT late.* FROM pg_snapshot_xip(cursor.snapshot) AS running (xid) CROSS JOIN LATERAL (
    SELECT * FROM {table}
    WHERE shard = cursor.shard AND (xid, seq) > (running.xid, 0::bigint)
      AND (xid, seq) <= (running.xid, cursor.position) AND seq <> ALL (cursor.open)
    ORDER BY xid, seq OFFSET 0
  ) AS late
  UNION ALL
  SELECT * FROM (
    SELECT * FROM {table}
    WHERE shard = cursor.shard AND xid >= pg_snapshot_xmax(cursor.snapshot)
      AND seq <= cursor.position AND seq <> ALL (cursor.open)
    ORDER BY xid, seq OFFSET 0
  ) AS younger
  UNION ALL
  SELECT open.* FROM unnest(cursor.open) AS number (seq) CROSS JOIN LATERAL (
    SELECT * FROM {table} WHERE shard = cursor.shard AND seq = number.seq
  ) AS open
) AS event
WHERE event.hold IS NOT NULL
  AND NOT coalesce(event.seq <= cursor.late_after AND event.seq <> ALL (cursor.open)
                   AND pg_visible_in_snapshot(event.xid, cursor.target), false)
  AND NOT EXISTS (SELECT FROM {delivery} AS delivery
                  WHERE delivery.subscription = cursor.subscription
                    AND delivery.event_id = event.event_id)
UNION ALL
SELECT subscription, seq, shard, hold, event_id, event_type, aggregate_type, aggregate_id, tenant_id,
  status, attempts, crashes, available_at, created_at, content_type, progress, headers, payload,
  payload_bytes, last_error, locked_by, done_at
FROM {delivery} WHERE hold IS NOT NULL;

-- All events, likewise. Nobody notes when one was delivered: done_at is when it was available.
CREATE VIEW {state} AS
SELECT cursor.subscription, event.*
FROM {cursor} AS cursor CROSS JOIN LATERAL ({told}) AS event;
