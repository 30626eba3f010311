#include "store/postgres/notifier.h"

#include <chrono>
#include <exception>
#include <utility>

#include "core/thread_name.h"
#include "store/postgres/database.h"
#include "store/postgres/sql.h"

namespace outbox::postgres {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// A notification takes a lock that is one for the whole server, and the writers' time
// on a busy one, which it then takes longer to answer: it gets this part of the time.
constexpr int kPart = 8;

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
  if (getpid() != environment_->pid && thread.joinable()) thread.detach();
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
  Database database(environment_);
  database.limit_calls(kCallLimit);
  const Call calls[] = {{sql::kDontWaitForDisk, Parameters()},
                        {sql::kNotify, Parameters(environment_->channel)}};
  while (true) {
    {
      MutexLock lock(mutex_);
      while (!news_ && !stopped_) changed_.wait(mutex_);
      if (!news_) return;
      news_ = false;
    }
    std::this_thread::sleep_for(kLetThrough);
    const auto began = steady_clock::now();
    try {
      // Another process must not wait for its next poll because this connection was
      // lost while nobody used it.
      if (!database.healthy()) database.drop();
      database.session().run_together(calls);
    } catch (const std::exception&) {
      // The server is away, and with it those who would listen; they look for events
      // when it is back.
    }
    const auto next = began + kPart * (steady_clock::now() - began);
    MutexLock lock(mutex_);
    while (!stopped_ && changed_.wait_until(mutex_, next)) {
    }
  }
}

}  // namespace outbox::postgres
