-- What consumers and creators remember, so that they do a thing once (docs/patterns.md).
-- `{x}` stands for `<name>_x`. Empty unless outbox::Inbox, VersionGuard or
-- IdempotentCreate is used.

-- The events that a group of consumers has had the effect of.
CREATE TABLE {inbox} (
  consumer    text        NOT NULL,
  event_id    text        NOT NULL,
  consumed_at timestamptz NOT NULL,
  PRIMARY KEY (consumer, event_id)
);
CREATE INDEX {index inbox_age} ON {inbox} (consumed_at);

-- The newest version of each aggregate that a group of consumers has seen.
CREATE TABLE {version} (
  consumer       text        NOT NULL,
  aggregate_type text        NOT NULL,
  aggregate_id   text        NOT NULL,
  version        bigint      NOT NULL,
  seen_at        timestamptz NOT NULL,
  PRIMARY KEY (consumer, aggregate_type, aggregate_id)
) WITH (fillfactor = 80);

-- Requests that create something, and what came of them.
CREATE TABLE {creation} (
  tenant_id    text        NOT NULL,
  request_key  text        NOT NULL,
  request_hash text        NOT NULL,
  state        smallint    NOT NULL,  -- 0 in progress, 1 succeeded, 2 failed
  owner        text        NOT NULL,  -- the call that works on it, or did last
  lease_until  timestamptz NOT NULL,  -- in progress: then another call may take it over
  attempts     integer     NOT NULL,
  internal_id  text        NOT NULL,
  public_id    text        NOT NULL,
  result_ref   text,                  -- once it succeeded
  last_error   text,                  -- since it failed
  created_at   timestamptz NOT NULL,
  changed_at   timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, request_key)
) WITH (fillfactor = 80);
CREATE INDEX {index creation_age} ON {creation} (changed_at);
