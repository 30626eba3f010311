#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string>
#include <thread>
#include <utility>

#include "base/sql_text.h"
#include "base/thread.h"
#include "outbox/error.h"
#include "store/postgres/database.h"
#include "store/postgres/postgres_store.h"
#include "store/postgres/sql.h"

namespace outbox::postgres {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kAfterFailure{250};
constexpr milliseconds kProbeTime{2'000};
constexpr milliseconds kCallLimit{10'000};

// How often to ask a silent server whether it is still there: a connection that a
// firewall has forgotten says nothing for ever.
constexpr milliseconds kSilence{30'000};

// How soon another connection takes the place of one that may lead to another server than
// the engines have registered at.
constexpr milliseconds kLook{500};

enum class Woken { by_server, by_time, by_stop };

// Constructed and destroyed on the user's thread, the rest is its own thread's.
class CommitWatch final : public Watch {
 public:
  CommitWatch(StoreConfigPtr config, std::function<void()> on_commit)
      : config_(std::move(config)),
        on_commit_(std::move(on_commit)),
        stop_(eventfd(0, EFD_CLOEXEC)),
        listening_(config_) {
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
    if (getpid() == config_->pid) {
      thread_.join();
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
        // Any call may have made the connection anew, and a new one does not listen.
        if (listening_.connections() != listened_on_) {
          listen();
          heard_ = steady_clock::now();
          if (!probed_ && !probe()) return;
          on_commit_();  // what was committed while nobody listened
        }
        switch (wait(kLook)) {
          case Woken::by_stop:
            return;
          case Woken::by_time:
            if (steady_clock::now() < heard_ + kSilence || listening_.outdated()) continue;
            listening_.session().run_script("SELECT 1", "ask the server whether it is there");
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
    listening_.session().run_script("LISTEN " + quoted_name(config_->channel),
                                    "listen for commits");
    listened_on_ = listening_.connections();
  }

  // Whether a notification of another connection comes through. False ends the watch.
  bool probe() {
    {
      Database other(config_);
      other.limit_calls(kCallLimit);
      other.run(sql::kNotify, config_->channel);
    }
    const auto deadline = steady_clock::now() + kProbeTime;
    while (!take_notifications()) {
      const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
      if (left.count() <= 0) {
        config_->options.log(
            {LogLevel::warning,
             "notifications_missing",
             "notifications do not come through (" + config_->description +
                 "; a pooler in transaction mode?): events of other processes are found by "
                 "polling; set postgres::Options::notify to false, or connect to the server itself",
             {{"store", config_->description}}});
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

  // Whether there were any. Throws if the connection is lost.
  bool take_notifications() {
    PGconn* connection = listening_.session().handle();
    if (PQconsumeInput(connection) == 0) throw RetryableError("the connection was lost");
    bool any = false;
    while (PGnotify* notification = PQnotifies(connection)) {
      PQfreemem(notification);
      any = true;
    }
    return any;
  }

  const StoreConfigPtr config_;
  const std::function<void()> on_commit_;
  const int stop_;
  Database listening_;
  std::uint64_t listened_on_ = 0;  // which of its connections
  bool probed_ = false;
  steady_clock::time_point heard_{};  // from the server, the last time
  std::jthread thread_;
};

}  // namespace

std::unique_ptr<Watch> watch_commits(StoreConfigPtr config, std::function<void()> on_commit) {
  config->check_process();
  return std::make_unique<CommitWatch>(std::move(config), std::move(on_commit));
}

}  // namespace outbox::postgres
