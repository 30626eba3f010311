// Decides when to read: after commits, when something is due, now and then.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/mutex.h"
#include "base/outage.h"
#include "base/rate_limit.h"
#include "base/thread.h"
#include "engine/lease_keeper.h"
#include "engine/reader.h"
#include "outbox/spi/poller.h"

namespace outbox::internal {

// Joins a reader with a keeper. Whoever is told that a read is wanted calls
// read(); without such a helper the keeper's own thread reads. Thread-safe.
class Driver {
 public:
  struct Helpers {
    // A read is wanted.
    std::function<void()> wanted{};

    // What else is due; when to be called again.
    std::function<std::optional<Clock::Steady>()> tick{};

    // See Reader.
    Reader::LeftBehind left_behind{};
  };

  // `options` as checked_options() returned them.
  Driver(std::shared_ptr<Instance> instance, PollHandler& handler, PollerOptions options,
         Helpers helpers);

  // Fills in the defaults; throws MisuseError for what makes no sense.
  static PollerOptions checked_options(PollerOptions options);

  void start() { keeper_.start(); }
  void stop() {
    keeper_.stop();
    owner_ = false;
  }

  // Reads once, if nobody else is reading, and says whether there may be more
  // at once. Never throws: an error is logged, and another read follows.
  bool read();

  // The same, but errors reach the caller, and ownership is sought first.
  bool read_now();

  // Something was committed here: new rows are ready.
  void wake();

  // Somebody has committed something.
  void committed();

  // Anything may have happened.
  void look_everywhere();

  void rows_due(std::span<const Clock::Steady> due);
  void left_behind(const RowRef& row) { reader_.leave_behind(row); }
  void emptied();
  void timer_changed() { keeper_.wake(); }
  void fenced(std::int64_t epoch);

  bool owner() const { return owner_; }
  bool on_own_thread() const { return keeper_.on_own_thread(); }

  // That events cannot be read, or the lease not be renewed.
  const Outage& reading() const { return reading_; }
  const Outage& renewing() const { return keeper_.outage(); }
  const Outage& given_up() const { return keeper_.given_up(); }

 private:
  void take_lease(const Lease& lease, Clock::Steady valid_until);
  std::string stalled();
  std::optional<Clock::Steady> tick();
  std::optional<Clock::Steady> do_what_is_due();
  void request_read();

  // Constant after construction.
  const std::shared_ptr<Instance> instance_;
  PollHandler& handler_;
  const PollerOptions options_;
  const Helpers helpers_;
  const Clock& clock_;

  Mutex round_;
  bool more_ = false;  // what read_now() said last; guarded by round_
  Reader reader_;
  RateLimit warnings_{std::chrono::seconds{10}};
  Outage reading_;
  Atomic<Clock::Steady> read_began_{Clock::Steady::max()};  // of the one under way
  Atomic<bool> owner_{false};
  Atomic<bool> wanted_{false};  // without helpers_.wanted
  Atomic<Clock::Steady> retry_at_{Clock::Steady::max()};
  Atomic<Clock::Steady> scheduled_{Clock::Steady::max()};  // when tick() is called again

  Atomic<Clock::Steady> owner_since_{Clock::Steady{}};

  // Used by the keeper's thread only.
  Clock::Steady next_sweep_{};

  LeaseKeeper keeper_;  // last: its thread uses all of the above
};

}  // namespace outbox::internal
