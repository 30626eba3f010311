-- What engines read by (`hold`) and what operators read (`status`) must agree: a row that
-- contradicts itself is refused from now on. Rows that are there already are looked at by
-- the next step, beside everybody's work.
--
-- The lock waits for open transactions, and whoever comes later waits behind it: so it waits
-- briefly, and then tries again, for two minutes.
DO $states$
DECLARE
  attempts integer := 0;
BEGIN
  LOOP
    BEGIN
      SET LOCAL lock_timeout = '200ms';
      ALTER TABLE {table} ADD CONSTRAINT {index state} CHECK (CASE status
        WHEN 0 THEN hold IS NOT NULL         -- NEW
        WHEN 1 THEN hold IS NULL             -- DONE
        WHEN 2 THEN hold IS NOT NULL         -- RETRY
        WHEN 3 THEN hold IS NULL OR hold > 0 -- DEAD, alone or first in its lane
        ELSE false END) NOT VALID;
      RETURN;
    EXCEPTION WHEN lock_not_available THEN
      attempts := attempts + 1;
      IF attempts = 120 THEN RAISE; END IF;
    END;
    PERFORM pg_sleep(0.8);
  END LOOP;
END $states$;
