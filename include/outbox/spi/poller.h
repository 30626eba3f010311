// Reads events from a store and hands them on.
#pragma once

#include <chrono>
#include <cstddef>
#include <limits>
#include <memory>

#include "outbox/export.h"
#include "outbox/log.h"
#include "outbox/options.h"
#include "outbox/spi/store.h"

namespace outbox {

// Takes what a poller reads. One thread at a time calls these. One of your own keeps what is read
// where you want it, e.g. in a queue of another program's; a Dispatcher has one as well.
class OUTBOX_EXPORT PollHandler {
 public:
  virtual ~PollHandler() = default;

  // How many more events it can take now; at 0 the store is not even asked.
  virtual std::size_t room() = 0;

  // How many bytes of payload it can take; see ReadLimit.
  virtual std::size_t room_bytes() { return std::numeric_limits<std::size_t>::max(); }

  // How many events it has taken whose update has not been acknowledged, or keeps for itself: a
  // read may meet their rows.
  virtual std::size_t in_flight() = 0;

  // Takes a row, or recognises one that it has already. False: no room after
  // all; the round ends, and this row and the rest are given back.
  virtual bool handle(Row row) = 0;
};

struct PollerOptions {
  // Up to this many rows a read. A full one is followed by the next at once.
  std::size_t batch = QueueOptions{}.batch;

  // How long to wait after an empty one (with jitter), unless woken.
  std::chrono::milliseconds interval = kDefaultPollInterval;

  // Leave events alone that are younger than this. It keeps no order.
  std::chrono::milliseconds skip_recent{0};

  // As the instance was joined.
  bool row_claims = false;

  // How often a poison candidate (see docs/architecture.md) may kill the process while
  // it is delivered alone before it becomes DEAD.
  int max_solo_crashes = kDefaultMaxSoloCrashes;

  // If no event could be read for this long, although the lease is renewed, give up
  // the lease and register again, on new connections.
  std::chrono::milliseconds stalled_after = TimeoutOptions{}.stalled;

  Logger log{};                  // empty: standard_error_log()
  const Clock* clock = nullptr;  // null: host_clock()
};

// Polls on a thread of its own, for those who bring their own handler; the
// facade in outbox.h reads by its idle workers instead.
//
// Thread-safe. After fork() the child must not use it.
class OUTBOX_EXPORT Poller {
 public:
  Poller(std::shared_ptr<Instance> instance, std::shared_ptr<PollHandler> handler,
         PollerOptions options = {});
  ~Poller();
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

  // Polls at once, then whenever there is a reason to. Throws MisuseError after
  // close().
  void start();

  // Runs one round in this thread and says whether there may be more at once.
  // Errors of the store reach the caller. poll() and close() throw MisuseError, and
  // change nothing, in a call of the handler, which they would wait for.
  bool poll();

  // Something was committed: poll now.
  void wake();

  // Stops polling and gives back what the instance owns. Idempotent; fine
  // without start().
  void close();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace outbox
