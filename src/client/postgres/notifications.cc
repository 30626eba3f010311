#include "client/postgres/notifications.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <exception>
#include <utility>

#include "base/sql_text.h"
#include "base/thread.h"
#include "outbox/error.h"

namespace outbox::postgres {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// With the one who need not be told, whom the server would tell as well.
constexpr Sql kNotify{"notify of commits", R"sql(
SELECT pg_notify($1, $2)
)sql"};

// Shared, so nobody waits for it. It ends with its connection.
constexpr Sql kSayThatWeListen{"say that we listen for commits", R"sql(
SELECT pg_backend_pid(), pg_advisory_lock_shared(hashtextextended($1, 0))
)sql"};

constexpr Sql kWhoListens{"look who listens for commits", R"sql(
SELECT pid FROM pg_locks
WHERE locktype = 'advisory' AND objsubid = 1 AND granted AND pid IS NOT NULL
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND (classid::bigint << 32) | objid::bigint = hashtextextended($1, 0)
)sql"};

// For the transaction that it stands in.
constexpr Sql kDontWaitForDisk{"commit without waiting for the disk", R"sql(
SELECT set_config('synchronous_commit', 'off', true)
)sql"};

// After a notification that failed, or a connection that was lost.
constexpr milliseconds kAfterFailure{250};

// Between the starts of two. A notification takes a lock that is one for the whole server, and
// the writers' time on a busy one. The distance is fixed: one that grew with the server's time
// to answer would delay the events most when the server is slow.
constexpr milliseconds kDistance{1};

// In this process the event goes from hand to hand meanwhile, which must not wait for a
// core because of the others.
constexpr microseconds kLetThrough{100};

constexpr milliseconds kCallLimit{10'000};

// How long it is relied on that nobody else listens, from before the look that showed it.
constexpr milliseconds kRelied{1'000};

// A new watch therefore looks for commits by itself, for that long and a little longer (clocks
// differ), and this often.
constexpr milliseconds kUnnoticed{1'200};
constexpr milliseconds kWhileUnnoticed{20};

constexpr milliseconds kProbeTime{2'000};

// How often to ask a silent server whether it is still there: a connection that a
// firewall has forgotten says nothing for ever.
constexpr milliseconds kSilence{30'000};

// How soon another connection takes the place of one that may lead to another server than
// the engines have registered at.
constexpr milliseconds kLook{500};

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
  if (getpid() != context_->pid && thread.joinable()) thread.detach();
}

void Notifier::committed(const Watch* told) {
  MutexLock lock(mutex_);
  const auto known = watches_.find(told);
  const Backend backend = known == watches_.end() ? kNobody : known->second;
  if (knows_listeners() && !others_listen(backend)) return;
  if (!thread_.joinable()) {
    thread_ = std::jthread([this] {
      name_this_thread("outbox-notify");
      run();
    });
  }
  if (news_) {
    if (*news_ != backend) news_ = kNobody;  // each of the two has not heard of the other's
    return;
  }
  news_ = backend;
  changed_.notify_one();
}

void Notifier::listens(const Watch* watch, Backend backend) {
  MutexLock lock(mutex_);
  if (backend == kNobody) {
    watches_.erase(watch);
  } else {
    watches_[watch] = backend;
  }
}

bool Notifier::knows_listeners() const {
  return looked_at_ != Clock::Steady::min() && host_clock().steady() < looked_at_ + kRelied;
}

bool Notifier::others_listen(Backend told) const {
  return std::any_of(listeners_.begin(), listeners_.end(),
                     [&](Backend listener) { return listener != told; });
}

void Notifier::run() {
  Database database(context_);
  database.limit_calls(kCallLimit);
  while (const std::optional<Backend> told = wait_for_news()) {
    const auto began = steady_clock::now();
    std::this_thread::sleep_for(kLetThrough);
    if (!tell(database, *told)) wait_after_failure();
    std::this_thread::sleep_until(began + kDistance);
  }
}

// Absent once there is none, nor will be.
std::optional<Backend> Notifier::wait_for_news() {
  MutexLock lock(mutex_);
  while (!news_ && !stopped_) changed_.wait(mutex_);
  return std::exchange(news_, std::nullopt);
}

// Looks first if that may show that there is nobody to tell; otherwise afterwards, in the same
// round trip.
bool Notifier::tell(Database& database, Backend told) {
  bool look = false;
  bool notify = false;
  {
    MutexLock lock(mutex_);
    look = !knows_listeners();
    notify = others_listen(told);
  }
  const Call asks{kWhoListens, Parameters(channel_)};
  std::vector<Call> calls;
  if (notify) {
    calls.push_back({kDontWaitForDisk, Parameters()});
    calls.push_back({kNotify, Parameters(channel_, told == kNobody ? "" : std::to_string(told))});
  }
  if (look) calls.push_back(asks);
  if (calls.empty()) return true;
  try {
    // Another process must not wait for its next poll because this connection was
    // lost while nobody used it.
    if (!database.healthy()) database.drop();
    const Clock::Steady began = host_clock().steady();
    const std::vector<Result> results = database.session().run_together(calls);
    if (!look) return true;
    std::vector<Backend> listeners;
    listeners.reserve(static_cast<std::size_t>(results.back().rows()));
    for (int row = 0; row < results.back().rows(); ++row) {
      listeners.push_back(results.back().integer(row, 0));
    }
    MutexLock lock(mutex_);
    listeners_ = std::move(listeners);
    looked_at_ = began;
    if (notify || !others_listen(told)) return true;
  } catch (const std::exception&) {
    return false;
  }
  return tell(database, told);
}

// Then tells of the same commits again. A listener that has stopped meanwhile leaves them to the
// others' polls.
void Notifier::wait_after_failure() {
  const auto until = steady_clock::now() + kAfterFailure;
  MutexLock lock(mutex_);
  while (!stopped_ && changed_.wait_until(mutex_, until)) {
  }
  news_ = stopped_ ? std::nullopt : std::optional(kNobody);
}

namespace {

enum class Woken { by_server, by_time, by_stop };

// Constructed and destroyed on the user's thread, the rest is its own thread's.
class CommitWatch final : public Watch {
 public:
  CommitWatch(std::shared_ptr<Notifier> notifier, std::function<void()> on_commit, Logger log,
              std::string advice)
      : notifier_(std::move(notifier)),
        context_(notifier_->context()),
        channel_(notifier_->channel()),
        on_commit_(std::move(on_commit)),
        log_(std::move(log)),
        advice_(std::move(advice)),
        stop_(eventfd(0, EFD_CLOEXEC)),
        listening_(context_) {
    if (stop_ < 0) throw RetryableError(std::string("eventfd: ") + std::strerror(errno));
    listening_.limit_calls(kCallLimit);
    thread_ = std::jthread([this] {
      name_this_thread("outbox-listen");
      run();
    });
  }

  ~CommitWatch() override {
    const std::uint64_t one = 1;
    static_cast<void>(write(stop_, &one, sizeof one));
    if (getpid() == context_->pid) {
      thread_.join();
      notifier_->listens(this, kNobody);
    } else {
      thread_.detach();  // there is no such thread in a child made by fork()
    }
    close(stop_);
  }
  CommitWatch(const CommitWatch&) = delete;
  CommitWatch& operator=(const CommitWatch&) = delete;

 private:
  void run() {
    while (true) {
      try {
        listening_.ensure_connected();
        // Any call may have reconnected, and a new connection does not listen.
        if (listening_.connections() != listened_on_) {
          listen();
          heard_ = steady_clock::now();
          if (!probed_ && !probe()) return;
          say_that_we_listen();
          on_commit_();  // what was committed while nobody listened
        }
        const Woken woken = wait(unnoticed_ ? kWhileUnnoticed : kLook);
        if (unnoticed_ && woken != Woken::by_stop) look_for_commits();
        switch (woken) {
          case Woken::by_stop:
            return;
          case Woken::by_time:
            if (steady_clock::now() < heard_ + kSilence || listening_.outdated()) continue;
            listening_.session().run_script("SELECT 1", "ping the server");
            break;
          case Woken::by_server:
            break;
        }
        heard_ = steady_clock::now();
        if (take_notifications()) on_commit_();
      } catch (const std::exception&) {
        // The engine asks the same server, and says what is wrong with it.
        listening_.drop();
        if (wait(kAfterFailure) == Woken::by_stop) return;
      }
    }
  }

  void listen() {
    listening_.session().run_script("LISTEN " + quoted_name(channel_), "listen for commits");
    listened_on_ = listening_.connections();
  }

  // After the probe: through a pooler the lock would stay on a connection that is not ours.
  void say_that_we_listen() {
    const Result said = listening_.run(kSayThatWeListen, channel_);
    listener_ = std::to_string(said.integer(0, 0));
    notifier_->listens(this, said.integer(0, 0));
    unnoticed_ = true;
    unnoticed_until_ = host_clock().steady() + kUnnoticed;
  }

  // The last time not before all notifiers must have noticed.
  void look_for_commits() {
    unnoticed_ = host_clock().steady() < unnoticed_until_;
    on_commit_();
  }

  // Whether a notification of another connection comes through. False ends the watch.
  bool probe() {
    {
      Database other(context_);
      other.limit_calls(kCallLimit);
      other.run(kNotify, channel_, "");
    }
    const auto deadline = steady_clock::now() + kProbeTime;
    while (!take_notifications()) {
      const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
      if (left.count() <= 0) {
        log_({LogLevel::warning,
              "notifications_missing",
              "notifications do not come through (" + context_->description +
                  "; a pooler in transaction mode?): " + advice_,
              {{"store", context_->description}}});
        return false;
      }
      if (wait(left) == Woken::by_stop) return false;
    }
    probed_ = true;
    return true;
  }

  Woken wait(milliseconds limit) {
    PGconn* connection = listening_.handle();
    pollfd sources[] = {
        {.fd = stop_, .events = POLLIN, .revents = 0},
        {.fd = connection != nullptr ? PQsocket(connection) : -1, .events = POLLIN, .revents = 0}};
    const int ready = poll(sources, 2, static_cast<int>(limit.count()));
    if (sources[0].revents != 0) return Woken::by_stop;
    return ready > 0 ? Woken::by_server : Woken::by_time;
  }

  // Whether there were any of commits that this watch may not have been told of. Throws if the
  // connection is lost.
  bool take_notifications() {
    PGconn* connection = listening_.session().handle();
    if (PQconsumeInput(connection) == 0) throw RetryableError("the connection was lost");
    bool any = false;
    while (PGnotify* notification = PQnotifies(connection)) {
      any = any || listener_.empty() || notification->extra != listener_;
      PQfreemem(notification);
    }
    return any;
  }

  const std::shared_ptr<Notifier> notifier_;
  const std::shared_ptr<const DatabaseContext> context_;
  const std::string channel_;
  const std::function<void()> on_commit_;
  const Logger log_;
  const std::string advice_;
  const int stop_;
  Database listening_;
  std::uint64_t listened_on_ = 0;  // which of its connections
  bool probed_ = false;
  std::string listener_;    // the number of the backend that it listens by
  bool unnoticed_ = false;  // perhaps, by notifiers
  Clock::Steady unnoticed_until_{};
  steady_clock::time_point heard_{};  // from the server, the last time
  std::jthread thread_;
};

}  // namespace

std::unique_ptr<Watch> watch_channel(std::shared_ptr<Notifier> notifier,
                                     std::function<void()> on_commit, Logger log,
                                     std::string advice) {
  notifier->context()->check_process();
  return std::make_unique<CommitWatch>(std::move(notifier), std::move(on_commit), std::move(log),
                                       std::move(advice));
}

}  // namespace outbox::postgres
