-- Makes a table that nobody has used keep its progress by position (Progress::position). Not one of
-- the migrations, which all tables go through: it is noted among them under a number that programs
-- which know of no positions take for a schema that is newer than they are.
--
-- An event's row is inserted, and never updated. `xid` is the transaction that inserted it: what a
-- snapshot shows is told by it.
ALTER TABLE {table} ADD COLUMN xid xid8 NOT NULL DEFAULT pg_current_xact_id();

DROP INDEX {hold}, {due}, {finished}, {dead};
CREATE INDEX {index order} ON {table} (shard, seq);
CREATE INDEX {index late} ON {table} (shard, xid, seq);
