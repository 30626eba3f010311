-- Lanes in which an operator has replayed or discarded a dead event that stood first: a note
-- for the engine that owns them, which reads those lanes again and deletes the note.
-- `{x}` stands for `<name>_x`. Each note is a row of its own, also of the same lane: a
-- note says what was committed together with it.
CREATE TABLE IF NOT EXISTS {unblocked} (
  -- AUTOINCREMENT, or the number of a deleted last row would be given again.
  id   INTEGER PRIMARY KEY AUTOINCREMENT,
  lane INTEGER NOT NULL
);
