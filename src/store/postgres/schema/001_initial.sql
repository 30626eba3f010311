-- The table of events. `{table}` stands for its name, `{x}` for `<name>_x`.
--
-- Other programs may INSERT with plain SQL: event_id, event_type and a payload are
-- enough. What a column is for is said in docs/databases.md.
CREATE TABLE {table} (
  -- Assigned when the row is inserted, so a transaction that began to write later
  -- may commit earlier. Explicit values are refused.
  seq            bigint      NOT NULL GENERATED ALWAYS AS IDENTITY (SEQUENCE NAME {sequence} CACHE 1),
  hold           bigint               DEFAULT 0,  -- 0 ready, > 0 lane, < 0 minus due time, NULL finished
  available_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
  done_at        timestamptz,
  locked_at      timestamptz,
  attempts       integer     NOT NULL DEFAULT 0,
  crashes        integer     NOT NULL DEFAULT 0,
  status         smallint    NOT NULL DEFAULT 0,  -- 0 NEW, 1 DONE, 2 RETRY, 3 DEAD
  -- Events of one aggregate fall into one shard; those without one anywhere.
  shard          smallint    NOT NULL GENERATED ALWAYS AS ((hashtextextended(
    coalesce(nullif(aggregate_type, ''), '__GLOBAL__') || chr(31) ||
    coalesce(nullif(aggregate_id, ''), event_id), 0) & 15)::smallint) STORED,
  event_id       text        NOT NULL CHECK (event_id <> ''),
  event_type     text        NOT NULL CHECK (event_type <> ''),
  aggregate_type text,
  aggregate_id   text,
  tenant_id      text,
  content_type   text,  -- NULL: application/json for payload, application/octet-stream for payload_bytes
  locked_by      text,
  progress       text,
  headers        text,
  last_error     text,
  -- Text, not json or jsonb: those refuse or rewrite what they are given. Query it
  -- with payload::jsonb.
  payload        text,
  payload_bytes  bytea,
  CONSTRAINT {index one_payload} CHECK (num_nonnulls(payload, payload_bytes) = 1)
) WITH (
  -- Every delivered event leaves a dead row version behind; small and frequent
  -- rounds of the vacuum keep the table and its indexes small.
  autovacuum_vacuum_scale_factor = 0.01,
  autovacuum_vacuum_threshold = 5000,
  autovacuum_vacuum_insert_scale_factor = 0.05,
  autovacuum_analyze_scale_factor = 0.05,
  autovacuum_vacuum_cost_delay = 1
);

CREATE UNIQUE INDEX {index id} ON {table} (event_id);

-- Serves the reads of the engine and its marks. Finished rows are not in it.
CREATE INDEX {index hold} ON {table} (shard, hold, seq) WHERE hold IS NOT NULL;

-- For what waits for a time. There are few of those: to look whether something is due
-- touches one page for each shard, however long the backlog is.
CREATE INDEX {index due} ON {table} (shard, hold, seq) WHERE hold < 0;

-- For operators: the finished in the order of their rows, and the dead among them.
CREATE INDEX {index finished} ON {table} (seq) WHERE hold IS NULL;
CREATE INDEX {index dead} ON {table} (seq) WHERE status = 3;

-- The engines that live. One that was declared dead is gone from here; when it
-- registers anew it gets a greater epoch, by which its marks are fenced.
CREATE SEQUENCE {epoch} CACHE 1;
CREATE TABLE {instance} (
  owner         text        PRIMARY KEY,
  epoch         bigint      NOT NULL DEFAULT nextval('{epoch}'),
  registered_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  beat_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
  lease         interval    NOT NULL,
  capacity      bigint      NOT NULL,
  whole         boolean     NOT NULL,  -- wants all shards or none
  claims        boolean     NOT NULL,  -- claims rows instead of shards
  name          text        NOT NULL,
  host          text        NOT NULL,
  pid           bigint      NOT NULL,
  process       text        NOT NULL   -- tells whether it is that process that still runs
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 100, autovacuum_vacuum_scale_factor = 0);

-- Who reads which part of the events.
CREATE TABLE {shard} (
  shard    smallint PRIMARY KEY,
  owner    text,
  leaving  boolean NOT NULL DEFAULT false,  -- is being drained, to be given back
  suspects bigint   -- its last owner died with so many events in its hands
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 100, autovacuum_vacuum_scale_factor = 0);
INSERT INTO {shard} (shard) SELECT generate_series(0, 15);

-- Where purged events go if they are to be kept. Nothing reads it, so nothing is
-- unique in it: whatever the rows are, moving them here must not fail.
CREATE TABLE {archive} (
  archived_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
  seq            bigint      NOT NULL,
  event_id       text        NOT NULL,
  event_type     text        NOT NULL,
  aggregate_type text,
  aggregate_id   text,
  tenant_id      text,
  status         smallint    NOT NULL,
  attempts       integer     NOT NULL,
  crashes        integer     NOT NULL,
  available_at   timestamptz NOT NULL,
  created_at     timestamptz NOT NULL,
  done_at        timestamptz,
  locked_by      text,
  locked_at      timestamptz,
  content_type   text,
  progress       text,
  headers        text,
  last_error     text,
  payload        text,
  payload_bytes  bytea
);
CREATE INDEX {index archive_id} ON {archive} (event_id);
