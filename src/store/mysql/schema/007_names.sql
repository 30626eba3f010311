-- Columns in the words of logs and documents: a shard is draining (was `leaving`), its last owner
-- left poison candidates (`suspects`), an instance asks for exclusive ownership (`whole`).
-- A column cannot be renamed twice, and not every server can say IF EXISTS.
SET @outbox_rename = (SELECT if(count(*) = 1,
  'ALTER TABLE {shard} RENAME COLUMN leaving TO draining, RENAME COLUMN suspects TO candidates',
  'DO 0') FROM information_schema.columns
  WHERE table_schema = {schema} AND table_name = '{name}_shard' AND column_name = 'leaving');
PREPARE outbox_rename FROM @outbox_rename;
EXECUTE outbox_rename;
SET @outbox_rename = (SELECT if(count(*) = 1,
  'ALTER TABLE {instance} RENAME COLUMN whole TO exclusive',
  'DO 0') FROM information_schema.columns
  WHERE table_schema = {schema} AND table_name = '{name}_instance' AND column_name = 'whole');
PREPARE outbox_rename FROM @outbox_rename;
EXECUTE outbox_rename;
DEALLOCATE PREPARE outbox_rename;
