// Reads events from a store and hands them on.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "outbox/export.h"
#include "outbox/log.h"
#include "outbox/options.h"
#include "outbox/spi/store.h"

namespace outbox {

// Takes what a reader finds. One thread at a time calls these.
class OUTBOX_EXPORT PollHandler {
 public:
  virtual ~PollHandler() = default;

  // How many more events it can take now; at 0 the store is not even asked.
  virtual std::size_t room() = 0;

  // How many bytes of payload it can take; see ReadLimit.
  virtual std::size_t room_bytes() { return std::numeric_limits<std::size_t>::max(); }

  // How many events it has taken and not yet marked, or keeps for itself: a read may meet their
  // rows.
  virtual std::size_t in_flight() = 0;

  // Of these, how many will come to an end without waiting for a call that hangs, or for
  // an update that the store refuses.
  virtual std::size_t active() { return in_flight(); }

  // Whether this event is one of them, and will be until read_ends(). Such a row may be
  // handed to it without its payload. False if it cannot tell.
  virtual bool has(std::string_view /*event_id*/) { return false; }

  // Takes a row, or recognises one that it has already. False: no room after
  // all; the round ends, and this row and the rest are given back.
  virtual bool handle(Row row) = 0;

  // Takes rows of which one may have killed the process that owned them before:
  // raises their `crashes` in the store, then delivers them. Called only while
  // nothing is active. Returns how many of them were in flight already.
  virtual std::size_t deliver_isolated(std::vector<Row> rows);

  // From now on, or no longer, candidates are delivered, and nothing else may be
  // beside them.
  virtual void isolate(bool /*on*/) {}

  // A read is about to start, in the lease of that epoch / its rows have all
  // been handled. A row that was marked in between may still be among them.
  virtual void read_begins(std::int64_t /*epoch*/) {}
  virtual void read_ends() {}

  // What the instance owns from now on, and until when no later renewal moves
  // it. Another epoch than before: what was taken and not begun is to be
  // dropped.
  virtual void on_lease(const Lease& /*lease*/, Clock::Steady /*valid_until*/) {}

  // Whether nothing of this shard is in flight, so that it can be given back. Asked
  // again and again: what has not begun may be dropped, what hangs may be put off.
  virtual bool drained(int /*shard*/) { return true; }

  // Why nothing can be delivered or marked in this lease, although it is renewed; empty
  // if all is well. The poller then gives up what it owns and registers anew.
  virtual std::string stalled() { return {}; }

  // Whether it could deliver anything; until then nothing given up is sought again.
  virtual bool able() { return true; }

  // --- For handlers that keep order ---

  // A lane that was held before this instance owned the shard.
  virtual void restore(const HeldLane& /*lane*/) {}

  struct LaneRead {
    LaneKey key = kNoLane;
    int shard = 0;
    std::size_t limit = 0;
    std::size_t bytes = 0;  // see ReadLimit
    Seq read_through = 0;   // how far its shard had been read
  };
  // The next lane whose rows, held earlier, should be read now; its shard
  // has been read up to the given seq. A zero key: none.
  virtual LaneRead next_lane(std::span<const Seq> /*read_through*/) { return {}; }

  // When next_lane() will have one.
  virtual std::optional<Clock::Steady> next_lane_due() { return std::nullopt; }

  // Whether a lane waits behind a DEAD event; if so, unblocked() is told of those that
  // an operator has freed, and now and then recheck_blocked() of the chance that one was
  // freed by other means.
  virtual bool any_blocked() { return false; }
  virtual void unblocked(std::span<const LaneRef> /*lanes*/) {}
  virtual void recheck_blocked() {}

  // The rows of that lane; candidates as above or not.
  virtual void load_lane(const LaneRead& /*lane*/, Rows /*rows*/, bool /*candidate*/) {}
};

struct PollerOptions {
  // At most so many rows a read. A full one is followed by the next at once.
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
  // what is owned and register anew, on new connections.
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
