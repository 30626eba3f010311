// Options of an outbox that are wrong on purpose; see tests/compile/try.
#include "outbox/outbox.h"

// In the middle of the call, where compilers say no more of an ordinary member than that the
// argument does not fit.
outbox::Outbox make(const outbox::Options& options);

#ifdef CASE_options_any_unit
outbox::Outbox box() {
  using namespace std::chrono_literals;
  return make({.poll_interval = 1'500us,
               .breaker = {.pause = 1s, .max_pause = 1min},
               .lease = {.duration = std::chrono::duration<double>(2.5), .claim = 1h},
               .timeouts = {.drain = 0s}});
}
#endif

#ifdef CASE_options_poll_interval
// says: option::poll_interval
outbox::Outbox box() { return make({.poll_interval = 5}); }
#endif

#ifdef CASE_options_lease_duration
// says: option::lease::duration
outbox::Outbox box() { return make({.lease = {.duration = 15}}); }
#endif

#ifdef CASE_options_timeouts_drain
// says: this option takes a span of time, such as 5s or 200ms
outbox::Outbox box() { return make({.timeouts = {.drain = "5 s"}}); }
#endif
