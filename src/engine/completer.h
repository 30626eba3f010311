// Brings updates to the store, in batches.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/outage.h"
#include "base/own_thread.h"
#include "base/thread.h"
#include "model/job.h"
#include "outbox/clock.h"
#include "outbox/log.h"
#include "outbox/spi/store.h"

namespace outbox::internal {

// Until when a completer collects updates that nobody waits for: DONE, but not of candidates, nor
// of rows that were held or waited. The lane of such an event has gone on, so all that its update
// gives back is capacity. By default each is flushed at once.
struct Collect {
  std::chrono::milliseconds time{0};  // of the first
  std::size_t updates = 0;            // together
  std::size_t bytes = 0;              // of their payloads
};

// One thread that flushes updates: those submitted while the last flush
// was under way go into the next one. So a busy engine updates hundreds at once; and where
// nobody waits for an update, it waits a moment for others (see Collect). Updates are applied in
// the order of submission.
//
// A flush that fails is repeated until it succeeds or the lease is lost; the
// updates are never dropped silently.
//
// One update that the store refuses stops no other. A batch that fails is
// halved, down to one. An update that fails alone, although others succeed, is refused:
// it is reported, retried ever more rarely, and the others go on without it. Only
// the later updates of its lane wait, so that a crash cannot leave followers held
// without the head that they wait for. With no other update to send, nobody can tell
// whether the store is at fault or the row: so poison candidates, which wait for everything in
// flight, do not wait for an update that has failed alone either (apart()); theirs is the
// next to try the store. (A refused DONE holds nothing: its lane has
// gone on already. And a candidate whose crash count is refused counts as acked: its
// event is delivered without it.)
//
// What the store has taken in memory (Instance::flush()) is flushed by the same thread, when the
// store wants it to be.
//
// Thread-safe.
class Completer {
 public:
  // Called on the completer's thread, with no lock held.
  class Events {
   public:
    virtual ~Events() = default;
    // These have been acknowledged, or are flagged `stale`.
    virtual void on_acked(std::span<Completion> completions) = 0;
    // The store refused because another instance owns what was updated in this epoch.
    virtual void on_fenced(std::int64_t epoch) = 0;
    // An update has failed alone: nobody need wait for it any more.
    virtual void on_set_apart() = 0;
  };

  Completer(std::shared_ptr<Instance> instance, Events& events, const Clock& clock, Logger log,
            Collect collect = {});
  ~Completer();

  void start();
  void submit(Completion completion);
  void submit(std::vector<Completion> completions);

  // While this lives, somebody waits for all updates: none are collected.
  class Awaiting {
   public:
    explicit Awaiting(Completer& completer) : completer_(completer) { completer_.await(1); }
    ~Awaiting() { completer_.await(-1); }
    Awaiting(const Awaiting&) = delete;
    Awaiting& operator=(const Awaiting&) = delete;

   private:
    Completer& completer_;
  };

  // Updates submitted under an older epoch are stale from now on, and come back as
  // soon as the store lets them.
  void set_epoch(std::int64_t epoch);

  // That the store does not take updates.
  const Outage& outage() const { return outage_; }

  // Since when updates have waited without any acknowledged; those that the store
  // refuses are not waited for.
  std::optional<Clock::Steady> waiting_since() const;

  // The updates that the store refuses, one sentence each.
  std::vector<std::string> refused() const;

  // Updates of a shard that have been refused since before then, and those behind them, are
  // not tried any more: they come back stale.
  void give_up(int shard, Clock::Steady refused_before);

  // How many events wait for these, their own included.
  std::size_t apart() const { return apart_; }

  // Whether this is its thread, which close() would wait for.
  bool on_own_thread() const { return OwnThread::works_for(this); }

  // Flushes and ends the thread; gives up at the deadline. False if updates were
  // left, whose events will be delivered again.
  bool close(std::chrono::steady_clock::time_point deadline);

 private:
  static constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

  // An update that failed alone, and the later ones of its lane.
  struct Apart {
    Completion head;
    std::string event_id{};  // of the head, which is moved away while it is tried
    std::vector<Completion> behind{};
    std::chrono::steady_clock::time_point retry_at{};
    std::chrono::milliseconds pause{0};
  };
  using Aparts = std::list<Apart>;

  enum class Flushed : std::uint8_t { acked, not_sent, failed };

  void run();
  void await(int more) OUTBOX_EXCLUDES(mutex_);
  void add(Completion completion) OUTBOX_REQUIRES(mutex_);
  static bool is_urgent(const Completion& completion);
  bool is_ripe() const OUTBOX_REQUIRES(mutex_);
  void collect() OUTBOX_REQUIRES(mutex_);
  void flush_store(bool at_once);
  bool next_batch(std::vector<Completion>& batch);
  bool wait_for_updates() OUTBOX_REQUIRES(mutex_);
  bool refused_is_due() const OUTBOX_REQUIRES(mutex_);
  bool store_is_due() const { return store_at_ <= SteadyClock::now(); }
  void give_up_refused() OUTBOX_REQUIRES(mutex_);
  void take_refused(std::vector<Completion>& batch);
  void take_queued(std::vector<Completion>& batch);
  Apart* in_front_of(const Completion& completion);
  Flushed flush(std::vector<Completion>& batch, std::int64_t epoch);
  void succeeded(Flushed flushed);
  bool failed(std::vector<Completion>& batch, std::int64_t epoch);
  bool refuse_candidate(std::vector<Completion>& batch);
  void refuse(Apart apart);
  void count_apart();
  void requeue(Aparts& aparts);
  bool pause(std::chrono::milliseconds pause, std::int64_t epoch);
  void report_left();

  // Constant after construction.
  const std::shared_ptr<Instance> instance_;
  Events& events_;
  const Clock& clock_;
  const Logger log_;
  const Collect collect_;

  Outage outage_;
  Atomic<std::size_t> apart_{0};

  // Used by run() only.
  std::deque<Completion> queue_;  // in the order of submission
  Aparts unsure_;                 // failed alone, and nothing has been acknowledged since
  Aparts refused_;                // failed alone although others succeed
  Aparts retried_;                // the refused one that is being tried again
  bool retried_last_ = false;     // the last batch was such a one
  std::size_t limit_ = kNoLimit;  // how many are sent at once
  int failures_ = 0;              // since the last success
  std::string last_error_;
  std::chrono::steady_clock::time_point store_at_ =
      std::chrono::steady_clock::time_point::max();  // to be flushed
  bool store_failed_ = false;

  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<Completion> pending_ OUTBOX_GUARDED_BY(mutex_);
  std::size_t pending_bytes_ OUTBOX_GUARDED_BY(mutex_) = 0;
  bool urgent_ OUTBOX_GUARDED_BY(mutex_) = false;  // some of those pending are waited for
  int awaiting_ OUTBOX_GUARDED_BY(mutex_) = 0;
  std::int64_t epoch_ OUTBOX_GUARDED_BY(mutex_) = 0;
  bool closing_ OUTBOX_GUARDED_BY(mutex_) = false;
  bool left_some_ OUTBOX_GUARDED_BY(mutex_) = false;
  std::chrono::steady_clock::time_point give_up_ OUTBOX_GUARDED_BY(mutex_) =
      std::chrono::steady_clock::time_point::max();
  std::optional<Clock::Steady> waiting_since_ OUTBOX_GUARDED_BY(mutex_);
  std::map<std::string, Outage::Report> refusals_ OUTBOX_GUARDED_BY(mutex_);  // by event id
  std::map<int, Clock::Steady> given_up_ OUTBOX_GUARDED_BY(mutex_);  // by shard; to be done

  Thread thread_;
};

}  // namespace outbox::internal
