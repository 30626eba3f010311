-- Columns in the words of logs and documents: a shard is draining (was `leaving`), its last owner
-- left poison candidates (`suspects`), an instance asks for exclusive ownership (`whole`).
--
-- The lock waits for open transactions, such as a dump, and every renewal waits behind it: so it
-- waits briefly, and then tries again, for two minutes.
DO $names$
DECLARE
  attempts integer := 0;
BEGIN
  LOOP
    BEGIN
      SET LOCAL lock_timeout = '200ms';
      LOCK TABLE {shard}, {instance};
      ALTER TABLE {shard} RENAME COLUMN leaving TO draining;
      ALTER TABLE {shard} RENAME COLUMN suspects TO candidates;
      ALTER TABLE {instance} RENAME COLUMN whole TO exclusive;
      RETURN;
    EXCEPTION WHEN lock_not_available THEN
      attempts := attempts + 1;
      IF attempts = 120 THEN RAISE; END IF;
    END;
    PERFORM pg_sleep(0.8);
  END LOOP;
END $names$;
