// Calls that nobody waits for any more.
#pragma once

#include <unistd.h>

#include <deque>
#include <memory>

#include "base/mutex.h"
#include "client/postgres/libpq.h"

namespace outbox::postgres {

// Tells the server to stop what it does for connections that were given up, and closes
// them: a server process that waits for a lock does not notice that its client is gone.
// libpq waits for the server's answer to that without a limit, so it is done by a thread
// that lives while there is work; if the server is frozen, it hangs there alone.
// Thread-safe.
class Canceller {
 public:
  ~Canceller();
  Canceller() = default;
  Canceller(const Canceller&) = delete;
  Canceller& operator=(const Canceller&) = delete;

  // Does not wait.
  void give_up(ConnectionHandle connection) noexcept;

 private:
  struct Work {
    Mutex mutex;
    CondVar ended;
    std::deque<ConnectionHandle> waiting OUTBOX_GUARDED_BY(mutex);
    bool at_work OUTBOX_GUARDED_BY(mutex) = false;
  };

  static void run(const std::shared_ptr<Work>& work) noexcept;

  const pid_t pid_ = getpid();  // in a child made by fork() there is no such thread
  const std::shared_ptr<Work> work_ = std::make_shared<Work>();
};

}  // namespace outbox::postgres
