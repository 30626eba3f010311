-- Rows whose status and hold contradict each other are never delivered (docs/databases.md).
-- `{table}` stands for the table's name, `{x}` for `<name>_x`.
--
-- Triggers refuse them: a CHECK would have the whole table copied, and make old rows that
-- violate it an error of PRAGMA quick_check. Rows that are there already stay.

-- Finds them, however large the table is. As a rule it is empty.
CREATE INDEX IF NOT EXISTS {broken} ON {table} (seq) WHERE
  CASE status
    WHEN 0 THEN typeof(hold) <> 'integer'
    WHEN 1 THEN hold IS NOT NULL
    WHEN 2 THEN typeof(hold) <> 'integer'
    WHEN 3 THEN hold <= 0 OR typeof(hold) NOT IN ('integer', 'null')
    ELSE 1
  END;

CREATE TRIGGER IF NOT EXISTS {check_insert} AFTER INSERT ON {table} WHEN
  CASE NEW.status
    WHEN 0 THEN typeof(NEW.hold) <> 'integer'
    WHEN 1 THEN NEW.hold IS NOT NULL
    WHEN 2 THEN typeof(NEW.hold) <> 'integer'
    WHEN 3 THEN NEW.hold <= 0 OR typeof(NEW.hold) NOT IN ('integer', 'null')
    ELSE 1
  END
BEGIN
  SELECT RAISE(ABORT, 'outbox: status and hold contradict each other: with status 0 (NEW) or 2 (RETRY) hold is an integer, with 1 (DONE) set hold = NULL, with 3 (DEAD) it is NULL or the lane that the event blocks');
END;

CREATE TRIGGER IF NOT EXISTS {check_update} AFTER UPDATE OF status, hold ON {table} WHEN
  CASE NEW.status
    WHEN 0 THEN typeof(NEW.hold) <> 'integer'
    WHEN 1 THEN NEW.hold IS NOT NULL
    WHEN 2 THEN typeof(NEW.hold) <> 'integer'
    WHEN 3 THEN NEW.hold <= 0 OR typeof(NEW.hold) NOT IN ('integer', 'null')
    ELSE 1
  END
BEGIN
  SELECT RAISE(ABORT, 'outbox: status and hold contradict each other: with status 0 (NEW) or 2 (RETRY) hold is an integer, with 1 (DONE) set hold = NULL, with 3 (DEAD) it is NULL or the lane that the event blocks');
END;
