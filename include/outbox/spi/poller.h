// Reads events from a store and passes them to a handler.
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

// Takes the events that a poller reads. Called by one thread at a time. Implement it to put them
// where you want, e.g. into another program's queue; a Dispatcher has one, too.
class OUTBOX_EXPORT PollHandler {
 public:
  virtual ~PollHandler() = default;

  // How many more events it can take now; at 0 the store is not even asked.
  virtual std::size_t room() = 0;

  // How many bytes of payload it can take; see ReadLimit.
  virtual std::size_t room_bytes() { return std::numeric_limits<std::size_t>::max(); }

  // How many events it has taken whose update has not been acknowledged, or keeps for itself: a
  // read may return their rows again.
  virtual std::size_t in_flight() = 0;

  // Takes a row, or recognises one that it already has. False: no room after
  // all; the round ends, and this row and the rest are given back.
  virtual bool handle(Row row) = 0;
};

struct PollerOptions {
  // Up to this many rows per read. A full read is followed by the next at once.
  std::size_t batch = QueueOptions{}.batch;

  // How long to wait after an empty read (with jitter), unless woken.
  std::chrono::milliseconds interval = kDefaultPollInterval;

  // Do not read events younger than this. It keeps no order.
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

// Polls on a thread of its own, for a handler of your own. (In the facade,
// outbox.h, idle workers poll instead.)
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

  // Runs one round in this thread and returns whether there may be more to read now.
  // Errors of the store reach the caller. poll() and close() throw MisuseError, and
  // change nothing, in a call of the handler, which they would wait for.
  bool poll();

  // Something was committed: poll now.
  void wake();

  // Stops polling and releases what the instance owns. Idempotent; fine
  // without start().
  void close();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace outbox
