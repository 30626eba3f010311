-- Which group of consumers is at, or has had, which event, where the effect is outside the
-- database (docs/patterns.md). `{x}` stands for `<name>_x`. Empty unless
-- outbox::database_tracker() is used. Times are microseconds since 1970, UTC.
CREATE TABLE IF NOT EXISTS {consumption} (
  consumer    TEXT    NOT NULL,
  event_id    TEXT    NOT NULL,
  state       INTEGER NOT NULL,  -- 0 abandoned, 1 in progress, 2 done
  fence       INTEGER NOT NULL,  -- of the last consumer that began; grows with each
  owner       TEXT    NOT NULL,  -- which call that was
  lease_until INTEGER NOT NULL,  -- in progress: then another consumer may begin
  changed_at  INTEGER NOT NULL,
  PRIMARY KEY (consumer, event_id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS {consumption_age} ON {consumption} (changed_at);
