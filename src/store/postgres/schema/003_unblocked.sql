-- Lanes in which an operator has replayed or discarded a dead event that stood first: a note
-- for the engine that owns them, which reads those lanes again and deletes the note.
-- `{x}` stands for `<name>_x`. Each note is a row of its own, also of the same lane: a
-- note says what was committed together with it.
CREATE TABLE {unblocked} (
  id    bigint   NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  shard smallint NOT NULL,
  lane  bigint   NOT NULL
) WITH (autovacuum_vacuum_threshold = 100, autovacuum_vacuum_scale_factor = 0);
