#include <algorithm>
#include <deque>
#include <iterator>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/rate_limit.h"
#include "base/thread.h"
#include "client/http/client.h"
#include "outbox/error.h"
#include "outbox/retry.h"
#include "outbox/telemetry/otlp.h"
#include "telemetry/otlp/json.h"

namespace outbox::otlp {
namespace {

using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

// A collector that stays unreachable is worth a line a minute, not one a batch.
constexpr std::chrono::minutes kBetweenWarnings{1};

void check_positive(milliseconds value, const char* name) {
  if (value.count() > 0) return;
  throw MisuseError(std::string("otlp: ") + name + " is " + std::to_string(value.count()) +
                    " ms, more than 0 is needed");
}

void check_positive(std::size_t value, const char* name) {
  if (value == 0) throw MisuseError(std::string("otlp: ") + name + " is 0, at least 1 is needed");
}

Options checked(Options options) {
  check_positive(options.capacity, "capacity");
  check_positive(options.batch, "batch");
  check_positive(options.interval, "interval");
  check_positive(options.timeout, "timeout");
  check_positive(options.pause, "pause");
  check_positive(options.give_up_after, "give_up_after");
  if (options.max_pause < options.pause) {
    throw MisuseError("otlp: max_pause is " + std::to_string(options.max_pause.count()) +
                      " ms, less than pause");
  }
  if (options.close_timeout.count() < 0) throw MisuseError("otlp: close_timeout is negative");
  if (!options.log) options.log = standard_error_log();
  return options;
}

// Far enough, and safe to add to.
Deadline after(milliseconds time) {
  constexpr milliseconds kLongest = std::chrono::hours{24 * 365};
  return SteadyClock::now() + std::clamp(time, milliseconds::zero(), kLongest);
}

bool overloaded(int status) {
  return status == 429 || status == 502 || status == 503 || status == 504;
}

std::string describe(const Answer& answer) {
  return answer.status == 0 ? answer.error : "it answered " + std::to_string(answer.status);
}

}  // namespace

class Exporter::Impl {
 public:
  explicit Impl(Options options)
      : options_(checked(std::move(options))),
        resource_(resource_json(options_.service_name, options_.resource)),
        backoff_({.base = options_.pause, .max = options_.max_pause}),
        http_(options_.endpoint, options_.headers),
        thread_([this] { run(); }) {}

  ~Impl() { close(options_.close_timeout); }

  void record(Span span) noexcept OUTBOX_EXCLUDES(mutex_) {
    bool wake = false;
    {
      const MutexLock lock(mutex_);
      try {
        if (closing_ || queue_.size() >= options_.capacity) {
          ++counts_.dropped;
          return;
        }
        queue_.push_back(std::move(span));
      } catch (const std::bad_alloc&) {
        ++counts_.dropped;
        return;
      }
      ++recorded_;
      if (queue_.size() == 1) due_ = after(options_.interval);
      // Only at the two sizes that the thread waits for.
      wake = queue_.size() == 1 || queue_.size() == options_.batch;
    }
    if (wake) changed_.notify_all();
  }

  bool flush(milliseconds timeout) OUTBOX_EXCLUDES(mutex_) {
    const Deadline deadline = after(timeout);
    const MutexLock lock(mutex_);
    const std::uint64_t target = recorded_;
    flush_to_ = std::max(flush_to_, target);
    changed_.notify_all();
    while (finished_ < target) {
      if (!changed_.wait_until(mutex_, deadline)) return finished_ >= target;
    }
    return true;
  }

  bool close(milliseconds timeout) OUTBOX_EXCLUDES(mutex_) {
    {
      const MutexLock lock(mutex_);
      // The first call to come says how long; a later one can only hurry it.
      const Deadline deadline = after(timeout);
      close_by_ = closing_ ? std::min(close_by_, deadline) : deadline;
      closing_ = true;
    }
    changed_.notify_all();
    http_.wake();
    const MutexLock lock(mutex_);
    while (!ended_) {
      // The thread comes back by then, unless the resolver of names holds it.
      if (!changed_.wait_until(mutex_, close_by_ + kGrace)) break;
    }
    return ended_ && cut_off_ == 0;
  }

  Counts counts() const OUTBOX_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return counts_;
  }

 private:
  void run() OUTBOX_EXCLUDES(mutex_) {
    name_this_thread("outbox-otlp");
    std::vector<Span> batch;
    while (take(batch)) {
      Result result{.failed = batch.size()};
      try {
        result = send(batch);
      } catch (const std::exception& error) {
        warn("did not get", std::to_string(batch.size()) + " spans", error.what());
      }
      finish(batch.size(), result);
      report_drops();
    }
    const MutexLock lock(mutex_);
    counts_.failed += queue_.size();
    cut_off_ += queue_.size();
    finished_ += queue_.size();
    queue_.clear();
    ended_ = true;
    changed_.notify_all();
  }

  // Waits for the next batch. False if it is time to end.
  bool take(std::vector<Span>& batch) OUTBOX_EXCLUDES(mutex_) {
    batch.clear();
    const MutexLock lock(mutex_);
    for (;;) {
      if (closing_ && (queue_.empty() || SteadyClock::now() >= close_by_)) return false;
      if (queue_.empty()) {
        changed_.wait(mutex_);
        continue;
      }
      const bool wanted = closing_ || flush_to_ > finished_ || queue_.size() >= options_.batch;
      if (wanted || SteadyClock::now() >= due_) break;
      changed_.wait_until(mutex_, due_);
    }
    const auto size = static_cast<std::ptrdiff_t>(std::min(queue_.size(), options_.batch));
    std::move(queue_.begin(), queue_.begin() + size, std::back_inserter(batch));
    queue_.erase(queue_.begin(), queue_.begin() + size);
    due_ = after(options_.interval);  // for those that stay
    return true;
  }

  // What became of a batch, the rest of which was sent.
  struct Result {
    std::uint64_t failed = 0;
    bool cut_off = false;  // because of close()
  };

  Result send(const std::vector<Span>& batch) OUTBOX_EXCLUDES(mutex_) {
    const Result lost{.failed = batch.size()};
    const std::string body = request_json(resource_, batch);
    const Deadline give_up = after(options_.give_up_after);
    for (int attempt = 1;; ++attempt) {
      const Deadline timeout = after(options_.timeout);
      const Answer answer = http_.post(body, [&] { return std::min(timeout, close_by()); });
      if (answer.status >= 200 && answer.status < 300) {
        const std::uint64_t rejected =
            std::min<std::uint64_t>(rejected_spans(answer.body), batch.size());
        if (rejected > 0) warn("refused", std::to_string(rejected) + " spans of a batch", "");
        return {.failed = rejected};
      }
      if (!answer.unreachable && !overloaded(answer.status)) {
        warn("refused", std::to_string(batch.size()) + " spans", describe(answer));
        return lost;
      }
      if (SteadyClock::now() >= close_by()) return {.failed = batch.size(), .cut_off = true};
      if (SteadyClock::now() >= give_up) {
        warn("stayed unreachable; lost", std::to_string(batch.size()) + " spans", describe(answer));
        return lost;
      }
      warn("is unreachable; spans wait, and are dropped when there are more than",
           std::to_string(options_.capacity), describe(answer));
      milliseconds wait = backoff_.delay(attempt);
      if (answer.retry_after) {
        wait = std::min<std::chrono::seconds>(*answer.retry_after, kLongestRetryAfter);
      }
      // The last attempt is made when the time is over, not before.
      pause(std::min(after(wait), std::max(give_up, after(options_.pause))));
    }
  }

  // Until then, or until there is no more time to wait.
  void pause(Deadline until) OUTBOX_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    for (;;) {
      const Deadline end = closing_ ? std::min(until, close_by_) : until;
      if (SteadyClock::now() >= end) return;
      changed_.wait_until(mutex_, end);
    }
  }

  void finish(std::size_t spans, const Result& result) OUTBOX_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    counts_.failed += result.failed;
    counts_.sent += spans - result.failed;
    if (result.cut_off) cut_off_ += result.failed;
    finished_ += spans;
    changed_.notify_all();
  }

  // Here, not where they are dropped: that is no place for a log.
  void report_drops() OUTBOX_EXCLUDES(mutex_) {
    const std::uint64_t dropped = counts().dropped;
    if (dropped == reported_drops_) return;
    if (warn("is too slow; no room for", std::to_string(dropped) + " spans so far", "")) {
      reported_drops_ = dropped;
    }
  }

  Deadline close_by() const OUTBOX_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return closing_ ? close_by_ : Deadline::max();
  }

  // False if it was said too recently.
  bool warn(std::string_view what, std::string_view which, std::string_view why) noexcept {
    if (!warnings_.allow(SteadyClock::now())) return false;
    try {
      std::string text = "otlp: the collector at " + http_.where() + ' ';
      text += what;
      text += ' ';
      text += which;
      if (!why.empty()) {
        text += ": ";
        text += why;
      }
      options_.log({LogLevel::warning, "export_failed", text});
    } catch (...) {
      // A log that fails must not end the thread.
    }
    return true;
  }

  static constexpr std::chrono::hours kLongestRetryAfter{1};
  static constexpr std::chrono::seconds kGrace{1};

  // Constant after construction.
  const Options options_;
  const std::string resource_;
  const ExponentialBackoff backoff_;

  HttpPost http_;

  // Of the thread alone.
  RateLimit warnings_{kBetweenWarnings};
  std::uint64_t reported_drops_ = 0;

  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<Span> queue_ OUTBOX_GUARDED_BY(mutex_);
  Deadline due_ OUTBOX_GUARDED_BY(mutex_);
  Counts counts_ OUTBOX_GUARDED_BY(mutex_);
  std::uint64_t recorded_ OUTBOX_GUARDED_BY(mutex_) = 0;  // taken into the queue
  std::uint64_t finished_ OUTBOX_GUARDED_BY(mutex_) = 0;  // of these, sent or given up
  std::uint64_t flush_to_ OUTBOX_GUARDED_BY(mutex_) = 0;
  std::uint64_t cut_off_ OUTBOX_GUARDED_BY(mutex_) = 0;  // given up because of close()
  bool closing_ OUTBOX_GUARDED_BY(mutex_) = false;
  bool ended_ OUTBOX_GUARDED_BY(mutex_) = false;
  Deadline close_by_ OUTBOX_GUARDED_BY(mutex_);

  std::jthread thread_;  // last: it uses all the others
};

Exporter::Exporter(Options options) : impl_(std::make_unique<Impl>(std::move(options))) {}

Exporter::~Exporter() = default;

void Exporter::record(Span span) noexcept { impl_->record(std::move(span)); }

bool Exporter::flush(milliseconds timeout) { return impl_->flush(timeout); }

bool Exporter::close(milliseconds timeout) { return impl_->close(timeout); }

Counts Exporter::counts() const { return impl_->counts(); }

}  // namespace outbox::otlp
