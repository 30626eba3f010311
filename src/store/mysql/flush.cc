#include "store/mysql/flush.h"

#include <string>

#include "outbox/error.h"
#include "store/mysql/sql.h"

namespace outbox::mysql {

void sync_log(Session& session, int shard) {
  if (!session.shows_commits_early()) return;
  // An UPDATE that changes nothing would be no write.
  if (session.run(sql::kFlush, shard).changed() == 1) return;
  const std::string table = config_of(session).table.text() + "_flush";
  throw PermanentError("the table " + table + " has no row of shard " + std::to_string(shard) +
                       " (" + config_of(session).description +
                       "), which is written after a read; INSERT INTO " + table +
                       " (shard) VALUES (" + std::to_string(shard) + ") puts it back");
}

}  // namespace outbox::mysql
