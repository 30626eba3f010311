// Transactions of the library's own, and their repetition.
#pragma once

#include <mysqld_error.h>

#include "outbox/error.h"
#include "store/mysql/database.h"

namespace outbox::mysql {

// Runs work() in a transaction on the session.
template <class Work>
auto in_transaction(Session& session, const Work& work) {
  session.run_text("START TRANSACTION", "begin a transaction");
  try {
    auto result = work();
    session.run_text("COMMIT", "commit a transaction");
    return result;
  } catch (...) {
    if (!session.broken()) session.try_text("ROLLBACK");
    throw;
  }
}

// Runs work(), which is a statement or a transaction, and again if the server chose it
// for the victim of a deadlock: then nothing of it has happened.
template <class Work>
auto retry_on_deadlock(Database& database, const Work& work) {
  constexpr int kTimes = 5;
  for (int left = kTimes;; --left) {
    try {
      return work();
    } catch (const RetryableError&) {
      const bool deadlock = database.last_failure().number == ER_LOCK_DEADLOCK;
      if (!deadlock || left == 1) throw;
    }
  }
}

}  // namespace outbox::mysql
