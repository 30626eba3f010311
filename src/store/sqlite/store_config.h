// What everything that belongs to one store shares.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/connection_pool.h"
#include "base/process.h"
#include "base/sql_text.h"
#include "client/sqlite/session.h"
#include "outbox/clock.h"
#include "outbox/error.h"
#include "outbox/sqlite.h"
#include "store/sqlite/names.h"

namespace outbox::sqlite {

// SQLite has one writer at a time and no queue: waiting writers sleep and try
// again, so that under load some starve. The threads of a process stand in line
// here instead, and only the first asks SQLite. Thread-safe.
class WriteTurn {
 public:
  using Instant = FairSlots::Instant;

  // False if the deadline passed first.
  bool take(Instant deadline) {
    if (!slot_.take(deadline)) return false;
    since_ = std::chrono::steady_clock::now();
    return true;
  }
  void give_back() { slot_.give_back(); }

  // For messages: how many wait, and how long the present holder has had it.
  std::size_t waiting() const { return slot_.waiting(); }
  std::chrono::milliseconds held_for() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                                 since_.load());
  }

 private:
  FairSlots slot_{1};
  std::atomic<Instant> since_{};
};

// Which file a path names.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;

  // Nullopt if there is no such file.
  static std::optional<FileIdentity> of(const std::string& path) {
    struct stat facts {};
    if (stat(path.c_str(), &facts) != 0) return std::nullopt;
    return FileIdentity{.device = facts.st_dev, .inode = facts.st_ino};
  }
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

// The options, resolved; the place of the database; and the turn to write in
// it. Connections, instances and watches keep it alive, so that they may
// outlive the store.
//
// Constant once the store is open, but for `turn`; thread-safe.
struct StoreConfig final : SqlContext {
  std::string path{};                      // as given, perhaps a URI
  std::string file{};                      // the file behind it, absolute
  std::optional<FileIdentity> identity{};  // of that file; absent while the store is opened
  std::string description{};               // for messages
  Options options{};                       // complete: codec, log and clock are set
  pid_t pid = getpid();

  mutable WriteTurn turn{};

  Time now() const { return options.clock->now(); }

  const std::string& where() const override { return description; }
  std::string expand(std::string_view text) const override {
    return sqlite::expand(text, options.table);
  }
  bool is_about_own_tables(std::string_view message) const override {
    return message.find(options.table) != std::string_view::npos;
  }
  bool may_prepare() const override { return true; }

  // Throws MisuseError in a child made by fork(): SQLite's handles do not
  // survive it.
  void check_process() const { check_not_forked(pid, description); }

  // Whether the file at the path is no longer the one that the store has opened. What is
  // written to that one is lost with the last connection to it.
  bool file_is_gone() const { return identity && FileIdentity::of(file) != identity; }

  // Throws PermanentError if so. Costs a system call.
  void check_file() const {
    if (!file_is_gone()) return;
    throw PermanentError(file +
                         (FileIdentity::of(file) ? " was replaced" : " was deleted or moved") +
                         " while this process had it open (" + description +
                         "): nothing is written or delivered until the file is back or the "
                         "process has been restarted");
  }
};

using StoreConfigPtr = std::shared_ptr<const StoreConfig>;

// The store's sessions have its configuration for their context.
inline const StoreConfig& config_of(const Session& session) {
  return static_cast<const StoreConfig&>(*session.context());
}

}  // namespace outbox::sqlite
