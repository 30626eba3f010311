-- What purging and operators need. `{table}` stands for the table's name, `{x}`
-- for `<name>_x`.

-- Where purged events go if they are to be kept. Nothing reads it, so nothing is
-- unique in it: whatever the rows are, moving them here must not fail.
CREATE TABLE IF NOT EXISTS {archive} (
  archived_at    INTEGER NOT NULL,
  seq            INTEGER NOT NULL,
  event_id       TEXT    NOT NULL,
  event_type     TEXT    NOT NULL,
  aggregate_type TEXT,
  aggregate_id   TEXT,
  tenant_id      TEXT,
  status         INTEGER NOT NULL,
  attempts       INTEGER NOT NULL,
  crashes        INTEGER NOT NULL,
  hold           INTEGER,
  available_at   INTEGER NOT NULL,
  created_at     INTEGER NOT NULL,
  done_at        INTEGER,
  locked_by      TEXT,
  locked_at      INTEGER,
  content_type   TEXT,
  progress       TEXT,
  headers        TEXT,
  last_error     TEXT,
  payload        NOT NULL
);

CREATE INDEX IF NOT EXISTS {archive_id} ON {archive} (event_id);

-- The dead in the order of their rows, page by page; the index that exists has
-- them by time. The row's seq is its implicit last column.
CREATE INDEX IF NOT EXISTS {dead_row} ON {table} (status) WHERE status = 3;
