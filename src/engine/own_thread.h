// Whose thread is this?
#pragma once

namespace outbox::internal {

// While it lives, this thread works for `owner`: whatever waits for that to come to an end
// must not be called on it.
class OwnThread {
 public:
  explicit OwnThread(const void* owner) : owner_(owner), outer_(innermost) { innermost = this; }
  ~OwnThread() { innermost = outer_; }
  OwnThread(const OwnThread&) = delete;
  OwnThread& operator=(const OwnThread&) = delete;

  static bool works_for(const void* owner) {
    for (const OwnThread* at = innermost; at != nullptr; at = at->outer_) {
      if (at->owner_ == owner) return true;
    }
    return false;
  }

 private:
  // Defined with it: a thread may work for one in the callback of another.
  inline static thread_local const OwnThread* innermost = nullptr;

  const void* const owner_;
  const OwnThread* const outer_;
};

}  // namespace outbox::internal
