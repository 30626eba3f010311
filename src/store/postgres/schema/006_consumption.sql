-- Which group of consumers is at, or has had, which event, where the effect is outside the
-- database (docs/patterns.md). `{x}` stands for `<name>_x`. Empty unless
-- outbox::database_tracker() is used.
CREATE TABLE {consumption} (
  consumer    text        NOT NULL,
  event_id    text        NOT NULL,
  state       smallint    NOT NULL,  -- 0 abandoned, 1 in progress, 2 done
  fence       bigint      NOT NULL,  -- of the last consumer that began; grows with each
  owner       text        NOT NULL,  -- which call that was
  lease_until timestamptz NOT NULL,  -- in progress: then another consumer may begin
  changed_at  timestamptz NOT NULL,
  PRIMARY KEY (consumer, event_id)
) WITH (fillfactor = 80);
CREATE INDEX {index consumption_age} ON {consumption} (changed_at);
