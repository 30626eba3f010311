-- What an engine writes to where the server shows commits before they are on its disk:
-- its own commit, which comes later in the server's log, waits for theirs. A row for each
-- shard, so that engines, which own different ones, never wait for each other here.
CREATE TABLE IF NOT EXISTS {flush} (
  shard   TINYINT NOT NULL PRIMARY KEY,
  flushes BIGINT  NOT NULL DEFAULT 0
) ENGINE = InnoDB;
INSERT IGNORE INTO {flush} (shard)
VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9), (10), (11), (12), (13), (14), (15);
