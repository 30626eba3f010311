#include "cli/commands/tail.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "base/mutex.h"

namespace outbox::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using Instant = steady_clock::time_point;

constexpr std::size_t kPage = 200;

// Where the database cannot wake us, and in case that it forgets.
constexpr milliseconds kPollEvery{500};

// For how long, and how often, to look for rows that were passed over.
constexpr std::chrono::seconds kCommitsWithin{60};
constexpr milliseconds kLookBackEvery{500};

// How far back from the end to begin with that: no more than this many are being
// written at once.
constexpr Seq kBeforeTheEnd = 1'000;

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

using Show = std::function<bool(const EventRecord&)>;

// Where we are in the table. `false` of its calls means that `show` has seen enough.
class Follower {
 public:
  Follower(Store& store, const EventFilter& filter) : store_(store), filter_(filter) {}

  void begin_after(Seq seq) { after_ = seq; }

  // What is there now has been seen; what is being written has not.
  void begin_at_end() {
    const Seq end = last_seq(store_, 0);
    after_ = std::max<Seq>(0, end - kBeforeTheEnd);
    read(end, steady_clock::now(), [](const EventRecord&) { return true; });
  }

  // Shows what lies ahead.
  bool catch_up(Instant now, const Show& show) { return read(last_seq(store_, after_), now, show); }

  // Shows what was passed over and is there by now; `at_once` even if it has just
  // been looked for.
  bool look_back(Instant now, bool at_once, const Show& show) {
    if (!at_once && now - looked_back_ < kLookBackEvery) return true;
    looked_back_ = now;
    missing_.forget(now - kCommitsWithin);
    for (auto next = missing_.next(0); next; next = missing_.next(*next + 1)) {
      const auto records = store_.admin().list(filter_, *next - 1, kPage);
      for (const EventRecord& record : records) {
        const Seq seq = record.row.ref.seq;
        if (missing_.take(seq) && !show(record)) return false;
        *next = seq;
      }
      if (records.size() < kPage) return true;
    }
    return true;
  }

 private:
  // Up to `end` at least. What the filter leaves out counts as passed over; what lies
  // before an old event has been rolled back.
  bool read(Seq end, Instant now, const Show& show) {
    const Time recent = store_.clock().now() - kCommitsWithin;
    while (after_ < end) {
      const auto records = store_.admin().list(filter_, after_, kPage);
      for (const EventRecord& record : records) {
        const Seq seq = record.row.ref.seq;
        if (record.row.event.occurred_at() > recent) missing_.add(after_ + 1, seq - 1, now);
        after_ = seq;
        if (!show(record)) return false;
      }
      if (records.size() == kPage) continue;
      missing_.add(after_ + 1, end, now);
      after_ = std::max(after_, end);
    }
    return true;
  }

  Store& store_;
  const EventFilter& filter_;
  Seq after_ = 0;
  MissingRows missing_;  // up to after_
  Instant looked_back_{};
};

}  // namespace

Seq last_seq(Store& store, Seq from) {
  const auto any_beyond = [&](Seq seq) { return !store.admin().list({}, seq, 1).empty(); };
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
  Follower follower(store, options.filter);
  if (options.after) {
    follower.begin_after(*options.after);
  } else {
    follower.begin_at_end();
  }
  const auto started = steady_clock::now();
  while (true) {
    const auto now = steady_clock::now();
    // What was there when the time was over is still shown, however much.
    const bool last = options.duration && now - started >= *options.duration;
    if (!follower.look_back(now, last, show) || !follower.catch_up(now, show) || last) return;
    auto wake = now + kPollEvery;
    if (options.duration) wake = std::min(wake, started + *options.duration);
    bell.wait_until(wake);
  }
}

void MissingRows::add(Seq first, Seq last, Instant now) {
  if (first <= last) ranges_.emplace(first, Range{.last = last, .added = now});
}

void MissingRows::forget(Instant added) {
  std::erase_if(ranges_, [&](const auto& range) { return range.second.added <= added; });
}

std::optional<Seq> MissingRows::next(Seq seq) const {
  auto range = ranges_.upper_bound(seq);
  if (range != ranges_.begin() && std::prev(range)->second.last >= seq) return seq;
  if (range == ranges_.end()) return std::nullopt;
  return range->first;
}

bool MissingRows::take(Seq seq) {
  auto range = ranges_.upper_bound(seq);
  if (range == ranges_.begin()) return false;
  --range;
  const auto [last, added] = range->second;
  if (seq > last) return false;
  if (seq == range->first) {
    ranges_.erase(range);
  } else {
    range->second.last = seq - 1;
  }
  add(seq + 1, last, added);
  return true;
}

}  // namespace outbox::cli
