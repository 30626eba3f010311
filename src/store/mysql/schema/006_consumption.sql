-- Which group of consumers is at, or has had, which event, where the effect is outside the
-- database (docs/patterns.md). `{x}` stands for `<name>_x`. Empty unless
-- outbox::database_tracker() is used. Times are in UTC.
CREATE TABLE IF NOT EXISTS {consumption} (
  consumer    VARCHAR(64)  NOT NULL,
  event_id    VARCHAR(128) NOT NULL,
  state       TINYINT      NOT NULL,  -- 0 abandoned, 1 in progress, 2 done
  fence       BIGINT       NOT NULL,  -- of the last consumer that began; grows with each
  owner       VARCHAR(255) NOT NULL,  -- which call that was
  lease_until DATETIME(6)  NOT NULL,  -- in progress: then another consumer may begin
  changed_at  DATETIME(6)  NOT NULL,
  PRIMARY KEY (consumer, event_id),
  INDEX by_age (changed_at)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE {collation};
