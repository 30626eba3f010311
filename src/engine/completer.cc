#include "engine/completer.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <string>
#include <utility>

#include "base/own_thread.h"
#include "base/thread.h"

namespace outbox::internal {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kFirstPause{10};
constexpr milliseconds kLongestPause{1'000};

// A refused update may cost the store a lock wait of seconds each time.
constexpr milliseconds kFirstRefusal{1'000};
constexpr milliseconds kLongestRefusal{30'000};
constexpr milliseconds kRefusedWhileClosing{100};

// Until the store is asked again to flush what it could not.
constexpr milliseconds kStorePause{250};

// From this size on a batch needs no limit any more.
constexpr std::size_t kWholeAgain = 4'096;

}  // namespace

Completer::Completer(std::shared_ptr<Instance> instance, Events& events, const Clock& clock,
                     Logger log, Collect collect)
    : instance_(std::move(instance)),
      events_(events),
      clock_(clock),
      log_(std::move(log)),
      collect_(collect) {}

Completer::~Completer() { close(SteadyClock::now()); }

void Completer::start() {
  thread_ = Thread([this] {
    const OwnThread own(this);
    run();
  });
}

void Completer::submit(Completion completion) {
  MutexLock lock(mutex_);
  add(std::move(completion));
}

void Completer::submit(std::vector<Completion> completions) {
  MutexLock lock(mutex_);
  for (Completion& completion : completions) add(std::move(completion));
}

void Completer::add(Completion completion) {
  const bool was_ripe = is_ripe();
  pending_bytes_ += completion.job.row.event.payload().size();
  urgent_ = urgent_ || is_urgent(completion);
  pending_.push_back(std::move(completion));
  if (!waiting_since_) waiting_since_ = clock_.steady();
  if (pending_.size() == 1 || (!was_ripe && is_ripe())) changed_.notify_all();
}

// Whether anybody may wait for it, as far as can be told here.
bool Completer::is_urgent(const Completion& completion) {
  return completion.decision.kind != Decision::Kind::done ||
         completion.decision.update.kind != StatusUpdate::Kind::done || completion.job.candidate ||
         completion.job.row.ref.hold != 0;
}

// Whether what is pending is to wait for nothing.
bool Completer::is_ripe() const {
  return urgent_ || awaiting_ > 0 || closing_ || pending_.size() >= collect_.updates ||
         pending_bytes_ >= collect_.bytes;
}

void Completer::await(int more) {
  MutexLock lock(mutex_);
  awaiting_ += more;
  changed_.notify_all();
}

void Completer::set_epoch(std::int64_t epoch) {
  MutexLock lock(mutex_);
  epoch_ = epoch;
  if (waiting_since_) waiting_since_ = clock_.steady();
  urgent_ = urgent_ || !pending_.empty();  // those of the last epoch come back
  changed_.notify_all();
}

bool Completer::close(steady_clock::time_point deadline) {
  {
    MutexLock lock(mutex_);
    closing_ = true;
    give_up_ = deadline;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  MutexLock lock(mutex_);
  return !left_some_ && pending_.empty();
}

std::optional<Clock::Steady> Completer::waiting_since() const {
  MutexLock lock(mutex_);
  return waiting_since_;
}

void Completer::give_up(int shard, Clock::Steady refused_before) {
  MutexLock lock(mutex_);
  if (refusals_.empty()) return;
  given_up_[shard] = refused_before;
  changed_.notify_all();
}

std::vector<std::string> Completer::refused() const {
  std::vector<std::string> result;
  const Clock::Steady now = clock_.steady();
  MutexLock lock(mutex_);
  for (const auto& [id, refusal] : refusals_) {
    result.push_back("the store has refused to update event " + id + " for " +
                     seconds_text(now - refusal.since) + ": " + refusal.what);
  }
  return result;
}

void Completer::run() {
  name_this_thread("outbox-updates");
  std::vector<Completion> batch;
  while (next_batch(batch)) {
    std::int64_t epoch = 0;
    {
      MutexLock lock(mutex_);
      epoch = epoch_;
    }
    const Flushed flushed = batch.empty() ? Flushed::not_sent : flush(batch, epoch);
    if (flushed == Flushed::failed) {
      if (!failed(batch, epoch)) return;
    } else if (!batch.empty()) {
      succeeded(flushed);
    }
    batch.clear();
    flush_store(false);
  }
  flush_store(true);
}

// What cannot be stored now is tried again, also by who gives the lease back.
void Completer::flush_store(bool at_once) {
  if (!at_once && store_failed_ && !store_is_due()) return;
  std::int64_t epoch = 0;
  {
    MutexLock lock(mutex_);
    epoch = epoch_;
  }
  store_at_ = std::chrono::steady_clock::time_point::max();
  if (epoch == 0) return;
  try {
    const FlushResult result = instance_->flush(epoch, at_once);
    if (result.next_in) store_at_ = SteadyClock::now() + *result.next_in;
    if (std::exchange(store_failed_, false)) outage_.over();
    if (result.fenced) events_.on_fenced(epoch);
  } catch (const std::exception& error) {
    store_at_ = SteadyClock::now() + kStorePause;
    outage_.failed(error.what(), clock_.steady());
    if (std::exchange(store_failed_, true)) return;
    log_({LogLevel::error,
          "positions_not_stored",
          std::string("cannot store how far events have been delivered, will try again: ") +
              error.what(),
          {{"error", error.what()}}});
  }
}

// --- What is sent next ---

// False: closed, and nothing is left to do.
bool Completer::next_batch(std::vector<Completion>& batch) {
  while (batch.empty()) {
    bool retry = false;
    {
      MutexLock lock(mutex_);
      if (!wait_for_updates()) return false;
      if (store_is_due()) return true;
      urgent_ = false;
      pending_bytes_ = 0;
      if (queue_.empty() && unsure_.empty() && refused_.empty() && limit_ == kNoLimit) {
        batch.swap(pending_);
        return true;
      }
      queue_.insert(queue_.end(), std::move_iterator(pending_.begin()),
                    std::move_iterator(pending_.end()));
      pending_.clear();
      // In turns with the others, because each try may take its time; and after all of
      // them when there is no time left.
      const bool others = !queue_.empty() || !unsure_.empty();
      retry = refused_is_due() && !(others && retried_last_) && !(closing_ && !queue_.empty());
    }
    retried_last_ = retry;
    if (retry) {
      take_refused(batch);
    } else {
      take_queued(batch);
    }
  }
  return true;
}

bool Completer::wait_for_updates() {
  // Nobody waits for refused updates, nor for those behind them.
  if (pending_.empty() && queue_.empty() && unsure_.empty()) waiting_since_.reset();
  give_up_refused();
  while (pending_.empty() && queue_.empty() && unsure_.empty() && !refused_is_due()) {
    if (refused_.empty() && closing_) return false;
    if (store_is_due()) return true;
    const auto until =
        refused_.empty() ? store_at_ : std::min(store_at_, refused_.front().retry_at);
    if (until == std::chrono::steady_clock::time_point::max()) {
      changed_.wait(mutex_);
    } else {
      changed_.wait_until(mutex_, until);
    }
    give_up_refused();
  }
  if (queue_.empty() && unsure_.empty() && refused_.empty()) collect();
  return true;
}

void Completer::collect() {
  const auto until = SteadyClock::now() + collect_.time;
  while (!is_ripe() && changed_.wait_until(mutex_, until)) {
  }
}

// The one that waits longest comes first. Stale updates, and all while closing, do not wait.
bool Completer::refused_is_due() const {
  if (refused_.empty()) return false;
  const Apart& first = refused_.front();
  return closing_ || first.head.given_up || first.head.job.epoch != epoch_ ||
         first.retry_at <= SteadyClock::now();
}

void Completer::give_up_refused() {
  if (given_up_.empty()) return;
  for (auto next = refused_.begin(); next != refused_.end();) {
    const auto apart = next++;
    const auto asked = given_up_.find(apart->head.job.row.ref.shard);
    if (asked == given_up_.end() || refusals_[apart->event_id].since > asked->second) continue;
    apart->head.given_up = true;
    for (Completion& one : apart->behind) one.given_up = true;
    refused_.splice(refused_.begin(), refused_, apart);  // it does not wait for its time
  }
  given_up_.clear();
}

void Completer::take_refused(std::vector<Completion>& batch) {
  retried_.splice(retried_.end(), refused_, refused_.begin());
  batch.push_back(std::move(retried_.front().head));
  count_apart();
}

// As many as may be sent at once, without those that have to wait for one that failed.
void Completer::take_queued(std::vector<Completion>& batch) {
  // Every update has failed alone, and none has been acknowledged: the store is at fault, not they.
  if (queue_.empty()) requeue(unsure_);
  while (!queue_.empty() && batch.size() < limit_) {
    Completion& next = queue_.front();
    Apart* apart = in_front_of(next);
    (apart != nullptr ? apart->behind : batch).push_back(std::move(next));
    queue_.pop_front();
  }
  if (!refused_.empty() || apart_ > 0) count_apart();
}

// Without the one that is being tried, and calls that hang: those have updates of their own.
void Completer::count_apart() {
  std::size_t count = 0;
  const auto add = [&](const Completion& one) {
    if (one.decision.kind != Decision::Kind::hand_over) ++count;
  };
  for (const Aparts* aparts : {&unsure_, &refused_}) {
    for (const Apart& apart : *aparts) add(apart.head);
  }
  for (const Aparts* aparts : {&unsure_, &refused_, &retried_}) {
    for (const Apart& apart : *aparts) {
      std::for_each(apart.behind.begin(), apart.behind.end(), add);
    }
  }
  apart_ = count;
}

Completer::Apart* Completer::in_front_of(const Completion& completion) {
  if (completion.job.lane == kNoLane) return nullptr;
  for (Aparts* aparts : {&unsure_, &refused_}) {
    for (Apart& apart : *aparts) {
      const bool holds = apart.head.decision.update.kind != StatusUpdate::Kind::done;
      if (holds && apart.head.job.lane == completion.job.lane) return &apart;
    }
  }
  return nullptr;
}

// --- What became of it ---

Completer::Flushed Completer::flush(std::vector<Completion>& batch, std::int64_t epoch) {
  std::vector<StatusUpdate> updates;
  std::vector<std::size_t> sent;
  updates.reserve(batch.size());
  sent.reserve(batch.size());
  for (std::size_t i = 0; i < batch.size(); ++i) {
    batch[i].stale = batch[i].job.epoch != epoch || batch[i].given_up;
    if (batch[i].stale) continue;
    updates.push_back(std::move(batch[i].decision.update));
    sent.push_back(i);
  }
  const auto take_back = [&] {
    for (std::size_t n = 0; n < sent.size(); ++n)
      batch[sent[n]].decision.update = std::move(updates[n]);
  };
  bool fenced = false;
  if (!updates.empty()) {
    try {
      const UpdateResult result = instance_->apply(epoch, updates);
      fenced = result.fenced;
      for (const std::size_t i : result.stale) batch[sent[i]].stale = true;
    } catch (const std::exception& error) {
      last_error_ = error.what();
      take_back();
      return Flushed::failed;
    }
  }
  take_back();
  if (fenced) {
    for (const std::size_t i : sent) batch[i].stale = true;
    events_.on_fenced(epoch);
  }
  events_.on_acked(batch);
  return sent.empty() ? Flushed::not_sent : Flushed::acked;
}

void Completer::succeeded(Flushed flushed) {
  for (Apart& apart : retried_) {
    MutexLock lock(mutex_);
    refusals_.erase(apart.event_id);
  }
  for (Apart& apart : retried_) {
    queue_.insert(queue_.begin(), std::move_iterator(apart.behind.begin()),
                  std::move_iterator(apart.behind.end()));
  }
  if (!retried_.empty()) {
    retried_.clear();
    count_apart();
  }
  if (flushed == Flushed::acked) {
    if (!store_failed_) outage_.over();  // what the store took in memory is not there yet
    failures_ = 0;
    if (limit_ != kNoLimit) limit_ = limit_ >= kWholeAgain ? kNoLimit : 2 * limit_;
    // If one of these fails alone once more, it is to blame, and not the store.
    for (Apart& apart : unsure_) apart.head.failed_alone = true;
    requeue(unsure_);
    if (apart_ > 0) count_apart();
  }
  MutexLock lock(mutex_);
  if (queue_.empty() && unsure_.empty() && pending_.empty()) {
    waiting_since_.reset();
  } else {
    waiting_since_ = clock_.steady();
  }
}

// False: closed, and given up.
bool Completer::failed(std::vector<Completion>& batch, std::int64_t epoch) {
  if (!retried_.empty()) {
    Apart apart = std::move(retried_.front());
    retried_.clear();
    apart.head = std::move(batch.front());
    refuse(std::move(apart));
    bool closing = false;
    {
      MutexLock lock(mutex_);
      closing = closing_;
    }
    if (!closing || pause(kRefusedWhileClosing, epoch)) return true;
    report_left();
    return false;
  }

  outage_.failed(last_error_, clock_.steady());
  log_({LogLevel::error,
        "update_failed",
        "cannot update " + std::to_string(batch.size()) + " events, will try again: " + last_error_,
        {{"events", batch.size()}, {"error", last_error_}}});
  if (batch.size() == 1 && batch.front().failed_alone) {
    if (!refuse_candidate(batch)) refuse({.head = std::move(batch.front())});
    return true;  // others succeed
  }
  if (batch.size() == 1) {
    unsure_.push_back({.head = std::move(batch.front())});
    count_apart();
    events_.on_set_apart();
  } else {
    limit_ = batch.size() / 2;
    queue_.insert(queue_.begin(), std::move_iterator(batch.begin()),
                  std::move_iterator(batch.end()));
  }
  ++failures_;
  milliseconds wait = kFirstPause;
  for (int n = 1; n < failures_ && wait < kLongestPause; ++n) wait *= 2;
  if (pause(std::min(wait, kLongestPause), epoch)) return true;
  report_left();
  return false;
}

// Nothing else is delivered before its group is: it must not wait.
bool Completer::refuse_candidate(std::vector<Completion>& batch) {
  if (batch.front().decision.update.kind != StatusUpdate::Kind::crashes) return false;
  log_({LogLevel::error,
        "crash_count_refused",
        "the store refuses the crash count of event " + batch.front().decision.update.event_id +
            ", which is delivered all the same: " + last_error_,
        {{"event", batch.front().decision.update.event_id}, {"error", last_error_}}});
  events_.on_acked(batch);
  return true;
}

// It waits until its time comes; the others go on.
void Completer::refuse(Apart apart) {
  apart.event_id = apart.head.decision.update.event_id;
  const std::string& id = apart.event_id;
  const bool first = apart.pause.count() == 0;
  log_({LogLevel::error,
        "update_refused",
        "the store refuses to update event " + id +
            (first ? ", the others go on without it: " : ", will try again: ") + last_error_,
        {{"event", id}, {"error", last_error_}}});
  apart.pause = first ? kFirstRefusal : std::min(2 * apart.pause, kLongestRefusal);
  apart.retry_at = SteadyClock::now() + apart.pause;
  {
    MutexLock lock(mutex_);
    auto& refusal = refusals_[id];
    if (first) refusal.since = clock_.steady();
    refusal.what = last_error_;
  }
  const auto later = std::find_if(refused_.begin(), refused_.end(), [&](const Apart& other) {
    return other.retry_at > apart.retry_at;
  });
  refused_.insert(later, std::move(apart));
  count_apart();
  events_.on_set_apart();
}

// In front of the queue, in their order.
void Completer::requeue(Aparts& aparts) {
  for (auto apart = aparts.rbegin(); apart != aparts.rend(); ++apart) {
    queue_.insert(queue_.begin(), std::move_iterator(apart->behind.begin()),
                  std::move_iterator(apart->behind.end()));
    queue_.push_front(std::move(apart->head));
  }
  aparts.clear();
}

// Not longer than the epoch lasts: what is stale then comes back at once. False:
// closed, and it has taken too long.
bool Completer::pause(milliseconds pause, std::int64_t epoch) {
  MutexLock lock(mutex_);
  const auto until = std::min(SteadyClock::now() + pause, give_up_);
  while (epoch_ == epoch && SteadyClock::now() < until) {
    if (!changed_.wait_until(mutex_, until)) break;
    if (closing_) break;
  }
  return SteadyClock::now() < give_up_;
}

void Completer::report_left() {
  std::size_t left = queue_.size();
  for (const Aparts* aparts : {&unsure_, &refused_}) {
    for (const Apart& apart : *aparts) left += 1 + apart.behind.size();
  }
  {
    MutexLock lock(mutex_);
    left += pending_.size();
    left_some_ = true;
  }
  log_({LogLevel::error,
        "updates_dropped",
        "closed with " + std::to_string(left) +
            " updates that the store did not take: their events will be "
            "delivered again",
        {{"events", left}}});
}

}  // namespace outbox::internal
