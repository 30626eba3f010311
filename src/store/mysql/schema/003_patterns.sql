-- What consumers and creators remember, so that they do a thing once (docs/patterns.md).
-- `{x}` stands for `<name>_x`. Empty unless outbox::Inbox, VersionGuard or
-- IdempotentCreate is used. Times are in UTC.

-- The events that a group of consumers has had the effect of.
CREATE TABLE IF NOT EXISTS {inbox} (
  consumer    VARCHAR(64)  NOT NULL,
  event_id    VARCHAR(128) NOT NULL,
  consumed_at DATETIME(6)  NOT NULL,
  PRIMARY KEY (consumer, event_id),
  INDEX by_age (consumed_at)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE {collation};

-- The newest version of each aggregate that a group of consumers has seen.
CREATE TABLE IF NOT EXISTS {version} (
  consumer       VARCHAR(64)  NOT NULL,
  aggregate_type VARCHAR(64)  NOT NULL,
  aggregate_id   VARCHAR(128) NOT NULL,
  version        BIGINT       NOT NULL,
  seen_at        DATETIME(6)  NOT NULL,
  PRIMARY KEY (consumer, aggregate_type, aggregate_id)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE {collation};

-- Requests that create something, and what came of them.
CREATE TABLE IF NOT EXISTS {creation} (
  tenant_id    VARCHAR(64)  NOT NULL,
  request_key  VARCHAR(128) NOT NULL,
  request_hash VARCHAR(64)  NOT NULL,
  state        TINYINT      NOT NULL,  -- 0 in progress, 1 succeeded, 2 failed
  owner        VARCHAR(36)  NOT NULL,  -- the call that works on it, or did last
  lease_until  DATETIME(6)  NOT NULL,  -- in progress: then another call may take it over
  attempts     INT          NOT NULL,
  internal_id  VARCHAR(36)  NOT NULL,
  public_id    VARCHAR(64)  NOT NULL,
  result_ref   VARCHAR(255),           -- once it succeeded
  last_error   LONGTEXT,               -- since it failed
  created_at   DATETIME(6)  NOT NULL,
  changed_at   DATETIME(6)  NOT NULL,
  PRIMARY KEY (tenant_id, request_key),
  INDEX by_age (changed_at)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE {collation};
