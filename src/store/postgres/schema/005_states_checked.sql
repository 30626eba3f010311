-- Looks whether all rows agree with the last step; nobody waits for it meanwhile. If not, those
-- rows stay as they are, and open() says so.
DO $states$
BEGIN
  ALTER TABLE {table} VALIDATE CONSTRAINT {index state};
EXCEPTION WHEN check_violation THEN
  RAISE WARNING 'some rows of {table} contradict themselves: status and hold do not agree';
END $states$;
