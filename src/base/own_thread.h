// Whose thread is this?
#pragma once

#include "base/thread.h"

namespace outbox::internal {

// While it lives, this thread works for `owner`: whatever waits for that to come to an end
// must not be called on it.
class OwnThread {
 public:
  explicit OwnThread(const void* owner) : owner_(owner), outer_(per_thread<Innermost>().own) {
    per_thread<Innermost>().own = this;
  }
  ~OwnThread() { per_thread<Innermost>().own = outer_; }
  OwnThread(const OwnThread&) = delete;
  OwnThread& operator=(const OwnThread&) = delete;

  static bool works_for(const void* owner) {
    for (const OwnThread* at = per_thread<Innermost>().own; at != nullptr; at = at->outer_) {
      if (at->owner_ == owner) return true;
    }
    return false;
  }

 private:
  // A thread may work for one in the callback of another.
  struct Innermost {
    const OwnThread* own = nullptr;
  };

  const void* const owner_;
  const OwnThread* const outer_;
};

}  // namespace outbox::internal
