-- The table of events. `{table}` stands for its name, `{x}` for `<name>_x`, and
-- `{collation}` for the collation of utf8mb4 that compares byte by byte: others take
-- 'abc', 'ABC' and 'abc ' for one id.
--
-- Other programs may INSERT with plain SQL: event_id, event_type and a payload are
-- enough. What a column is for is said in docs/databases.md. Every statement may be
-- repeated, because the server commits each by itself.
CREATE TABLE IF NOT EXISTS {table} (
  -- Assigned when the row is inserted, so a transaction that began to write later
  -- may commit earlier.
  seq            BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
  hold           BIGINT                DEFAULT 0,  -- 0 ready, > 0 lane, < 0 minus due time, NULL finished
  status         TINYINT      NOT NULL DEFAULT 0,  -- 0 NEW, 1 DONE, 2 RETRY, 3 DEAD
  attempts       INT          NOT NULL DEFAULT 0,
  crashes        INT          NOT NULL DEFAULT 0,
  -- All times are in UTC, which no setting of a session changes.
  available_at   DATETIME(6)  NOT NULL DEFAULT (utc_timestamp(6)),
  created_at     DATETIME(6)  NOT NULL DEFAULT (utc_timestamp(6)),
  done_at        DATETIME(6),
  locked_at      DATETIME(6),
  event_id       VARCHAR(36)  NOT NULL CHECK (event_id <> ''),
  event_type     VARCHAR(128) NOT NULL CHECK (event_type <> ''),
  aggregate_type VARCHAR(64),
  aggregate_id   VARCHAR(128),
  tenant_id      VARCHAR(64),
  content_type   VARCHAR(128),  -- NULL: application/json for payload, application/octet-stream for payload_bytes
  locked_by      VARCHAR(512),
  progress       LONGTEXT,
  headers        LONGTEXT,
  last_error     LONGTEXT,
  -- Text, not JSON: that refuses or rewrites what it is given. The functions for JSON
  -- take it as it is.
  payload        LONGTEXT,
  payload_bytes  LONGBLOB,
  -- Events of one aggregate fall into one shard; those without one anywhere.
  shard          TINYINT AS (crc32(concat(coalesce(nullif(aggregate_type, ''), '__GLOBAL__'), x'1F',
                             coalesce(nullif(aggregate_id, ''), event_id))) & 15) STORED,
  -- There are no partial indexes: this keeps the index of the dead from changing when
  -- an event is delivered.
  dead           TINYINT AS (CASE WHEN status = 3 THEN 1 END) VIRTUAL,
  CHECK ((payload IS NULL) <> (payload_bytes IS NULL)),
  UNIQUE INDEX by_id (event_id),
  INDEX by_hold (shard, hold, seq),  -- serves the reads of the engine
  INDEX by_death (dead, seq)         -- for operators
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE {collation};

-- The engines that live. One that was declared dead is gone from here; when it
-- registers anew it gets another epoch, by which its marks are fenced.
CREATE TABLE IF NOT EXISTS {instance} (
  epoch         BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
  owner         VARCHAR(512) NOT NULL,
  registered_at DATETIME(6)  NOT NULL DEFAULT (utc_timestamp(6)),
  beat_at       DATETIME(6)  NOT NULL DEFAULT (utc_timestamp(6)),
  lease         BIGINT       NOT NULL,  -- microseconds
  capacity      BIGINT       NOT NULL,
  whole         BOOLEAN      NOT NULL,  -- wants all shards or none
  claims        BOOLEAN      NOT NULL,  -- claims rows instead of shards
  name          TEXT         NOT NULL,
  host          TEXT         NOT NULL,
  pid           BIGINT       NOT NULL,
  process       TEXT         NOT NULL   -- tells whether it is that process that still runs
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE {collation};

-- Who reads which part of the events.
CREATE TABLE IF NOT EXISTS {shard} (
  shard    TINYINT NOT NULL PRIMARY KEY,
  epoch    BIGINT,                          -- of the instance that owns it
  leaving  BOOLEAN NOT NULL DEFAULT FALSE,  -- is being drained, to be given back
  suspects BIGINT                           -- its last owner died with so many events in its hands
) ENGINE = InnoDB;
INSERT IGNORE INTO {shard} (shard)
VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9), (10), (11), (12), (13), (14), (15);

-- Where purged events go if they are to be kept. Nothing reads it, so nothing is
-- unique in it: whatever the rows are, moving them here must not fail.
CREATE TABLE IF NOT EXISTS {archive} (
  archived_at    DATETIME(6)  NOT NULL DEFAULT (utc_timestamp(6)),
  seq            BIGINT       NOT NULL,
  event_id       VARCHAR(36)  NOT NULL,
  event_type     VARCHAR(128) NOT NULL,
  aggregate_type VARCHAR(64),
  aggregate_id   VARCHAR(128),
  tenant_id      VARCHAR(64),
  status         TINYINT      NOT NULL,
  attempts       INT          NOT NULL,
  crashes        INT          NOT NULL,
  available_at   DATETIME(6)  NOT NULL,
  created_at     DATETIME(6)  NOT NULL,
  done_at        DATETIME(6),
  locked_by      VARCHAR(512),
  locked_at      DATETIME(6),
  content_type   VARCHAR(128),
  progress       LONGTEXT,
  headers        LONGTEXT,
  last_error     LONGTEXT,
  payload        LONGTEXT,
  payload_bytes  LONGBLOB,
  INDEX by_id (event_id)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE {collation};
