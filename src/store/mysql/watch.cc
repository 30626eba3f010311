#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <optional>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "base/thread.h"
#include "store/mysql/mysql_store.h"
#include "store/mysql/sql.h"
#include "store/mysql/store_config.h"

namespace outbox::mysql {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kBusy{4};
constexpr milliseconds kIdle{500};

// Others who have committed may have transactions with lower numbers still open, which no question
// for the last number shows: for so long it calls for every commit.
constexpr milliseconds kOthersAreActive{10'000};

// In a silence it asks so many times as rarely as the silence is long.
constexpr int kRarely = 16;
constexpr milliseconds kCallLimit{10'000};

// Constructed and destroyed on the user's thread, the rest is its own thread's.
class CommitWatch final : public Watch {
 public:
  CommitWatch(StoreConfigPtr config, std::function<void()> on_commit)
      : config_(std::move(config)), on_commit_(std::move(on_commit)), database_(config_) {
    database_.limit_calls(kCallLimit);
    database_.stay_young();
    thread_ = std::jthread([this] {
      name_this_thread("outbox-watch");
      run();
    });
  }

  ~CommitWatch() override {
    // In a child made by fork() there is no such thread, and the mutex may be locked.
    if (getpid() != config_->pid) {
      thread_.detach();
      return;
    }
    config_->own_numbers.forget(this);
    MutexLock lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
  }
  CommitWatch(const CommitWatch&) = delete;
  CommitWatch& operator=(const CommitWatch&) = delete;

 private:
  void run() {
    auto last_news = steady_clock::now();
    auto last_of_others = last_news - kOthersAreActive;
    std::int64_t last = -1;
    while (true) {
      const std::int64_t number = last_number().value_or(last);
      const auto now = steady_clock::now();
      // A lower one means that rows were deleted, or that commits were lost.
      const std::int64_t before = std::exchange(last, number);
      if (before < number) {
        last_news = now;
        const bool own = config_->own_numbers.are_all(this, before, number);
        if (!own && before >= 0) last_of_others = now;
        if (before < 0 || now - last_of_others < kOthersAreActive) on_commit_();
      }
      const auto silence = std::chrono::duration_cast<milliseconds>(now - last_news);
      if (wait(std::clamp(silence / kRarely, kBusy, kIdle))) return;
    }
  }

  // Absent while the server is unreachable: the engine asks the same one, and says so.
  std::optional<std::int64_t> last_number() {
    try {
      return database_.run(sql::kLastNumber).integer(0, 0);
    } catch (const std::exception&) {
      return std::nullopt;
    }
  }

  // True if it is to stop.
  bool wait(milliseconds interval) {
    const auto until = steady_clock::now() + interval;
    MutexLock lock(mutex_);
    while (!stopped_ && changed_.wait_until(mutex_, until)) {
    }
    return stopped_;
  }

  const StoreConfigPtr config_;
  const std::function<void()> on_commit_;
  Database database_;

  Mutex mutex_;
  CondVar changed_;
  bool stopped_ OUTBOX_GUARDED_BY(mutex_) = false;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace

std::unique_ptr<Watch> watch_commits(StoreConfigPtr config, std::function<void()> on_commit) {
  config->check_process();
  return std::make_unique<CommitWatch>(std::move(config), std::move(on_commit));
}

}  // namespace outbox::mysql
