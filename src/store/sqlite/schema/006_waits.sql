-- Finds what waits for a delay and began to do so after a given time: after a clock was set back
-- these would wait for too long (docs/architecture.md). `{table}` stands for the table's name,
-- `{x}` for `<name>_x`.
CREATE INDEX IF NOT EXISTS {waits} ON {table} (locked_at)
WHERE locked_by IS NULL AND locked_at IS NOT NULL AND hold IS NOT NULL;
