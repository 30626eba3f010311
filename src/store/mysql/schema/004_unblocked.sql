-- Lanes in which an operator has replayed or discarded a dead event that stood first: a note
-- for the engine that owns them, which reads those lanes again and deletes the note.
-- `{x}` stands for `<name>_x`. Each note is a row of its own, also of the same lane: a
-- note says what was committed together with it.
CREATE TABLE IF NOT EXISTS {unblocked} (
  id    BIGINT  NOT NULL AUTO_INCREMENT PRIMARY KEY,
  shard TINYINT NOT NULL,
  lane  BIGINT  NOT NULL
) ENGINE = InnoDB;
