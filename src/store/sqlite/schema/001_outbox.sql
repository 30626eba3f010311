-- The table of events. `{table}` stands for its name, `{x}` for `<name>_x`.
--
-- Other programs may INSERT with plain SQL: event_id, event_type and payload
-- are enough. Times are microseconds since 1970, UTC; the defaults are spelt so
-- that old versions of SQLite, which those programs may link, evaluate them too.
--
-- What is read and changed most comes first and the payload last: SQLite walks
-- the overflow pages of a large value to reach the columns behind it.
CREATE TABLE IF NOT EXISTS {table} (
  -- AUTOINCREMENT, or the number of a deleted last row would be given again.
  seq            INTEGER PRIMARY KEY AUTOINCREMENT,
  event_id       TEXT    NOT NULL UNIQUE,
  event_type     TEXT    NOT NULL,
  aggregate_type TEXT,
  aggregate_id   TEXT,
  tenant_id      TEXT,
  status         INTEGER NOT NULL DEFAULT 0,  -- 0 NEW, 1 DONE, 2 RETRY, 3 DEAD
  attempts       INTEGER NOT NULL DEFAULT 0,
  crashes        INTEGER NOT NULL DEFAULT 0,
  hold           INTEGER          DEFAULT 0,  -- 0 ready, > 0 lane, < 0 minus due time, NULL finished
  available_at   INTEGER NOT NULL DEFAULT (
    CAST(strftime('%s', 'now') AS INTEGER) * 1000000 +
    CAST(substr(strftime('%f', 'now'), 4) AS INTEGER) * 1000),
  created_at     INTEGER NOT NULL DEFAULT (
    CAST(strftime('%s', 'now') AS INTEGER) * 1000000 +
    CAST(substr(strftime('%f', 'now'), 4) AS INTEGER) * 1000),
  done_at        INTEGER,
  locked_by      TEXT,
  locked_at      INTEGER,
  content_type   TEXT,  -- NULL: application/json for TEXT, application/octet-stream for BLOB
  progress       TEXT,
  headers        TEXT,
  last_error     TEXT,
  payload        NOT NULL  -- TEXT is JSON, BLOB is bytes; no declared type, so neither is converted
);

-- Serves every read of the engine; the row's seq is its implicit last column.
CREATE INDEX IF NOT EXISTS {hold} ON {table} (hold) WHERE hold IS NOT NULL;

-- Finds the dead among millions of finished rows; costs the living nothing.
CREATE INDEX IF NOT EXISTS {dead} ON {table} (done_at) WHERE status = 3;

-- Who owns the table, or owned it last.
CREATE TABLE IF NOT EXISTS {instance} (
  id            INTEGER PRIMARY KEY CHECK (id = 1),
  epoch         INTEGER NOT NULL,
  clean         INTEGER NOT NULL,  -- 1 once it has given everything back
  owner         TEXT    NOT NULL,
  capacity      INTEGER NOT NULL,
  name          TEXT    NOT NULL,
  host          TEXT    NOT NULL,
  pid           INTEGER NOT NULL,
  registered_at INTEGER NOT NULL
);
