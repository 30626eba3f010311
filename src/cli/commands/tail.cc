#include "cli/commands/tail.h"

#include <algorithm>
#include <limits>

#include "core/mutex.h"

namespace outbox::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::size_t kPage = 200;

// Where the database cannot wake us, and in case that it forgets.
constexpr milliseconds kPollEvery{500};

// Told from the store's thread that there may be something new.
class Bell {
 public:
  void ring() {
    {
      const MutexLock lock(mutex_);
      rung_ = true;
    }
    changed_.notify_one();
  }

  void wait_until(steady_clock::time_point deadline) {
    const MutexLock lock(mutex_);
    while (!rung_ && changed_.wait_until(mutex_, deadline)) {
    }
    rung_ = false;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool rung_ OUTBOX_GUARDED_BY(mutex_) = false;
};

}  // namespace

Seq last_seq(Store& store, Seq from) {
  const auto any_beyond = [&](Seq seq) { return !store.list({}, seq, 1).empty(); };
  if (!any_beyond(from)) return from;
  // There is a row beyond `low`, and, once found, none beyond `high`.
  Seq low = from;
  Seq step = 1;
  while (step <= (std::numeric_limits<Seq>::max() - from) / 2 && any_beyond(from + step)) {
    low = from + step;
    step *= 2;
  }
  Seq high = from + step;
  while (high - low > 1) {
    const Seq middle = low + (high - low) / 2;
    (any_beyond(middle) ? low : high) = middle;
  }
  return high;
}

void tail_events(Store& store, const TailOptions& options,
                 const std::function<bool(const EventRecord&)>& show) {
  Bell bell;
  const auto watch = store.watch([&bell] { bell.ring(); });
  const auto started = steady_clock::now();
  Seq after = options.after ? *options.after : last_seq(store, 0);
  std::optional<Seq> last;
  while (true) {
    const auto now = steady_clock::now();
    // What the filter leaves out is not walked over again and again.
    const Seq end = last_seq(store, after);
    const auto records = store.list(options.filter, after, kPage);
    for (const EventRecord& record : records) {
      if (!show(record)) return;
      after = record.row.ref.seq;
    }
    const bool full = records.size() == kPage;
    if (!full) after = std::max(after, end);
    if (options.duration && now - started >= *options.duration) {
      // What was there when the time was over is still shown, however much.
      if (!last) last = end;
      if (after >= *last) return;
    }
    if (full) continue;
    auto wake = now + kPollEvery;
    if (options.duration) wake = std::min(wake, started + *options.duration);
    bell.wait_until(wake);
  }
}

}  // namespace outbox::cli
