// What the tests of updates that wait for locks share.
#pragma once

#include <cstdint>
#include <vector>

#include "store/mysql/test_support.h"

namespace outbox::mysql {

// Until so many transactions wait for a lock in the database of the connection.
inline bool wait_for_waiters(test::Mysql& sql, int count) {
  return eventually([&] { return test::waiting_transactions(sql) == count; });
}

// As an engine does: until it is known what became of them.
inline UpdateResult apply_patiently(Instance& instance, std::int64_t epoch,
                                    const std::vector<StatusUpdate>& updates) {
  for (;;) {
    try {
      return instance.apply(epoch, updates);
    } catch (const RetryableError&) {
    }
  }
}

}  // namespace outbox::mysql
