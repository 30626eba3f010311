#include "engine/driver.h"

#include <algorithm>
#include <exception>
#include <random>
#include <string>
#include <utility>

#include "base/bounded.h"
#include "base/thread.h"
#include "outbox/error.h"

namespace outbox::internal {
namespace {

using std::chrono::milliseconds;

// The database is unreachable: it is asked again soon, but not in a loop.
constexpr milliseconds kAfterFailedRead{250};

// A handler does not say when it has room again.
constexpr milliseconds kWithoutRoom{5};

// Spread by a tenth either way, so that instances that started together do not
// ask together for ever.
milliseconds with_jitter(milliseconds interval) {
  thread_local std::mt19937 generator{random_seed()};
  const double factor = std::uniform_real_distribution<double>{0.9, 1.1}(generator);
  return milliseconds{
      static_cast<milliseconds::rep>(static_cast<double>(interval.count()) * factor)};
}

}  // namespace

PollerOptions Driver::checked_options(PollerOptions options) {
  if (options.batch == 0) throw MisuseError("batch must be at least 1");
  if (options.interval.count() <= 0) {
    throw MisuseError("the poll interval must be positive, got " +
                      std::to_string(options.interval.count()) + " ms");
  }
  if (options.skip_recent.count() < 0) {
    throw MisuseError("skip_recent must not be negative, got " +
                      std::to_string(options.skip_recent.count()) + " ms");
  }
  if (options.max_solo_crashes < 1) {
    throw MisuseError("max_solo_crashes must be at least 1, got " +
                      std::to_string(options.max_solo_crashes));
  }
  if (options.stalled_after.count() <= 0) throw MisuseError("stalled_after must be positive");
  options.stalled_after = bounded(options.stalled_after);
  options.interval = bounded(options.interval);
  options.skip_recent = bounded(options.skip_recent);
  if (!options.log) options.log = standard_error_log();
  if (options.clock == nullptr) options.clock = &host_clock();
  return options;
}

Driver::Driver(std::shared_ptr<Instance> instance, PollHandler& handler, PollerOptions options,
               Helpers helpers)
    : instance_(std::move(instance)),
      handler_(handler),
      options_(std::move(options)),
      helpers_(std::move(helpers)),
      clock_(*options_.clock),
      reader_(instance_, handler_, options_, helpers_.left_behind),
      keeper_(instance_,
              {.renewed = [this](const Lease& lease,
                                 Clock::Steady valid_until) { take_lease(lease, valid_until); },
               .expired = [this] { take_lease({}, Clock::Steady::min()); },
               .stalled = [this] { return stalled(); },
               .able = [this] { return handler_.able(); },
               .tick = [this] { return tick(); }},
              clock_, options_.log) {}

void Driver::take_lease(const Lease& lease, Clock::Steady valid_until) {
  const bool owner = lease.epoch != 0;
  if (owner != owner_) {
    if (owner) {
      options_.log({LogLevel::info,
                    "lease_acquired",
                    "lease acquired (epoch " + std::to_string(lease.epoch) +
                        "): this instance delivers events",
                    {{"epoch", lease.epoch}}});
    } else {
      options_.log({LogLevel::info, "lease_lost", "lease lost: this instance delivers no events"});
    }
  }
  handler_.on_lease(lease, valid_until);
  if (owner && !owner_) owner_since_ = clock_.steady();
  owner_ = owner;  // not before events are taken from commits
  if (reader_.set_lease(lease)) request_read();
  for (const int shard : lease.draining) {
    // In this order: what the reader has found is in flight before it stops.
    if (!reader_.reads(shard) && handler_.drained(shard)) instance_->release(shard);
  }
}

// --- Reading ---

bool Driver::read() {
  try {
    const MutexLock lock(round_);
    const Clock::Steady began = clock_.steady();
    read_began_ = began;
    const bool more = reader_.round();
    read_began_ = Clock::Steady::max();
    reading_.over();
    // It may have found what is due before the keeper would look again. What
    // was due when it began and is still there waits for something else; what
    // became due since then was perhaps passed by.
    for (const auto& due : {reader_.next_due(), handler_.next_lane_due()}) {
      if (due && *due > began && *due < scheduled_.load()) keeper_.wake();
    }
    return more;
  } catch (const std::exception& error) {
    const Clock::Steady now = clock_.steady();
    read_began_ = Clock::Steady::max();
    reading_.failed(error.what(), now);
    if (warnings_.allow(now)) {
      options_.log({LogLevel::error,
                    "read_failed",
                    std::string("cannot read events, will try again: ") + error.what(),
                    {{"error", error.what()}}});
    }
    retry_at_ = now + kAfterFailedRead;
    keeper_.wake();
    return false;
  }
}

bool Driver::read_now() {
  if (!owner_) keeper_.renew();
  const MutexLock lock(round_);
  // After a round that left something behind the next one reads on: from the
  // start it would only meet what is in flight, again and again.
  if (!std::exchange(more_, false)) reader_.look_everywhere();
  more_ = reader_.round();
  return more_;
}

void Driver::request_read() {
  if (helpers_.wanted) {
    helpers_.wanted();
  } else {
    wanted_ = true;
  }
}

void Driver::wake() {
  request_read();
  if (!helpers_.wanted) keeper_.wake();
}

void Driver::committed() {
  // No rewind: rows never returned before come from ready() in any case, and
  // to read all that is in flight again after every commit would be slow.
  reader_.look_at_due();
  wake();
}

void Driver::look_everywhere() {
  reader_.look_everywhere();
  wake();
}

void Driver::rows_due(std::span<const Clock::Steady> due) {
  for (const Clock::Steady time : due) reader_.note_due(time);
  keeper_.wake();
}

// What the reader would find now could not be marked, and would be found again and again.
void Driver::fenced(std::int64_t epoch) {
  reader_.fence(epoch);
  keeper_.wake();
}

void Driver::emptied() {
  if (reader_.recovering()) wake();
}

// Why there is nothing to be hoped for from this lease.
std::string Driver::stalled() {
  if (!owner_) return {};
  if (std::string why = handler_.stalled(); !why.empty()) return why;
  const Clock::Steady now = clock_.steady();
  const Clock::Steady began = read_began_;
  if (began < now - options_.stalled_after) {
    return "a read of the store has not returned for " + seconds_text(now - began);
  }
  const auto failing = reading_.report();
  if (failing && std::max(failing->since, owner_since_.load()) < now - options_.stalled_after) {
    return "events could not be read for " + seconds_text(now - failing->since) + ": " +
           failing->what;
  }
  return {};
}

// --- Time ---

std::optional<Clock::Steady> Driver::tick() {
  // Until it is known, whoever finds something due wakes the keeper again.
  scheduled_ = Clock::Steady::max();
  const std::optional<Clock::Steady> next = do_what_is_due();
  scheduled_ = next.value_or(Clock::Steady::max());
  return next;
}

std::optional<Clock::Steady> Driver::do_what_is_due() {
  const Clock::Steady now = clock_.steady();
  std::optional<Clock::Steady> next;
  if (helpers_.tick) next = helpers_.tick();
  const auto by = [&next](Clock::Steady time) { next = std::min(next.value_or(time), time); };

  if (now >= next_sweep_) {
    next_sweep_ = now + with_jitter(options_.interval);
    reader_.look_everywhere();
    request_read();
  }
  by(next_sweep_);
  // After a read that failed, what is due waits for the next attempt.
  const Clock::Steady retry_at = retry_at_;
  if (retry_at <= now) {
    retry_at_ = Clock::Steady::max();
    request_read();
  } else if (retry_at < Clock::Steady::max()) {
    by(retry_at);
  } else {
    for (const auto& due : {reader_.next_due(), handler_.next_lane_due()}) {
      if (!due) continue;
      if (*due > now) {
        by(*due);
      } else {
        request_read();
      }
    }
  }

  if (!helpers_.wanted && wanted_.exchange(false)) {
    if (read()) {
      wanted_ = true;
      const bool room = handler_.room() > 0 && !reader_.refused();
      by(room ? now : now + kWithoutRoom);
    }
  }
  return next;
}

}  // namespace outbox::internal
