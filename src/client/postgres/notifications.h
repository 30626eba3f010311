// NOTIFY and LISTEN: how processes tell each other of what they have committed.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "client/postgres/database.h"
#include "outbox/log.h"
#include "outbox/spi/store.h"

namespace outbox::postgres {

// Sends NOTIFY on a channel, from a thread and a connection of its own: in the writers'
// transactions it would make their commits take turns. Commits that come while one is under way are
// told of together by the next. Thread-safe.
class Notifier {
 public:
  Notifier(std::shared_ptr<const DatabaseContext> context, std::string channel)
      : context_(std::move(context)), channel_(std::move(channel)) {}
  ~Notifier();
  Notifier(const Notifier&) = delete;
  Notifier& operator=(const Notifier&) = delete;

  // There is something to tell.
  void committed() OUTBOX_EXCLUDES(mutex_);

 private:
  void run() OUTBOX_EXCLUDES(mutex_);
  bool wait_for_news() OUTBOX_EXCLUDES(mutex_);
  bool tell(Database& database);
  void wait_after_failure() OUTBOX_EXCLUDES(mutex_);

  const std::shared_ptr<const DatabaseContext> context_;
  const std::string channel_;

  Mutex mutex_;
  CondVar changed_;
  bool news_ OUTBOX_GUARDED_BY(mutex_) = false;
  bool stopped_ OUTBOX_GUARDED_BY(mutex_) = false;
  std::jthread thread_ OUTBOX_GUARDED_BY(mutex_);  // from the first commit on
};

// Calls `on_commit` from a thread of its own whenever a Notifier has told of commits on that
// channel, and after every gap in which it could not hear. Behind a pooler that swallows
// notifications it tells the log once, with `advice` (what follows, and what to do), and is silent.
std::unique_ptr<Watch> watch_channel(std::shared_ptr<const DatabaseContext> context,
                                     std::string channel, std::function<void()> on_commit,
                                     Logger log, std::string advice);

}  // namespace outbox::postgres
