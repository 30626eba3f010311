#include "store/sqlite/owner_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "outbox/error.h"

namespace outbox::sqlite {

OwnerLock::OwnerLock(std::string path, const std::string& database_file)
    : path_(std::move(path)), pid_(getpid()) {
  struct stat database {};
  permissions_ = stat(database_file.c_str(), &database) == 0 ? database.st_mode & 0666 : 0644;
}

bool OwnerLock::try_lock(Mode mode) {
  const int how = (mode == Mode::exclusive ? LOCK_EX : LOCK_SH) | LOCK_NB;
  for (;;) {
    descriptor_ = open(path_.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC, permissions_);
    if (descriptor_ < 0) {
      const std::string message =
          "cannot open the lock file '" + path_ + "': " + std::strerror(errno);
      if (errno == EMFILE || errno == ENFILE) throw RetryableError(message);
      throw PermanentError(message + "; this process must be able to write in the folder");
    }
    if (flock(descriptor_, how) != 0) {
      const int error = errno;
      unlock();
      if (error == EWOULDBLOCK || error == EINTR) return false;
      throw RetryableError("cannot lock '" + path_ + "': " + std::strerror(error));
    }
    // Deleted between open() and flock(): lock the one that is there now.
    if (in_place()) return true;
    unlock();
  }
}

bool OwnerLock::in_place() const {
  struct stat locked {};
  struct stat present {};
  return fstat(descriptor_, &locked) == 0 && stat(path_.c_str(), &present) == 0 &&
         locked.st_dev == present.st_dev && locked.st_ino == present.st_ino;
}

void OwnerLock::unlock() noexcept {
  if (!held()) return;
  // Explicitly, because a forked child may have the file open as well; and not
  // in that child, because the lock is the parent's.
  if (getpid() == pid_) flock(descriptor_, LOCK_UN);
  close(descriptor_);
  descriptor_ = -1;
}

bool OwnerLock::is_held_exclusively(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  const bool held = flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  close(descriptor);  // and with it the lock
  return held;
}

}  // namespace outbox::sqlite
