-- A row whose status and place contradict each other would be delivered for ever, or never:
-- what is pending has a place to wait at, what is DONE has none, what is DEAD may block its
-- lane. `{name}` stands for the bare name of the table, `{schema}` for its database as a
-- text. A constraint cannot be added twice, and not every server can say IF NOT EXISTS.
SET @outbox_constraint = (SELECT if(count(*) = 0,
  'ALTER TABLE {table} ADD CONSTRAINT `{name}_state` CHECK (
     (status IN (0, 2) AND hold IS NOT NULL) OR (status = 1 AND hold IS NULL)
     OR (status = 3 AND (hold IS NULL OR hold > 0)))',
  'DO 0') FROM information_schema.table_constraints
  WHERE table_schema = {schema} AND table_name = '{name}' AND constraint_name = '{name}_state');
PREPARE outbox_constraint FROM @outbox_constraint;
EXECUTE outbox_constraint;
DEALLOCATE PREPARE outbox_constraint;
