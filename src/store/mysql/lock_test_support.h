// What the tests of marks that wait for locks share.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "store/mysql/test_support.h"

namespace outbox::mysql {

// Until so many transactions wait for a lock in the database of the connection. The
// server looks anew only when nobody asked for a tenth of a second, so those who ask take
// turns.
inline bool wait_for_waiters(test::Mysql& sql, int count) {
  return eventually([&] {
    sql.value("SELECT get_lock('outbox tests look for waiters', 60)");
    std::this_thread::sleep_for(110ms);
    const std::string waiters = sql.value(
        "SELECT count(*) FROM information_schema.innodb_trx JOIN "
        "information_schema.processlist ON id = trx_mysql_thread_id "
        "WHERE trx_state = 'LOCK WAIT' AND db = database()");
    sql.value("SELECT release_lock('outbox tests look for waiters')");
    return waiters == std::to_string(count);
  });
}

// As an engine does: until it is known what became of them.
inline MarkResult mark_patiently(Instance& instance, std::int64_t epoch,
                                 const std::vector<Mark>& marks) {
  for (;;) {
    try {
      return instance.mark(epoch, marks);
    } catch (const RetryableError&) {
    }
  }
}

}  // namespace outbox::mysql
