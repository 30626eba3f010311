// NOTIFY and LISTEN: how processes tell each other of what they have committed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "client/postgres/database.h"
#include "outbox/clock.h"
#include "outbox/log.h"
#include "outbox/spi/store.h"

namespace outbox::postgres {

// A process of the server, which serves one connection.
using Backend = std::int64_t;
inline constexpr Backend kNobody = 0;

// Sends NOTIFY on a channel, from a thread and a connection of its own: in the writers'
// transactions it would make their commits take turns. Commits that come while one is under way are
// told of together by the next. Nothing is sent while no watch listens that has not heard of the
// commit already: each holds an advisory lock, for which the notifier looks once a second while
// there are commits; see docs/architecture.md, I26. Thread-safe.
class Notifier {
 public:
  Notifier(std::shared_ptr<const DatabaseContext> context, std::string channel)
      : context_(std::move(context)), channel_(std::move(channel)) {}
  ~Notifier();
  Notifier(const Notifier&) = delete;
  Notifier& operator=(const Notifier&) = delete;

  const std::shared_ptr<const DatabaseContext>& context() const { return context_; }
  const std::string& channel() const { return channel_; }

  // There is something to tell, but not to `told`, which may be null.
  void committed(const Watch* told) OUTBOX_EXCLUDES(mutex_);

  // By which process of the server a watch of this process listens; kNobody: it does not any more.
  void listens(const Watch* watch, Backend backend) OUTBOX_EXCLUDES(mutex_);

 private:
  void run() OUTBOX_EXCLUDES(mutex_);
  std::optional<Backend> wait_for_news() OUTBOX_EXCLUDES(mutex_);
  bool tell(Database& database, Backend told) OUTBOX_EXCLUDES(mutex_);
  void wait_after_failure() OUTBOX_EXCLUDES(mutex_);
  bool knows_listeners() const OUTBOX_REQUIRES(mutex_);
  bool others_listen(Backend told) const OUTBOX_REQUIRES(mutex_);

  const std::shared_ptr<const DatabaseContext> context_;
  const std::string channel_;

  Mutex mutex_;
  CondVar changed_;
  std::optional<Backend> news_ OUTBOX_GUARDED_BY(mutex_);  // who need not be told, or kNobody
  bool stopped_ OUTBOX_GUARDED_BY(mutex_) = false;
  std::map<const Watch*, Backend> watches_ OUTBOX_GUARDED_BY(mutex_);         // of this process
  std::vector<Backend> listeners_ OUTBOX_GUARDED_BY(mutex_);                  // of all processes
  Clock::Steady looked_at_ OUTBOX_GUARDED_BY(mutex_) = Clock::Steady::min();  // for them
  std::jthread thread_ OUTBOX_GUARDED_BY(mutex_);  // from the first commit on that may be news
};

// Calls `on_commit` from a thread of its own whenever a Notifier has told of commits on the same
// channel that the watch had not been told of, again and again until all notifiers must have
// noticed that it listens, and after every gap in which it could not hear. Behind a pooler that
// swallows notifications it tells the log once, with `advice` (what follows, and what to do), and
// is silent.
std::unique_ptr<Watch> watch_channel(std::shared_ptr<Notifier> notifier,
                                     std::function<void()> on_commit, Logger log,
                                     std::string advice);

}  // namespace outbox::postgres
