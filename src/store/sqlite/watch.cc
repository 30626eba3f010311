#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "base/thread.h"
#include "outbox/error.h"
#include "store/sqlite/sql.h"
#include "store/sqlite/sqlite_store.h"
#include "store/sqlite/store_config.h"

namespace outbox::sqlite {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// A file descriptor, closed at the end.
class Descriptor {
 public:
  Descriptor(int descriptor, const char* what) : descriptor_(descriptor) {
    if (descriptor < 0) throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
  }
  ~Descriptor() { close(descriptor_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return descriptor_; }

 private:
  const int descriptor_;
};

// When to look again after the log was written to: the kernel tells of the
// write, and the commit becomes visible only after it, with full durability
// after the disk has answered. Soon as a rule, and late on a bad day; so the
// pauses grow, and the delay they add stays in proportion.
constexpr microseconds kFirstPause{100};
constexpr microseconds kLastPause = milliseconds{500};

std::optional<microseconds> longer(microseconds pause) {
  pause = pause * 3 / 2;
  return pause > kLastPause ? std::nullopt : std::optional(pause);
}

// Shorter pauses are not cut short by more writing: each commit writes to the
// log many times, and a look costs microseconds.
constexpr microseconds kShortPause = milliseconds{1};

// After a call: commits that come in a burst are told of together.
constexpr microseconds kBetweenCalls = milliseconds{1};

// If the log is gone, or the database fails, try again at this pace.
constexpr microseconds kRepairInterval = std::chrono::seconds{1};

enum class Woken { by_time, by_writing, by_stop };

// Watches the write-ahead log with inotify and asks SQLite whether what was
// written there is a commit. Its connection keeps the log from being deleted.
//
// Constructed and destroyed on the user's thread, the rest is its own thread's.
class CommitWatch final : public Watch {
 public:
  CommitWatch(StoreConfigPtr config, std::function<void()> on_commit)
      : config_(config),
        on_commit_(std::move(on_commit)),
        inotify_(inotify_init1(IN_NONBLOCK | IN_CLOEXEC), "inotify_init1"),
        stop_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), "eventfd"),
        database_(std::move(config)) {
    seen_ = database_.integer(sql::kDataVersion);  // the first read makes the log
    attach();
    if (!attached_) throw std::runtime_error("inotify_add_watch: " + last_error_);
    thread_ = std::jthread([this] { run(); });
  }

  ~CommitWatch() override {
    if (getpid() != config_->pid) {
      thread_.detach();  // threads do not survive fork()
      return;
    }
    const std::uint64_t one = 1;
    static_cast<void>(write(stop_.get(), &one, sizeof one));
  }

 private:
  void run() {
    name_this_thread("outbox-watch");
    std::optional<microseconds> pause;  // absent: nothing was written lately
    for (;;) {
      switch (wait(pause)) {
        case Woken::by_stop:
          return;
        case Woken::by_writing:
          drain();
          pause = kFirstPause;
          break;
        case Woken::by_time:
          if (!attached_) attach();
          if (pause) pause = longer(*pause);
          break;
      }
      if (!changed()) continue;
      call();
      // What was written meanwhile may have become visible only after the look
      // that found this commit: look again from the start.
      pause = kFirstPause;
      if (wait_for(kBetweenCalls, false) == Woken::by_stop) return;
    }
  }

  Woken wait(std::optional<microseconds> pause) {
    if (pause) return wait_for(pause, *pause >= kShortPause);
    if (!attached_ || failing_) return wait_for(kRepairInterval, attached_);
    return wait_for(std::nullopt, true);
  }

  Woken wait_for(std::optional<microseconds> time, bool for_writing) {
    std::array<pollfd, 2> polled{pollfd{stop_.get(), POLLIN, 0}, pollfd{inotify_.get(), POLLIN, 0}};
    timespec timeout{};
    if (time) {
      const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(*time);
      timeout.tv_sec = seconds.count();
      timeout.tv_nsec = nanoseconds(*time - seconds).count();
    }
    ppoll(polled.data(), for_writing ? 2 : 1, time ? &timeout : nullptr, nullptr);
    if (polled[0].revents != 0) return Woken::by_stop;
    return polled[1].revents != 0 ? Woken::by_writing : Woken::by_time;
  }

  // Takes the events that have queued up; they only say that something was
  // written, or that the file is no longer the one at its path.
  void drain() {
    alignas(inotify_event) std::array<char, 4096> buffer;
    for (;;) {
      const ssize_t size = read(inotify_.get(), buffer.data(), buffer.size());
      if (size <= 0) break;
      for (const char* at = buffer.data(); at < buffer.data() + size;) {
        const auto* event = reinterpret_cast<const inotify_event*>(at);
        if ((event->mask & ~std::uint32_t{IN_MODIFY}) != 0) attached_ = false;
        at += sizeof(inotify_event) + event->len;
      }
    }
    if (!attached_) attach();
  }

  void attach() {
    const std::string log = config_->file + "-wal";
    attached_ = inotify_add_watch(inotify_.get(), log.c_str(),
                                  IN_MODIFY | IN_ATTRIB | IN_MOVE_SELF | IN_DELETE_SELF) >= 0;
    if (!attached_) last_error_ = log + ": " + std::strerror(errno);
  }

  bool changed() {
    try {
      const auto version = database_.integer(sql::kDataVersion);
      failing_ = false;
      return std::exchange(seen_, version) != version;
    } catch (const Error& error) {
      if (!failing_) {
        config_->options.log({LogLevel::warning,
                              "watch_failed",
                              std::string("cannot watch for commits: ") + error.what(),
                              {{"error", error.what()}}});
      }
      failing_ = true;
      return false;
    }
  }

  void call() {
    try {
      on_commit_();
    } catch (const std::exception& error) {
      config_->options.log({LogLevel::error,
                            "callback_failed",
                            std::string("a commit watcher threw: ") + error.what(),
                            {{"error", error.what()}}});
    } catch (...) {
      config_->options.log({LogLevel::error, "callback_failed", "a commit watcher threw"});
    }
  }

  // Constant after construction.
  const StoreConfigPtr config_;
  const std::function<void()> on_commit_;
  const Descriptor inotify_;
  const Descriptor stop_;

  Database database_;
  std::optional<std::int64_t> seen_;
  bool attached_ = false;
  bool failing_ = false;
  std::string last_error_;

  std::jthread thread_;  // last: it uses the rest, and is joined first
};

}  // namespace

std::unique_ptr<Watch> watch_commits(StoreConfigPtr config, std::function<void()> on_commit) {
  config->check_process();
  try {
    return std::make_unique<CommitWatch>(config, std::move(on_commit));
  } catch (const std::exception& error) {
    config->options.log({LogLevel::warning,
                         "commits_not_watched",
                         "commits of other processes are found by polling only (" +
                             config->description + "): " + error.what(),
                         {{"store", config->description}, {"error", error.what()}}});
    return nullptr;
  }
}

}  // namespace outbox::sqlite
