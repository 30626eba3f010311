// When a server that is unreachable is asked again.
#pragma once

#include <chrono>
#include <string>

#include "base/mutex.h"

namespace outbox {

// How often a server that is unreachable is asked. While it is there everybody may connect. After a
// failure one attempt begins at a time, with a pause to the next that doubles up to the
// longest, each a little different; a longer attempt (nobody answers at all) keeps no
// other from beginning. In between callers are told what the last attempt was told. So a
// server that is back is noticed at most half a second after the next request.
// Thread-safe.
class Reconnection {
 public:
  using Instant = std::chrono::steady_clock::time_point;

  // An attempt begins. Throws RetryableError while it is too early.
  void check(Instant now) OUTBOX_EXCLUDES(mutex_);
  void failed(const std::string& why, Instant now) OUTBOX_EXCLUDES(mutex_);
  void succeeded() OUTBOX_EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  std::chrono::milliseconds pause_ OUTBOX_GUARDED_BY(mutex_){0};  // 0: it is there
  Instant next_ OUTBOX_GUARDED_BY(mutex_){};
  std::string why_ OUTBOX_GUARDED_BY(mutex_);
};

}  // namespace outbox
