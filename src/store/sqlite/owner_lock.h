// Which process owns the table.
#pragma once

#include <sys/types.h>

#include <string>

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

}  // namespace outbox::sqlite
