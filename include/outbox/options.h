// Groups of options of an outbox. Each default is defined here and nowhere else.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>

namespace outbox {

class Event;
class RetryPolicy;

// A span of time among the options: given in any unit, and rounded up to a millisecond. Whatever
// else is given fails to compile, with a message that names the option: `Field`.
template <class Field>
class OptionSpan : public std::chrono::milliseconds {
 public:
  constexpr OptionSpan() = default;

  template <class T>
  constexpr OptionSpan(const T& span)  // NOLINT(google-explicit-constructor)
      : std::chrono::milliseconds(milliseconds_of(span)) {}

 private:
  template <class T>
  static constexpr std::chrono::milliseconds milliseconds_of(const T& span) {
    constexpr bool kIsSpan = requires { std::chrono::ceil<std::chrono::milliseconds>(span); };
    static_assert(kIsSpan, "this option takes a span of time, such as 5s or 200ms");
    if constexpr (kIsSpan) {
      return std::chrono::ceil<std::chrono::milliseconds>(span);
    } else {
      return {};
    }
  }
};

// Their names.
namespace option {
struct poll_interval;
struct skip_recent;
namespace breaker {
struct pause;
struct max_pause;
}  // namespace breaker
namespace lease {
struct duration;
struct claim;
}  // namespace lease
namespace timeouts {
struct drain;
struct hung;
struct stalled;
}  // namespace timeouts
}  // namespace option

inline constexpr int kDefaultWorkers = 4;
inline constexpr std::chrono::milliseconds kDefaultPollInterval{5'000};
inline constexpr int kDefaultMaxSoloCrashes = 2;

// Where a table keeps how far its events have been delivered; decided when it is created.
enum class Progress {
  // In the row of each event, as its status: one update for each delivery.
  row,

  // As a position, with what is open before it: a delivery costs no update, and only what fails,
  // waits or is dead has a row of its own, in `<table>_delivery`. Operators see the same states.
  position,
};

// The receivers of a table's events. Each has its own progress, leases, dead events and pace, and
// gets every event; with Progress::row there is only this one.
inline constexpr std::string_view kDefaultSubscription = "default";

// Where a subscription begins that the table has not had before.
enum class Begin {
  beginning,  // with the oldest event that is still in the table
  now,        // with the first one whose transaction commits after this
};

// What happens to the later events of an aggregate when one is DEAD.
enum class OnDead {
  skip,   // they go on
  block,  // they wait until an operator has replayed or discarded it
  park,   // they become DEAD too, to be replayed in order (in a long lane, the first
          // `queue.cold_capacity / 4` do; the others are held, and follow those)
};

// What happens to an event that has no listener in this instance.
enum class OnUnroutable {
  dead,    // it is DEAD at once, with the reason
  ignore,  // it is DONE at once: it is for others

  // It stays pending, and so do the later events of its aggregate, until an instance that
  // has a listener delivers it. No attempt is spent. For rolling deployments:
  // instances of the old release leave events of a new type to those of the new one. It
  // is checked again after 1 to 60 seconds, the longer the older it is.
  wait,
};

// How much is in flight in this process.
struct QueueOptions {
  // Bounds, in events and (for both queues together) in bytes of payload. Hot events are handed
  // over by a commit of this process, cold ones are read from the store.
  std::size_t hot_capacity = 1000;
  std::size_t cold_capacity = 1000;
  std::size_t capacity_bytes = std::size_t{64} * 1024 * 1024;

  // Up to this many rows per read.
  std::size_t batch = 50;
};

// When a failed event is retried, and how often. A listener may have a policy and a number
// of its own (ListenerOptions).
struct RetryOptions {
  std::shared_ptr<const RetryPolicy> policy{};  // empty: ExponentialBackoff{}
  int max_attempts = 10;
};

// What happens when an event is given up.
struct DeadOptions {
  // For the later events of its aggregate.
  OnDead then = OnDead::skip;

  // Called after an event has become DEAD, with the reason. Exceptions are logged.
  std::function<void(const Event&, std::string_view error)> on_event{};

  // The dead letter: called before an event becomes DEAD, with the reason, e.g. to copy it
  // to a dead letter queue. If it throws, the event is not DEAD yet: its last attempt is
  // repeated later. (Not called for events that are parked behind a dead one.)
  std::function<void(const Event&, std::string_view error)> letter{};
};

// How long the breaker of an unavailable listener stays open: doubled from the first to the
// second value while the listener stays unavailable.
struct BreakerOptions {
  OptionSpan<option::breaker::pause> pause{std::chrono::milliseconds{200}};
  OptionSpan<option::breaker::max_pause> max_pause{std::chrono::seconds{30}};
};

// How long this instance owns events without renewing, by the clock of the store.
struct LeaseOptions {
  // For shards: this long after the death of an instance another one takes over.
  OptionSpan<option::lease::duration> duration{std::chrono::seconds{15}};

  // For a claimed row (row_claims).
  OptionSpan<option::lease::claim> claim{std::chrono::minutes{5}};
};

// How long to wait for something that does not end.
struct TimeoutOptions {
  // close() lets queued events finish for this long. Running calls are waited for in
  // any case, because C++ cannot stop a thread; their Delivery::stop is requested.
  OptionSpan<option::timeouts::drain> drain{std::chrono::seconds{5}};

  // A call that takes longer hangs: it is reported, once, and only its own worker and lane
  // still wait for it. If its shard moves to another instance,
  // that one gets the event postponed by the time the call has taken so far, and then
  // delivers it again. So choose it longer than any call may take.
  OptionSpan<option::timeouts::hung> hung{std::chrono::seconds{30}};

  // If no status update has been acknowledged for this long although some are waiting, if no event
  // could be read, or if every worker hangs and events wait, give up the lease, so that others may
  // deliver, and register again. Doubled each time until an update is acknowledged.
  OptionSpan<option::timeouts::stalled> stalled{std::chrono::minutes{1}};
};

}  // namespace outbox
