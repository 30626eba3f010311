-- What consumers and creators remember, so that they do a thing once (docs/patterns.md).
-- `{x}` stands for `<name>_x`. Empty unless outbox::Inbox, VersionGuard or
-- IdempotentCreate is used. Times are microseconds since 1970, UTC.

-- The events that a group of consumers has had the effect of.
CREATE TABLE IF NOT EXISTS {inbox} (
  consumer    TEXT    NOT NULL,
  event_id    TEXT    NOT NULL,
  consumed_at INTEGER NOT NULL,
  PRIMARY KEY (consumer, event_id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS {inbox_age} ON {inbox} (consumed_at);

-- The newest version of each aggregate that a group of consumers has seen.
CREATE TABLE IF NOT EXISTS {version} (
  consumer       TEXT    NOT NULL,
  aggregate_type TEXT    NOT NULL,
  aggregate_id   TEXT    NOT NULL,
  version        INTEGER NOT NULL,
  seen_at        INTEGER NOT NULL,
  PRIMARY KEY (consumer, aggregate_type, aggregate_id)
) WITHOUT ROWID;

-- Requests that create something, and what came of them.
CREATE TABLE IF NOT EXISTS {creation} (
  tenant_id    TEXT    NOT NULL,
  request_key  TEXT    NOT NULL,
  request_hash TEXT    NOT NULL,
  state        INTEGER NOT NULL,  -- 0 in progress, 1 succeeded, 2 failed
  owner        TEXT    NOT NULL,  -- the call that works on it, or did last
  lease_until  INTEGER NOT NULL,  -- in progress: then another call may take it over
  attempts     INTEGER NOT NULL,
  internal_id  TEXT    NOT NULL,
  public_id    TEXT    NOT NULL,
  result_ref   TEXT,              -- once it succeeded
  last_error   TEXT,              -- since it failed
  created_at   INTEGER NOT NULL,
  changed_at   INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, request_key)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS {creation_age} ON {creation} (changed_at);
