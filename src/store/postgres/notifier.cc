#include "store/postgres/notifier.h"

#include <chrono>
#include <exception>
#include <utility>

#include "base/thread.h"
#include "store/postgres/database.h"
#include "store/postgres/sql.h"

namespace outbox::postgres {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// After a notification that failed.
constexpr milliseconds kAfterFailure{250};

// Between the starts of two. A notification takes a lock that is one for the whole server, and
// the writers' time on a busy one. The distance is fixed: one that grew with the server's time
// to answer would delay the events most when the server is slow.
constexpr milliseconds kDistance{1};

// In this process the event goes from hand to hand meanwhile, which must not wait for a
// core because of the others.
constexpr microseconds kLetThrough{100};
constexpr milliseconds kCallLimit{10'000};

}  // namespace

Notifier::~Notifier() {
  std::jthread thread;
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
    thread = std::move(thread_);
  }
  // In a child made by fork() there is no such thread.
  if (getpid() != config_->pid && thread.joinable()) thread.detach();
}

void Notifier::committed() {
  MutexLock lock(mutex_);
  if (!thread_.joinable()) {
    thread_ = std::jthread([this] {
      name_this_thread("outbox-notify");
      run();
    });
  }
  if (std::exchange(news_, true)) return;
  changed_.notify_one();
}

void Notifier::run() {
  Database database(config_);
  database.limit_calls(kCallLimit);
  while (wait_for_news()) {
    const auto began = steady_clock::now();
    std::this_thread::sleep_for(kLetThrough);
    if (!tell(database)) wait_after_failure();
    std::this_thread::sleep_until(began + kDistance);
  }
}

// False once there is none, nor will be.
bool Notifier::wait_for_news() {
  MutexLock lock(mutex_);
  while (!news_ && !stopped_) changed_.wait(mutex_);
  return std::exchange(news_, false);
}

bool Notifier::tell(Database& database) {
  const Call calls[] = {{sql::kDontWaitForDisk, Parameters()},
                        {sql::kNotify, Parameters(config_->channel)}};
  try {
    // Another process must not wait for its next poll because this connection was
    // lost while nobody used it.
    if (!database.healthy()) database.drop();
    database.session().run_together(calls);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

// Then tells of the same commits again. A listener that has stopped meanwhile leaves them to the
// others' polls.
void Notifier::wait_after_failure() {
  const auto until = steady_clock::now() + kAfterFailure;
  MutexLock lock(mutex_);
  while (!stopped_ && changed_.wait_until(mutex_, until)) {
  }
  news_ = !stopped_;
}

}  // namespace outbox::postgres
