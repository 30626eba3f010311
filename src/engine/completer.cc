#include "engine/completer.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <string>
#include <utility>

#include "core/thread_name.h"

namespace outbox::internal {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kFirstPause{10};
constexpr milliseconds kLongestPause{1'000};

}  // namespace

Completer::Completer(std::shared_ptr<Instance> instance, Events events, const Clock& clock,
                     Logger log)
    : instance_(std::move(instance)),
      events_(std::move(events)),
      clock_(clock),
      log_(std::move(log)) {}

Completer::~Completer() { close(steady_clock::now()); }

void Completer::start() {
  thread_ = std::jthread([this] { run(); });
}

void Completer::submit(Completion completion) {
  MutexLock lock(mutex_);
  pending_.push_back(std::move(completion));
  if (pending_.size() == 1) changed_.notify_all();
}

void Completer::submit(std::vector<Completion> completions) {
  if (completions.empty()) return;
  MutexLock lock(mutex_);
  pending_.insert(pending_.end(), std::move_iterator(completions.begin()),
                  std::move_iterator(completions.end()));
  changed_.notify_all();
}

void Completer::set_epoch(std::int64_t epoch) {
  MutexLock lock(mutex_);
  epoch_ = epoch;
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

void Completer::run() {
  name_this_thread("outbox-marks");
  std::vector<Completion> batch;
  for (;;) {
    {
      MutexLock lock(mutex_);
      while (pending_.empty() && !closing_) changed_.wait(mutex_);
      if (pending_.empty()) return;
      batch.swap(pending_);
    }
    int failures = 0;
    for (std::int64_t now = epoch(); !flush(batch, now); now = epoch()) {
      if (wait_before_repeat(++failures, now)) continue;
      std::size_t left = batch.size();
      {
        MutexLock lock(mutex_);
        left += pending_.size();
        left_some_ = true;
      }
      log_(LogLevel::error, "closed with " + std::to_string(left) +
                                " marks that the store did not take: their events will be "
                                "delivered again");
      return;
    }
    batch.clear();
  }
}

std::int64_t Completer::epoch() const {
  MutexLock lock(mutex_);
  return epoch_;
}

// True if the batch is dealt with.
bool Completer::flush(std::vector<Completion>& batch, std::int64_t epoch) {
  std::vector<Mark> marks;
  std::vector<std::size_t> sent;
  marks.reserve(batch.size());
  sent.reserve(batch.size());
  for (std::size_t i = 0; i < batch.size(); ++i) {
    batch[i].stale = batch[i].job.epoch != epoch;
    if (batch[i].stale) continue;
    marks.push_back(std::move(batch[i].mark));
    sent.push_back(i);
  }
  const auto take_back = [&] {
    for (std::size_t n = 0; n < sent.size(); ++n) batch[sent[n]].mark = std::move(marks[n]);
  };
  bool fenced = false;
  if (!marks.empty()) {
    try {
      const MarkResult result = instance_->mark(epoch, marks);
      fenced = result.fenced;
      for (const std::size_t i : result.stale) batch[sent[i]].stale = true;
    } catch (const std::exception& error) {
      trouble_.failed(error.what(), clock_.steady());
      log_(LogLevel::error, "cannot mark " + std::to_string(marks.size()) +
                                " events, will try again: " + error.what());
      take_back();
      return false;
    }
  }
  take_back();
  trouble_.over();
  if (fenced) {
    for (const std::size_t i : sent) batch[i].stale = true;
    events_.fenced(epoch);
  }
  events_.landed(batch);
  return true;
}

// Not longer than the epoch lasts: what is stale then comes back at once.
bool Completer::wait_before_repeat(int failures, std::int64_t epoch) {
  milliseconds pause = kFirstPause;
  for (int n = 1; n < failures && pause < kLongestPause; ++n) pause *= 2;
  MutexLock lock(mutex_);
  const auto until = std::min(steady_clock::now() + std::min(pause, kLongestPause), give_up_);
  while (epoch_ == epoch && steady_clock::now() < until) {
    if (!changed_.wait_until(mutex_, until)) break;
    if (closing_) break;
  }
  return steady_clock::now() < give_up_;
}

}  // namespace outbox::internal
