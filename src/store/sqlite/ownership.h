// Who may deliver which events: which process owns the table, and rows of one's own without that.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "outbox/spi/store.h"
#include "store/sqlite/rows.h"
#include "store/sqlite/store_config.h"

namespace outbox::sqlite {

// A lock on a side file that the kernel gives back the moment its holder dies,
// and not before: a stopped process keeps it, so there are no zombies. Shared
// by instances that claim single rows, exclusive for one that owns them all.
//
// A child made by fork() without exec() keeps its parent's lock held until both
// are gone. Not thread-safe.
class OwnerLock {
 public:
  enum class Mode { shared, exclusive };

  // The file is made like the database `file`, so that those who may use the one
  // may lock the other.
  OwnerLock(std::string path, const std::string& database_file);
  ~OwnerLock() { unlock(); }
  OwnerLock(const OwnerLock&) = delete;
  OwnerLock& operator=(const OwnerLock&) = delete;

  bool held() const { return descriptor_ >= 0; }

  // Does not wait: false if another holds it. Throws PermanentError if the
  // file can't be made.
  bool try_lock(Mode mode);

  // Whether the file at the path is the one that was locked; somebody may have
  // deleted it, and a third locked a new one.
  bool in_place() const;

  void unlock() noexcept;

  // Whether anybody, this process included, owns the table by that file. Asking
  // holds it shared for a moment, which may cost a newcomer one more try.
  static bool is_held_exclusively(const std::string& path);

 private:
  // Constant after construction.
  const std::string path_;
  const pid_t pid_;
  mode_t permissions_;

  int descriptor_ = -1;
};

// Elects one owner among the processes by a lock on a side file, and counts the
// owners in an epoch, by which updates are fenced. With row claims there is
// nothing to elect: instances share the lock, which keeps out one that would
// read all rows as its own.
//
// Used by one thread at a time, but for epoch().
class Ownership {
 public:
  Ownership(StoreConfigPtr config, const InstanceOptions& options, std::string owner);

  // Owns nothing once the file was deleted or replaced, and throws PermanentError from then on
  // until it is back.
  Lease renew();
  void leave();

  static std::string lock_file(const StoreConfig& config);

  // 0 while it owns nothing. Thread-safe.
  std::int64_t epoch() const { return epoch_.load(); }

 private:
  bool still_owner();
  Lease take_over();
  void give_claims_back();
  bool lost_the_file();
  void drop();

  // Constant after construction.
  const InstanceOptions options_;
  const std::string owner_;

  Database database_;
  OwnerLock lock_;
  std::atomic<std::int64_t> epoch_{0};
  std::int64_t last_epoch_ = 0;

  BrokenRowsReport broken_;

  bool file_is_gone_ = false;

  // From a dead owner, until renew() has told of it.
  std::optional<Lease::Inherited> inherited_;
};

// Claims rows by writing the owner into them. Used by one thread at a time.
class Claims {
 public:
  Claims(Database& database, std::string owner, std::chrono::milliseconds lock_timeout)
      : database_(database), owner_(std::move(owner)), lock_timeout_(lock_timeout) {}

  Rows claim(std::chrono::milliseconds skip_recent, const ReadLimit& limit);
  void unclaim(std::span<const RowRef> rows);

 private:
  // Which rows may be claimed, as of one moment.
  struct Candidates {
    Time now;
    std::int64_t expired;  // locks up to here
    std::int64_t created;  // events up to here
  };

  Candidates candidates(std::chrono::milliseconds skip_recent) const;
  bool any(const Candidates& which);
  void read(const Candidates& which, const ReadLimit& limit, Rows& result);

  Database& database_;
  const std::string owner_;
  const std::chrono::milliseconds lock_timeout_;
};

}  // namespace outbox::sqlite
